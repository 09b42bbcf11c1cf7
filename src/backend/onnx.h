/* A graph as an ONNX model in memory, for libraries that read such. */
#ifndef BACKEND_ONNX_H
#define BACKEND_ONNX_H

#include "reprise/node.h"

/* A vector of sizes that are known at a call, which is an input of the model (i64[n]) behind those of the graph. */
typedef struct backend_sizes {
    uint32_t n;
    rp_dim dim[RP_MAX_RANK];
    int64_t plus; /* added to each */
} backend_sizes;

/* Inputs are called in0, in1, ..., in the order of the graph, then the sizes; outputs out0, ... */
typedef struct backend_model {
    char *data;
    size_t n;
    backend_sizes *sizes;
    uint32_t n_sizes;
} backend_model;

/* narrow: for a library that computes f64 as f32 and i64 as i32. RP_UNSUPPORTED names what has no form in ONNX with the same results. */
rp_status backend_onnx_write(const rp_graph *g, bool narrow, backend_model *out,
                             rp_error *err) RP_MUST_USE;
/* Whether node i has a form, also where its operands are inputs of the model: RP_OK, or RP_UNSUPPORTED with what backend_onnx_write would say. */
rp_status backend_onnx_takes(const rp_graph *g, uint32_t i, bool narrow, rp_error *err) RP_MUST_USE;
void backend_onnx_done(backend_model *m);
/* TensorProto.DataType; 0: none. */
int backend_onnx_type(rp_dtype t);

#endif
