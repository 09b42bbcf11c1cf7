/* Rows of half a warp each.
 *
 * Its 16 threads are the lanes of a sum's definition: each loads its own elements, adds them in order, and what they have is joined by
 * shuffles, so that no block waits for anything and a thread has as many loads on its way as a row has elements for it. As all loops over the
 * row are dealt in the same way, what one leaves for another stays in registers of the thread. Both halves of a warp do the same
 * at any time; of a last row without a partner the other half repeats it and stores nothing. */
#include "sched/rules.h"

enum {
    LONGEST = 1024,    /* elements of a row */
    MOST_WORDS = 2048, /* of temporaries of a row: 128 registers of a thread */
    MOST_WORK = 2048,  /* operations that are written for a thread: of loops that are unrolled */
    THREADS = 128      /* of a block */
};

/* Of a loop over rows the length; 0: it is not known, or none that there may be. */
static int64_t length_of(const kir_func *f, kir_ref at) {
    const kir_range n = f->ranges[f->insts[at].in[0]];
    return n.lo == n.hi && n.lo >= 1 && n.lo <= LONGEST ? n.lo : 0;
}

/* Element i belongs to iteration i: to the thread that takes it, everywhere. */
static bool is_own_element(const kir_func *f, kir_ref at) {
    const kir_inst *in = &f->insts[at];
    const kir_ref block = f->blocks[at];
    return f->bufs[in->u.buf].space == KIR_ARG || (in->in[0] == block && block != KIR_NONE);
}

static const char *block_refused(const kir_func *f, kir_ref at) {
    const kir_inst *in = &f->insts[at];
    if (in->op == KIR_IF) return "there are conditions";
    if (in->op == KIR_REDUCE && (in->u.reduce == KIR_PROD || in->u.reduce == KIR_CHAIN))
        return "a chain of all its elements";
    return length_of(f, at) ? NULL : "it is longer than 1024 elements, or nobody knows";
}

/* What its form forbids. */
static const char *form_refused(const kir_func *f) {
    uint32_t depth = 0;
    bool reduces = false;
    const char *why = NULL;
    if (f->form != KIR_KERNEL) return "a fragment has none";
    for (kir_ref at = 0; at < f->n_insts && !why; at++) {
        const kir_op op = f->insts[at].op;
        const kir_shape shape = kir_op_table(op)->shape;
        depth -= shape == KIR_SHAPE_END;
        if (shape == KIR_SHAPE_BEGIN && depth > 1) why = "a loop within another";
        if (shape == KIR_SHAPE_BEGIN && depth == 1) why = block_refused(f, at);
        if ((op == KIR_LOAD || op == KIR_STORE) && !is_own_element(f, at))
            why = "temporaries that other iterations read";
        reduces = reduces || op == KIR_REDUCE;
        depth += shape == KIR_SHAPE_BEGIN;
    }
    return why || reduces ? why : "nothing is reduced";
}

/* Of loops without others inside. */
static bool all_apart(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++) {
        kir_ref end = at;
        if (f->insts[at].op != KIR_LOOP && f->insts[at].op != KIR_REDUCE) continue;
        while (kir_op_table(f->insts[end].op)->shape != KIR_SHAPE_END) end++;
        if (!sched_is_apart(f, at, end)) return false;
    }
    return true;
}

bool sched_may_be_half(const kir_func *f) {
    return !form_refused(f) && all_apart(f);
}

/* Words of temporaries of an item. */
static int64_t words_of(const kir_func *f) {
    int64_t n = 0;
    for (uint32_t i = 0; i < f->n_bufs; i++)
        if (f->bufs[i].space == KIR_SCRATCH)
            n += f->bufs[i].size * ((int64_t)rp_dtype_block_bytes(f->bufs[i].dtype) + 3) / 4;
    return n;
}

const char *sched_half_refused(const kir_func *f) {
    const char *why = form_refused(f);
    if (why) return why;
    if (words_of(f) > MOST_WORDS) return "more temporaries than registers";
    if (kir_item_cost(f, NULL) > (double)MOST_WORK * SCHED_LANES)
        return "too much work for an element";
    return all_apart(f) ? NULL : "iterations touch what others store";
}

static void decide(sched *s, kir_ref at, void *user) {
    const kir_op op = s->f->insts[at].op;
    (void)user;
    if (op != KIR_STORE) s->steps[at].kind = op == KIR_PAR ? SCHED_HALF : SCHED_THREAD;
    s->steps[at].barrier = sched_needs_barrier(s, at);
}

rp_status sched_make_half(const kir_func *f, sched **out, rp_error *err) {
    kir_func *held = NULL;
    RP_TRY(kir_hold_rows(f, MOST_WORDS - words_of(f), &held, err));
    RP_TRY(sched_new(&sched_cuda, held ? held : f, held, out, err));
    sched *s = *out;
    sched_place_all(s, SCHED_REGISTER, 1);
    sched_decide(s, decide, NULL);
    s->launch.threads = THREADS;
    s->launch.per_block = THREADS / SCHED_LANES;
    s->launch.grain = sched_grain_of(s->f);
    return RP_OK;
}
