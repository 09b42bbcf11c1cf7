#include "support/kernels.h"

#include "base/alloc.h"
#include "hal/cuda/code.h"
#include "support/check.h"

static const char text[] =
    "extern \"C\" __global__ void affine(const float *x, float *y, const float *w, long long n) {\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = x[i] * w[0] + w[1];\n"
    "}\n"
    "extern \"C\" __global__ void count_up(float *at) {\n"
    "    if (threadIdx.x == 0) at[0] += 1;\n"
    "}\n"
    "extern \"C\" __global__ void step(float *x, unsigned char *more, const float *limit) {\n"
    "    if (threadIdx.x == 0) more[0] = ++x[0] < limit[0];\n"
    "}\n"
    "extern \"C\" __global__ void through(const float *const *x, float *y, long long n) {\n"
    "    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) y[i] = x[0][i] + 1;\n"
    "}\n";

static cuda_driver cu;
static void *module, *kernel[N_KERNELS];

const cuda_driver *kernels_driver(void) {
    return &cu;
}

void kernels_open(rp_stream *s) {
    static const char *const names[N_KERNELS] = {"affine", "count_up", "step", "through"};
    const cuda_source source = {text, "user.cu", "sm_90"};
    cuda_nvrtc rtc;
    char *cubin = NULL;
    size_t size = 0;
    rp_error err = {0};
    (void)rp_stream_handle(s); /* its context is this thread's */
    if (module) return;
    CHECK_OK(cuda_driver_open(&cu, &err), &err);
    CHECK_OK(cuda_nvrtc_open(&rtc, NULL, &err), &err);
    CHECK_OK(cuda_compile(&rtc, &source, NULL, &cubin, &size, &err), &err);
    CHECK_OK(cuda_code_load(&cu, cubin, &module, &err), &err);
    for (int i = 0; i < N_KERNELS; i++)
        assert_int_equal(cu.module_function(&kernel[i], module, names[i]), 0);
    base_free(cubin);
}

void kernels_close(void) {
    if (module) (void)cu.module_free(module);
    module = NULL;
}

int kernels_launch(rp_stream *s, kernel_name k, long long n, void **parameters) {
    unsigned threads = 128, blocks = (unsigned)((n + threads - 1) / threads);
    if (n == 0) return 0;
    return cu.launch(kernel[k], blocks, 1, 1, threads, 1, 1, 0, rp_stream_handle(s), parameters,
                     NULL);
}
