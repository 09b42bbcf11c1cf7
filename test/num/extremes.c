/* Functions of one element that are made of others (trace/activation.c), where those overflow, vanish or lose what is small: near what
 * double precision says, op by op and compiled. */
#include "support/check.h"

#include <float.h>
#include <math.h>

#include "reprise/reprise.h"

/* Of every size of either sign; the last ones are no numbers to compare by distance. */
static const float at[] = {0.0f,   -0.0f,   1e-38f,   -1e-38f,   1e-20f, -1e-20f, 1e-7f,  -1e-7f,
                           1e-4f,  -1e-4f,  0.03f,    -0.03f,    0.4f,   -0.4f,   0.999f, -0.999f,
                           1.0f,   -1.0f,   1.001f,   -1.001f,   2.5f,   -2.5f,   9.0f,   -9.0f,
                           17.5f,  -17.5f,  44.0f,    -44.0f,    80.0f,  -80.0f,  103.0f, -103.0f,
                           120.0f, -120.0f, 1e3f,     -1e3f,     3e9f,   -3e9f,   1e19f,  -1e19f,
                           1e38f,  -1e38f,  INFINITY, -INFINITY, NAN};
enum { N = sizeof at / sizeof *at };

#define ONE(name, expr)                         \
    static rp_tensor make_##name(rp_tensor x) { \
        return expr;                            \
    }                                           \
    static double want_##name(double x)
ONE(log1p, rp_log1p(x)) {
    return log1p(x);
}
ONE(expm1, rp_expm1(x)) {
    return expm1(x);
}
ONE(relu, rp_relu(x)) {
    return x > 0 ? x : x != x ? x : 0;
}
ONE(leaky, rp_leaky_relu(x, 0.25)) {
    return x > 0 ? x : 0.25 * x;
}
ONE(elu, rp_elu(x, 1.5)) {
    return x > 0 ? x : 1.5 * expm1(x);
}
ONE(silu, rp_silu(x)) {
    return x == -INFINITY ? NAN : x / (1 + exp(-x));
}
ONE(gelu, rp_gelu_erf(x)) {
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
ONE(gelu_tanh, rp_gelu_tanh(x)) {
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
ONE(quick_gelu, rp_quick_gelu(x)) {
    return x == -INFINITY ? NAN : x / (1 + exp(-1.702 * x));
}
ONE(softplus, rp_softplus(x)) {
    return x != x ? x : fmax(x, 0) + log1p(exp(-fabs(x)));
}
ONE(softcap, rp_softcap(x, 30)) {
    return 30 * tanh(x / 30);
}
ONE(clamp, rp_clamp(x, -2, 7)) {
    return x != x ? x : x < -2 ? -2 : x > 7 ? 7 : x;
}
ONE(isnan, rp_cast(rp_isnan(x), RP_DTYPE_F32)) {
    return x != x;
}

/* near: of values that are not tiny, relative to them; tiny: how far the others may be. */
static const struct {
    const char *name;
    rp_tensor (*make)(rp_tensor);
    double (*want)(double);
    double near, tiny;
} all[] = {
#define ROW(name, near, tiny) \
    { #name, make_##name, want_##name, near, tiny }
    ROW(log1p, 1e-6, 1e-38),
    ROW(expm1, 2e-6, 1e-38),
    ROW(relu, 0, 0),
    ROW(leaky, 1e-7, 1e-44),
    ROW(elu, 2e-6, 1e-38),
    ROW(silu, 2e-5, 1e-37),
    ROW(gelu, 2e-5, 1e-6),
    ROW(gelu_tanh, 2e-5, 2e-6),
    ROW(quick_gelu, 2e-5, 1e-37),
    ROW(softplus, 2e-6, 1e-37),
    ROW(softcap, 1e-6, 1e-38),
    ROW(clamp, 0, 0),
    ROW(isnan, 0, 0)};
enum { FUNCTIONS = sizeof all / sizeof *all };

static void run(const char *setting, float *y) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_tensor out[FUNCTIONS];
    rp_buffer to[FUNCTIONS], in = {RP_DTYPE_F32, 1, {N}, (void *)(uintptr_t)at};
    rp_graph *g = rp_graph_new("extremes");
    rp_compilation_config *cfg = rp_config_new();
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(N));
    for (int i = 0; i < FUNCTIONS; i++) {
        out[i] = all[i].make(x);
        to[i] = (rp_buffer){RP_DTYPE_F32, 1, {N}, y + i * N};
    }
    CHECK_OK(rp_graph_finish(g, out, FUNCTIONS, &err), &err);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_run(c, &in, 1, to, FUNCTIONS, &err), &err);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

static bool is_near(double got, double want, double near, double tiny) {
    if (want != want || got != got) return want != want && got != got;
    if (fabs(want) > (double)FLT_MAX * (1 - 1e-6))
        return got >= (double)FLT_MAX * (1 - 1e-6) || got <= -(double)FLT_MAX * (1 - 1e-6);
    return fabs(got - want) <= near * fabs(want) + tiny;
}

static void extremes_are_near(void **state) {
    static const char *const settings[] = {"level=0", "level=2"};
    static float y[FUNCTIONS * N];
    int wrong = 0;
    (void)state;
    for (int s = 0; s < 2; s++) {
        run(settings[s], y);
        for (int i = 0; i < FUNCTIONS; i++)
            for (int k = 0; k < N; k++) {
                const double got = (double)y[i * N + k], want = all[i].want((double)at[k]);
                if (is_near(got, want, all[i].near, all[i].tiny)) continue;
                print_message("%s: %s(%g) is %.9g, not %.9g\n", settings[s], all[i].name,
                              (double)at[k], got, want);
                wrong++;
            }
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(extremes_are_near)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
