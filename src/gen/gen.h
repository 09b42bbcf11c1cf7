/* Renders scheduled kernel IR as C (host) and CUDA C, kernel by kernel.
 *
 * A generated host function is
 *   void NAME(void *const *arg, const long long *dim, long long begin, long long end, void *scratch)
 * with dim[i] the value of symbol i and [begin, end) its share of the work items. */
#ifndef GEN_GEN_H
#define GEN_GEN_H

#include "gen/isa.h"
#include "sched/sched.h"

typedef void (*gen_host_fn)(void *const *arg, const long long *dim, long long begin, long long end,
                            void *scratch);

/* Text of the prelude for an instruction set (macros and embedded prelude). */
void gen_c_prelude(gen_isa isa, base_buf *out);
/* A KERNEL becomes a global function; a FRAGMENT becomes
 *   static inline void NAME(void *const *arg, const long long *dim, long long p0, ..., T *restrict scratch_0, ...)
 * whose SCRATCH buffers are parameters of the caller, in order. s is one of sched_cpu; its launch says how many bytes
 * `scratch` has. */
rp_status gen_c_func(const sched *s, base_buf *out, rp_error *err) RP_MUST_USE;
/* "red_fused_mean_mul_rsqrt_3": kind, the origin ops (sorted, each once), index. */
typedef enum gen_kernel_kind {
    GEN_KERNEL_POINTWISE,  /* poi_fused_ */
    GEN_KERNEL_REDUCTION,  /* red_fused_ */
    GEN_KERNEL_PERSISTENT, /* per_fused_: a reduction whose row stays in scratch */
    GEN_KERNEL_MATMUL,     /* mm_fused_ */
    GEN_KERNEL_ATTENTION   /* attn_fused_ */
} gen_kernel_kind;
rp_status gen_kernel_name(gen_kernel_kind kind, const char *const *origins, uint32_t n,
                          uint32_t index, base_buf *out, rp_error *err) RP_MUST_USE;
/* The same for CUDA C, of a schedule of sched_cuda: extern "C" __global__ NAME(char *a0, ..., long long d0, ..., long long
 * items): one parameter an argument slot, one a symbol, then the number of items (with parts: of parts); same results as the
 * host. To be launched with threads as scheduled, on any grid, and compiled with -fmad=false after gen_cuda_prelude. A FRAGMENT
 * is a function that all threads of a warp call together; its SCRATCH buffers are memory that they share. */
void gen_cuda_prelude(base_buf *out);
rp_status gen_cuda_func(const sched *s, base_buf *out, rp_error *err) RP_MUST_USE;
/* One item of a KERNEL with a block an item, as a function that all `threads` of a block, or of a warp (32), call together:
 *   RP_INLINE void NAME(char *const *arg, const long long *dim, long long item).
 * What it stores is visible to them after a barrier. */
rp_status gen_cuda_item(const sched *s, const char *name, uint32_t threads, base_buf *out,
                        rp_error *err) RP_MUST_USE;
/* A FRAGMENT over one column as functions of one thread:
 *   RP_INLINE void NAME_ask(char *const *arg, const long long *dim, long long p0, .., float *asked)
 *   RP_INLINE void NAME(char *const *arg, const long long *dim, long long p0, .., T *scratch_0, .., const float *asked)
 * The first loads *n_asked floats, the second does the rest. s->f: as gen_is_elementwise. */
rp_status gen_cuda_element(const sched *s, base_buf *out, uint32_t *n_asked,
                           rp_error *err) RP_MUST_USE;
/* Nothing in the FRAGMENT, which has one column, meets other elements. */
bool gen_is_elementwise(const kir_func *f);

#endif
