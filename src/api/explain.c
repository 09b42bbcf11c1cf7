/* What compiling makes of a graph: every stage is made, and measured, but for the compiler of the host or device, which is not run. */
#include "api/explain.h"

#include <stdio.h>
#include <string.h>

#include "api/compiled.h"
#include "api/lowered.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/str.h"
#include "compile/tune.h"
#include "config/config.h"
#include "engine/isa.h"
#include "hal/hal.h"
#include "pass/inplace.h"
#include "reprise/explain.h"
#include "target/target.h"

void api_explain_span(api_explainer *x, const char *name, int64_t began) {
    double start = (double)(began - x->began) / 1e6, ms = (double)(base_now_ns() - began) / 1e6;
    (void)json_array_append_new(x->spans,
                                json_pack("{s:s,s:f,s:f,s:I}", "name", name, "start_ms", start,
                                          "ms", ms, "depth", (json_int_t)x->depth));
}

/* --- stages -------------------------------------------------------------------------- */

static void ran(void *user, const char *pass, int64_t began) {
    api_explainer *x = user;
    x->depth++;
    api_explain_span(x, pass, began);
    x->depth--;
}

static void found(void *user, const ir_graph *g, const pass_attention_found *f) {
    api_explainer *x = user;
    json_t **list = &x->now->attention;
    if (!*list) *list = json_array();
    (void)json_array_append_new(*list, api_explain_attention(g, f));
}

static rp_status run_passes(api_explainer *x, const split_piece *sp, ir_graph **out) {
    pass_options o = {.skip = x->skips.name,
                      .n_skip = x->skips.n,
                      .extra = x->skips.extra,
                      .n_extra = x->skips.n_extra,
                      .quiet = true,
                      .piece = true,
                      .attention = found,
                      .ran = ran,
                      .user = x};
    int64_t began = base_now_ns();
    if (x->backend == &compile_eager) {
        *out = ir_graph_share(sp->graph);
        return RP_OK;
    }
    RP_TRY(pass_run_all(sp->graph, &o, out, x->err));
    api_explain_span(x, "passes", began);
    return RP_OK;
}

static rp_status explain_graph(api_explainer *x, api_explained_graph *e);

/* The sizes of a call, by name. */
static rp_status give_symbols(const api_explainer *x, const api_explained_graph *from,
                              api_explained_graph *to) {
    const ir_dims *a = ir_graph_dims(from->g), *b = ir_graph_dims(to->g);
    to->symbols = base_alloc_array(ir_dims_symbol_count(b) + 1u, sizeof *to->symbols);
    if (!to->symbols) return rp_fail(x->err, RP_NOMEM, "explain");
    for (uint32_t i = 0; i < ir_dims_symbol_count(b); i++) {
        const ir_symbol *s = ir_dims_symbol(b, i);
        to->symbols[i] = s->min;
        for (uint32_t k = 0; k < ir_dims_symbol_count(a); k++)
            if (strcmp(ir_dims_symbol(a, k)->name, s->name) == 0) to->symbols[i] = from->symbols[k];
    }
    return RP_OK;
}

static rp_status explain_body(api_explainer *x, const api_explained_graph *around,
                              const ir_graph *g, api_explained_graph *body, plan **out) {
    base_buf name;
    int64_t began = base_now_ns();
    body->g = g;
    body->by = around->by;
    RP_TRY(give_symbols(x, around, body));
    x->depth++;
    rp_status st = explain_graph(x, body);
    x->depth--;
    *out = body->plan;
    base_buf_init(&name, 0);
    base_buf_printf(&name, "@%s", ir_graph_name(g));
    if (st == RP_OK) st = base_buf_status(&name, x->err);
    if (st == RP_OK) api_explain_span(x, name.data, began);
    base_buf_done(&name);
    return st;
}

