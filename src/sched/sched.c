/* The object: steps beside instructions, and the walk that decides them from the outside in. */
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sched/rules.h"

static const sched_target *const targets[] = {&sched_cpu, &sched_cuda};

const sched_target *sched_target_at(uint32_t i) {
    return i < sizeof targets / sizeof *targets ? targets[i] : NULL;
}

const sched_target *sched_target_find(const char *name) {
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i]->name, name) == 0) return targets[i];
    return NULL;
}

#define NAME(id, text) text,
static const char *const kind_names[] = {SCHED_KIND_LIST(NAME)};
static const char *const space_names[] = {SCHED_SPACE_LIST(NAME)};
#undef NAME

const char *sched_kind_name(sched_kind k) {
    return kind_names[k];
}

const char *sched_space_name(sched_space p) {
    return space_names[p];
}

static void find_blocks(sched *s) {
    kir_ref open[KIR_MAX_DEPTH];
    uint32_t n = 0;

    for (kir_ref at = 0; at < s->f->n_insts; at++) {
        kir_op op = s->f->insts[at].op;
        kir_shape shape = kir_op_table(op)->shape;
        if (shape == KIR_SHAPE_END && n > 0) s->steps[open[--n]].end = at;
        if (shape != KIR_SHAPE_BEGIN) continue;
        for (uint32_t i = 0; i < n; i++)
            if (op == KIR_LOOP || op == KIR_REDUCE) s->steps[open[i]].nested = true;
        open[n++] = at;
    }
}

static uint32_t count_args(const kir_func *f) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_bufs; i++)
        if (f->bufs[i].space == KIR_ARG && f->bufs[i].slot >= n) n = f->bufs[i].slot + 1;
    return n;
}

rp_status sched_new(const sched_target *t, const kir_func *f, kir_func *own, sched **out,
                    rp_error *err) {
    rp_status st = RP_OK;
    sched *s = base_alloc(sizeof *s);

    if (!s) {
        kir_free(own);
        return rp_fail(err, RP_NOMEM, "schedule of a kernel");
    }
    *s = (sched){.target = t, .f = f, .own = own, .launch = {.parts = 1}};
    RP_TRY_OUT(kir_verify(f, err));
    s->steps = base_alloc_array(f->n_insts + 1, sizeof *s->steps);
    s->places = base_alloc_array(f->n_bufs + 1, sizeof *s->places);
    if (!s->steps || !s->places) {
        st = rp_fail(err, RP_NOMEM, "kernel %s: schedule", f->name);
        goto out;
    }
    find_blocks(s);
    s->launch.n_args = count_args(f);
    *out = s;
    s = NULL;
out:
    sched_free(s);
    return st;
}

void sched_free(sched *s) {
    if (!s) return;
    base_free(s->steps);
    base_free(s->places);
    kir_free(s->own);
    base_free(s);
}

/* Takes s. */
static rp_status made(sched *s, sched **out, rp_error *err) {
#ifndef NDEBUG
    rp_status st = sched_verify(s, err);
    if (st != RP_OK) {
        sched_free(s);
        return st;
    }
#endif
    (void)err;
    *out = s;
    return RP_OK;
}

rp_status sched_make(const sched_target *t, const kir_func *f, sched **out, rp_error *err) {
    sched *s = NULL;
    RP_TRY(t->make(f, &s, err));
    return made(s, out, err);
}

rp_status sched_make_item(const kir_func *f, sched **out, rp_error *err) {
    sched *s = NULL;
    RP_TRY(sched_make_blocks(f, &s, err));
    return made(s, out, err);
}

/* Who runs what is inside of a block. */
static sched_team team_inside(sched_kind kind, sched_team team) {
    switch (kind) {
    case SCHED_SERIAL: return team;
    case SCHED_WARP: return SCHED_OF_WARP;
    case SCHED_BLOCK: return SCHED_OF_BLOCK;
    case SCHED_HALF: return SCHED_OF_HALF;
    default: return SCHED_ALONE;
    }
}

bool sched_has_step(const sched *s, kir_ref at) {
    kir_op op = s->f->insts[at].op;
    return kir_op_table(op)->shape == KIR_SHAPE_BEGIN ||
           (op == KIR_STORE && s->steps[at].team != SCHED_ALONE);
}

uint32_t sched_number(const sched *s, kir_ref at) {
    uint32_t n = 0;
    for (kir_ref i = 0; i < at; i++) n += kir_makes_value(&s->f->insts[i]);
    return n;
}

/* A fragment is called by a warp where there are any. */
void sched_decide(sched *s, sched_rule rule, void *user) {
    bool warp = s->f->form == KIR_FRAGMENT && s->target->max_threads;
    sched_team open[KIR_MAX_DEPTH], team = warp ? SCHED_OF_WARP : SCHED_ALONE;
    uint32_t n = 0;

    for (kir_ref at = 0; at < s->f->n_insts; at++) {
        kir_shape shape = kir_op_table(s->f->insts[at].op)->shape;
        if (shape == KIR_SHAPE_END && n > 0) team = open[--n];
        s->steps[at].team = team;
        if (!sched_has_step(s, at)) continue;
        rule(s, at, user);
        if (shape != KIR_SHAPE_BEGIN) continue;
        open[n++] = team;
        team = team_inside(s->steps[at].kind, team);
    }
}

void sched_place_all(sched *s, sched_space space, int64_t align) {
    s->launch.scratch = 0;
    for (uint32_t i = 0; i < s->f->n_bufs; i++) {
        const kir_buf *b = &s->f->bufs[i];
        int64_t size = b->size * (int64_t)rp_dtype_block_bytes(b->dtype);
        if (b->space != KIR_SCRATCH) continue;
        if (s->f->form == KIR_FRAGMENT) {
            s->places[i].space = SCHED_CALLER;
            continue;
        }
        s->places[i] = (sched_place){space, space == SCHED_LOCAL ? s->launch.scratch : 0};
        if (space != SCHED_REGISTER) s->launch.scratch += (size + align - 1) & ~(align - 1);
    }
}
