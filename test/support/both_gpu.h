/* A graph on cuda:0, which is the emulated GPU: what programs of test/num share that ask about tensor cores. Set-up is both_gpu_set_up, tear-down
 * both_gpu_tear_down. */
#ifndef SUPPORT_BOTH_GPU_H
#define SUPPORT_BOTH_GPU_H

#include "support/both.h"
#include "support/gpu.h"

static struct {
    const char *why_not; /* there is no emulated GPU; NULL: there is */
    compile_nvrtc nvrtc; /* for one with all that there is */
} gpu;

#define NEEDS_GPU() \
    if (gpu.why_not) SKIP_TEST("%s", gpu.why_not)

static inline int both_gpu_set_up(void **state) {
    rp_error err = {0};
    if (gpu_emulate(&gpu.why_not)) gpu.why_not = NULL;
    if (both_set_up(state) != 0) return -1;
    return gpu.why_not || compile_nvrtc_find("sm_90", &gpu.nvrtc, &err) == RP_OK ? 0 : -1;
}

static inline int both_gpu_tear_down(void **state) {
    compile_nvrtc_done(&gpu.nvrtc);
    return both_tear_down(state);
}

/* Each third run is of launches one by one. */
static inline plan_run_options both_on_gpu(bool passes, bool exact) {
    static uint32_t runs;
    return (plan_run_options){.backend = &compile_cuda,
                              .store = host.store,
                              .nvrtc = &gpu.nvrtc,
                              .device = "cuda:0",
                              .threads = 1,
                              .passes = passes,
                              .exact = exact,
                              .watch = runs++ % 3 == 1};
}

/* Element i of a bf16 leaf as it is in memory. */
static inline double both_bf16(const ir_value *v, int64_t i) {
    uint16_t bits;
    double x;
    ir_pack(RP_DTYPE_BF16, v->data + i, 1, &bits);
    ir_unpack(RP_DTYPE_BF16, &bits, 1, &x);
    return x;
}

#endif
