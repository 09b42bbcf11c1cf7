/* Graph to ONNX (github.com/onnx/onnx, onnx.proto and Operators.md; opset 17). Each node becomes one operator or a few, its value is v<number>. Sizes that are symbols
 * come as inputs, so that one model serves all calls. */
#include "backend/onnx.h"

#include <stdio.h>
#include <string.h>

#include "backend/onnx_write.h"
#include "base/alloc.h"

enum { IR_VERSION = 8, OPSET = 17 };

int backend_onnx_type(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_F32: return 1;
    case RP_DTYPE_U8: return 2;
    case RP_DTYPE_I8: return 3;
    case RP_DTYPE_I16: return 5;
    case RP_DTYPE_I32: return 6;
    case RP_DTYPE_I64: return 7;
    case RP_DTYPE_BOOL: return 9;
    case RP_DTYPE_F16: return 10;
    case RP_DTYPE_F64: return 11;
    case RP_DTYPE_BF16: return 16;
    default: return 0;
    }
}

rp_status onnx_refuse(onnx_writer *w, const char *why) {
    const rp_node *n = &w->node;
    return rp_fail(w->err, RP_UNSUPPORTED, "%s of %s: %s", n->op, rp_dtype_name(n->dtype), why);
}

onnx_name onnx_value(uint32_t node) {
    onnx_name x;
    (void)snprintf(x.z, sizeof x.z, "v%u", node);
    return x;
}

onnx_name onnx_temp(onnx_writer *w) {
    onnx_name x;
    (void)snprintf(x.z, sizeof x.z, "t%u", w->n_temps++);
    return x;
}

/* --- operators ---------------------------------------------------------------------------------- */

static void put_attr(onnx_writer *w, const onnx_attr *a) {
    enum { NAME = 1, INT = 3, INTS = 8, TYPE = 20, IS_INT = 2, IS_INTS = 7 };
    backend_wire_text(&w->inner, NAME, a->name);
    if (a->ints)
        for (uint32_t i = 0; i < a->n; i++) backend_wire_int(&w->inner, INTS, a->ints[i]);
    else
        backend_wire_int(&w->inner, INT, a->i);
    backend_wire_int(&w->inner, TYPE, a->ints ? IS_INTS : IS_INT);
}

void onnx_op(onnx_writer *w, const char *op, const onnx_name *in, uint32_t n_in, onnx_name out,
             const onnx_attr *attr, uint32_t n_attrs) {
    enum { INPUT = 1, OUTPUT = 2, OP_TYPE = 4, ATTRIBUTE = 5, GRAPH_NODE = 1 };
    base_buf_clear(&w->message);
    for (uint32_t i = 0; i < n_in; i++) backend_wire_text(&w->message, INPUT, in[i].z);
    backend_wire_text(&w->message, OUTPUT, out.z);
    backend_wire_text(&w->message, OP_TYPE, op);
    for (uint32_t i = 0; i < n_attrs; i++) {
        put_attr(w, &attr[i]);
        backend_wire_message(&w->message, ATTRIBUTE, &w->inner);
    }
    backend_wire_message(&w->nodes, GRAPH_NODE, &w->message);
}

onnx_name onnx_cast(onnx_writer *w, onnx_name x, rp_dtype to) {
    onnx_name out = onnx_temp(w);
    onnx_op(w, "Cast", &x, 1, out, &(onnx_attr){.name = "to", .i = backend_onnx_type(to)}, 1);
    return out;
}

/* --- constants and sizes ---------------------------------------------------------------------------- */

onnx_name onnx_constant(onnx_writer *w, rp_dtype t, const int64_t *dim, uint32_t rank,
                        const void *data, size_t bytes) {
    enum { DIMS = 1, DATA_TYPE = 2, NAME = 8, RAW_DATA = 9, INITIALIZER = 5 };
    onnx_name x = onnx_temp(w);
    base_buf_clear(&w->message);
    for (uint32_t i = 0; i < rank; i++) backend_wire_int(&w->message, DIMS, dim[i]);
    backend_wire_int(&w->message, DATA_TYPE, backend_onnx_type(t));
    backend_wire_text(&w->message, NAME, x.z);
    backend_wire_bytes(&w->message, RAW_DATA, data, bytes);
    backend_wire_message(&w->leaves, INITIALIZER, &w->message);
    return x;
}

onnx_name onnx_ints(onnx_writer *w, const int64_t *v, uint32_t n) {
    const int64_t dim = n;
    return onnx_constant(w, RP_DTYPE_I64, &dim, 1, v, n * sizeof *v);
}

