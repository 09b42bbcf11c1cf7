/* A process with a decimal comma: what is generated, read back and told has points, and results are the same. */
#include "support/comma.h"
#include "support/jits.h"

enum { ROWS = 4, N = 24 };

static rp_status forward(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    x = rp_rms_norm(rp_gelu_tanh(x), rp_none(), 1e-5);
    x = rp_add_scalar(rp_mul_scalar(x, 2.125), args->item[1].as.number);
    *result = rp_jit_value(call, rp_softmax(x, -1));
    return RP_OK;
}

static void values_at(int level, bool comma, float *out) {
    static float data[ROWS * N];
    for (int i = 0; i < ROWS * N; i++) data[i] = (float)(i % 23) * 0.1f - 1.0f;
    rp_jit *f = jit_at(forward, level, RP_DYNAMIC_AUTO, NULL);
    rp_value v[2] = {f32_of(data, 2, ROWS, N), rp_value_float(0.75)};
    rp_value args = rp_value_tuple(v, 2);
    if (comma) comma_begin();
    rp_output *o = jit_ok(f, &args);
    char *guards = NULL;
    rp_error err = {0};
    CHECK_OK(rp_jit_guards_text(f, &guards, &err), &err);
    if (comma) comma_end();
    if (!strstr(guards, "0.75")) fail_msg("level %d: %s", level, guards);
    if (*rp_output_reason(o)) fail_msg("level %d: %s", level, rp_output_reason(o));
    memcpy(out, jit_result(o)->tensor.data, ROWS * N * sizeof *out);
    rp_output_free(o);
    rp_free(guards);
    rp_jit_free(f);
}

static void functions_compile(void **state) {
    float with[ROWS * N], without[ROWS * N];
    (void)state;
    for (int level = 1; level <= 3; level++) {
        values_at(level, true, with);
        values_at(level, false, without);
        assert_memory_equal(with, without, sizeof with);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
