/* Reductions that the threads of a block share, in rounds of an element a thread.
 *
 * Between rounds the threads wait for one another, so what a round loads is asked for that many rounds ahead. Few threads with many
 * loads on their way leave room for other blocks of the multiprocessor, which work while the lanes of a row are summed by few of them; where a
 * launch has few items there are not enough of them, and a row has more threads. Of a long sum each half of a warp has a chunk, and more threads
 * than those would wait for them; a maximum in front of it is dealt in the same way, from the end on. */
#include "sched/rules.h"

enum {
    LEAST = 64, /* threads of a row, .. */
    MOST =
        256, /* .. where blocks are many: a quarter of RK_BLOCK, so that what they exchange is used, .. */
    MOST_OF_SUMS = 128,    /* .. and where nothing but reductions is to be done, .. */
    EACH = 8,              /* elements of a thread */
    AT_ONCE = 16,          /* loads of a thread */
    FEW_ITEMS = 128,       /* fewer than multiprocessors */
    MOST_ALONE = 1024,     /* .. and where they are few; RK_BLOCK */
    LEAST_OF_CHUNKS = 128, /* threads of a row that has chunks */
    LEAST_CHUNKS = 2,      /* of a sum, and more, for halves of warps to have one each, .. */
    MOST_IDLE = 4,         /* .. where so many times as many threads are there at most */
    RESIDENT =
        512 /* threads of a multiprocessor by which a compiler spends registers where rows are read twice */
};

bool sched_may_have_rounds(const sched *s, kir_ref at) {
    const kir_inst *in = &s->f->insts[at];
    const sched_step *step = &s->steps[at];
    return in->op == KIR_REDUCE && step->kind == SCHED_THREAD && step->team == SCHED_OF_BLOCK &&
           !step->nested && !step->held && in->u.reduce != KIR_PROD && in->u.reduce != KIR_CHAIN;
}

static int64_t extent(const sched *s, kir_ref at) {
    return s->f->ranges[s->f->insts[at].in[0]].hi;
}

/* Chunks of a sum that is long enough for halves of warps to have one each, from its loads on, whatever symbols are; else 0. */
static int64_t chunks_of(const sched *s, kir_ref at) {
    const int64_t least = s->f->ranges[s->f->insts[at].in[0]].lo;
    const bool several = s->steps[at].chunks && sched_may_have_rounds(s, at) &&
                         least > LEAST_CHUNKS * KIR_CHUNK;
    return several ? (least - 1) / KIR_CHUNK + 1 : 0;
}

/* Not where most threads would wait. */
static bool has_halves(const sched *s, kir_ref at, uint32_t threads) {
    return chunks_of(s, at) * SCHED_LANES * MOST_IDLE >= threads && chunks_of(s, at);
}

/* A chunk ends with a round. */
static uint32_t rounds_of(const sched *s, kir_ref at, uint32_t threads) {
    const int64_t n = extent(s, at);
    uint32_t rounds = AT_ONCE;
    if (!sched_may_have_rounds(s, at) || MOST_ALONE % threads) return 0;
    if (has_halves(s, at, threads)) return AT_ONCE;
    if (n < (int64_t)threads * rounds) rounds = (uint32_t)((n + threads - 1) / threads);
    while (s->steps[at].chunks && rounds && KIR_CHUNK % (rounds * threads)) rounds--;
    return rounds > 1 ? rounds : 0;
}

uint32_t sched_threads_of_rows(const sched *s) {
    const kir_func *f = s->f;
    int64_t widest = 0, widest_loop = 0, items = INT64_MAX, chunks = 0;
    bool loops = false;
    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_op op = f->insts[at].op;
        if (s->steps[at].kind == SCHED_WARP) return 0;
        if (op == KIR_PAR) items = extent(s, at);
        loops = loops || op == KIR_LOOP;
        if (op == KIR_LOOP && s->steps[at].kind == SCHED_THREAD && extent(s, at) > widest_loop)
            widest_loop = extent(s, at);
        if (op == KIR_REDUCE && !sched_may_have_rounds(s, at)) return 0;
        if (op == KIR_REDUCE && extent(s, at) > widest) widest = extent(s, at);
        if (op == KIR_REDUCE && chunks_of(s, at) > chunks) chunks = chunks_of(s, at);
    }
    const bool few = items < FEW_ITEMS;
    if (few && widest_loop > widest && widest > LEAST) widest = widest_loop;
    const uint32_t each = few ? 2 : EACH, most = few ? MOST_ALONE : loops ? MOST : MOST_OF_SUMS;
    uint32_t threads = LEAST;
    if (widest <= LEAST) return 0;
    if (chunks && !few) {
        threads = LEAST_OF_CHUNKS;
        while (threads < MOST_ALONE && threads < chunks * SCHED_LANES) threads *= 2;
        return threads;
    }
    while (threads < most && threads * each < widest) threads *= 2;
    while (threads < MOST_ALONE && items < SCHED_ENOUGH_THREADS / threads &&
           threads * EACH < widest)
        threads *= 2;
    return threads;
}

/* Whether a sum in halves comes behind a maximum or minimum of as many elements: the order of these is free, and what they read last the
 * sum reads first, from the cache. */
static bool leads_halves(const sched *s, kir_ref at) {
    const kir_func *f = s->f;
    const kir_reduce how = f->insts[at].u.reduce;
    if ((how != KIR_MAX && how != KIR_MIN) || !s->steps[at].rounds) return false;
    for (kir_ref i = at; i < s->steps[at].end; i++)
        if (f->insts[i].op == KIR_STORE) return false;
    for (kir_ref i = s->steps[at].end; i < f->n_insts; i++)
        if (f->insts[i].op == KIR_REDUCE && f->insts[i].u.reduce == KIR_SUM && s->steps[i].halves &&
            f->insts[i].in[0] == f->insts[at].in[0])
            return true;
    return false;
}

void sched_fit_rounds(sched *s) {
    const kir_func *f = s->f;
    for (kir_ref at = 0; at < f->n_insts; at++)
        if (f->insts[at].op == KIR_REDUCE) {
            s->steps[at].rounds = (uint8_t)rounds_of(s, at, s->launch.threads);
            s->steps[at].halves = s->steps[at].rounds && has_halves(s, at, s->launch.threads);
        }
    for (kir_ref at = 0; at < f->n_insts; at++) {
        if (f->insts[at].op != KIR_REDUCE || !leads_halves(s, at)) continue;
        s->steps[at].rounds = AT_ONCE;
        s->steps[at].halves = true;
        if (s->launch.threads <= RESIDENT) s->launch.at_once = RESIDENT / s->launch.threads;
    }
}