/* An entry of a graph's inputs or outputs. dim NULL: its shape is not told. */
static void put_info(onnx_writer *w, uint32_t field, const char *name, rp_dtype t,
                     const rp_dim *dim, uint32_t rank) {
    enum { INFO_NAME = 1, INFO_TYPE = 2, TENSOR = 1, ELEMENT = 1, SHAPE = 2, DIM = 1, VALUE = 1 };
    enum { PARAM = 2 };
    base_buf shape, tensor;
    base_buf_init(&shape, 0);
    base_buf_init(&tensor, 0);
    for (uint32_t i = 0; dim && i < rank; i++) {
        int64_t n;
        char symbol[32];
        (void)snprintf(symbol, sizeof symbol, "d%lld",
                       (long long)dim[i].n); /* equal sizes: equal */
        if (rp_dim_is_const(dim[i], &n))
            backend_wire_int(&w->inner, VALUE, n);
        else
            backend_wire_text(&w->inner, PARAM, symbol);
        backend_wire_message(&shape, DIM, &w->inner);
    }
    backend_wire_int(&tensor, ELEMENT, backend_onnx_type(t));
    if (dim) backend_wire_message(&tensor, SHAPE, &shape);
    backend_wire_message(&w->inner, TENSOR, &tensor);
    base_buf_clear(&w->message);
    backend_wire_text(&w->message, INFO_NAME, name);
    backend_wire_message(&w->message, INFO_TYPE, &w->inner);
    backend_wire_message(&w->leaves, field, &w->message);
    base_buf_done(&shape);
    base_buf_done(&tensor);
}

enum { GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };

onnx_name onnx_sizes(onnx_writer *w, const rp_dim *dim, uint32_t n, int64_t plus) {
    int64_t v[RP_MAX_RANK];
    uint32_t known = 0;
    while (known < n && rp_dim_is_const(dim[known], &v[known])) v[known++] += plus;
    if (known == n) return onnx_ints(w, v, n);
    backend_sizes *s = base_realloc_array(w->out->sizes, w->out->n_sizes + 1u, sizeof *s);
    onnx_name x = {"none"};
    if (!s) {
        w->nodes.failed = true;
        return x;
    }
    w->out->sizes = s;
    s += w->out->n_sizes;
    *s = (backend_sizes){.n = n, .plus = plus};
    memcpy(s->dim, dim, n * sizeof *dim);
    const rp_dim length = rp_dim_const(n);
    (void)snprintf(x.z, sizeof x.z, "in%u",
                   rp_graph_count(w->g, RP_GRAPH_INPUTS) + w->out->n_sizes++);
    put_info(w, GRAPH_INPUT, x.z, RP_DTYPE_I64, &length, 1);
    return x;
}

onnx_name onnx_scalar(onnx_writer *w, rp_dim dim, int64_t plus) {
    onnx_name in[] = {onnx_sizes(w, &dim, 1, plus)}, out = onnx_temp(w);
    onnx_op(w, "Squeeze", in, 1, out, NULL, 0);
    return out;
}

/* --- the model ---------------------------------------------------------------------------------------- */

static rp_status check_type(onnx_writer *w) {
    const rp_dtype t = w->node.dtype;
    if (!backend_onnx_type(t)) return onnx_refuse(w, "there is no such type");
    if (w->narrow && t == RP_DTYPE_F64) return onnx_refuse(w, "it is computed as f32 there");
    if (w->narrow && t == RP_DTYPE_I64) return onnx_refuse(w, "it is computed as i32 there");
    return RP_OK;
}

static rp_status put_inputs(onnx_writer *w) {
    for (uint32_t i = 0; i < rp_graph_count(w->g, RP_GRAPH_INPUTS); i++) {
        uint32_t node = rp_graph_at(w->g, RP_GRAPH_INPUTS, i);
        onnx_name in;
        RP_TRY(rp_graph_node(w->g, node, &w->node, w->err));
        if (w->node.mutates) return onnx_refuse(w, "models write no input");
        RP_TRY(check_type(w));
        (void)snprintf(in.z, sizeof in.z, "in%u", i);
        put_info(w, GRAPH_INPUT, in.z, w->node.dtype, w->node.shape.dim, w->node.shape.rank);
        onnx_op(w, "Identity", &in, 1, onnx_value(node), NULL, 0);
    }
    return RP_OK;
}

