/* What compiling makes of a graph: every stage is made, and measured, but for the compiler of the host or device, which is not run. */
#include "api/explain.h"

#include <stdio.h>
#include <string.h>

#include "api/compiled.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "compile/tune.h"
#include "config/config.h"
#include "engine/isa.h"
#include "pass/inplace.h"
#include "reprise/explain.h"

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

static rp_status lower_piece_of(api_explainer *x, uint32_t i) {
    const pass_options o = {.skip = x->skips.name, .n_skip = x->skips.n, .quiet = true};
    bool built_in = false;
    RP_TRY(compile_built_in(x->config, &built_in, x->err));
    const lower_options lo = {.isa = x->isa,
                              .target = x->target,
                              .exact = engine_isa_exact(x->config, ""),
                              .built_in = built_in,
                              .passes = &o,
                              .sites = true};
    api_explained *e = &x->pieces[i];
    int64_t began = base_now_ns();
    if (x->backend != &compile_eager) {
        RP_TRY(pass_fuse(e->after, &o, &e->fusion, x->err));
        api_explain_span(x, "fuse", began);
        began = base_now_ns();
    }
    RP_TRY(x->backend->lower(e->after, &lo, &x->lowered[i].piece, x->err));
    api_explain_span(x, "lower and generate", began);
    RP_TRY(api_own_functions(&x->lowered[i], x->isa, x->err));
    const api_inner how = {.backend = x->backend,
                           .lower = &lo,
                           .isa = x->isa,
                           .splitting_ops = (const char *const *)x->config->splitting_ops.v,
                           .n_splitting_ops = (uint32_t)x->config->splitting_ops.n};
    return api_inner_plans(&x->lowered[i], &how, x->err);
}

static rp_status explain_piece(api_explainer *x, uint32_t i) {
    char name[32];
    int64_t began = base_now_ns();
    (void)snprintf(name, sizeof name, "submod_%u", x->split.pieces[i].submod);
    x->depth++;
    x->now = &x->pieces[i];
    rp_status st = run_passes(x, &x->split.pieces[i], &x->pieces[i].after);
    if (st == RP_OK) st = ir_print_string(x->pieces[i].after, &x->pieces[i].text, x->err);
    if (st == RP_OK) st = lower_piece_of(x, i);
    x->depth--;
    api_explain_span(x, name, began);
    return st;
}

static rp_status explain_pieces(api_explainer *x) {
    int64_t began = base_now_ns();
    RP_TRY(pass_make_inplace(x->g, &x->used, &x->made, x->err));
    RP_TRY(split_graph(x->used, (const char *const *)x->config->splitting_ops.v,
                       (uint32_t)x->config->splitting_ops.n, &x->split, x->err));
    api_explain_span(x, "split", began);
    x->lowered = base_alloc_array(x->split.n_pieces + 1u, sizeof *x->lowered);
    x->pieces = base_alloc_array(x->split.n_pieces + 1u, sizeof *x->pieces);
    if (!x->lowered || !x->pieces) return rp_fail(x->err, RP_NOMEM, "pieces");
    for (uint32_t i = 0; i < x->split.n_pieces; i++)
        if (x->split.pieces[i].distinct == i) RP_TRY(explain_piece(x, i));
    began = base_now_ns();
    RP_TRY(compile_assemble(x->used, ir_graph_dims(x->g), &x->split, x->lowered, &x->plan, x->err));
    api_explain_span(x, "assemble the plan", began);
    return RP_OK;
}

/* --- the call -------------------------------------------------------------------------- */

static rp_status prepare(api_explainer *x, const char *sizes) {
    rp_compilation_config *c = x->config;
    RP_TRY(api_resolve(x->g, c, x->err));
    bool gpu = c->device && strncmp(c->device, "cuda", 4) == 0;
    bool eager = strcmp(c->backend, "eager") == 0;
    x->symbols =
        base_alloc_array(ir_dims_symbol_count(ir_graph_dims(x->g)) + 1u, sizeof *x->symbols);
    x->spans = json_array();
    if (!x->symbols || !x->spans) return rp_fail(x->err, RP_NOMEM, "explain");
    RP_TRY(api_sizes(x->g, sizes, x->symbols, x->err));
    RP_TRY(engine_isa_choose(c, &x->isa, x->err));
    RP_TRY(compile_skips_of(c, &x->skips, x->err));
    x->target = gpu ? GEN_CUDA : GEN_HOST;
    x->backend = gpu ? &compile_cuda : eager ? &compile_eager : &compile_inductor;
    return RP_OK;
}

static void done(api_explainer *x) {
    for (uint32_t i = 0; i < x->split.n_pieces; i++) {
        if (x->lowered) api_lowered_done(&x->lowered[i]);
        if (!x->pieces) continue;
        if (x->pieces[i].fusion.arena) pass_fusion_done(&x->pieces[i].fusion);
        ir_graph_free(x->pieces[i].after);
        base_free(x->pieces[i].text);
        json_decref(x->pieces[i].attention);
    }
    plan_free(x->plan);
    base_free(x->lowered);
    base_free(x->pieces);
    split_done(&x->split);
    ir_graph_free(x->made);
    base_free(x->symbols);
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
    api_explainer x = {.g = trace_graph_ir(g), .config = config, .err = err};
    x.began = base_now_ns();
    if (!config) x.config = own = rp_config_new();
    if (!x.config) return rp_fail(err, RP_NOMEM, "configuration");
    if (own) RP_TRY_OUT(rp_config_set(own, "level=2", err));
    RP_TRY_OUT(prepare(&x, sizes));
    RP_TRY_OUT(explain_pieces(&x));
    RP_TRY_OUT(give(&x, out));
out:
    done(&x);
    rp_config_free(own);
    return st;
}
