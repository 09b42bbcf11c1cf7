/* The largest of each row and where it is, as the head of a model asks for them: by the library, by the portable kernels and on the
 * emulated GPU what a plain loop finds, with equals, zeros of both signs, infinities and NaN, in rows of any length. */
#include <math.h>

#include "support/both.h"
#include "support/gpu.h"

static const char *why_not;
static compile_nvrtc nvrtc;

/* Rounded numbers, of which many are equal; the kind of row i is i % 6. A GPU has a kernel for each of these. */
static const int few = 12, many = 18;

static void fill(double *x, int n, int rows) {
    for (int r = 0; r < rows; r++) {
        double *row = x + (ptrdiff_t)r * n;
        for (int i = 0; i < n; i++) row[i] = floor(row[i] * 4) / 4;
        const int at = (r * 7919 + n / 2) % n;
        if (r % 6 == 1) row[at] = r > 6 ? -(double)NAN : (double)NAN;
        if (r % 6 == 2) row[at] = (double)INFINITY;
        if (r % 6 == 3)
            for (int i = 0; i < n; i++) row[i] = -(double)INFINITY;
        if (r % 6 == 4)
            for (int i = 0; i < n; i++) row[i] = i % 2 ? 0.0 : -0.0;
        if (r % 6 == 5) {
            for (int i = 0; i < n; i++) row[i] = -1 - fabs(row[i]);
            row[n - 1] = -0.5;
        }
    }
}

static int best_of(const double *row, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[best] || (isnan(row[i]) && !isnan(row[best]))) best = i;
    return best;
}

static void check(const char *who, const double *x, int n, int rows, const plan_run *r) {
    const float *values = r->out[0];
    const int32_t *places = r->out[1];
    for (int i = 0; i < rows; i++) {
        const double *row = x + (ptrdiff_t)i * n;
        const int want = best_of(row, n);
        const float value = (float)row[want];
        if (places[i] != want || (values[i] != value && !(isnan(values[i]) && isnan(value))))
            fail_msg("%s: row %d of %d: %g at %d, not %g at %d", who, i, n, (double)values[i],
                     places[i], (double)value, want);
    }
}

static plan_run run_on_gpu(const both *b) {
    rp_error err = {0};
    plan_run r = {0};
    plan_run_options o = {.backend = &compile_cuda,
                          .store = host.store,
                          .nvrtc = &nvrtc,
                          .device = "cuda:0",
                          .threads = 1,
                          .passes = true};
    CHECK_OK(plan_run_graph(b->g, &b->l, &o, &r, &err), &err);
    return r;
}

static void rows_of(int n, int rows) {
    char text[300];
    rp_error err = {0};
    both b = {0};
    (void)snprintf(text, sizeof text,
                   "graph @g(%%x: f32[T,%d]) where T in [%d,%d] {\n  %%v = topk %%x {k=1}\n"
                   "  %%i = result %%v {index=1}\n  ret %%v, %%i }\n",
                   n, rows, rows);
    CHECK_OK(ir_parse(text, strlen(text), &b.g, &err), &err);
    CHECK_OK(both_leaves(&b, 5, &err), &err);
    double *x = b.l.leaf[IR_LEAF_INPUT][0].data;
    fill(x, n, rows);
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
    check("library", x, n, rows, &b.code);
    check("portable", x, n, rows, &b.eager);
    if (!why_not) {
        plan_run gpu = run_on_gpu(&b);
        check("GPU", x, n, rows, &gpu);
        plan_run_done(&gpu);
    }
    both_done(&b);
}

static void the_first_of_the_largest_is_found(void **state) {
    /* of one piece, of several of a thread, of whole pieces and not, of blocks and a rest */
    static const int lengths[] = {1, 3, 4, 31, 255, 256, 257, 1000, 2047, 2052, 5003, 20000};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        rows_of(lengths[i], few);
        rows_of(lengths[i], many);
    }
}

static void the_gpu_had_its_part(void **state) {
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
}

static int set_up(void **state) {
    rp_error err = {0};
    if (gpu_emulate(&why_not)) why_not = NULL;
    if (both_set_up(state) != 0) return -1;
    return why_not || compile_nvrtc_find("sm_90", &nvrtc, &err) == RP_OK ? 0 : -1;
}

static int tear_down(void **state) {
    compile_nvrtc_done(&nvrtc);
    return both_tear_down(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_the_largest_is_found),
        cmocka_unit_test(the_gpu_had_its_part),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