/* Of all launches of piece i; their plans are for the plan of e. */
static rp_status explain_bodies(api_explainer *x, api_explained_graph *e, uint32_t i) {
    compile_lowered *l = &e->lowered[i];
    api_explained *p = &e->pieces[i];
    for (uint32_t k = 0; k < l->piece.n_launches; k++) {
        const lower_control *c = l->piece.launches[k].control;
        if (!c) continue;
        if (!l->inner) l->inner = base_alloc_array(2u * l->piece.n_launches, sizeof *l->inner);
        if (!p->bodies) p->bodies = base_alloc_array(2u * l->piece.n_launches, sizeof *p->bodies);
        if (!l->inner || !p->bodies) return rp_fail(x->err, RP_NOMEM, "plans within a plan");
        p->n_bodies = 2 * l->piece.n_launches;
        for (uint32_t j = 2 * k; j < 2 * k + 2 && c->graph[j - 2 * k]; j++)
            RP_TRY(explain_body(x, e, c->graph[j - 2 * k], &p->bodies[j], &l->inner[j]));
    }
    return RP_OK;
}

static rp_status lower_piece_of(api_explainer *x, api_explained_graph *g, uint32_t i) {
    const uint32_t threads = hal_cpu_threads((uint32_t)x->config->threads);
    pass_splits splits;
    const pass_options o = {.skip = x->skips.name,
                            .n_skip = x->skips.n,
                            .quiet = true,
                            .splits = target_splits(x->target, threads, &splits)};
    bool built_in = false;
    RP_TRY(compile_built_in(x->config, &built_in, x->err));
    const lower_options lo = {.isa = x->isa,
                              .target = x->target,
                              .exact = engine_isa_exact(x->config, ""),
                              .built_in = built_in,
                              .threads = threads,
                              .passes = &o,
                              .sites = true};
    api_explained *e = &g->pieces[i];
    int64_t began = base_now_ns();
    if (x->backend != &compile_eager) {
        RP_TRY(pass_fuse(e->after, &o, &e->fusion, x->err));
        api_explain_span(x, "fuse", began);
        began = base_now_ns();
    }
    RP_TRY(x->backend->lower(e->after, &lo, &g->lowered[i].piece, x->err));
    api_explain_span(x, "lower and generate", began);
    RP_TRY(api_own_functions(&g->lowered[i], x->isa, x->err));
    return explain_bodies(x, g, i);
}

static rp_status explain_piece(api_explainer *x, api_explained_graph *e, uint32_t i) {
    char name[32];
    int64_t began = base_now_ns();
    (void)snprintf(name, sizeof name, "submod_%u", e->split.pieces[i].submod);
    x->depth++;
    x->now = &e->pieces[i];
    rp_status st = run_passes(x, &e->split.pieces[i], &e->pieces[i].after);
    if (st == RP_OK) st = lower_piece_of(x, e, i);
    x->depth--;
    api_explain_span(x, name, began);
    return st;
}

static rp_status explain_graph(api_explainer *x, api_explained_graph *e) {
    int64_t began = base_now_ns();
    RP_TRY(pass_make_inplace(e->g, &e->used, &e->made, x->err));
    if (x->backend->alone) RP_TRY(pass_separate_outputs(e->used, &e->apart, x->err));
    if (e->apart) e->used = e->apart;
    RP_TRY(split_graph(e->used, (const char *const *)x->config->splitting_ops.v,
                       (uint32_t)x->config->splitting_ops.n, &e->split, x->err));
    api_explain_span(x, "split", began);
    e->lowered = base_alloc_array(e->split.n_pieces + 1u, sizeof *e->lowered);
    e->pieces = base_alloc_array(e->split.n_pieces + 1u, sizeof *e->pieces);
    if (!e->lowered || !e->pieces) return rp_fail(x->err, RP_NOMEM, "pieces");
    for (uint32_t i = 0; i < e->split.n_pieces; i++)
        if (e->split.pieces[i].distinct == i) RP_TRY(explain_piece(x, e, i));
    began = base_now_ns();
    RP_TRY(compile_assemble(e->used, ir_graph_dims(e->g), &e->split, e->lowered, &e->plan, x->err));
    api_explain_span(x, "assemble the plan", began);
    return RP_OK;
}

