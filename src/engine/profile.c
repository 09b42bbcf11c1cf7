/* How long each launch of a decode step takes: a made-up request is decoded as it is served, then launch by launch.
 *
 * Launches one by one cost a little more than a replay, since the threads are waited for after each; both sums are given.
 * Of the bytes only those are counted that come from memory in every step: packed weights, vectors of the model, and the
 * cache that attention reads. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "engine/alone.h"
#include "engine/read_limit.h"

enum { WARM_UP = 2, DEFAULT_STEPS = 32, DEFAULT_CONTEXT = 128 };

typedef struct profiler {
    rp_engine *e;
    uint32_t steps, context;
    engine_alone own;
    int32_t *ids;
    const plan *model, *head; /* by which the steps run */
    int64_t *ns;              /* of each launch of model and head, all steps */
    int64_t *step_ns;         /* as served, one a step */
    double limit;             /* GB/s; 0: not known */
    bool timeline;
} profiler;

/* --- measuring ------------------------------------------------------------------- */

static uint32_t decoded(uint32_t steps) {
    return WARM_UP + 2 * steps;
}

static uint32_t default_context(const rp_engine *e, uint32_t steps) {
    uint32_t taken = decoded(steps) + 1;
    if (e->max_model_len >= taken + DEFAULT_CONTEXT) return DEFAULT_CONTEXT;
    return e->max_model_len > taken ? e->max_model_len - taken : 1;
}

static rp_status prepare(profiler *p, rp_error *err) {
    rp_engine *e = p->e;
    uint32_t vocab = model_source_hparams(e->source)->n_vocab;
    uint32_t n = decoded(p->steps) + 1, taken = p->context + decoded(0) + 1;
    if ((uint64_t)p->context + n > e->max_model_len)
        return rp_fail(err, RP_CONFIG,
                       "%u steps, each as served and launch by launch, after %u positions and %d "
                       "steps to warm up want %llu positions; max_model_len %u has room for %u",
                       p->steps, p->context, WARM_UP, (unsigned long long)p->context + n,
                       e->max_model_len,
                       e->max_model_len > taken ? (e->max_model_len - taken) / 2 : 0);
    p->ids = base_alloc_array(p->context, sizeof *p->ids);
    p->step_ns = base_alloc_array(p->steps, sizeof *p->step_ns);
    if (!p->ids || !p->step_ns) return rp_fail(err, RP_NOMEM, "%u steps", p->steps);
    for (uint32_t i = 0; i < p->context; i++) p->ids[i] = (int32_t)(i * 7919u % vocab);
    const engine_alone_options made_up = {
        .what = "measuring wants", .ids = p->ids, .n = p->context, .max_tokens = n};
    return engine_alone_open(&p->own, e, &made_up, err);
}

/* The steps before have shown whose launches these are. */
static rp_status take_clocks(profiler *p, rp_error *err) {
    p->model = engine_runner_plan(p->e->runner);
    p->head = engine_runner_head(p->e->runner);
    p->ns = base_alloc_array(p->model->n_launches + p->head->n_launches + 1u, sizeof *p->ns);
    return p->ns ? RP_OK : rp_fail(err, RP_NOMEM, "%u steps", p->steps);
}

/* Step k of the decode: warm-up, as served, or launch by launch. */
static rp_status decode(profiler *p, const engine_batch *b, uint32_t k, rp_error *err) {
    int64_t t0 = base_now_ns();
    if (k == WARM_UP + p->steps) RP_TRY(take_clocks(p, err));
    if (k >= WARM_UP + p->steps) return engine_runner_time(p->e->runner, b, p->e->kv, p->ns, err);
    RP_TRY(engine_run_step(p->e, b, err));
    if (k >= WARM_UP) p->step_ns[k - WARM_UP] = base_now_ns() - t0;
    return RP_OK;
}

static rp_status measure(profiler *p, rp_error *err) {
    const engine_batch *b = NULL;
    uint32_t k = 0;
    while (k < decoded(p->steps)) {
        RP_TRY(engine_alone_next(&p->own, &b, err));
        if (!b) return rp_fail(err, RP_INTERNAL, "the measured request ended after %u steps", k);
        if (b->n_prefills)
            RP_TRY(engine_run_step(p->e, b, err));
        else
            RP_TRY(decode(p, b, k++, err));
    }
    return RP_OK;
}

