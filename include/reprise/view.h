/* Views: tensors that lie in memory of another shape, as inputs and outputs of what is compiled.
 *
 *     float image[480 * 640 * 3];                              (rows of pixels of three channels)
 *     rp_buffer b = {RP_DTYPE_F32, 3, {3, 224, 224}, image};
 *     int64_t stride[] = {1, 640 * 3, 3};
 *     rp_view in = rp_view_strided(b, stride, (100 * 640 + 200) * 3), out = rp_view_dense(logits);
 *     rp_compiled_run_views(c, &in, 1, &out, 1, NULL, &err);
 *
 * Kernels read and write dense row-major memory that is aligned to its elements. A view that is that is used where it lies, at no cost. Any other
 * is copied: inputs to dense memory of the call before anything runs, outputs from there when all has run, so that an output that is copied may lie
 * in an input, and after a failure it is as it was. Every copy is told: in rp_run_options.copies, and on the log channel `perf_hints` (the first of
 * each tensor; all with `+perf_hints`). On a GPU views may lie in memory of the device or of the host, and elements of the device's are copied by it,
 * without the host. docs/library.md has a table of what each kind of view does. */
#ifndef REPRISE_VIEW_H
#define REPRISE_VIEW_H

#include "reprise/graph.h"
#include "reprise/jit.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A plain value, which borrows the memory. Element (i, j, ...) is offset + i * stride[0] + j * stride[1] + ... elements from tensor.data on. */
typedef struct rp_view {
    rp_buffer tensor; /* dtype, rank and dim; data: where memory begins, aligned or not */
    int64_t offset;   /* elements */
    /* Elements; 0 and negative, too. That of an axis of 1 is not looked at. */
    int64_t stride[RP_MAX_RANK];
    /* Of memory from tensor.data on, which no element may leave (RP_INVALID); 0: not known. */
    uint64_t bytes;
} rp_view;

static inline rp_view rp_view_strided(rp_buffer b, const int64_t *stride, int64_t offset) {
    rp_view v;
    memset(&v, 0, sizeof v);
    v.tensor = b;
    v.offset = offset;
    memcpy(v.stride, stride, (b.rank < RP_MAX_RANK ? b.rank : RP_MAX_RANK) * sizeof *stride);
    return v;
}
static inline rp_view rp_view_dense(rp_buffer b) {
    int64_t stride[RP_MAX_RANK], next = 1;
    uint32_t i = b.rank < RP_MAX_RANK ? b.rank : RP_MAX_RANK;
    while (i-- > 0) {
        stride[i] = next;
        next = (int64_t)((uint64_t)next * (uint64_t)b.dim[i]); /* a call checks sizes */
    }
    return rp_view_strided(b, stride, 0);
}
/* v as an argument of rp_jit_run, which copies views, too (jit.h). `bytes` is not looked at there, and block formats have no offset. */
RP_API rp_value rp_value_view(const rp_view *v);

/* What a call copied. */
typedef struct rp_view_copies {
    size_t size; /* sizeof(rp_view_copies), set by the caller; may be an older, smaller one */
    uint32_t gathered, scattered; /* tensors: copied to dense memory, and from it */
    uint64_t bytes;               /* of their elements, each way */
} rp_view_copies;
#define RP_VIEW_COPIES_INIT \
    { sizeof(rp_view_copies), 0, 0, 0 }

typedef struct rp_run_options {
    size_t size;       /* sizeof(rp_run_options); may be an older, smaller one */
    rp_stream *stream; /* (optional) as rp_compiled_run_on takes it */
    bool no_copies;    /* a view that would be copied is RP_INVALID, with what to give instead */
    rp_view_copies
        *copies; /* (optional) filled, all 0 where nothing was copied or the call failed */
} rp_run_options;
#define RP_RUN_OPTIONS_INIT \
    { sizeof(rp_run_options), NULL, false, NULL }

/* rp_compiled_run, or with a stream rp_compiled_run_on, of views. options NULL: none of them. What holds there holds here, and: RP_INVALID, with the name of the
 * tensor, for an output, or an input that the graph writes, of which two elements are one place (a stride of 0, say), for two such
 * tensors that share memory where one is copied, for strides of a block format, and for sizes and strides beyond what addresses have. Inside of a
 * call that is captured (autograph.h) the copies are part of the graph, which has memory of its own for them; a view that would be copied and that the device does not
 * reach is RP_INVALID there. Threads as there. */
RP_API rp_status rp_compiled_run_views(rp_compiled *c, const rp_view *inputs, uint32_t n_inputs,
                                       const rp_view *outputs, uint32_t n_outputs,
                                       const rp_run_options *options, rp_error *err) RP_MUST_USE;
/* rp_jit_run_into with views as outputs. Arguments are views by rp_value_view (or rp_value_strided), are told, counted and refused by no_copies like them, and may be views
 * in rp_jit_run, too. What holds of outputs above holds here; those that are copied share no memory with what the function writes. Calls are captured with views as without (`mode`, cudagraph_mode):
 * views are copied in front of the replay and behind it. RP_INVALID for a stream. */
RP_API rp_status rp_jit_run_views(rp_jit *f, const rp_value *args, const rp_view *outputs,
                                  uint32_t n_outputs, const rp_run_options *options,
                                  rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
