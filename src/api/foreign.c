/* Graphs that backends compile. They see what is left of a graph without dead nodes, and memory of the host. */
#include "api/foreign.h"

#include "api/api.h"
#include "api/handle.h"
#include "base/alloc.h"
#include "base/str.h"
#include "compile/assemble.h"

struct api_foreign {
    const rp_backend_desc *by;
    rp_graph *graph; /* the callable may read it */
    rp_callable callable;
    pthread_mutex_t turn; /* held by a call */
};

void api_foreign_free(api_foreign *f) {
    if (!f) return;
    if (f->callable.free) f->callable.free(f->callable.self);
    rp_graph_free(f->graph);
    (void)pthread_mutex_destroy(&f->turn);
    base_free(f);
}

/* What no callable is given. */
static const char *out_of_reach(const rp_compiled *c, const rp_graph *g) {
    if (c->memory) return "it computes in memory of the host, and the device has its own";
    if (rp_graph_count(g, RP_GRAPH_PARAMS) || rp_graph_count(g, RP_GRAPH_STATES))
        return "the graph has params or states; a backend is given inputs";
    return NULL;
}

static rp_status refuse(rp_compiled *c, const rp_backend_desc *d, const char *why, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "backend=%s does not take graph @%s, which inductor compiles: %s", d->name,
                    c->p->name, why);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) {
        c->reason = base_buf_take(&b);
        c->info.reason = c->reason;
    }
    base_buf_done(&b);
    return st;
}

static rp_status compile_by(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                            const char *cache_dir, bool *refused, rp_error *err) {
    api_handle_from from = {.dir = cache_dir};
    api_foreign *f = base_alloc(sizeof *f);
    if (!f) return rp_fail(err, RP_NOMEM, "compiled graph");
    hal_device_info info;
    c->device->ops->info(c->device, &info);
    rp_backend_options o = {.size = sizeof o, .threads = info.n_threads};
    f->by = d;
    (void)pthread_mutex_init(&f->turn, NULL);
    rp_status st = rp_graph_optimize(g, "dce", &f->graph, err);
    if (st == RP_OK) st = api_handle_make(d, f->graph, &o, &from, &f->callable, refused, err);
    c->info.compiles = !from.hit;
    c->info.cache_hits = from.hit;
    if (st == RP_OK)
        c->foreign = f;
    else
        api_foreign_free(f);
    return st;
}

rp_status api_foreign_compile(rp_compiled *c, const rp_backend_desc *d, const rp_graph *g,
                              const char *cache_dir, rp_error *err) {
    rp_error why = {0};
    bool refused = false;
    RP_TRY(compile_interface(trace_graph_ir(g), &c->p, err));
    const char *reason = out_of_reach(c, g);
    if (reason) return refuse(c, d, reason, err);
    rp_status st = compile_by(c, d, g, cache_dir, &refused, &why);
    if (refused) return refuse(c, d, why.text, err);
    if (st != RP_OK) return rp_fail(err, st, "%s", why.text);
    c->info.size = sizeof c->info;
    c->info.pieces = c->info.compiled = c->info.distinct = 1;
    c->info.backend = d->name;
    return RP_OK;
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
    if (symbols != few) base_free(symbols);
    RP_TRY(st);
    (void)pthread_mutex_lock(&f->turn);
    st = backend_run(f->by, &f->callable, inputs, p->n_inputs, outputs, p->n_outputs, err);
    (void)pthread_mutex_unlock(&f->turn);
    return st;
}
