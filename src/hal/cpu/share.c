/* Shares as single words that owner and thieves change by compare-and-swap. A word of an earlier launch is an untouched
 * share of this one; a word of a later launch says that this one is over. */
#include "hal/cpu/share.h"

static uint64_t pack(uint32_t serial, uint32_t front, uint32_t back) {
    return (uint64_t)serial << 32 | (uint64_t)front << 16 | back;
}

/* What is left of thread's share, as far as `seen` tells. */
static bool left_of(const cpu_deal *d, uint32_t thread, uint64_t seen, uint32_t *front,
                    uint32_t *back) {
    int32_t age = (int32_t)((uint32_t)(seen >> 32) - d->serial);
    if (age > 0) return false;
    if (age == 0) {
        *front = seen >> 16 & 0xffff;
        *back = seen & 0xffff;
    } else {
        *front = (uint32_t)((uint64_t)d->n_parts * thread / d->n_threads);
        *back = (uint32_t)((uint64_t)d->n_parts * (thread + 1) / d->n_threads);
    }
    return *front < *back;
}

/* Five eighths first: a core would have to be almost twice as slow as another before a part came too late. */
static uint32_t own_parts(const cpu_deal *d, uint64_t seen, uint32_t n) {
    uint32_t take = (uint32_t)(seen >> 32) == d->serial ? n / 2 : n * 5 / 8;
    return take ? take : 1;
}

static bool take_own(cpu_share *s, const cpu_deal *d, uint32_t thread, uint32_t *first,
                     uint32_t *end) {
    uint64_t seen = atomic_load_explicit(&s->left, memory_order_relaxed);
    uint32_t front, back;
    while (left_of(d, thread, seen, &front, &back)) {
        uint32_t take = own_parts(d, seen, back - front);
        if (!atomic_compare_exchange_weak(&s->left, &seen, pack(d->serial, front + take, back)))
            continue;
        *first = front;
        *end = front + take;
        return true;
    }
    return false;
}

static bool take_from(cpu_share *s, const cpu_deal *d, uint32_t owner, uint32_t *first,
                      uint32_t *end) {
    uint64_t seen = atomic_load_explicit(&s->left, memory_order_relaxed);
    uint32_t front, back;
    while (left_of(d, owner, seen, &front, &back)) {
        if ((uint32_t)(seen >> 32) != d->serial && !d->may_start) return false;
        uint32_t take = (back - front + 1) / 2;
        if (!atomic_compare_exchange_weak(&s->left, &seen, pack(d->serial, front, back - take)))
            continue;
        *first = back - take;
        *end = back;
        return true;
    }
    return false;
}

bool cpu_share_take(cpu_share *shares, const cpu_deal *deal, uint32_t thread, uint32_t *first,
                    uint32_t *end) {
    if (take_own(&shares[thread], deal, thread, first, end)) return true;
    for (uint32_t i = 1; i < deal->n_threads; i++) {
        uint32_t owner = (thread + i) % deal->n_threads;
        if (take_from(&shares[owner], deal, owner, first, end)) return true;
    }
    return false;
}
