/* Graphs that backends compile, as a whole or in pieces. They see what is left of a graph without dead nodes, and memory of the host. */
#include "api/foreign.h"

#include "api/api.h"
#include "api/handle.h"
#include "api/links.h"
#include "base/alloc.h"
#include "base/str.h"
#include "compile/assemble.h"
#include "pass/inplace.h"

enum { MOST_PIECES = 64 }; /* of a backend's, in one graph */

struct api_foreign {
    const rp_backend_desc *by;
    rp_graph *graph; /* the callable may read it */
    rp_callable callable;
    api_links *links;     /* NULL: the callable computes all */
    pthread_mutex_t turn; /* held by a call */
};

void api_foreign_free(api_foreign *f) {
    if (!f) return;
    if (f->callable.free) f->callable.free(f->callable.self);
    api_links_free(f->links);
    rp_graph_free(f->graph);
    (void)pthread_mutex_destroy(&f->turn);
    base_free(f);
}

static api_foreign *new_foreign(const rp_backend_desc *d, rp_graph *g, api_links *links) {
    api_foreign *f = base_alloc(sizeof *f);
    if (!f) return NULL;
    f->by = d;
    f->graph = g;
    f->links = links;
    (void)pthread_mutex_init(&f->turn, NULL);
    return f;
}

/* Splitting ops are inductor's, and what is between them is offered. */
static bool is_split(const rp_compilation_config *config) {
    return config->level == RP_LEVEL_PIECEWISE && config->splitting_ops.n > 0;
}

/* What no callable is given. */
static const char *out_of_reach(const rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                                const rp_compilation_config *config) {
    if (c->memory) return "it computes in memory of the host, and the device has its own";
    if (d->supports || is_split(config)) return NULL;
    if (rp_graph_count(g, RP_GRAPH_PARAMS) || rp_graph_count(g, RP_GRAPH_STATES))
        return "the graph has params or states; a backend is given inputs";
    return NULL;
}

static void set_reason(rp_compiled *c, char *reason) {
    c->reason = reason;
    c->info.reason = reason;
}

static rp_status refuse(rp_compiled *c, const rp_backend_desc *d, const char *why, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "backend=%s does not take graph @%s, which inductor compiles: %s", d->name,
                    c->p->name, why);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) set_reason(c, base_buf_take(&b));
    base_buf_done(&b);
    return st;
}

/* --- all of a graph ----------------------------------------------------------------------------- */

rp_status api_foreign_whole(rp_compiled *c, const rp_backend_desc *d, rp_graph *g, uint32_t threads,
                            const char *cache_dir, bool *refused, rp_error *err) {
    api_handle_from from = {.dir = cache_dir};
    const rp_backend_options o = {.size = sizeof o, .threads = threads};
    api_foreign *f = new_foreign(d, g, NULL);
    *refused = false;
    if (!f) {
        rp_graph_free(g);
        return rp_fail(err, RP_NOMEM, "compiled graph");
    }
    rp_status st = c->p ? RP_OK : compile_interface(trace_graph_ir(g), &c->p, err);
    if (st == RP_OK) st = api_handle_make(d, g, &o, &from, &f->callable, refused, err);
    if (st != RP_OK) {
        api_foreign_free(f);
        return st;
    }
    c->foreign = f;
    c->info = (rp_compiled_info){.size = sizeof c->info,
                                 .pieces = 1,
                                 .compiled = 1,
                                 .distinct = 1,
                                 .compiles = !from.hit,
                                 .cache_hits = from.hit,
                                 .backend = d->name,
                                 .by_backend = 1};
    return RP_OK;
}

static rp_status compile_whole(rp_compiled *c, const rp_backend_desc *d, rp_graph *g,
                               const rp_compilation_config *config, rp_error *err) {
    rp_error why = {0};
    bool refused = false;
    hal_device_info info;
    c->device->ops->info(c->device, &info);
    rp_status st = api_foreign_whole(c, d, g, info.n_threads, config->cache_dir, &refused, &why);
    if (refused) return refuse(c, d, why.text, err);
    return st == RP_OK ? RP_OK : rp_fail(err, st, "%s", why.text);
}

/* --- pieces ------------------------------------------------------------------------------------- */

static const char *first_reason(const rp_graph *g, const api_offer *o) {
    bool split = false;
    for (ir_ref r = 0; r < ir_graph_count(g->ir); r++) {
        if (o->why[r]) return o->why[r];
        split = split || o->splits[r];
    }
    return split ? "nothing beside its splitting ops is worth a call"
                 : "the graph computes nothing";
}

