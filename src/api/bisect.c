/* The search for a wrong kernel: the pieces, of each the values, then the kernels alone. What is found is made smaller (bisect_reduce.c)
 * and told (bisect_report.c). */
#include "api/bisect.h"

#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/status.h"
#include "compile/skips.h"
#include "config/config.h"
#include "hal/hal.h"
#include "pass/fuse.h"
#include "pass/inplace.h"
#include "split/split.h"
#include "target/target.h"

void api_wrong_done(api_wrong *w) {
    ir_graph_free(w->graph);
    base_free(w->from);
    base_free(w->sizes);
    *w = (api_wrong){0};
}

/* --- one run ----------------------------------------------------------------------- */

rp_status api_search_run(api_search *s, const ir_graph *g, const char *sizes, api_difference *out,
                         rp_error *err) {
    api_trial t = {0};
    api_values want = {0}, got = {0};
    rp_status st = RP_OK;
    *out = (api_difference){0};
    if (s->o.wanted && !s->o.wanted(s->o.user, s->runs))
        return rp_fail(err, RP_CANCELLED, "stopped after %u runs", s->runs);
    RP_TRY_OUT(api_trial_init(&t, g, sizes, s->o.seed, err));
    RP_TRY_OUT(api_trial_interpret(&t, NULL, &want, err));
    s->runs++;
    RP_TRY_OUT(api_trial_compiled(&t, s->device, s->config, &got, err));
    RP_TRY_OUT(api_difference_find(&t, &want, &got, out, err));
out:
    api_values_done(&want);
    api_values_done(&got);
    api_trial_done(&t);
    return st;
}

/* --- where to begin ------------------------------------------------------------------- */

static bool is_output(const ir_graph *g, ir_ref r) {
    bool output = false;
    for (uint32_t i = 0; i < ir_output_count(g); i++) output = output || ir_output_at(g, i) == r;
    return output;
}

/* Nodes whose values are looked at: all that can be, or those of the graph alone. What writes is done in any case. */
static void list_roots(const ir_graph *g, bool all, api_part *p) {
    p->n_roots = 0;
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        bool effect = ir_node_is_effect(n), root = is_output(g, r);
        if (effect || root || (all && api_part_can_return(g, r))) p->roots[p->n_roots++] = r;
    }
}

/* The root whose value was wrong; IR_NONE: it is memory. */
static ir_ref wrong_root(const api_wrong *w) {
    if (w->worst.value >= ir_output_count(w->graph)) return IR_NONE;
    return w->from[ir_output_at(w->graph, w->worst.value)];
}

/* With every value as an output the first wrong one is seen at once, if it is wrong where nothing is fused; else the first wrong
 * output of the graph. p is left with the roots of *w. */
static rp_status begin(api_search *s, api_part *p, api_wrong *w, rp_error *err) {
    for (int all = 1; all >= 0 && !w->graph; all--) {
        bool wrong = false;
        list_roots(s->g, all, p);
        RP_TRY(api_search_part(s, p, w, &wrong, err));
        ir_ref first = wrong ? wrong_root(w) : IR_NONE;
        if (first == IR_NONE) continue;
        uint32_t n = p->n_roots;
        ir_ref keep = p->roots[0];
        p->roots[0] = first;
        p->n_roots = 1;
        RP_TRY(api_search_part(s, p, w, &wrong, err));
        if (wrong) continue;
        p->roots[0] = keep;
        p->n_roots = n;
    }
    return RP_OK;
}

/* One kernel alone: its members, on inputs of its own. */
static rp_status try_group(api_search *s, api_part *p, const pass_fusion *f, uint32_t group,
                           api_wrong *w, rp_error *err) {
    bool wrong = false;
    p->n_roots = 0;
    for (ir_ref r = 0; r < ir_graph_count(p->g); r++) {
        bool member = f->group_of[r] == group;
        p->cut[r] = !member && api_part_can_cut(p->g, r) && f->group_of[r] != UINT32_MAX;
        if (member && (f->stored[r] || ir_node_is_effect(ir_node_at(p->g, r))))
            p->roots[p->n_roots++] = r;
    }
    return p->n_roots ? api_search_part(s, p, w, &wrong, err) : RP_OK;
}

