/* Rules of CUDA.
 *
 * A kernel of plain items gives one to each thread of the grid. One with loops, reductions or temporaries gives each item to a
 * block: every thread computes what belongs to the item, loops with independent iterations and reductions are dealt to the
 * threads, loops around such loops to the warps, all else runs in step with a barrier where stores meet other accesses. A
 * fragment is run in the same way by a warp, so that a template can run several side by side. */
#include "sched/rules.h"

#include <inttypes.h>

#define PLAIN_THREADS 256 /* of a block with an item a thread */
#define MAX_THREADS 1024  /* RK_BLOCK */
#define WARP_WORK 16      /* iterations that are worth a warp */
#define WARPS_THREADS 256 /* of blocks whose warps take iterations, where there are always many */
#define MAX_SHARED (40 << 10) /* of 48 KB; the rest is for reductions */

static bool has_blocks(const kir_func *f) {
    for (kir_ref at = 0; at < f->n_insts; at++) {
        if (f->insts[at].op == KIR_LOOP || f->insts[at].op == KIR_REDUCE) return true;
    }
    for (uint32_t i = 0; i < f->n_bufs; i++) {
        if (f->bufs[i].space == KIR_SCRATCH) return true;
    }
    return false;
}

/* A loop or reduction inside of the one at `at` has enough for a warp, which can share it. */
static bool holds_warp_work(const sched *s, kir_ref at) {
    const kir_func *f = s->f;
    for (kir_ref i = at + 1; s->steps[at].nested && i < s->steps[at].end; i++) {
        const kir_inst *in = &f->insts[i];
        bool loops = in->op == KIR_LOOP || in->op == KIR_REDUCE;
        if (loops && f->ranges[in->in[0]].hi >= WARP_WORK && sched_is_independent(s, i))
            return true;
    }
    return false;
}

/* Dealing pays where there is work for a warp, or nothing inside that could be dealt instead. */
static sched_kind kind_of(const sched *s, kir_ref at) {
    const kir_inst *in = &s->f->insts[at];
    const sched_step *step = &s->steps[at];

    if (in->op == KIR_PAR) return has_blocks(s->f) ? SCHED_BLOCK : SCHED_GRID;
    if (in->op == KIR_IF || step->team == SCHED_ALONE || !sched_is_independent(s, at))
        return SCHED_SERIAL;
    if (in->op == KIR_LOOP && step->team == SCHED_OF_BLOCK && holds_warp_work(s, at))
        return SCHED_WARP;
    return !step->nested || s->f->ranges[in->in[0]].hi >= SCHED_TEAM ? SCHED_THREAD : SCHED_SERIAL;
}

static void decide(sched *s, kir_ref at, void *user) {
    const kir_op op = s->f->insts[at].op;
    (void)user;
    sched_step *step = &s->steps[at];
    if (op == KIR_REDUCE && step->team == SCHED_ALONE) {
        sched_reduce_alone(s, at);
        return;
    }
    if (op == KIR_REDUCE) step->chunks = sched_needs_chunks(s, at);
    if (op != KIR_STORE) step->kind = kind_of(s, at);
    if (step->kind == SCHED_THREAD) step->wide = sched_wide_of(s, at);
    step->barrier = sched_needs_barrier(s, at);
}

/* As many as the widest loop has use for, or those of rows. */
static uint32_t threads_of(const sched *s) {
    const kir_func *f = s->f;
    const uint32_t of_rows = sched_threads_of_rows(s);
    if (of_rows) return of_rows;
    int64_t widest = SCHED_TEAM, items = 0;
    bool warps = false;

    for (kir_ref at = 0; at < f->n_insts; at++) {
        const kir_inst *in = &f->insts[at];
        if (in->op == KIR_PAR) items = f->ranges[in->in[0]].lo;
        if (in->op != KIR_LOOP && in->op != KIR_REDUCE) continue;
        const sched_step *step = &s->steps[at];
        warps = warps || step->kind == SCHED_WARP;
        int64_t n = f->ranges[in->in[0]].hi / (step->wide ? step->wide : 1);
        if (n < MAX_THREADS && holds_warp_work(s, at)) n *= SCHED_TEAM;
        if (n > widest) widest = n;
    }
    if (widest > MAX_THREADS) widest = MAX_THREADS;
    while (warps && widest > WARPS_THREADS && items >= SCHED_ENOUGH_THREADS / (widest / 2))
        widest /= 2;
    return (uint32_t)((widest + SCHED_TEAM - 1) / SCHED_TEAM * SCHED_TEAM);
}

/* Blocks right inside of items, in order. */
static void name_parts(sched *s) {
    const sched_parts parts = sched_parts_of(s->f);
    uint32_t n = 0;
    kir_ref par = 0;

    s->launch.parts = parts.n;
    while (s->f->insts[par].op != KIR_PAR) par++;
    for (kir_ref at = par + 1; parts.n > 1 && at < s->steps[par].end; at++) {
        if (kir_op_table(s->f->insts[at].op)->shape != KIR_SHAPE_BEGIN) continue;
        s->steps[at].part = parts.of[n++];
        at = s->steps[at].end;
    }
}

static rp_status launch(sched *s, rp_error *err) {
    const bool blocks = has_blocks(s->f);

    if (s->launch.scratch > MAX_SHARED)
        return rp_fail(err, RP_UNSUPPORTED,
                       "kernel %s: %" PRId64 " bytes of scratch an item; a CUDA block has %d",
                       s->f->name, s->launch.scratch, MAX_SHARED);
    s->launch.threads = blocks ? threads_of(s) : PLAIN_THREADS;
    s->launch.per_block = blocks ? 1 : PLAIN_THREADS;
    s->launch.grain = sched_grain_of(s->f);
    if (blocks) {
        sched_fit_rounds(s);
        name_parts(s);
    }
    return RP_OK;
}

rp_status sched_make_blocks(const kir_func *f, sched **out, rp_error *err) {
    sched *s = NULL;

    RP_TRY(sched_new(&sched_cuda, f, NULL, &s, err));
    sched_place_all(s, SCHED_SHARED, 1);
    sched_decide(s, decide, NULL);
    rp_status st = f->form == KIR_KERNEL ? launch(s, err) : RP_OK;
    if (st != RP_OK) {
        sched_free(s);
        return st;
    }
    *out = s;
    return RP_OK;
}

static rp_status make(const kir_func *f, sched **out, rp_error *err) {
    return sched_registers_refused(f) ? sched_make_blocks(f, out, err)
                                      : sched_make_registers(f, out, err);
}

const sched_target sched_cuda = {"cuda", make, MAX_THREADS, MAX_SHARED};
