/* On a machine with a GPU: a custom op in PTX, compiled by the driver, between generated kernels, in every graph mode. */
#include "support/check.h"
#include "support/ptx_op.h"

enum { ROWS = 37, COLUMNS = 24, N = ROWS * COLUMNS };

static rp_status function(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, ptx_scaled(rp_jit_tensor(call, &args->item[0]), -3));
    return RP_OK;
}

static void ptx_runs(void **state) {
    static const char *const modes[] = {"default", "reduce-overhead"};
    static float x[N], y[N];
    rp_error err = {0};
    rp_device *d = NULL;
    (void)state;
    CHECK_OK(rp_op_register(&ptx_desc, &err), &err);
    CHECK_OK(rp_device_open("cuda:0", 1, &d, &err), &err);
    for (int i = 0; i < N; i++) x[i] = (float)((i * 37) % 101) / 8;
    for (int m = 0; m < 2; m++) {
        rp_jit_options o = RP_JIT_OPTIONS(function);
        rp_jit *f = NULL;
        o.device = d;
        o.fullgraph = true;
        o.mode = modes[m];
        CHECK_OK(rp_jit_new(&o, &f, &err), &err);
        for (int64_t rows = ROWS; rows > ROWS - 4; rows--) {
            rp_value v = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 2, {rows, COLUMNS}, x}),
                     args = rp_value_tuple(&v, 1);
            const rp_buffer out = {RP_DTYPE_F32, 2, {rows, COLUMNS}, y};
            CHECK_OK(rp_jit_run_into(f, &args, &out, 1, &err), &err);
            for (int i = 0; i < rows * COLUMNS; i++)
                if (y[i] != -(float)((x[i] + 1) * -0.5 + (COLUMNS - 3)))
                    fail_msg("%s: y[%d] = %g", modes[m], i, y[i]);
        }
        rp_jit_free(f);
    }
    rp_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ptx_runs)};
    return cmocka_run_group_tests_name("gpu/op", tests, NULL, NULL);
}
