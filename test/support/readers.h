/* A backend of tests: evaluates a graph by what node.h tells of it, and notes what it was asked. It takes f32 tensors of rank 0 and 1, and
 * few ops. */
#ifndef SUPPORT_READERS_H
#define SUPPORT_READERS_H

#include "support/check.h"

#include <math.h>

#include "reprise/reprise.h"

typedef struct reader {
    int compiles, runs, frees; /* times */
    bool broken;               /* compiling fails */
    bool failing;              /* calls fail */
    bool absent;               /* it is not there */
    const char *reason;        /* of failures; NULL: none */
    char last[64];             /* the graph that was compiled last */
    uint32_t nodes;            /* of it */
} reader;

typedef struct reading {
    reader *by;
    const rp_graph *g;
} reading;

static inline rp_status reader_fails(const reader *r, rp_status st, rp_error *err) {
    err->code = st;
    (void)snprintf(err->text, sizeof err->text, "%s", r->reason ? r->reason : "");
    return st;
}

static inline rp_node reader_node(const rp_graph *g, uint32_t i) {
    rp_error err = {0};
    rp_node n = RP_NODE_INIT;
    CHECK_OK(rp_graph_node(g, i, &n, &err), &err);
    return n;
}

static inline rp_attr reader_attr(const rp_graph *g, uint32_t i, const char *key) {
    rp_error err = {0};
    rp_attr a = RP_ATTR_INIT;
    CHECK_OK(rp_node_attr(g, i, key, &a, &err), &err);
    return a;
}

/* Element at of node i. sizes: of the symbols. */
static inline float reader_value(const rp_graph *g, uint32_t i, const rp_buffer *in,
                                 const int64_t *sizes, int64_t at) {
    rp_node n = reader_node(g, i);
    if (n.shape.rank == 0) at = 0;
    if (strcmp(n.op, "const") == 0) return (float)reader_attr(g, i, "value").f;
    if (strcmp(n.op, "slice") == 0)
        return reader_value(g, n.in[0], in, sizes,
                            at + rp_dim_eval(reader_attr(g, i, "start").dim[0], sizes));
    for (uint32_t k = 0; n.n_in == 0; k++)
        if (rp_graph_at(g, RP_GRAPH_INPUTS, k) == i) return ((const float *)in[k].data)[at];
    float a = reader_value(g, n.in[0], in, sizes, at);
    float b = n.n_in > 1 ? reader_value(g, n.in[1], in, sizes, at) : 0;
    if (strcmp(n.op, "add") == 0) return a + b;
    return strcmp(n.op, "mul") == 0 ? a * b : -a;
}

static inline rp_status reader_run(void *self, const rp_buffer *in, uint32_t n_in, rp_buffer *out,
                                   uint32_t n_out, rp_error *err) {
    reading *r = self;
    int64_t sizes[32];
    r->by->runs++;
    if (r->by->failing) return reader_fails(r->by, RP_DEVICE, err);
    assert_int_equal(n_out, rp_graph_count(r->g, RP_GRAPH_OUTPUTS));
    CHECK_OK(rp_graph_read_symbols(r->g, in, n_in, sizes, err), err);
    for (uint32_t o = 0; o < n_out; o++)
        for (int64_t i = 0; i < (out[o].rank ? out[o].dim[0] : 1); i++)
            ((float *)out[o].data)[i] =
                reader_value(r->g, rp_graph_at(r->g, RP_GRAPH_OUTPUTS, o), in, sizes, i);
    return RP_OK;
}

static inline void reader_free(void *self) {
    reading *r = self;
    r->by->frees++;
    free(r);
}

static inline bool reader_knows(const rp_node *n) {
    static const char *const known[] = {"input", "const", "add", "mul", "neg", "slice"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(n->op, known[i]) == 0) return n->dtype == RP_DTYPE_F32 && n->shape.rank < 2;
    return false;
}

static inline rp_status reader_compile(void *user, const rp_graph *g,
                                       const rp_backend_options *options, rp_callable *out,
                                       rp_error *err) {
    reader *r = user;
    r->compiles++;
    assert_true(options->size == sizeof *options && options->threads > 0);
    r->nodes = rp_graph_count(g, RP_GRAPH_NODES);
    (void)snprintf(r->last, sizeof r->last, "%s", rp_graph_name(g));
    if (r->broken) return reader_fails(r, RP_INTERNAL, err);
    for (uint32_t i = 0; i < r->nodes; i++) {
        rp_node n = reader_node(g, i);
        if (reader_knows(&n)) continue;
        err->code = RP_UNSUPPORTED;
        (void)snprintf(err->text, sizeof err->text, "no %s here", n.op);
        return RP_UNSUPPORTED;
    }
    reading *self = malloc(sizeof *self);
    assert_non_null(self);
    *self = (reading){r, g};
    *out = (rp_callable){reader_run, reader_free, self};
    return RP_OK;
}

static inline rp_status reader_ready(void *user, rp_error *err) {
    const reader *r = user;
    return r->absent ? reader_fails(r, RP_UNSUPPORTED, err) : RP_OK;
}

#endif