static rp_status put_nodes(onnx_writer *w) {
    for (uint32_t i = 0; i < rp_graph_count(w->g, RP_GRAPH_NODES); i++) {
        w->at = i;
        RP_TRY(rp_graph_node(w->g, i, &w->node, w->err));
        if (strcmp(w->node.op, "input") == 0) continue;
        RP_TRY(check_type(w));
        RP_TRY(onnx_node(w));
    }
    return RP_OK;
}

static rp_status put_outputs(onnx_writer *w) {
    if (rp_graph_count(w->g, RP_GRAPH_OUTPUTS) == 0)
        return rp_fail(w->err, RP_UNSUPPORTED, "it gives nothing");
    for (uint32_t i = 0; i < rp_graph_count(w->g, RP_GRAPH_OUTPUTS); i++) {
        uint32_t node = rp_graph_at(w->g, RP_GRAPH_OUTPUTS, i);
        onnx_name out, from = onnx_value(node);
        RP_TRY(rp_graph_node(w->g, node, &w->node, w->err));
        (void)snprintf(out.z, sizeof out.z, "out%u", i);
        onnx_op(w, "Identity", &from, 1, out, NULL, 0);
        put_info(w, GRAPH_OUTPUT, out.z, w->node.dtype, w->node.shape.dim, w->node.shape.rank);
    }
    return RP_OK;
}

static void put_model(onnx_writer *w, base_buf *model) {
    enum { GRAPH_NAME = 2, VERSION = 1, OPSETS = 8, PRODUCER = 2, GRAPH = 7, OPSET_VERSION = 2 };
    backend_wire_text(&w->leaves, GRAPH_NAME, rp_graph_name(w->g));
    backend_wire_int(model, VERSION, IR_VERSION);
    backend_wire_text(model, PRODUCER, "reprise");
    base_buf_clear(&w->message);
    backend_wire_int(&w->message, OPSET_VERSION, OPSET);
    backend_wire_message(model, OPSETS, &w->message);
    base_buf_add(&w->nodes, w->leaves.data, w->leaves.len); /* fields come in any order */
    w->nodes.failed = w->nodes.failed || w->leaves.failed || w->inner.failed;
    backend_wire_message(model, GRAPH, &w->nodes);
}

static rp_status write_all(onnx_writer *w) {
    base_buf model;
    RP_TRY(put_inputs(w));
    RP_TRY(put_nodes(w));
    RP_TRY(put_outputs(w));
    base_buf_init(&model, 0);
    put_model(w, &model);
    rp_status st = base_buf_status(&model, w->err);
    w->out->n = model.len;
    if (st == RP_OK) w->out->data = base_buf_take(&model);
    base_buf_done(&model);
    return st;
}

/* For what is said of it. */
static rp_status write_node(onnx_writer *w, uint32_t i) {
    rp_node of = RP_NODE_INIT;
    RP_TRY(rp_graph_node(w->g, i, &of, w->err));
    for (uint32_t k = 0; k < of.n_in; k++) {
        RP_TRY(rp_graph_node(w->g, of.in[k], &w->node, w->err));
        RP_TRY(check_type(w));
    }
    w->at = i;
    w->node = of;
    RP_TRY(check_type(w));
    RP_TRY(onnx_node(w));
    return base_buf_status(&w->nodes, w->err);
}

/* A model, or with node a part of one that nobody reads. */
static rp_status write(const rp_graph *g, const uint32_t *node, bool narrow, backend_model *out,
                       rp_error *err) {
    *out = (backend_model){0};
    onnx_writer w = {.g = g, .narrow = narrow, .node = RP_NODE_INIT, .out = out, .err = err};
    base_buf *const all[] = {&w.nodes, &w.leaves, &w.message, &w.inner};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) base_buf_init(all[i], 0);
    rp_status st = node ? write_node(&w, *node) : write_all(&w);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) base_buf_done(all[i]);
    if (st != RP_OK) backend_onnx_done(out);
    return st;
}

rp_status backend_onnx_write(const rp_graph *g, bool narrow, backend_model *out, rp_error *err) {
    return write(g, NULL, narrow, out, err);
}

rp_status backend_onnx_takes(const rp_graph *g, uint32_t i, bool narrow, rp_error *err) {
    backend_model none;
    rp_status st = write(g, &i, narrow, &none, err);
    backend_onnx_done(&none);
    return st;
}

void backend_onnx_done(backend_model *m) {
    base_free(m->data);
    base_free(m->sizes);
    *m = (backend_model){0};
}
