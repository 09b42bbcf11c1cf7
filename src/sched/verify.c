/* What a renderer may rely on: each step is one that its target has, and none changes a result.
 *
 * Teams, blocks and argument counts follow from the rest (sched_new, sched_decide) and are not judged. */
#include <stdio.h>

#include "base/number.h"

#include "base/status.h"
#include "sched/rules.h"

#define BAD(s, at, err, ...) bad((s), (at), __LINE__, (err), __VA_ARGS__)

/* Of a step, or (KIR_NONE) of the whole. */
static rp_status bad(const sched *s, kir_ref at, int line, rp_error *err, const char *fmt, ...)
    RP_PRINTF(5, 6);
static rp_status bad(const sched *s, kir_ref at, int line, rp_error *err, const char *fmt, ...) {
    char text[200], where[64] = "";
    va_list ap;
    va_start(ap, fmt);
    (void)base_vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (at != KIR_NONE)
        (void)snprintf(where, sizeof where, "%s %%%u: ", kir_op_table(s->f->insts[at].op)->text,
                       sched_number(s, at));
    return base_fail(err, RP_INVALID, __FILE__, line, "schedule of %s for %s: %s%s", s->f->name,
                     s->target->name, where, text);
}

/* Sums, maxima and minima of floats, without loops inside. */
static bool has_lanes(const sched *s, kir_ref at) {
    const kir_inst *in = &s->f->insts[at];
    return in->op == KIR_REDUCE && !s->steps[at].nested && in->u.reduce != KIR_PROD &&
           in->u.reduce != KIR_ARGMAX && in->u.reduce != KIR_CHAIN &&
           !kir_is_int(s->f->insts[s->steps[at].end].cls);
}

/* The kinds that an instruction may have. */
static bool is_kind(const sched *s, kir_ref at) {
    const kir_op op = s->f->insts[at].op;
    const sched_step *step = &s->steps[at];
    switch (step->kind) {
    case SCHED_SERIAL: return op != KIR_PAR;
    case SCHED_VECTOR: return step->team == SCHED_ALONE && has_lanes(s, at);
    case SCHED_THREAD: return step->team != SCHED_ALONE && (op == KIR_LOOP || op == KIR_REDUCE);
    case SCHED_WARP: return step->team == SCHED_OF_BLOCK && op == KIR_LOOP;
    case SCHED_BLOCK: return op == KIR_PAR && s->target->max_threads;
    case SCHED_HALF: return op == KIR_PAR && s->target->max_threads && sched_may_be_half(s->f);
    case SCHED_GRID: return op == KIR_PAR;
    default: return false;
    }
}

/* Every element is in one of the loops of a vector. */
static bool covers(const sched *s, kir_ref at) {
    const sched_step *step = &s->steps[at];
    const kir_range n = s->f->ranges[s->f->insts[at].in[0]];
    const int64_t unrolled = SCHED_UNROLL * SCHED_LANES;
    if (step->tail != -1 && step->tail != sched_tail_of(s, at)) return false;
    if (step->unroll && s->f->insts[at].u.reduce == KIR_SUM) return false;
    return step->whole || n.hi < SCHED_LANES ||
           (step->unroll && n.lo == n.hi && n.lo % unrolled < SCHED_LANES);
}

/* A chunk ends with a round: of the block, or of the half warp that has it. */
static rp_status check_chunks(const sched *s, kir_ref at, rp_error *err) {
    const sched_step *step = &s->steps[at];
    const uint32_t threads = s->launch.threads;
    const kir_reduce how = s->f->insts[at].u.reduce;
    const bool free = how == KIR_MAX || how == KIR_MIN;
    if (step->halves && (!step->rounds || (!step->chunks && !free)))
        return BAD(s, at, err, "halves without chunks in rounds");
    if (step->halves && KIR_CHUNK % (step->rounds * SCHED_LANES))
        return BAD(s, at, err, "chunks of %d in %u rounds of half a warp", KIR_CHUNK, step->rounds);
    if (!step->chunks || step->halves) return RP_OK;
    if (step->kind == SCHED_THREAD && !step->held && step->team == SCHED_OF_BLOCK &&
        (!threads || KIR_CHUNK % threads))
        return BAD(s, at, err, "chunks of %d in rounds of %u", KIR_CHUNK, threads);
    if (step->rounds && KIR_CHUNK % (step->rounds * threads))
        return BAD(s, at, err, "chunks of %d in %u rounds of %u", KIR_CHUNK, step->rounds, threads);
    return RP_OK;
}