/* --- bytes ------------------------------------------------------------------------ */

/* Bytes of a leaf where every symbol is 1: one position, one block. */
static int64_t unit_bytes(const plan *p, const plan_leaf *l) {
    int64_t ones[16];
    for (uint32_t i = 0; i < 16; i++) ones[i] = 1;
    return p->n_symbols <= 16 ? plan_size_eval(&l->bytes, ones) : 0;
}

static double launch_bytes(const profiler *f, const plan *p, const plan_launch *l) {
    double n = 0, positions = f->context + WARM_UP + 1.5 * f->steps;
    for (uint32_t i = 0; i < l->n_args; i++) {
        const plan_arg *a = &l->args[i];
        if (a->seg == PLAN_PACK) n += (double)p->packs[a->idx].size;
        if (a->seg == PLAN_PARAM && p->params[a->idx].rank == 1)
            n += (double)unit_bytes(p, &p->params[a->idx]);
        if (a->seg == PLAN_STATE && l->attention)
            n += (double)unit_bytes(p, &p->states[a->idx]) / MODEL_KV_BLOCK * positions;
    }
    return n;
}

/* --- report ------------------------------------------------------------------------- */

typedef struct cost {
    double ms, bytes; /* a step */
} cost;

static json_t *known_number(bool known, double v) {
    return known ? json_real(v) : json_null();
}

static json_t *bytes_json(cost c) {
    return c.bytes > 0 && c.ms > 0 ? json_integer((json_int_t)c.bytes) : json_null();
}

static json_t *cost_json(const profiler *f, const char *name, uint32_t count, cost c,
                         double whole_ms) {
    json_t *o = json_pack("{s:s,s:i,s:f,s:f}", "name", name, "count", (int)count, "ms", c.ms,
                          "share", whole_ms > 0 ? c.ms / whole_ms : 0.0);
    const bool known = c.bytes > 0 && c.ms > 0, limited = known && f->limit > 0;
    const double rate = known ? c.bytes / c.ms / 1e6 : 0.0;
    (void)json_object_set_new(o, "bytes", bytes_json(c));
    (void)json_object_set_new(o, "gb_s", known_number(known, rate));
    (void)json_object_set_new(o, "of_limit", known_number(limited, limited ? rate / f->limit : 0));
    return o;
}

/* Launch `at` of each piece that is equal to `first`, together. */
static cost cost_of(const profiler *f, const plan *p, const int64_t *ns, uint32_t first,
                    uint32_t at) {
    cost c = {0, 0};
    for (uint32_t i = first; i < p->n_pieces; i++) {
        const plan_piece *q = &p->pieces[i];
        if (q->distinct != first || at >= q->n) continue;
        c.ms += (double)ns[q->first + at] / 1e6 / f->steps;
        c.bytes += launch_bytes(f, p, &p->launches[q->first + at]);
    }
    return c;
}

static uint32_t equal_pieces(const plan *p, uint32_t first) {
    uint32_t n = 0;
    for (uint32_t i = first; i < p->n_pieces; i++) n += p->pieces[i].distinct == first;
    return n;
}

static void add_piece(const profiler *f, const plan *p, const int64_t *ns, uint32_t first,
                      double whole_ms, json_t *pieces) {
    const plan_piece *q = &p->pieces[first];
    uint32_t count = equal_pieces(p, first);
    json_t *launches = json_array();
    cost all = {0, 0};
    char name[96];
    for (uint32_t at = 0; at < q->n; at++) {
        cost c = cost_of(f, p, ns, first, at);
        all.ms += c.ms;
        all.bytes += c.bytes;
        (void)json_array_append_new(
            launches, cost_json(f, p->launches[q->first + at].name, count, c, whole_ms));
    }
    (void)snprintf(name, sizeof name, "%s.submod_%u", p->name, q->submod);
    json_t *o = cost_json(f, name, count, all, whole_ms);
    (void)json_object_set_new(o, "splitting", json_boolean(q->splitting));
    (void)json_object_set_new(o, "launches", launches);
    (void)json_array_append_new(pieces, o);
}

