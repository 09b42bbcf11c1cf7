/* Functions that are odd keep the sign of a zero, in each type, at level 0 and compiled, on either device. */
#include "support/check.h"
#include "support/elsewhere.h"

#include <math.h>

typedef struct odd {
    const char *name;
    rp_tensor (*fn)(rp_tensor);
} odd;

static const odd functions[] = {
    {"sin", rp_sin},       {"tan", rp_tan},     {"asin", rp_asin},   {"atan", rp_atan},
    {"sinh", rp_sinh},     {"tanh", rp_tanh},   {"erf", rp_erf},     {"erfinv", rp_erfinv},
    {"expm1", rp_expm1},   {"log1p", rp_log1p}, {"sqrt", rp_sqrt},   {"floor", rp_floor},
    {"ceil", rp_ceil},     {"round", rp_round}, {"trunc", rp_trunc}, {"silu", rp_silu},
    {"gelu", rp_gelu_erf},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, N = 40 };

static void check(rp_dtype t, const char *setting) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_tensor y[FUNCTIONS];
    static double x[N], got[FUNCTIONS * N];
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("zeros");
    rp_tensor in = rp_cast(rp_input(g, "x", RP_DTYPE_F64, RP_SHAPE(N)), t);
    for (int i = 0; i < FUNCTIONS; i++) y[i] = functions[i].fn(in);
    rp_tensor all = rp_cast(rp_concat(y, FUNCTIONS, 0), RP_DTYPE_F64);
    for (int i = 0; i < N; i++) x[i] = i % 3 ? -0.0 : 0.0;
    rp_buffer from = {RP_DTYPE_F64, 1, {N}, x}, to = {RP_DTYPE_F64, 1, {FUNCTIONS * N}, got};
    CHECK_OK(rp_graph_finish(g, &all, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_run(c, &from, 1, &to, 1, &err), &err);
    for (int i = 0; i < FUNCTIONS * N; i++)
        if (got[i] != 0 || !signbit(got[i]) != !signbit(x[i % N]))
            fail_msg("%s of %s at %s: %g of %g", functions[i / N].name, rp_dtype_name(t), setting,
                     got[i], x[i % N]);
    rp_compiled_free(c);
    rp_config_free(cfg);
    rp_graph_free(g);
}

static void odd_functions_keep_the_sign_of_a_zero(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F64, RP_DTYPE_F16, RP_DTYPE_BF16};
    (void)state;
    for (int i = 0; i < 4; i++) {
        check(types[i], "level=0");
        check(types[i], "level=2");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(odd_functions_keep_the_sign_of_a_zero)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