/* Kernels of s->g, which has been through the passes, in order, until one is wrong: a fault that is small beside what everything before it
 * may be off by shows on inputs that are equal. */
static rp_status try_kernels(api_search *s, const pass_options *o, api_part *p, api_wrong *w,
                             rp_error *err) {
    pass_fusion f = {0};
    RP_TRY(pass_fuse(p->g, o, &f, err));
    rp_status st = RP_OK;
    for (uint32_t i = 0; i < f.n_groups && st == RP_OK && !w->graph; i++)
        st = try_group(s, p, &f, i, w, err);
    pass_fusion_done(&f);
    return st;
}

/* kernels: g has been through the passes, with o, and its kernels are what to look at. *w is empty where nothing is wrong. */
static rp_status search(api_search *s, const ir_graph *g, const pass_options *kernels, api_wrong *w,
                        rp_error *err) {
    uint32_t n = ir_graph_count(g);
    rp_status st = RP_OK;
    api_part p = {.g = g};
    s->g = g;
    s->sizes = base_alloc_array(ir_dims_symbol_count(ir_graph_dims(g)) + 1u, sizeof *s->sizes);
    p.cut = base_alloc_array(n + 1u, sizeof *p.cut);
    p.roots = base_alloc_array(n + 1u, sizeof *p.roots);
    if (!s->sizes || !p.cut || !p.roots) {
        st = rp_fail(err, RP_NOMEM, "bisect");
        goto out;
    }
    RP_TRY_OUT(api_sizes(g, s->o.sizes, s->sizes, err));
    if (kernels)
        RP_TRY_OUT(try_kernels(s, kernels, &p, w, err));
    else
        RP_TRY_OUT(begin(s, &p, w, err));
    if (w->graph) RP_TRY_OUT(api_search_reduce(s, &p, w, err));
out:
    base_free(p.cut);
    base_free(p.roots);
    return st;
}

/* --- pieces ----------------------------------------------------------------------------- */

static rp_status search_graph(api_search *s, const ir_graph *g, rp_bisection *b, rp_error *err);

/* What b says is of graph i of node r of s->g. */
static rp_status put_body(const api_search *s, ir_ref r, uint32_t i, rp_bisection *b,
                          rp_error *err) {
    const ir_node *n = ir_node_at(s->g, r);
    const char *deeper = b->info.body;
    base_buf t;
    base_buf_init(&t, 0);
    base_buf_printf(&t, "%s @%s of ", ir_graph_role(n->op, i), ir_graph_name(ir_node_graph(n, i)));
    ir_print_line(s->g, r, &t);
    if (*deeper) base_buf_printf(&t, ", %s", deeper);
    rp_status st = base_buf_status(&t, err);
    if (st == RP_OK && !(b->info.body = base_arena_strn(b->arena, t.data, t.len)))
        st = rp_fail(err, RP_NOMEM, "bisect");
    base_buf_done(&t);
    return st;
}

/* Graph i of node r, on inputs of its own. Where it shows no fault alone, or has no sizes that inputs tell, b stays as it is. */
static rp_status search_body(api_search *s, ir_ref r, uint32_t i, rp_bisection *b, bool *found,
                             rp_error *err) {
    const ir_graph *f = ir_node_graph(ir_node_at(s->g, r), i);
    api_search own = *s;
    rp_error why = {0};
    char *sizes = NULL;
    RP_TRY(api_search_sizes(s, f, &sizes, err));
    own.o.sizes = sizes;
    own.sizes = NULL;
    b->info.differs = false;
    rp_status st = search_graph(&own, f, b, &why);
    *found = st == RP_OK && b->info.differs;
    b->info.differs = true;
    s->runs = own.runs;
    s->cut_short = own.cut_short;
    base_free(sizes);
    if (st == RP_NOMEM || st == RP_CANCELLED) return rp_fail(err, st, "%s", why.text);
    return *found ? put_body(s, r, i, b, err) : RP_OK;
}

/* A wrong node that runs graphs: b tells of the first that is wrong by itself. */
static rp_status search_bodies(api_search *s, ir_ref r, rp_bisection *b, rp_error *err) {
    bool found = false;
    if (ir_node_at(s->g, r)->op == IR_result) r = ir_node_at(s->g, r)->in[0];
    for (uint32_t i = 0; !found && ir_node_graph(ir_node_at(s->g, r), i); i++)
        RP_TRY(search_body(s, r, i, b, &found, err));
    return RP_OK;
}