static rp_status check_levels(const sched *s, kir_ref at, rp_error *err) {
    const sched_step *step = &s->steps[at];
    const bool reduces = s->f->insts[at].op == KIR_REDUCE;
    if (step->chunks != (reduces && sched_needs_chunks(s, at)))
        return BAD(s, at, err,
                   step->chunks ? "has chunks; there is one at most"
                                : "lacks chunks; there may be several");
    RP_TRY(check_chunks(s, at, err));
    if (step->wide && !sched_may_be_wide(s, at, step->wide))
        return BAD(s, at, err, "wide %u; there are no such vectors", step->wide);
    if (step->rounds && (!sched_may_have_rounds(s, at) || step->rounds > SCHED_MOST_ROUNDS))
        return BAD(s, at, err, "rounds %u; at most %d, of loads alone", step->rounds,
                   sched_may_have_rounds(s, at) ? SCHED_MOST_ROUNDS : 0);
    if (sched_is_innermost(s, at)) {
        if (step->unroll & (step->unroll - 1u) || step->unroll > SCHED_MAX_UNROLL)
            return BAD(s, at, err, "unroll %u; there are 2, 4 and %d", step->unroll,
                       SCHED_MAX_UNROLL);
    } else if (step->unroll && step->unroll != SCHED_UNROLL) {
        return BAD(s, at, err, "unroll %u; there is %d", step->unroll, SCHED_UNROLL);
    }
    if (step->kind != SCHED_VECTOR &&
        ((step->unroll && !sched_is_innermost(s, at)) || step->whole || step->tail))
        return BAD(s, at, err, "vectors in a loop that is %s", sched_kind_name(step->kind));
    if (step->kind == SCHED_VECTOR && !covers(s, at))
        return BAD(s, at, err, "elements that no loop takes, or in another order");
    return RP_OK;
}

/* A loop or reduction whose row a block holds. */
static rp_status check_held(const sched *s, kir_ref at, rp_error *err) {
    const sched_step *step = &s->steps[at];
    const int64_t n = s->f->ranges[s->f->insts[at].in[0]].hi, wide = step->wide ? step->wide : 1;
    const int64_t round = s->launch.threads * wide;
    if (step->kind != SCHED_THREAD || step->team != SCHED_OF_BLOCK || !sched_may_be_held(s->f))
        return BAD(s, at, err, "cannot be held");
    if (!round || (n + round - 1) / round * wide > SCHED_MOST_HELD)
        return BAD(s, at, err, "held, of more than %d iterations a thread", SCHED_MOST_HELD);
    if (s->f->insts[at].op == KIR_REDUCE && sched_exchanged(s->f, at) > s->target->max_shared)
        return BAD(s, at, err, "held; a block exchanges at most %lld bytes",
                   (long long)s->target->max_shared);
    return RP_OK;
}

/* depth: blocks around. */
static rp_status check_step(const sched *s, kir_ref at, uint32_t depth, rp_error *err) {
    const sched_step *step = &s->steps[at];
    const bool dealt = step->kind == SCHED_THREAD || step->kind == SCHED_WARP;
    if (!is_kind(s, at)) return BAD(s, at, err, "cannot be %s here", sched_kind_name(step->kind));
    if (step->team == SCHED_OF_HALF && !dealt && s->f->insts[at].op != KIR_STORE)
        return BAD(s, at, err, "is %s; half a warp deals all there is to its threads",
                   sched_kind_name(step->kind));
    if (dealt && !sched_is_independent(s, at))
        return BAD(s, at, err, "is %s, but iterations touch what others store",
                   sched_kind_name(step->kind));
    if (!step->barrier && sched_needs_barrier(s, at))
        return BAD(s, at, err, "lacks a barrier: what it stores is accessed elsewhere");
    if (step->barrier && !sched_may_wait(s, at))
        return BAD(s, at, err, "has a barrier that no team reaches");
    if (step->held) RP_TRY(check_held(s, at, err));
    if (step->part && depth != 1) return BAD(s, at, err, "is no part of an item");
    return check_levels(s, at, err);
}

/* Whether element i of all temporaries is of the thread that takes iteration i. */
static bool is_dealt_alike(const sched *s) {
    const sched_step *first = NULL;
    for (kir_ref at = 0; at < s->f->n_insts; at++) {
        const kir_op op = s->f->insts[at].op;
        const sched_step *step = &s->steps[at];
        if (op == KIR_PAR && step->kind == SCHED_HALF) return true;
        if (op != KIR_LOOP && op != KIR_REDUCE) continue;
        if (!step->held || (first && step->wide != first->wide)) return false;
        first = step;
    }
    return first != NULL;
}

