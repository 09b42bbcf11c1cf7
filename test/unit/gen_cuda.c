/* Generated CUDA C: hand-made cases and every kernel of models and random graphs compile for sm_90 where NVRTC is found;
 * the cases give the interpreter's bits where a GPU is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "gen/gen.h"
#include "support/cuda_graphs.h"
#include "support/kir_cases.h"

typedef void *program;

static struct {
    int (*create)(program *p, const char *src, const char *name, int n, const char *const *h,
                  const char *const *i);
    int (*compile)(program p, int n, const char *const *options);
    int (*log_size)(program p, size_t *n);
    int (*log)(program p, char *text);
    int (*cubin_size)(program p, size_t *n);
    int (*cubin)(program p, char *data);
    int (*destroy)(program *p);
} nvrtc;

static struct {
    int (*init)(unsigned flags);
    int (*device)(int *dev, int ordinal);
    int (*retain)(void **ctx, int dev);
    int (*set)(void *ctx);
    int (*load)(void **mod, const void *image);
    int (*function)(void **fn, void *mod, const char *name);
    int (*alloc)(uint64_t *p, size_t n);
    int (*release)(uint64_t p);
    int (*to_device)(uint64_t dst, const void *src, size_t n);
    int (*to_host)(void *dst, uint64_t src, size_t n);
    int (*launch)(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra);
    int (*sync)(void);
} cu;

static void *open_first(const char *const *names) {
    void *lib = NULL;
    for (; !lib && *names; names++) lib = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return lib;
}

#define GET(table, lib, member, name) \
    (*(void **)&(table).member = dlsym((lib), (name)), (table).member != NULL)

static bool find_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so",
                                        "libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        "/usr/local/cuda/targets/x86_64-linux/lib/libnvrtc.so.13",
                                        "/usr/local/cuda-13.0/lib/libnvrtc.so",
                                        NULL};
    void *lib = open_first(names);
    return lib && GET(nvrtc, lib, create, "nvrtcCreateProgram") &&
           GET(nvrtc, lib, compile, "nvrtcCompileProgram") &&
           GET(nvrtc, lib, log_size, "nvrtcGetProgramLogSize") &&
           GET(nvrtc, lib, log, "nvrtcGetProgramLog") &&
           GET(nvrtc, lib, cubin_size, "nvrtcGetCUBINSize") &&
           GET(nvrtc, lib, cubin, "nvrtcGetCUBIN") &&
           GET(nvrtc, lib, destroy, "nvrtcDestroyProgram");
}

static bool find_gpu(void) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    void *lib = open_first(names), *ctx;
    int dev;

    return lib && GET(cu, lib, init, "cuInit") && GET(cu, lib, device, "cuDeviceGet") &&
           GET(cu, lib, retain, "cuDevicePrimaryCtxRetain") &&
           GET(cu, lib, set, "cuCtxSetCurrent") && GET(cu, lib, load, "cuModuleLoadData") &&
           GET(cu, lib, function, "cuModuleGetFunction") && GET(cu, lib, alloc, "cuMemAlloc_v2") &&
           GET(cu, lib, release, "cuMemFree_v2") && GET(cu, lib, to_device, "cuMemcpyHtoD_v2") &&
           GET(cu, lib, to_host, "cuMemcpyDtoH_v2") && GET(cu, lib, launch, "cuLaunchKernel") &&
           GET(cu, lib, sync, "cuCtxSynchronize") && cu.init(0) == 0 && cu.device(&dev, 0) == 0 &&
           cu.retain(&ctx, dev) == 0 && cu.set(ctx) == 0;
}

static char *text_of_cases(void) {
    base_buf text;
    kir_func *f = kir_case_fragment();

    base_buf_init(&text, 0);
    gen_cuda_prelude(&text);
    assert_int_equal(gen_cuda_func(f, &text, NULL), RP_OK);
    kir_free(f);
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        rp_error err = {0};
        f = kir_cases[i].make(kir_cases[i].name);
        if (gen_cuda_func(f, &text, &err) != RP_OK) fail_msg("%s", err.text);
        kir_free(f);
    }
    return base_buf_take(&text);
}

/* The cubin, owned by the caller; NULL after printing the compiler's log. */
static char *compile(const char *text) {
    static const char *const options[] = {"-arch=sm_90", "-fmad=false", "-default-device"};
    char *cubin = NULL, *log;
    size_t n = 0;
    program p;
    int code;

    assert_int_equal(nvrtc.create(&p, text, "cases.cu", 0, NULL, NULL), 0);
    code = nvrtc.compile(p, 2, options);
    if (code == 0 && nvrtc.cubin_size(p, &n) == 0 && (cubin = base_alloc(n)) != NULL) {
        assert_int_equal(nvrtc.cubin(p, cubin), 0);
    } else {
        assert_int_equal(nvrtc.log_size(p, &n), 0);
        log = base_alloc(n + 1);
        assert_int_equal(nvrtc.log(p, log), 0);
        fprintf(stderr, "%.3000s\n", log);
        base_free(log);
    }
    (void)nvrtc.destroy(&p);
    return cubin;
}