/* Launches of a plan as they come. */
static void add_timeline(const profiler *f, const plan *p, const int64_t *ns, json_t *line) {
    char piece[96];
    for (uint32_t i = 0; i < p->n_pieces; i++)
        for (uint32_t at = p->pieces[i].first; at < p->pieces[i].first + p->pieces[i].n; at++) {
            const cost c = {(double)ns[at] / 1e6 / f->steps, launch_bytes(f, p, &p->launches[at])};
            (void)snprintf(piece, sizeof piece, "%s.submod_%u", p->name, p->pieces[i].submod);
            (void)json_array_append_new(line, json_pack("{s:s,s:s,s:f,s:o}", "name",
                                                        p->launches[at].name, "piece", piece, "ms",
                                                        c.ms, "bytes", bytes_json(c)));
        }
}

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static rp_status report(profiler *f, char **out, rp_error *err) {
    const plan *const both[] = {f->model, f->head};
    const uint32_t n = both[0]->n_launches + both[1]->n_launches;
    const int64_t *ns = f->ns;
    json_t *pieces = json_array(), *line = json_array();
    double whole_ms = 0;
    base_buf text;
    for (uint32_t i = 0; i < n; i++) whole_ms += (double)ns[i] / 1e6 / f->steps;
    for (int k = 0; k < 2; k++, ns += both[0]->n_launches) {
        for (uint32_t i = 0; i < both[k]->n_pieces; i++)
            if (both[k]->pieces[i].distinct == i) add_piece(f, both[k], ns, i, whole_ms, pieces);
        if (f->timeline) add_timeline(f, both[k], ns, line);
    }
    qsort(f->step_ns, f->steps, sizeof *f->step_ns, by_time);
    const int64_t *median = f->step_ns + f->steps / 2;
    json_t *o = json_pack("{s:i,s:i,s:i,s:f,s:f,s:o,s:o}", "steps", (int)f->steps, "context",
                          (int)f->context, "launches", (int)n, "step_ms", (double)*median / 1e6,
                          "launches_ms", whole_ms, "read_limit_gb_s",
                          known_number(f->limit > 0, f->limit), "pieces", pieces);
    if (f->timeline) (void)json_object_set(o, "timeline", line);
    json_decref(line);
    base_buf_init(&text, 0);
    rp_status st = engine_json_text(o, &text, err);
    if (st == RP_OK) *out = base_buf_take(&text);
    base_buf_done(&text);
    return st;
}

static rp_status find_limit(profiler *p, rp_error *err) {
    engine_read_limit_options o = {
        .device = p->e->device, .store = p->e->store, .arch = p->e->arch};
    o.data = engine_weights_packed(p->e->weights, &o.size);
    return engine_read_limit(&o, &p->limit, err);
}

rp_status rp_engine_profile(rp_engine *e, const rp_profile_options *given, char **out,
                            rp_error *err) {
    base_error_clear(err);
    rp_status st;
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    if (!e || !out) return rp_fail(err, RP_INVALID, "rp_engine_profile: engine or out is NULL");
    RP_TRY(base_options_take(&o, sizeof o, given, "rp_profile_options", err));
    if (!e->sched)
        return rp_fail(err, RP_INVALID, "the engine was opened without capture and runs nothing");
    if (o.steps > RP_PROFILE_MAX_STEPS)
        return rp_fail(err, RP_CONFIG, "%u steps to measure; at most %d", o.steps,
                       RP_PROFILE_MAX_STEPS);
    RP_TRY(engine_enter(e, "rp_engine_profile", err));
    profiler p = {.e = e,
                  .steps = o.steps ? o.steps : DEFAULT_STEPS,
                  .context = o.context,
                  .timeline = o.timeline};
    if (!p.context) p.context = default_context(e, p.steps);
    if (o.read_limit) RP_TRY_OUT(find_limit(&p, err));
    RP_TRY_OUT(prepare(&p, err));
    RP_TRY_OUT(measure(&p, err));
    st = report(&p, out, err);
out:
    engine_alone_close(&p.own);
    base_free(p.ids);
    base_free(p.ns);
    base_free(p.step_ns);
    return engine_leave(e, "rp_engine_profile", st, err);
}
