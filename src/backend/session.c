/* A graph as a loaded model: sizes that are symbols are computed here at each call, and go in as its last inputs. */
#include "backend/session.h"

#include <dlfcn.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/status.h"

typedef struct session {
    const backend_library *by;
    const rp_graph *g;
    backend_model model; /* its text is gone */
    void *loaded;
    int64_t *symbols, *sizes; /* sizes: RP_MAX_RANK for each vector */
    rp_buffer *in;            /* of the graph, and the vectors */
    uint32_t n_in;            /* of the graph */
} session;

static void session_free(void *self) {
    session *s = self;
    if (s->loaded) s->by->unload(s->loaded);
    backend_onnx_done(&s->model);
    base_free(s->symbols);
    base_free(s->sizes);
    base_free(s->in);
    base_free(s);
}

static rp_status session_run(void *self, const rp_buffer *in, uint32_t n_in, rp_buffer *out,
                             uint32_t n_out, rp_error *err) {
    session *s = self;
    if (s->model.n_sizes) RP_TRY(rp_graph_read_symbols(s->g, in, n_in, s->symbols, err));
    for (uint32_t i = 0; i < n_in; i++) s->in[i] = in[i];
    for (uint32_t i = 0; i < s->model.n_sizes; i++) {
        const backend_sizes *v = &s->model.sizes[i];
        int64_t *at = s->sizes + (size_t)i * RP_MAX_RANK;
        for (uint32_t d = 0; d < v->n; d++) at[d] = rp_dim_eval(v->dim[d], s->symbols) + v->plus;
        s->in[n_in + i] = (rp_buffer){RP_DTYPE_I64, 1, {v->n}, at};
    }
    return s->by->run(s->loaded, s->in, n_in + s->model.n_sizes, out, n_out, err);
}

static rp_status make_room(session *s, rp_error *err) {
    uint32_t n = s->model.n_sizes;
    s->n_in = rp_graph_count(s->g, RP_GRAPH_INPUTS);
    s->symbols = base_alloc_array(rp_graph_symbol_count(s->g) + 1u, sizeof *s->symbols);
    s->sizes = base_alloc_array((size_t)n * RP_MAX_RANK + 1u, sizeof *s->sizes);
    s->in = base_alloc_array((size_t)s->n_in + n + 1u, sizeof *s->in);
    return s->symbols && s->sizes && s->in ? RP_OK : rp_fail(err, RP_NOMEM, "a loaded model");
}

rp_status backend_session_ready(void *library, rp_error *err) {
    const backend_library *by = library;
    return by->ready(err);
}

rp_status backend_session_compile(void *library, const rp_graph *g,
                                  const rp_backend_options *options, rp_callable *out,
                                  rp_error *err) {
    rp_status st = RP_OK;
    session *s = base_alloc(sizeof *s);
    if (!s) return rp_fail(err, RP_NOMEM, "a loaded model");
    *s = (session){.by = library, .g = g};
    RP_TRY_OUT(backend_onnx_write(g, s->by->narrow, &s->model, err));
    RP_TRY_OUT(make_room(s, err));
    RP_TRY_OUT(s->by->load(&s->model, options->threads, &s->loaded, err));
    base_free(s->model.data);
    s->model.data = NULL;
    *out = (rp_callable){.run = session_run, .free = session_free, .self = s};
    s = NULL;
out:
    if (s) session_free(s);
    return st;
}

rp_status backend_session_supports(void *library, const rp_graph *g, uint32_t i, rp_error *err) {
    const backend_library *by = library;
    return backend_onnx_takes(g, i, by->narrow, err);
}

/* --- for libraries ---------------------------------------------------------------------------------- */

rp_status backend_library_open(const char *chosen, const char *const *names, void **out,
                               rp_error *err) {
    void *lib = NULL;
    if (chosen) {
        lib = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
        const char *why = lib ? NULL : dlerror();
        if (!lib)
            return rp_fail(err, RP_UNSUPPORTED, "%s cannot be loaded: %s", chosen,
                           why ? why : "no reason is given");
    }
    for (size_t i = 0; !lib && names[i]; i++) lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) return rp_fail(err, RP_UNSUPPORTED, "there is no %s on this machine", names[0]);
    *out = lib;
    return RP_OK;
}

void backend_port_name(const char *kind, uint32_t i, char out[16]) {
    (void)snprintf(out, 16, "%s%u", kind, i);
}

size_t backend_bytes(const rp_buffer *b) {
    size_t n = rp_dtype_block_bytes(b->dtype);
    for (uint32_t d = 0; d < b->rank; d++) n *= (size_t)b->dim[d];
    return n;
}