static void every_case_compiles_for_sm_90(void **state) {
    char *text, *cubin;

    (void)state;
    if (!find_nvrtc()) {
        print_message("skip: no libnvrtc on this machine\n");
        skip();
    }
    text = text_of_cases();
    cubin = compile(text);
    assert_non_null(cubin);
    base_free(cubin);
    base_free(text);
}

static void check_graphs_compile(cuda_graphs *c) {
    base_buf text;
    char *cubin;

    base_buf_init(&text, 0);
    gen_cuda_prelude(&text);
    base_buf_add(&text, c->text.data, c->text.len);
    assert_false(text.failed);
    print_message("%u kernels, %u graphs too large for a block\n", c->n_kernels, c->n_refused);
    cubin = compile(text.data);
    assert_non_null(cubin);
    base_free(cubin);
    base_buf_done(&text);
    cuda_graphs_done(c);
}

static void every_kernel_of_models_compiles_for_sm_90(void **state) {
    cuda_graphs c;

    (void)state;
    if (!find_nvrtc()) {
        print_message("skip: no libnvrtc on this machine\n");
        skip();
    }
    cuda_graphs_init(&c);
    cuda_graphs_add_models(&c);
    assert_true(c.n_kernels >= 40);
    check_graphs_compile(&c);
}

static void every_kernel_of_random_graphs_compiles_for_sm_90(void **state) {
    enum { N = 40 };
    cuda_graphs c;

    (void)state;
    if (!find_nvrtc()) {
        print_message("skip: no libnvrtc on this machine\n");
        skip();
    }
    cuda_graphs_init(&c);
    cuda_graphs_add_random(&c, 1, N);
    assert_true(c.n_refused < N / 4);
    check_graphs_compile(&c);
}

static int run_on_gpu(const kir_case *c, void *module, unsigned grid, const char *what) {
    kir_func *f = c->make(c->name);
    gen_cuda_launch l = gen_cuda_launch_of(f);
    kir_case_data want, got;
    int64_t symbols[1] = {KIR_CASE_T};
    long long d0 = KIR_CASE_T, items = c->items;
    uint64_t arg[KIR_CASE_SLOTS];
    void *params[KIR_CASE_SLOTS + 2], *fn;
    int bad, n = 0;

    assert_true(kir_case_data_init(&want, c) && kir_case_data_init(&got, c));
    assert_int_equal(kir_run(f, want.arg, symbols, NULL, 0, c->items, NULL), RP_OK);
    assert_int_equal(cu.function(&fn, module, c->name), 0);
    for (int i = 0; i < KIR_CASE_SLOTS; i++) {
        assert_int_equal(cu.alloc(&arg[i], got.size[i] + 64), 0);
        assert_int_equal(cu.to_device(arg[i], got.arg[i], got.size[i] + 64), 0);
    }
    for (uint32_t i = 0; i < l.n_args; i++) params[n++] = &arg[i];
    for (uint32_t i = 0; i < l.n_dims; i++) params[n++] = &d0;
    params[n++] = &items;
    assert_int_equal(cu.launch(fn, grid, 1, 1, l.threads, 1, 1, 0, NULL, params, NULL), 0);
    assert_int_equal(cu.sync(), 0);
    for (int i = 0; i < KIR_CASE_SLOTS; i++) {
        assert_int_equal(cu.to_host(got.arg[i], arg[i], got.size[i] + 64), 0);
        assert_int_equal(cu.release(arg[i]), 0);
    }
    bad = kir_case_compare(c, &want, &got, what);
    kir_case_data_done(&want);
    kir_case_data_done(&got);
    kir_free(f);
    return bad;
}

static void gpu_equals_interpreter(void **state) {
    char *text, *cubin;
    void *module;
    int bad = 0;

    (void)state;
    if (!find_nvrtc() || !find_gpu()) {
        print_message("skip: no GPU, or no libnvrtc, on this machine\n");
        skip();
    }
    text = text_of_cases();
    cubin = compile(text);
    assert_non_null(cubin);
    assert_int_equal(cu.load(&module, cubin), 0);
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        bad += run_on_gpu(&kir_cases[i], module, 64, "gpu");
        bad += run_on_gpu(&kir_cases[i], module, 2, "gpu, 2 blocks");
    }
    base_free(cubin);
    base_free(text);
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_compiles_for_sm_90),
        cmocka_unit_test(every_kernel_of_models_compiles_for_sm_90),
        cmocka_unit_test(every_kernel_of_random_graphs_compiles_for_sm_90),
        cmocka_unit_test(gpu_equals_interpreter),
    };
    return cmocka_run_group_tests_name("gen_cuda", tests, NULL, NULL);
}