static rp_status check_places(const sched *s, rp_error *err) {
    const sched_space want = s->f->form == KIR_FRAGMENT ? SCHED_CALLER
                             : is_dealt_alike(s)        ? SCHED_REGISTER
                             : s->target->max_threads   ? SCHED_SHARED
                                                        : SCHED_LOCAL;
    int64_t end = 0;
    for (uint32_t i = 0; i < s->f->n_bufs; i++) {
        const kir_buf *b = &s->f->bufs[i];
        const sched_place *p = &s->places[i];
        if (p->space != (b->space == KIR_ARG ? SCHED_ARG : want))
            return BAD(s, KIR_NONE, err, "buffer %s cannot be %s", b->name,
                       sched_space_name(p->space));
        if (p->space != SCHED_LOCAL && p->space != SCHED_SHARED) continue;
        /* Ascending, so none overlap. */
        if (p->space == SCHED_LOCAL && (p->offset < end || p->offset % SCHED_LOCAL_ALIGN))
            return BAD(s, KIR_NONE, err, "buffer %s at %lld; from %lld on, in steps of %d", b->name,
                       (long long)p->offset, (long long)end, SCHED_LOCAL_ALIGN);
        end = (p->space == SCHED_LOCAL ? p->offset : end) +
              b->size * (int64_t)rp_dtype_block_bytes(b->dtype);
    }
    if (end > s->launch.scratch && s->f->form == KIR_KERNEL)
        return BAD(s, KIR_NONE, err, "scratch %lld of %lld bytes", (long long)s->launch.scratch,
                   (long long)end);
    return RP_OK;
}

/* Blocks that share what they store are of one part. */
static rp_status check_parts(const sched *s, kir_ref par, rp_error *err) {
    const sched_parts p = sched_parts_of(s->f);
    int32_t of[SCHED_MAX_PARTS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < SCHED_MAX_PARTS; i++) of[i] = -1;
    if (s->launch.parts == 0 || s->launch.parts > p.n ||
        (s->launch.parts > 1 && s->steps[par].kind != SCHED_BLOCK))
        return BAD(s, par, err, "%u parts; there may be %u", s->launch.parts, p.n);
    for (kir_ref at = par + 1; at < s->steps[par].end; at++) {
        if (kir_op_table(s->f->insts[at].op)->shape != KIR_SHAPE_BEGIN) continue;
        const uint8_t part = s->steps[at].part, group = p.n > 1 ? p.of[n++] : 0;
        if (part >= s->launch.parts || (of[group] != -1 && of[group] != part))
            return BAD(s, at, err, "is of part %u", part);
        of[group] = part;
        at = s->steps[at].end;
    }
    return RP_OK;
}

static rp_status check_launch(const sched *s, kir_ref par, rp_error *err) {
    const sched_launch *l = &s->launch;
    const sched_target *t = s->target;
    const bool block = s->steps[par].kind == SCHED_BLOCK, half = s->steps[par].kind == SCHED_HALF;
    const uint32_t per_block = block ? 1 : half ? l->threads / SCHED_LANES : l->threads;
    if (l->threads > t->max_threads || l->threads % SCHED_TEAM || (t->max_threads && !l->threads))
        return BAD(s, KIR_NONE, err, "threads %u; at most %u in warps of %d", l->threads,
                   t->max_threads, SCHED_TEAM);
    if (l->per_block != per_block)
        return BAD(s, KIR_NONE, err, "per_block %u; it must be %u", l->per_block, per_block);
    if (t->max_threads && l->scratch > (block ? t->max_shared : 0))
        return BAD(s, KIR_NONE, err, "scratch %lld; at most %lld", (long long)l->scratch,
                   block ? (long long)t->max_shared : 0);
    if (l->per_sm && !block && !half)
        return BAD(s, KIR_NONE, err, "per_sm %u of items that are no block's", l->per_sm);
    if (l->at_once && (!block || (int64_t)l->at_once * l->threads > SCHED_SM_THREADS))
        return BAD(s, KIR_NONE, err, "at_once %u of %u threads; a multiprocessor has %d",
                   l->at_once, l->threads, SCHED_SM_THREADS);
    if (l->grain < 1) return BAD(s, KIR_NONE, err, "grain %lld", (long long)l->grain);
    if (l->vector &&
        (t->max_threads || l->vector < 128 || l->vector > 512 || (l->vector & (l->vector - 1))))
        return BAD(s, KIR_NONE, err, "vector %u; the host's are 128, 256 and 512 bits", l->vector);
    return check_parts(s, par, err);
}

rp_status sched_verify(const sched *s, rp_error *err) {
    uint32_t depth = 0;
    for (kir_ref at = 0; at < s->f->n_insts; at++) {
        const kir_shape shape = kir_op_table(s->f->insts[at].op)->shape;
        depth -= shape == KIR_SHAPE_END;
        if (sched_has_step(s, at)) RP_TRY(check_step(s, at, depth, err));
        depth += shape == KIR_SHAPE_BEGIN;
        if (s->f->insts[at].op == KIR_PAR) RP_TRY(check_launch(s, at, err));
    }
    return check_places(s, err);
}
