/* What the writer of ONNX models and its operators share. */
#ifndef BACKEND_ONNX_WRITE_H
#define BACKEND_ONNX_WRITE_H

#include "backend/onnx.h"
#include "backend/wire.h"

/* Of a value in the model. */
typedef struct onnx_name {
    char z[24];
} onnx_name;

typedef struct onnx_attr {
    const char *name;
    int64_t i;
    const int64_t *ints; /* NULL: i */
    uint32_t n;
} onnx_attr;

typedef struct onnx_writer {
    const rp_graph *g;
    bool narrow; /* as backend_onnx_write has it */
    uint32_t at; /* the node that is written, and what it is */
    rp_node node;
    base_buf nodes, leaves; /* of the model's graph */
    base_buf message, inner;
    uint32_t n_temps;
    backend_model *out;
    rp_error *err;
} onnx_writer;

/* w->node has no form, for this reason. */
rp_status onnx_refuse(onnx_writer *w, const char *why) RP_MUST_USE;
/* The value of a node; another one. */
onnx_name onnx_value(uint32_t node);
onnx_name onnx_temp(onnx_writer *w);
void onnx_op(onnx_writer *w, const char *op, const onnx_name *in, uint32_t n_in, onnx_name out,
             const onnx_attr *attr, uint32_t n_attrs);
onnx_name onnx_cast(onnx_writer *w, onnx_name x, rp_dtype to);
onnx_name onnx_constant(onnx_writer *w, rp_dtype t, const int64_t *dim, uint32_t rank,
                        const void *data, size_t bytes);
/* i64[n] of numbers, of sizes, each with `plus`; a size as i64[]. */
onnx_name onnx_ints(onnx_writer *w, const int64_t *v, uint32_t n);
onnx_name onnx_sizes(onnx_writer *w, const rp_dim *dim, uint32_t n, int64_t plus);
onnx_name onnx_scalar(onnx_writer *w, rp_dim dim, int64_t plus);

/* onnx_ops.c: the operators of w->node. */
rp_status onnx_node(onnx_writer *w) RP_MUST_USE;

#endif
