/* Graphs as text: run passes over them, evaluate them, compile and run them.
 *
 * rp_graph comes from the tensor API (tensor.h) or from text. */
#ifndef REPRISE_GRAPH_H
#define REPRISE_GRAPH_H

#include "reprise/config.h"
#include "reprise/device.h"
#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks every invariant. */
RP_API rp_status rp_graph_verify(const rp_graph *g, rp_error *err) RP_MUST_USE;
/* Runs passes "fold,dce,..." ("" = all) and gives a new graph. RP_CONFIG names an unknown pass and the nearest. */
RP_API rp_status rp_graph_optimize(const rp_graph *g, const char *passes, rp_graph **out,
                                   rp_error *err) RP_MUST_USE;
/* Text of one stage after the passes: "fusion" (groups), "kir" (kernel IR), "schedule" or "schedule-cuda" (kernel IR and
 * how the target runs it), "c" or "cuda" (source), "plan". Behind it that of each graph within, which is compiled by itself, below a comment
 * that names it. Owned by the caller (rp_free). */
RP_API rp_status rp_graph_lower_text(const rp_graph *g, const char *stage, const char *isa,
                                     char **out, rp_error *err) RP_MUST_USE;

typedef enum rp_backend {
    RP_BACKEND_INTERP,
    RP_BACKEND_CPU,
    RP_BACKEND_CPU_EAGER,
    RP_BACKEND_CUDA /* the first GPU; RP_UNSUPPORTED, with what to do, where there is none */
} rp_backend;
/* Runs g on seeded random inputs; symbols without a value in `sizes` ("T=4,R=2") get their smallest, at least 2 where
 * allowed. Gives one line a value of every output: "out0[0,1] = 0x1.8p+1 (3)". Owned by the caller (rp_free). */
RP_API rp_status rp_graph_eval_text(const rp_graph *g, rp_backend backend, uint64_t seed,
                                    const char *sizes, char **out, rp_error *err) RP_MUST_USE;

/* ---- compiled graphs ---- */

/* Any number of threads may be in rp_compiled_run at once: each call has memory of its own, which is made when it is first
 * needed and kept, so that later calls allocate nothing. One of them has the threads of the device, the others run on that
 * of their caller; the results are the same. At most 16 calls run at once, and one where the graph has states; more wait.
 * rp_compiled_bind and rp_compiled_free want to be alone. On a GPU, replays (autograph.h) that were queued have ended before a
 * bind (rp_stream_synchronize): the next call writes the new weights where they read the old ones. */
typedef struct rp_compiled rp_compiled;

/* Compiles g for this machine at the configuration's level (0 and 1: portable kernels op by op; 2: whole;
 * 3: split at splitting_ops), or by another `backend` (backend.h). config is borrowed and resolved here, which adds notes to it: give it to one call at a time.
 * NULL: the library's defaults (level 0). What a compiler made is cached. A call runs its launches one by one: a
 * cudagraph_mode gives a note in config, and RP_UNSUPPORTED under require_graph. Without a C compiler the graph runs op by
 * op, with a note in config and a warning. RP_INVALID where g depends on a size that no input tells: as a dimension of its own, or
 * times and plus a number. g is not needed afterwards. */
RP_API rp_status rp_compile(const rp_graph *g, rp_compilation_config *config, rp_compiled **out,
                            rp_error *err) RP_MUST_USE;
/* The same for a device that others use, too, of which it keeps a reference: `device` and `threads` of the configuration, where
 * they are set, must agree with it (RP_CONFIG). NULL: rp_compile. On a GPU (NVRTC compiles) the results have the bits of the CPU,
 * but for products of f16 and bf16 weights, which go to tensor cores unless numerics=exact or batch_invariant; RP_UNSUPPORTED where the graph calls custom ops without CUDA source, or
 * something else that has no form there yet. */
RP_API rp_status rp_compile_on(rp_device *device, const rp_graph *g, rp_compilation_config *config,
                               rp_compiled **out, rp_error *err) RP_MUST_USE;
RP_API void rp_compiled_free(rp_compiled *c);
/* Params and states by name: data in row-major (block formats: GGUF layout), borrowed until rp_compiled_free. NULL for one
 * that is empty. On a GPU params may lie in memory of the host, from which the first call behind a bind copies them; states are memory of the
 * device (RP_INVALID), aligned to 16 bytes. */
RP_API rp_status rp_compiled_bind(rp_compiled *c, const char *name, void *data,
                                  rp_error *err) RP_MUST_USE;
/* Types and sizes of the outputs for inputs of these types and sizes, as a call will want them, before there is memory for it:
 * fills dtype, rank and dim of all outputs, and leaves their data. The inputs' data is not looked at. Any number of threads. */
RP_API rp_status rp_compiled_outputs(const rp_compiled *c, const rp_buffer *inputs,
                                     uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs,
                                     rp_error *err) RP_MUST_USE;
/* inputs and outputs in the graph's order; symbols are read from the shapes of the inputs. RP_INVALID names what does
 * not match. Tensors are dense (rp_compiled_run_views, view.h, takes others); the memory of outputs must overlap neither an input's, nor a
 * bound param's, nor another output's. The data of an empty tensor may be NULL. On a GPU each may be memory of the device
 * (rp_device_alloc, or any that CUDA knows) or of the host: what is not the device's, or not aligned to 16 bytes, is copied there and
 * back by the call. The results are there when it returns. RP_INVALID inside of a call that is captured (autograph.h), which a replay
 * would not repeat. */
RP_API rp_status rp_compiled_run(rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                                 rp_buffer *outputs, uint32_t n_outputs, rp_error *err) RP_MUST_USE;
/* The same on a stream of the device that it was compiled for (RP_INVALID for another one), in turn with what else is on it.
 * Inside of a call that is captured (autograph.h) it becomes part of the graph: inputs and outputs are then memory that the
 * call was given, or from rp_device_alloc. Replays take no turns with other calls: where the graph has states, they must not
 * run at once. */
RP_API rp_status rp_compiled_run_on(rp_compiled *c, rp_stream *s, const rp_buffer *inputs,
                                    uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs,
                                    rp_error *err) RP_MUST_USE;
/* What a pass did in the pieces that were compiled, equal ones counted once. */
typedef struct rp_pass_info {
    const char *name; /* registered ones (pass.h), and fusions that pass_config switches */
    uint32_t matches;
    uint32_t failures; /* pieces that it left as they were, under suppress_errors */
} rp_pass_info;
typedef struct rp_compiled_info {
    size_t size; /* sizeof(rp_compiled_info), set by the caller; may be an older, smaller one */
    uint32_t pieces, compiled, distinct, kernels, compiles, cache_hits;
    const char *
        backend; /* who compiled it: "inductor", "eager", or a name of rp_backend_name; borrowed until rp_compiled_free, as what follows */
    const char
        *reason; /* why it is not the one that was asked for, or not of all pieces; NULL: it is */
    const rp_pass_info *passes; /* n_passes, those that ran, NULL for none; borrowed likewise */
    uint32_t n_passes;
    uint64_t
        by_backend; /* of the pieces, those of a backend of somebody else; inductor compiled the others */
} rp_compiled_info;
#define RP_COMPILED_INFO_INIT \
    { sizeof(rp_compiled_info), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0, 0 }
/* Fills *out, whose size is set. */
RP_API rp_status rp_compiled_get_info(const rp_compiled *c, rp_compiled_info *out,
                                      rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
