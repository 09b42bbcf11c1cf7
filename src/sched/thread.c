/* What a thread does by itself, on every target.
 *
 * Loops run as they stand: compilers make vectors of innermost ones (kir_split_loops is there for that), while no compiler may
 * reorder a sum or a maximum. So those of floats are cut into the 16 lanes of their definition here. */
#include "sched/rules.h"

enum {
    MAX_UNROLLED_BODY = 24, /* instructions; longer bodies are not written so often */
    LEAST_WORK = 16384      /* operations that are worth another thread */
};

bool sched_needs_chunks(const sched *s, kir_ref at) {
    const kir_inst *in = &s->f->insts[at];
    return in->u.reduce == KIR_SUM && kir_is_float(s->f->insts[s->steps[at].end].cls) &&
           s->f->ranges[in->in[0]].hi > KIR_CHUNK;
}

int8_t sched_tail_of(const sched *s, kir_ref at) {
    const kir_range extent = s->f->ranges[s->f->insts[at].in[0]];
    int64_t tail = extent.lo == extent.hi ? extent.lo % SCHED_LANES : -1;
    if (s->steps[at].chunks && tail) tail = -1; /* all chunks but the last are whole */
    return tail < 0 ? -1 : (int8_t)tail;
}

/* A maximum waits for the one before it, which takes longer than all else of a short body: four elements of each lane
 * become one first, in pairs and in their order, which gives the same bits. */
void sched_reduce_alone(sched *s, kir_ref at) {
    const kir_inst *in = &s->f->insts[at];
    const kir_range extent = s->f->ranges[in->in[0]];
    sched_step *step = &s->steps[at];
    const int64_t unrolled = SCHED_UNROLL * SCHED_LANES;

    step->kind = SCHED_SERIAL;
    step->chunks = sched_needs_chunks(s, at);
    if (in->u.reduce == KIR_PROD || in->u.reduce == KIR_CHAIN || step->nested ||
        kir_is_int(s->f->insts[step->end].cls)) /* an index, too */
        return;
    step->kind = SCHED_VECTOR;
    step->tail = sched_tail_of(s, at);
    if (in->u.reduce != KIR_SUM && extent.hi >= unrolled && step->end - at <= MAX_UNROLLED_BODY)
        step->unroll = SCHED_UNROLL;
    step->whole = extent.hi >= SCHED_LANES;
    if (step->unroll && extent.lo == extent.hi && extent.lo % unrolled < SCHED_LANES)
        step->whole = false;
}

int64_t sched_grain_of(const kir_func *f) {
    double work = kir_item_cost(f, NULL);
    return work >= LEAST_WORK ? 1 : work < 1.0 ? LEAST_WORK : (int64_t)(LEAST_WORK / work) + 1;
}
