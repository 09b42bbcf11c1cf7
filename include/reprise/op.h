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

typedef enum rp_op_attr_kind {
    RP_OP_I64,     /* i */
    RP_OP_F64,     /* f */
    RP_OP_STRING,  /* s */
    RP_OP_I64S,    /* is, n of them */
    RP_OP_F64S,    /* fs */
    RP_OP_STRINGS, /* ss */
    RP_OP_KIND_COUNT_
} rp_op_attr_kind;
#define RP_MAX_OP_ATTRS 16
#define RP_MAX_OP_LIST 256   /* entries of a list */
#define RP_MAX_OP_STRING 255 /* bytes of a string */

/* An attribute of an op's schema, with its default; or of a call, with its value. Borrowed: of a call until it returns. */
typedef struct rp_op_attr {
    const char *name; /* letters, digits and _ */
    rp_op_attr_kind kind;
    bool required; /* of a schema: it has no default */
    uint32_t n;    /* length of a list */
    int64_t i;
    double f;
    const char *s;
    const int64_t *is;
    const double *fs;
    const char *const *ss;
} rp_op_attr;

/* What a call of an op is beside its tensors. */
typedef struct rp_op_call {
    size_t size;      /* sizeof(rp_op_call) as the library knows it; it grows at the end */
    const char *name; /* of the op */
    void *user;       /* of its description */
    const rp_op_attr
        *attrs; /* all of the schema, by name, with defaults where the call gave nothing */
    uint32_t n_attrs;
    uint32_t n_in, n_results;
    /* Of the step that a model makes (forward_context.h): for functions of the host, within the call. NULL elsewhere. */
    const struct rp_forward_context *context;
} rp_op_call;
/* The attribute of that name; NULL where the schema has none. */
RP_API const rp_op_attr *rp_op_call_attr(const rp_op_call *call, const char *name);

/* Runs the op on host memory. args: call->n_in operands in order, then the results. Must not keep the pointers. A failure writes why into
 * err->text (err is never NULL); the call that ran the graph gives both on. Within one call
 * of a graph it runs on one thread at a time; calls of a compiled graph that run at once (rp_compiled_run) are in it at once. */
typedef rp_status (*rp_op_fn)(const rp_op_call *call, rp_buffer *args, uint32_t n_args,
                              rp_error *err);

/* What one call of the function of a source is for: an element of the first result, a row (the last axis) of the first argument, or
 * everything. */
typedef enum rp_op_items {
    RP_OP_ELEMENTS,
    RP_OP_ROWS,
    RP_OP_WHOLE,
    RP_OP_ITEMS_COUNT_
} rp_op_items;

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
    rp_status (*shape)(const rp_op_call *call, const struct rp_tensor *in, uint32_t n_in,
                       struct rp_tensor_type *out, uint32_t n_out, rp_error *err);
    /* (optional) The op as others: out[i] of the types that the op has. Where the setting custom_ops does not keep its own implementation,
     * which is so from level 2 on unless it says otherwise, and where there is none for the device, these take its place, before the graph is split.
     * Only of an op that mutates nothing. Any thread. */
    void (*lower)(const rp_op_call *call, const struct rp_tensor *in, uint32_t n_in,
                  struct rp_tensor *out, uint32_t n_out);
    /* Schema: names, kinds and defaults of what calls may give (rp_custom_call). Borrowed as long as the process lives. */
    const rp_op_attr *attrs;
    uint32_t n_attrs;
    rp_op_items items; /* of the sources */
    /* (optional) The op as text, C and CUDA C, which is compiled, cached and launched as the kernels around it are (docs/howto-op.md):
     *
     *     static void rp_op(const rp_op_view *arg, const rp_op_value *attr, long long item)
     *
     * c_source is taken before `cpu` where code is generated for the host. Borrowed as long as the process lives. */
    const char *c_source, *cuda_source;
    uint32_t
        threads; /* of a block, at most 1024; 0: 256. Each has an item of its own, or all have one row, or all of it */
    /* (optional) In the place of cuda_source: a module in PTX, which the GPU's driver compiles when it is loaded, and the name of its entry. Parameters of 8
     * bytes each: the address of each argument, then the sizes of each in the same order, then the attributes by name (.s64 or .f64, no
     * other kinds), then the number of items. Every thread executes griddepcontrol.wait before it touches memory (docs/howto-op.md). */
    const char *ptx, *ptx_entry;
} rp_op_desc;

/* Copies desc. RP_INVALID when the name has no namespace or is taken. Thread-safe. */
RP_API rp_status rp_op_register(const rp_op_desc *desc, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