static rp_status report(api_search *s, const ir_graph *g, const pass_options *kernels,
                        rp_bisection *b, rp_error *err) {
    api_wrong w = {0};
    rp_status st = search(s, g, kernels, &w, err);
    if (st == RP_OK && w.graph) st = api_bisect_report(s, &w, b, err);
    if (st == RP_OK && w.graph) st = search_bodies(s, w.origin, b, err);
    api_wrong_done(&w);
    base_free(s->sizes);
    s->sizes = NULL;
    return st;
}

/* The graph, then its kernels one by one. */
static rp_status search_graph(api_search *s, const ir_graph *g, rp_bisection *b, rp_error *err) {
    compile_skips skips;
    ir_graph *after = NULL;
    RP_TRY(report(s, g, NULL, b, err));
    bool fused = s->config->level >= RP_LEVEL_DYNAMO_ONCE && !strstr(s->config->backend, "eager");
    if (b->info.differs || !fused) return RP_OK;
    RP_TRY(compile_skips_of(s->config, &skips, err));
    const bool gpu = s->config->device && strncmp(s->config->device, "cuda", 4) == 0;
    const uint32_t threads = hal_cpu_threads((uint32_t)s->config->threads);
    pass_splits splits;
    const pass_options o = {.skip = skips.name,
                            .n_skip = skips.n,
                            .quiet = true,
                            .splits = target_splits(gpu ? GEN_CUDA : GEN_HOST, threads, &splits)};
    RP_TRY(pass_run_all(g, &o, &after, err));
    rp_status st = report(s, after, &o, b, err);
    ir_graph_free(after);
    return st;
}

/* Sizes are those of the whole graph, for the symbols that a piece has. */
static rp_status search_piece(api_search *s, const ir_graph *whole, const ir_graph *piece,
                              const int64_t *sizes, rp_bisection *b, rp_error *err) {
    const char *given = s->o.sizes;
    char *own = NULL;
    s->g = whole;
    s->sizes = (int64_t *)(uintptr_t)sizes;
    rp_status st = api_search_sizes(s, piece, &own, err);
    s->o.sizes = own;
    s->sizes = NULL;
    if (st == RP_OK) st = search_graph(s, piece, b, err);
    s->o.sizes = given;
    base_free(own);
    return st;
}

/* Distinct pieces in order, until one is wrong. */
static rp_status search_pieces(api_search *s, const ir_graph *g, rp_bisection *b, rp_error *err) {
    const ir_graph *used = NULL;
    ir_graph *made = NULL;
    split_result pieces = {0};
    rp_status st = RP_OK;
    int64_t *sizes = base_alloc_array(ir_dims_symbol_count(ir_graph_dims(g)) + 1u, sizeof *sizes);
    if (!sizes) return rp_fail(err, RP_NOMEM, "bisect");
    RP_TRY_OUT(api_sizes(g, s->o.sizes, sizes, err));
    RP_TRY_OUT(pass_make_inplace(g, &used, &made, err));
    RP_TRY_OUT(split_graph(used, (const char *const *)s->config->splitting_ops.v,
                           (uint32_t)s->config->splitting_ops.n, &pieces, err));
    b->info.pieces = pieces.n_pieces;
    for (uint32_t i = 0; i < pieces.n_pieces && pieces.n_pieces > 1 && !b->info.differs; i++) {
        if (pieces.pieces[i].distinct != i) continue;
        RP_TRY_OUT(search_piece(s, g, pieces.pieces[i].graph, sizes, b, err));
        b->info.piece = i;
    }
out:
    split_done(&pieces);
    ir_graph_free(made);
    base_free(sizes);
    return st;
}

