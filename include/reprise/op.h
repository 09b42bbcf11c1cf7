/* Registration of custom ops, as torch's direct_register_custom_op does for vLLM. */
#ifndef REPRISE_OP_H
#define REPRISE_OP_H

#include "reprise/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_RANK 6

/* A concrete tensor: dense row-major, borrowed. */
typedef struct rp_buffer {
    rp_dtype dtype;
    uint32_t rank;
    int64_t dim[RP_MAX_RANK];
    void *data;
} rp_buffer;

/* Runs the op on host memory. args: operands in order, then the results. Must not keep the pointers. A failure writes why into
 * err->text (err is never NULL); the call that ran the graph gives both on. Within one call
 * of a graph it runs on one thread at a time; calls of a compiled graph that run at once (rp_compiled_run) are in it at once. */
typedef rp_status (*rp_op_fn)(void *user, rp_buffer *args, uint32_t n_args, rp_error *err);

/* Of tensor.h. */
struct rp_tensor;
struct rp_tensor_type;

typedef struct rp_op_desc {
    size_t size;      /* sizeof(rp_op_desc); may be an older, smaller one */
    const char *name; /* "namespace::name" */
    uint64_t mutates; /* bit i: operand i is written, all of it where it is an rp_empty */
    /* Operand whose shape and dtype the result has, or -1 for a result given by the call's
     * shape and dtype. */
    int32_t result_like;
    bool splitting; /* a splitting op where splitting_ops is not given */
    rp_op_fn cpu;   /* NULL: not on this device */
    void *user;
    uint32_t n_results; /* 0: one; up to 8, where result_like is -1 */
    /* (optional) Types of the results, by those of the operands, whose sizes may be symbols (rp_tensor_dim, rp_dim_mul, ...); calls give none then. Where
     * result_like is -1. A failure writes why into err->text (err is never NULL) and is that of the trace. Any thread. */
    rp_status (*shape)(void *user, const struct rp_tensor *in, uint32_t n_in,
                       struct rp_tensor_type *out, uint32_t n_out, rp_error *err);
    /* (optional) The op as others: out[i] of the types that the op has. Where the setting custom_ops does not keep its own implementation,
     * which is so from level 2 on unless it says otherwise, and where there is none for the device, these take its place, before the graph is split.
     * Only of an op that mutates nothing. Any thread. */
    void (*lower)(void *user, const struct rp_tensor *in, uint32_t n_in, struct rp_tensor *out,
                  uint32_t n_out);
} rp_op_desc;

/* Copies desc. RP_INVALID when the name has no namespace or is taken. Thread-safe. */
RP_API rp_status rp_op_register(const rp_op_desc *desc, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