/* --- the call -------------------------------------------------------------------------- */

static rp_status prepare(api_explainer *x, const char *sizes) {
    rp_compilation_config *c = x->config;
    uint32_t n_lowered;
    RP_TRY(api_resolve(x->whole.g, c, x->err));
    const bool gpu = c->device && strncmp(c->device, "cuda", 4) == 0;
    x->target = gpu ? GEN_CUDA : GEN_HOST;
    x->backend = x->whole.by = api_compiler_of(c, gpu);
    RP_TRY(api_lower_ops(x->backend, c, x->whole.g, &x->lowered, &n_lowered, x->err));
    if (x->lowered) x->whole.g = x->lowered;
    const ir_graph *g = x->whole.g;
    x->whole.symbols =
        base_alloc_array(ir_dims_symbol_count(ir_graph_dims(g)) + 1u, sizeof *x->whole.symbols);
    x->spans = json_array();
    if (!x->whole.symbols || !x->spans) return rp_fail(x->err, RP_NOMEM, "explain");
    RP_TRY(api_sizes(g, sizes, x->whole.symbols, x->err));
    RP_TRY(engine_isa_choose(c, &x->isa, x->err));
    return compile_skips_of(c, &x->skips, x->err);
}

/* But for the plan. */
static void graph_done(api_explained_graph *e) {
    for (uint32_t i = 0; i < e->split.n_pieces; i++) {
        api_explained *p = e->pieces ? &e->pieces[i] : NULL;
        for (uint32_t k = 0; p && k < p->n_bodies; k++) graph_done(&p->bodies[k]);
        if (e->lowered) api_lowered_done(&e->lowered[i]);
        if (!p) continue;
        base_free(p->bodies);
        if (p->fusion.arena) pass_fusion_done(&p->fusion);
        ir_graph_free(p->after);
        json_decref(p->attention);
    }
    base_free(e->lowered);
    base_free(e->pieces);
    split_done(&e->split);
    ir_graph_free(e->apart);
    ir_graph_free(e->made);
    base_free(e->symbols);
}

static void done(api_explainer *x) {
    plan_free(x->whole.plan);
    graph_done(&x->whole);
    ir_graph_free(x->lowered);
    json_decref(x->spans);
}

static int append(const char *text, size_t n, void *user) {
    base_buf_add(user, text, n);
    return 0;
}

static rp_status give(const api_explainer *x, char **out) {
    base_buf b;
    json_t *o = api_explain_json(x);
    base_buf_init(&b, 0);
    int failed = !o || json_dump_callback(o, append, &b, JSON_COMPACT) != 0;
    json_decref(o);
    base_buf_putc(&b, 0);
    rp_status st = failed ? rp_fail(x->err, RP_NOMEM, "explain") : base_buf_status(&b, x->err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}

rp_status rp_graph_explain(const rp_graph *g, rp_compilation_config *config, const char *sizes,
                           char **out, rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    rp_compilation_config *own = NULL;
    RP_TRY(api_graph_ready(g, err));
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    RP_TRY(ir_verify(trace_graph_ir(g), err));
    api_explainer x = {.whole.g = trace_graph_ir(g), .config = config, .err = err};
    x.began = base_now_ns();
    if (!config) x.config = own = rp_config_new();
    if (!x.config) return rp_fail(err, RP_NOMEM, "configuration");
    if (own) RP_TRY_OUT(rp_config_set(own, "level=2", err));
    RP_TRY_OUT(prepare(&x, sizes));
    RP_TRY_OUT(explain_graph(&x, &x.whole));
    RP_TRY_OUT(give(&x, out));
out:
    done(&x);
    rp_config_free(own);
    return st;
}
