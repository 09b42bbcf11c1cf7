/* Generated CUDA C: hand-made cases and every kernel of models and random graphs compile for sm_90 where NVRTC is found;
 * the cases give the interpreter's bits where a GPU is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "hal/cuda/code.h"
#include "hal/cuda/gpu.h"
#include "support/cuda_graphs.h"
#include "support/hasty.h"
#include "support/kir_gpu.h"
#include "support/render.h"

/* The leak check of a sanitizer reads what NVRTC's threads had of their own, which is gone with its library, and crashes. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "intercept_tls_get_addr=0";
}

static cuda_nvrtc nvrtc;
static cuda_driver cu;
static cuda_gpu gpu;

static bool find_nvrtc(void) {
    return cuda_nvrtc_open(&nvrtc, NULL, NULL) == RP_OK;
}

/* For what is not run. */
static bool find_hasty(void) {
    if (!find_nvrtc()) return false;
    hasty_nvrtc(&nvrtc);
    return true;
}

static bool find_gpu(void) {
    return cuda_driver_open(&cu, NULL) == RP_OK && cuda_gpu_open(&cu, 0, 90, &gpu, NULL) == RP_OK;
}

static char *text_of_cases(void) {
    base_buf text;
    kir_func *f = kir_case_fragment();

    base_buf_init(&text, 0);
    gen_cuda_prelude(&text);
    assert_int_equal(render_cuda(f, &text, NULL), RP_OK);
    kir_free(f);
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        rp_error err = {0};
        f = kir_cases[i].make(kir_cases[i].name);
        if (render_cuda(f, &text, &err) != RP_OK) fail_msg("%s", err.text);
        kir_free(f);
    }
    return base_buf_take(&text);
}

/* The cubin, owned by the caller; NULL after printing the compiler's first error. */
static char *compile(const char *text) {
    static const char *const options[] = {"-fmad=false", NULL};
    char *cubin = NULL;
    size_t n = 0;
    rp_error err = {0};

    if (cuda_compile(&nvrtc, &(cuda_source){text, "cases.cu", "sm_90"}, options, &cubin, &n,
                     &err) != RP_OK)
        fprintf(stderr, "%s\n", err.text);
    return cubin;
}

/* A fragment that stores twice what it loads of argument 0 to argument 1, or to what `more` says. */
typedef enum more { NOTHING, CONDITION, SUM, LOOP, LOOP_OF_ONE, LOAD_BEHIND, LOAD_OF_STORED } more;

static kir_func *fragment(more kind) {
    kir_func *f = kir_new("f", KIR_FRAGMENT, NULL);
    uint32_t x = kir_add_buf(f, "x", KIR_ARG, RP_DTYPE_F32, 0, 0, 0);
    uint32_t y = kir_add_buf(f, "y", KIR_ARG, RP_DTYPE_F32, 1, 0, 0);
    kir_ref p = kir_param(f, 0), v = kir_load(f, x, p);
    if (kind == CONDITION) kir_begin_if(f, kir_bin(f, KIR_ILT, p, kir_const_i(f, 3)));
    if (kind == LOOP || kind == LOOP_OF_ONE)
        (void)kir_begin(f, KIR_LOOP, kir_const_i(f, kind == LOOP ? 2 : 1));
    if (kind == SUM) {
        kir_ref k = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, 7));
        v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, p, k)));
    }
    kir_store(f, y, p, kir_alu(f, IR_add, v, v, KIR_NONE));
    if (kind == CONDITION || kind == LOOP || kind == LOOP_OF_ONE) kir_end(f);
    if (kind == LOAD_BEHIND || kind == LOAD_OF_STORED)
        kir_store(f, y, p, kir_load(f, kind == LOAD_BEHIND ? x : y, p));
    return f;
}

static void elements_that_are_by_themselves_are_known(void **state) {
    static const struct {
        more kind;
        bool is;
    } all[] = {{NOTHING, true},     {CONDITION, false},  {SUM, false},           {LOOP, false},
               {LOOP_OF_ONE, true}, {LOAD_BEHIND, true}, {LOAD_OF_STORED, false}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        kir_func *f = fragment(all[i].kind);
        rp_error err = {0};
        if (kir_status(f, &err) != RP_OK) fail_msg("%zu: %s", i, err.text);
        if (gen_is_elementwise(f) != all[i].is) fail_msg("fragment %zu", i);
        kir_free(f);
    }
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
    if (!find_hasty()) {
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
    if (!find_hasty()) {
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
    sched *s = NULL;

    assert_int_equal(sched_make(&sched_cuda, f, &s, NULL), RP_OK);
    int bad = kir_case_on_gpu(c, &cu, module, &s->launch, grid, what);
    sched_free(s);
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
    assert_int_equal(cu.module_load(&module, cubin), 0);
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
        cmocka_unit_test(elements_that_are_by_themselves_are_known),
        cmocka_unit_test(every_case_compiles_for_sm_90),
        cmocka_unit_test(every_kernel_of_models_compiles_for_sm_90),
        cmocka_unit_test(every_kernel_of_random_graphs_compiles_for_sm_90),
        cmocka_unit_test(gpu_equals_interpreter),
    };
    return cmocka_run_group_tests_name("gen_cuda", tests, NULL, NULL);
}
