/* Runs a list of launches on the pool: every thread walks the list and takes its fixed share.
 *
 * Thread t of n gets chunks [c*t/n, c*(t+1)/n) of `grain` items, so shares depend on the launch and
 * the thread count alone and a replay touches the same memory from the same core. A launch of one
 * chunk, and a host call, is solo: thread 0 does it. A barrier that a launch asks for is owed until
 * a thread could tell the difference: between solo launches there is none. Every thread derives the
 * same barriers from the list alone.
 *
 * Where other programs hold the cores, threads wait for one that does not run at every barrier, and a list takes a
 * hundred times as long. Results do not depend on the thread count, so then the caller runs alone for a while:
 * twice as long each time it turns out that nothing has changed. */
#include "base/clock.h"
#include "base/log.h"
#include "hal/cpu/cpu.h"

enum { ALONE_FIRST = 8, ALONE_MOST = 512, LOST_LEAST_NS = 500 * 1000 };

typedef struct list_run {
    cpu_device *d;
    const hal_launch *list;
    uint32_t n;
    rp_error *err;
    rp_status st;             /* thread 0 */
    _Atomic uint32_t stop_at; /* leave after this barrier of the run; 0 = none */
} list_run;

static inline long long chunks_of(const hal_launch *l) {
    return l->grain > 1 ? l->items / l->grain + (l->items % l->grain != 0) : l->items;
}

/* Done by thread 0 alone. */
static inline bool is_solo(const hal_launch *l) {
    return l->kind == HAL_HOST_CALL || l->items <= l->grain || l->items <= 1;
}

static void run_share(const list_run *r, const hal_launch *l, uint32_t t) {
    long long chunks = chunks_of(l), n = r->d->n_threads, grain = l->grain > 1 ? l->grain : 1;
    long long begin = chunks * t / n * grain, end = chunks * (t + 1) / n * grain;
    if (end > l->items) end = l->items;
    if (begin < end) l->fn.host(l->arg, l->dim, begin, end, r->d->scratch[t]);
}

static rp_status run_solo(const list_run *r, const hal_launch *l) {
    if (l->kind == HAL_HOST_CALL) return l->call(l->user, l->arg, l->dim, r->err);
    if (l->items > 0) l->fn.host(l->arg, l->dim, 0, l->items, r->d->scratch[0]);
    return RP_OK;
}

static void walk(void *user, uint32_t t) {
    list_run *r = user;
    uint32_t passed = 0;
    bool owed = false, shared = false; /* a barrier is owed; others have worked since the last */
    for (uint32_t i = 0; i < r->n; i++) {
        const hal_launch *l = &r->list[i];
        bool solo = is_solo(l);
        if (owed && (shared || !solo)) {
            cpu_pool_barrier(r->d->team->pool, t);
            passed++;
            if (atomic_load_explicit(&r->stop_at, memory_order_relaxed) == passed) return;
            owed = shared = false;
        }
        owed |= !l->no_barrier;
        shared |= !solo;
        if (t != 0) {
            if (!solo) run_share(r, l, t);
        } else if (r->st == RP_OK) {
            if (!solo)
                run_share(r, l, t);
            else
                r->st = run_solo(r, l);
            /* The others leave where all meet next, so that none is left waiting. */
            if (r->st != RP_OK)
                atomic_store_explicit(&r->stop_at, passed + 1, memory_order_relaxed);
        }
    }
}

/* Without shared launches, or without others, no thread is woken. */
static rp_status walk_alone(list_run *r) {
    rp_status st = RP_OK;
    for (uint32_t i = 0; i < r->n && st == RP_OK; i++) st = run_solo(r, &r->list[i]);
    return st;
}

rp_status cpu_queue_enter(cpu_device *d, rp_error *err) {
    if (!atomic_flag_test_and_set_explicit(&d->busy, memory_order_acquire)) return RP_OK;
    return rp_fail(err, RP_INTERNAL, "two threads use the queue of one cpu device at a time");
}

void cpu_queue_leave(cpu_device *d) {
    atomic_flag_clear_explicit(&d->busy, memory_order_release);
}

/* More than half of the time lost to waiting: uneven shares lose far less. */
static void judge(cpu_device *d, int64_t took, int64_t lost) {
    if (lost < LOST_LEAST_NS || lost < took / 2) {
        d->alone_next = ALONE_FIRST;
        return;
    }
    if (d->alone_next < ALONE_FIRST) d->alone_next = ALONE_FIRST;
    d->alone_left = d->alone_next;
    base_log(
        RP_LOG_DEBUG,
        "cpu: %lld of %lld us lost waiting for threads that do not run; %u lists on one thread",
        (long long)lost / 1000, (long long)took / 1000, d->alone_left);
    if (d->alone_next < ALONE_MOST) d->alone_next *= 2;
}

rp_status cpu_list_run(cpu_device *d, const hal_launch *list, uint32_t n, rp_error *err) {
    list_run r = {.d = d, .list = list, .n = n, .err = err};
    bool alone = true;
    for (uint32_t i = 0; i < n && alone && d->n_threads > 1; i++) alone = is_solo(&list[i]);
    if (alone) return walk_alone(&r);
    d->base.counters.shared_lists++;
    if (d->alone_left > 0) {
        d->alone_left--;
        d->base.counters.crowded_lists++;
        return walk_alone(&r);
    }
    /* Another queue has the threads, perhaps the one whose host call came here. */
    if (atomic_flag_test_and_set_explicit(&d->team->busy, memory_order_acquire))
        return walk_alone(&r);
    cpu_pool *pool = d->team->pool;
    int64_t start = base_now_ns(), waited = cpu_pool_waited(pool);
    cpu_pool_run(pool, walk, &r);
    judge(d, base_now_ns() - start, cpu_pool_waited(pool) - waited);
    atomic_flag_clear_explicit(&d->team->busy, memory_order_release);
    return r.st;
}