static rp_status offer(const rp_backend_desc *d, const rp_graph *g,
                       const rp_compilation_config *config, api_offer *out, rp_error *err) {
    const uint32_t n = is_split(config) ? (uint32_t)config->splitting_ops.n : 0;
    return api_offer_make(d, g, (const char *const *)config->splitting_ops.v, n, out, err);
}

/* g is the graph of which o speaks. */
static rp_status compile_sides(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                               const api_offer *o, rp_compilation_config *config, rp_error *err) {
    rp_status st = RP_OK;
    split_sides sides = {0};
    api_links *links = NULL;
    char *reason = NULL;
    RP_TRY(split_in_sides(g->ir, o->takes, MOST_PIECES, &sides, err));
    if (sides.n_taken == 0) {
        st = refuse(c, d, first_reason(g, o), err);
        goto out;
    }
    const api_linking linking = {
        .c = c, .by = d, .g = g, .offer = o, .sides = &sides, .config = config};
    RP_TRY_OUT(api_links_new(&linking, &links, &reason, err));
    if (!links) {
        st = refuse(c, d, reason, err);
        goto out;
    }
    c->foreign = new_foreign(d, NULL, links);
    if (!c->foreign) {
        st = rp_fail(err, RP_NOMEM, "compiled graph");
        goto out;
    }
    links = NULL;
    set_reason(c, reason);
    reason = NULL;
    hal_close(c->device); /* the links have one */
    c->device = NULL;
out:
    api_links_free(links);
    base_free(reason);
    split_sides_done(&sides);
    return st;
}

/* Of what is written a piece has one version: reads come before the writes that follow. */
static rp_status compile_in_place(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                                  api_offer *o, rp_compilation_config *config, rp_error *err) {
    const ir_graph *ir;
    ir_graph *made = NULL;
    rp_graph *own = NULL;
    RP_TRY(pass_make_inplace(g->ir, &ir, &made, err));
    if (!made) return compile_sides(c, d, g, o, config, err);
    rp_status st = trace_graph_wrap(made, &own, err);
    if (st != RP_OK) {
        ir_graph_free(made);
        return st;
    }
    own->numerics = g->numerics;
    api_offer_done(o);
    st = offer(d, own, config, o, err);
    if (st == RP_OK) st = compile_sides(c, d, own, o, config, err);
    rp_graph_free(own);
    return st;
}

/* Takes g over. */
static rp_status compile_offered(rp_compiled *c, const rp_backend_desc *d, rp_graph *g,
                                 rp_compilation_config *config, rp_error *err) {
    api_offer o = {0};
    rp_status st = backend_ready(d, err);
    if (st == RP_OK) st = offer(d, g, config, &o, err);
    if (st == RP_OK && o.all) {
        api_offer_done(&o);
        return compile_whole(c, d, g, config, err);
    }
    if (st == RP_OK) st = compile_in_place(c, d, g, &o, config, err);
    api_offer_done(&o);
    rp_graph_free(g);
    return st;
}

rp_status api_foreign_compile(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                              rp_compilation_config *config, rp_error *err) {
    rp_graph *lean = NULL;
    RP_TRY(compile_interface(trace_graph_ir(g), &c->p, err));
    const char *reason = out_of_reach(c, d, g, config);
    if (reason) return refuse(c, d, reason, err);
    RP_TRY(rp_graph_optimize(g, "dce", &lean, err));
    return d->supports || is_split(config) ? compile_offered(c, d, lean, config, err)
                                           : compile_whole(c, d, lean, config, err);
}

rp_status api_foreign_bind(rp_compiled *c, bool param, uint32_t idx, void *data, rp_error *err) {
    return c->foreign->links ? api_links_bind(c->foreign->links, param, idx, data, err) : RP_OK;
}

rp_status api_foreign_run(rp_compiled *c, const rp_buffer *inputs, rp_buffer *outputs,
                          rp_error *err) {
    const plan *p = c->p;
    api_foreign *f = c->foreign;
    int64_t few[16], *symbols = few;
    if (p->n_symbols > sizeof few / sizeof *few)
        symbols = base_alloc_array(p->n_symbols, sizeof *symbols);
    if (!symbols) return rp_fail(err, RP_NOMEM, "sizes of graph @%s", p->name);
    rp_status st = api_check_buffers(p, symbols, inputs, outputs, err);
    if (st == RP_OK) {
        (void)pthread_mutex_lock(&f->turn);
        st = f->links ? api_links_run(f->links, symbols, inputs, outputs, err)
                      : backend_run(f->by, &f->callable, inputs, p->n_inputs, outputs, p->n_outputs,
                                    err);
        (void)pthread_mutex_unlock(&f->turn);
    }
    if (symbols != few) base_free(symbols);
    return st;
}
