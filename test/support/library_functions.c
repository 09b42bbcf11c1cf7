#include "support/library_functions.h"

#include <dlfcn.h>

#include "base/status.h"
#include "support/autographs.h"

static const char *device;

/* The part of cuBLAS that a product of float32 needs; 0 is success, operation 0 "not transposed". */
typedef struct cublas {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*set_stream)(void *handle, void *stream);
    int (*set_workspace)(void *handle, void *at, size_t size);
    int (*sgemm)(void *handle, int of_a, int of_b, int m, int n, int k, const float *alpha,
                 const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                 int ldc);
} cublas;

static bool cublas_open(cublas *out) {
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
    void *lib = NULL;
    for (int i = 0; i < 3 && !lib; i++) lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) return false;
    *(void **)&out->create = dlsym(lib, "cublasCreate_v2");
    *(void **)&out->destroy = dlsym(lib, "cublasDestroy_v2");
    *(void **)&out->set_stream = dlsym(lib, "cublasSetStream_v2");
    *(void **)&out->set_workspace = dlsym(lib, "cublasSetWorkspace_v2");
    *(void **)&out->sgemm = dlsym(lib, "cublasSgemm_v2");
    return out->create && out->destroy && out->set_stream && out->set_workspace && out->sgemm;
}

enum { N = 4, WORKSPACE = 32 << 20 };

typedef struct product {
    cublas lib;
    void *handle, *workspace;
} product;

/* y[rows, N] = x[rows, N] w[N, N], which columns first are y' = w' x'. */
static rp_status product_call(void *user, rp_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    const product *p = user;
    const rp_buffer *x = &args->item[0].tensor, *w = &args->item[1].tensor;
    static const float one = 1, zero = 0;
    rp_buffer y = *x;
    RP_TRY(rp_call_output(call, &y, err));
    RP_TRY(rp_call_check(call, "cublasSgemm",
                         p->lib.sgemm(p->handle, 0, 0, N, (int)x->dim[0], N, &one, w->data, N,
                                      x->data, N, &zero, y.data, N),
                         err));
    *result = rp_value_tensor(y);
    result->rows = args->item[0].rows;
    return RP_OK;
}

static void check_product(const rp_output *o, const float *x, const float *w, int rows) {
    const float *y = values_of(o);
    for (int i = 0; i < rows * N; i++) {
        float sum = 0;
        for (int k = 0; k < N; k++) sum += x[i / N * N + k] * w[k * N + i % N];
        assert_true(y[i] == sum); /* of small whole numbers */
    }
}

static void cublas_is_captured(void **state) {
    enum { MOST = 24 };
    float x[MOST * N], w[N * N];
    void *weights = NULL;
    rp_error err = {0};
    product p = {.handle = NULL};
    bench b;
    (void)state;
    if (!cublas_open(&p.lib)) SKIP_TEST("no cuBLAS on this machine");
    bench_open(&b, device, RP_GROWTH_RESERVE);
    void *stream = rp_stream_handle(b.stream);
    CHECK_OK(rp_device_alloc(b.device, sizeof w, &weights, &err), &err);
    CHECK_OK(rp_device_alloc(b.device, WORKSPACE, &p.workspace, &err), &err);
    assert_int_equal(p.lib.create(&p.handle), 0);
    assert_int_equal(p.lib.set_stream(p.handle, stream), 0);
    assert_int_equal(p.lib.set_workspace(p.handle, p.workspace, WORKSPACE), 0);
    for (int i = 0; i < N * N; i++) w[i] = (float)(i % 7 - 3);
    CHECK_OK(rp_stream_copy(b.stream, weights, w, sizeof w, &err), &err);
    rp_function *f = function_of(&b, "product", product_call, &p);
    for (int call = 0; call < 12; call++) {
        int rows = 17 + call % (MOST - 16);
        for (int i = 0; i < MOST * N; i++) x[i] = (float)((i * 5 + call) % 9);
        rp_value in[] = {rows_of(x, rows, N), rp_value_state(rows_of(weights, N, N).tensor)};
        in[0].rows = true;
        rp_output *o = run_items(f, in, 2);
        assert_string_equal(rp_output_reason(o), "");
        assert_int_equal(rp_output_ran(o), call ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
        check_product(o, x, w, rows);
        rp_output_free(o);
    }
    rp_function_free(f);
    assert_int_equal(p.lib.destroy(p.handle), 0);
    rp_device_free(b.device, p.workspace);
    rp_device_free(b.device, weights);
    bench_close(&b);
}

int library_functions_run(const char *name, const char *group) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cublas_is_captured)};
    device = name;
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