/* What was seen in the whole graph, where no part of it has shown it again. */
static rp_status report_whole(api_search *s, const ir_graph *g, const api_difference *seen,
                              rp_bisection *b, rp_error *err) {
    api_wrong w = {.graph = ir_graph_share(g), .worst = *seen};
    s->g = g;
    w.origin = api_wrong_node(&w);
    w.sizes = base_strdup(s->o.sizes ? s->o.sizes : "");
    rp_status st = w.sizes ? api_bisect_report(s, &w, b, err) : rp_fail(err, RP_NOMEM, "bisect");
    b->info.unreduced = true;
    api_wrong_done(&w);
    return st;
}

static rp_status search_whole(api_search *s, const ir_graph *g, rp_bisection *b, rp_error *err) {
    api_difference whole;
    RP_TRY(api_search_run(s, g, s->o.sizes, &whole, err));
    b->info.pieces = 1;
    if (s->config->splitting_ops.n) RP_TRY(search_pieces(s, g, b, err));
    bool alone = b->info.pieces == 1; /* else its parts were looked at */
    if (b->info.differs || !(alone || whole.found)) return RP_OK;
    b->info.piece = alone ? 0 : b->info.pieces;
    RP_TRY(search_graph(s, g, b, err));
    return whole.found && !b->info.differs ? report_whole(s, g, &whole, b, err) : RP_OK;
}

static rp_status bisect(api_search *s, const ir_graph *g, rp_bisection *b, rp_error *err) {
    ir_graph *fixed = NULL;
    if (api_check_sizes(g, NULL) != RP_OK) RP_TRY(api_part_fixed(g, s->o.sizes, &fixed, err));
    rp_status st = search_whole(s, fixed ? fixed : g, b, err);
    ir_graph_free(fixed);
    b->info.runs = s->runs;
    b->info.cut_short = s->cut_short;
    if (st != RP_OK || b->info.differs || !s->cut_short) return st;
    return rp_fail(err, RP_CANCELLED,
                   "no difference in %u run%s, which ended the search before every part was "
                   "looked at; allow more (max_runs, --max-runs)",
                   s->runs, s->runs == 1 ? "" : "s");
}

/* --- the call ---------------------------------------------------------------------------- */

void rp_bisection_free(rp_bisection *b) {
    if (!b) return;
    base_arena_free(b->arena);
    base_free(b);
}

rp_status rp_bisection_get_info(const rp_bisection *b, rp_bisect_info *out, rp_error *err) {
    base_error_clear(err);
    if (!b) return rp_fail(err, RP_INVALID, "rp_bisection_get_info: bisection must be given");
    return base_result_give(out, &b->info, sizeof b->info, "rp_bisect_info", err);
}

static rp_status search_open(api_search *s, rp_compilation_config *own, rp_error *err) {
    if (own) RP_TRY(rp_config_set(own, "level=2", err));
    if (s->o.max_runs == 0) s->o.max_runs = RP_BISECT_MAX_RUNS;
    if (s->o.device)
        s->device = rp_device_ref(s->o.device);
    else
        RP_TRY(rp_device_open(s->config->device, (uint32_t)s->config->threads, &s->device, err));
    return RP_OK;
}

rp_status rp_graph_bisect(const rp_graph *g, rp_compilation_config *config,
                          const rp_bisect_options *options, rp_bisection **out, rp_error *err) {
    base_error_clear(err);
    static const rp_bisect_options none = RP_BISECT_OPTIONS_INIT;
    api_search s = {.o = none, .config = config};
    rp_compilation_config *own = NULL;
    rp_bisection *b = NULL;
    rp_status st = RP_OK;
    RP_TRY(api_graph_ready(g, err));
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    if (options) RP_TRY(base_options_take(&s.o, sizeof s.o, options, "rp_bisect_options", err));
    RP_TRY(ir_verify(trace_graph_ir(g), err));
    if (!config) s.config = own = rp_config_new();
    b = base_alloc(sizeof *b);
    if (b) *b = (rp_bisection){.arena = base_arena_new(), .info = RP_BISECT_INFO_INIT};
    if (!b || !b->arena || !s.config) {
        st = rp_fail(err, RP_NOMEM, "bisect");
        goto out;
    }
    RP_TRY_OUT(search_open(&s, own, err));
    RP_TRY_OUT(bisect(&s, trace_graph_ir(g), b, err));
    *out = b;
    b = NULL;
out:
    rp_bisection_free(b);
    rp_device_close(s.device);
    rp_config_free(own);
    return st;
}
