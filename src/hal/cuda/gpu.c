#include "hal/cuda/gpu.h"

static rp_status check_version(const cuda_driver *cu, int *out, rp_error *err) {
    RP_TRY(cuda_check(cu, cu->version(out), "version of the CUDA driver", err));
    if (*out >= CUDA_MIN_VERSION) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "the CUDA driver is of CUDA %d.%d, which is too old; update it to %d.%d",
                   *out / 1000, *out % 1000 / 10, CUDA_MIN_VERSION / 1000,
                   CUDA_MIN_VERSION % 1000 / 10);
}

static rp_status find(const cuda_driver *cu, int ordinal, int *device, rp_error *err) {
    int n = 0, code = cu->init(0);
    if (code == 0) code = cu->device_count(&n);
    if (code == CUDA_NO_DEVICE || (code == 0 && n == 0))
        return rp_fail(err, RP_UNSUPPORTED,
                       "the CUDA driver finds no GPU; look at nvidia-smi and "
                       "CUDA_VISIBLE_DEVICES, or use --device cpu");
    RP_TRY(cuda_check(cu, code, "starting the CUDA driver", err));
    if (ordinal < 0 || ordinal >= n)
        return rp_fail(err, RP_UNSUPPORTED, "no cuda:%d here; there is cuda:0%s", ordinal,
                       n > 1 ? " and more (nvidia-smi -L)" : " alone");
    return cuda_check(cu, cu->device_get(device, ordinal), "opening the GPU", err);
}

static rp_status describe(cuda_gpu *g, rp_error *err) {
    const cuda_driver *cu = g->cu;
    int major = 0, minor = 0, shared = 0;
    const struct {
        int attribute, *out;
    } asked[] = {{CUDA_ATTRIBUTE_MAJOR, &major},
                 {CUDA_ATTRIBUTE_MINOR, &minor},
                 {CUDA_ATTRIBUTE_N_SM, &g->n_sm},
                 {CUDA_ATTRIBUTE_MAX_SHARED, &shared}};
    RP_TRY(cuda_check(cu, cu->device_name(g->name, sizeof g->name, g->device), "name of the GPU",
                      err));
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        RP_TRY(cuda_check(cu, cu->device_attribute(asked[i].out, asked[i].attribute, g->device),
                          "facts of the GPU", err));
    g->capability = major * 10 + minor;
    g->max_shared = (size_t)shared;
    return cuda_check(cu, cu->device_memory(&g->memory, g->device), "memory of the GPU", err);
}

rp_status cuda_gpu_find(const cuda_driver *cu, int ordinal, int min_capability, cuda_gpu *out,
                        rp_error *err) {
    cuda_gpu g = {.cu = cu};
    RP_TRY(check_version(cu, &g.driver_version, err));
    RP_TRY(find(cu, ordinal, &g.device, err));
    RP_TRY(describe(&g, err));
    if (g.capability < min_capability)
        return rp_fail(err, RP_UNSUPPORTED,
                       "cuda:%d (%s) has compute capability %d.%d; %d.%d or more is needed",
                       ordinal, g.name, g.capability / 10, g.capability % 10, min_capability / 10,
                       min_capability % 10);
    *out = g;
    return RP_OK;
}

static rp_status retain(cuda_gpu *g, rp_error *err) {
    int code = g->cu->context_retain(&g->context, g->device);
    if (code == CUDA_OUT_OF_MEMORY)
        return rp_fail(
            err, RP_NOMEM,
            "cuda:%d (%s) has no memory left for a context: nvidia-smi shows who has it; "
            "end one of them, name another GPU in CUDA_VISIBLE_DEVICES, or use --device "
            "cpu",
            g->device, g->name);
    if (code == CUDA_DEVICE_UNAVAILABLE)
        return rp_fail(err, RP_DEVICE,
                       "cuda:%d (%s) is busy: another process has it for itself, or its compute "
                       "mode forbids all (nvidia-smi -q -d COMPUTE); wait, name another GPU in "
                       "CUDA_VISIBLE_DEVICES, or use --device cpu",
                       g->device, g->name);
    return cuda_check(g->cu, code, "context of the GPU", err);
}

rp_status cuda_gpu_open(const cuda_driver *cu, int ordinal, int min_capability, cuda_gpu *out,
                        rp_error *err) {
    cuda_gpu g = {0};
    RP_TRY(cuda_gpu_find(cu, ordinal, min_capability, &g, err));
    RP_TRY(retain(&g, err));
    rp_status st = cuda_check(cu, cu->context_set(g.context), "context of the GPU", err);
    if (st == RP_OK)
        *out = g;
    else
        cuda_gpu_close(&g);
    return st;
}

void cuda_gpu_close(cuda_gpu *g) {
    if (g->context) (void)g->cu->context_release(g->device);
    g->context = NULL;
}

rp_status cuda_gpu_alloc(const cuda_gpu *g, size_t size, const char *what, uint64_t *out,
                         rp_error *err) {
    uint64_t at = 0;
    RP_TRY(cuda_check(g->cu, g->cu->memory_alloc(&at, size ? size : 1), what, err));
    *out = at;
    return RP_OK;
}

void cuda_gpu_free(const cuda_gpu *g, uint64_t at) {
    if (at) (void)g->cu->memory_free(at);
}
