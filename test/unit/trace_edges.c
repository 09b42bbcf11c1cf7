/* Composites at the edges of what they take: infinities and NaN, the least integers, indices beyond both ends, eps above what it
 * guards, and arguments that do not count. */
#include "support/check.h"

#include <math.h>

#include "ir/eval.h"
#include "reprise/reprise.h"
#include "trace/trace.h"

enum { MOST = 64 };

/* [n] of these numbers. */
static rp_tensor row_of(rp_graph *g, rp_dtype t, const double *v, uint32_t n) {
    rp_tensor x[MOST];
    for (uint32_t i = 0; i < n; i++)
        x[i] = t == RP_DTYPE_I64 ? rp_const_int(g, t, (int64_t)v[i]) : rp_const(g, t, v[i]);
    return rp_stack(x, n, 0);
}

/* Frees g. */
static void finish(rp_graph *g, rp_tensor y, double *out, int64_t n) {
    rp_error err = {0};
    ir_value v = {0};
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(ir_eval(trace_graph_ir(g), NULL, NULL, NULL, NULL, &v, &err), &err);
    assert_int_equal(v.n, n);
    memcpy(out, v.data, (size_t)n * sizeof *out);
    ir_value_done(&v);
    rp_graph_free(g);
}

static bool is_near(double got, double want) {
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= 2e-6 * (1 + fabs(want));
}

static void check_all(const char *what, const double *got, const double *want, int n) {
    for (int i = 0; i < n; i++)
        if (!is_near(got[i], want[i]))
            fail_msg("%s, element %d: %.9g, not %.9g", what, i, got[i], want[i]);
}

/* --- reductions ------------------------------------------------------------------------ */

/* As numpy: the greatest decides where it is infinite or no number. */
static void logarithms_of_sums_of_exponentials(void **state) {
    const double inf = (double)INFINITY;
    const double x[] = {-inf, -inf, -inf, inf, 0,   -inf, (double)NAN, 1,    inf,
                        -inf, 2,    -inf, 1e4, 1e4, -inf, -1e4,        -1e4, -1e4};
    const double want[] = {-inf, inf, (double)NAN, 2, 1e4 + log(2), -1e4 + log(3)};
    double y[6];
    (void)state;
    for (int wide = 0; wide < 2; wide++)
        for (int keep = 0; keep < 2; keep++) {
            rp_graph *g = rp_graph_new("edges");
            rp_tensor t = row_of(g, wide ? RP_DTYPE_F64 : RP_DTYPE_F32, x, 18);
            finish(g, rp_logsumexp(rp_reshape(t, RP_SHAPE(6, 3)), -1, keep), y, 6);
            check_all("logsumexp", y, want, 6);
            for (int i = 3; wide && i < 6; i++) assert_true(fabs(y[i] - want[i]) <= 2e-12);
        }
}

/* The first of equals, over all that the type has: the least integer has no opposite. */
static void the_places_of_extremes(void **state) {
    static const struct {
        rp_dtype t;
        double x[4];
        int least, greatest;
    } cases[] = {{RP_DTYPE_I32, {5, -0x1p31, 0x1p31 - 1, -0x1p31}, 1, 2},
                 {RP_DTYPE_I32, {0x1p31 - 1, 3, 3, 0x1p31 - 1}, 1, 0},
                 {RP_DTYPE_I64, {0, 7, -0x1p63, -0x1p62}, 2, 1},
                 {RP_DTYPE_I8, {5, -128, 127, -128}, 1, 2},
                 {RP_DTYPE_I16, {0, 32767, -32768, -32767}, 2, 1},
                 {RP_DTYPE_U8, {255, 0, 3, 0}, 1, 0},
                 {RP_DTYPE_F32, {2, -1, -1, 2}, 1, 0},
                 {RP_DTYPE_F32, {2, (double)NAN, -(double)INFINITY, 3}, 1, 1},
                 {RP_DTYPE_F64, {0x1p-1074, 0, -0x1p-1074, 1}, 2, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double y[2];
        rp_graph *g = rp_graph_new("edges");
        rp_tensor x = row_of(g, cases[i].t, cases[i].x, 4);
        rp_tensor all[] = {rp_argmin(x, 0, false), rp_argmax(x, 0, false)};
        finish(g, rp_cast(rp_stack(all, 2, 0), RP_DTYPE_F64), y, 2);
        if (y[0] != cases[i].least || y[1] != cases[i].greatest)
            fail_msg("case %zu: least at %g, greatest at %g", i, y[0], y[1]);
    }
}

/* In i64, as torch: what an element holds is soon exceeded. Of others the type stays. */
static void sums_of_small_integers_are_wide(void **state) {
    static const struct {
        rp_dtype t, of;
        double x[4], sum, product;
    } cases[] = {{RP_DTYPE_U8, RP_DTYPE_I64, {200, 100, 255, 3}, 558, 15300000},
                 {RP_DTYPE_I8, RP_DTYPE_I64, {-128, 127, -128, -128}, -257, -266338304},
                 {RP_DTYPE_I16, RP_DTYPE_I64, {32767, 32767, 2, -1}, 65535, -2147352578},
                 {RP_DTYPE_I32, RP_DTYPE_I32, {0x1p31 - 1, 1, 1, 1}, -0x1p31 + 2, 0x1p31 - 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double y[4];
        rp_graph *g = rp_graph_new("edges");
        rp_tensor x = row_of(g, cases[i].t, cases[i].x, 4);
        rp_tensor all[] = {rp_sum(x, 0, false), rp_prod(x, 0, false),
                           rp_squeeze(rp_slice(rp_cumsum(x, 0), 0, 3, 4), 0),
                           rp_squeeze(rp_slice(rp_cumprod(x, 0), 0, 3, 4), 0)};
        for (int k = 0; k < 4; k++) assert_int_equal(rp_tensor_dtype(all[k]), cases[i].of);
        assert_int_equal(rp_tensor_dtype(rp_amax(x, 0, false)), cases[i].t);
        assert_int_equal(rp_tensor_dtype(rp_cummax(x, 0)), cases[i].t);
        finish(g, rp_cast(rp_stack(all, 4, 0), RP_DTYPE_F64), y, 4);
        for (int k = 0; k < 4; k++)
            if (y[k] != (k % 2 ? cases[i].product : cases[i].sum))
                fail_msg("case %zu: result %d is %.17g", i, k, y[k]);
    }
}

/* As torch: a number that the type does not have is its low bits. */
static void numbers_wrap_around(void **state) {
    static const double x[] = {5, 0, 255, 100}, want[] = {4, 255, 254, 99, 251, 0, 1, 156};
    double y[8];
    rp_graph *g = rp_graph_new("edges");
    rp_tensor u = row_of(g, RP_DTYPE_U8, x, 4);
    rp_tensor all[] = {rp_add_scalar(u, -1), rp_mul_int(u, -1)};
    (void)state;
    finish(g, rp_cast(rp_concat(all, 2, 0), RP_DTYPE_F64), y, 8);
    check_all("u8", y, want, 8);
}

/* What an i32 does not hold is behind, or in front of, every place. */
static void far_indices_are_clamped(void **state) {
    static const double x[] = {10, 20, 30}, want[] = {30, 10, 20};
    double y[3], hot[9];
    rp_graph *g = rp_graph_new("edges");
    rp_tensor at = rp_stack((rp_tensor[]){rp_const_int(g, RP_DTYPE_I64, INT64_C(1) << 32),
                                          rp_const_int(g, RP_DTYPE_I64, -(INT64_C(1) << 32) + 1),
                                          rp_const_int(g, RP_DTYPE_I64, 1)},
                            3, 0);
    (void)state;
    finish(g, rp_cast(rp_take_along(row_of(g, RP_DTYPE_F32, x, 3), 0, at), RP_DTYPE_F64), y, 3);
    check_all("take_along", y, want, 3);
    g = rp_graph_new("edges");
    at = rp_stack((rp_tensor[]){rp_const_int(g, RP_DTYPE_I64, INT64_C(1) << 32),
                                rp_const_int(g, RP_DTYPE_I64, (INT64_C(1) << 32) + 1),
                                rp_const_int(g, RP_DTYPE_I64, 1)},
                  3, 0);
    finish(g, rp_one_hot(at, 3, RP_DTYPE_F64), hot, 9);
    for (int i = 0; i < 9; i++) assert_true(hot[i] == (i == 7));
}

/* More of them than an index of 8 bits can name. */
static void small_integers_are_counted(void **state) {
    static const double x[] = {127, 3, -128, 127};
    double y[200];
    rp_graph *g = rp_graph_new("edges");
    (void)state;
    finish(g, rp_cast(rp_bincount(row_of(g, RP_DTYPE_I8, x, 4), 200), RP_DTYPE_F64), y, 200);
    for (int i = 0; i < 200; i++) assert_true(y[i] == (i == 127 ? 2 : i == 3));
}

/* Over size - correction, and the mean beside it. */
static void variances_take_any_correction(void **state) {
    static const double x[] = {1, 2, 4, 9, -3};
    const double mean = 13 / 5.0;
    double squares = 0, y[2];
    (void)state;
    for (int i = 0; i < 5; i++) squares += (x[i] - mean) * (x[i] - mean);
    for (int correction = -1; correction < 8; correction++) {
        const double want[] = {squares / fmax(5 - correction, 0), mean};
        rp_graph *g = rp_graph_new("edges");
        rp_tensor both[2];
        rp_var_mean(row_of(g, RP_DTYPE_F32, x, 5), 0, false, correction, &both[0], &both[1]);
        finish(g, rp_stack(both, 2, 0), y, 2);
        check_all("variance and mean", y, want, 2);
    }
}

/* As torch: of one element, or none, nothing is left to divide by. */
static void variances_of_too_few_are_no_numbers(void **state) {
    static const double x[] = {7};
    const double want[] = {(double)NAN};
    double y[1];
    (void)state;
    for (int correction = 1; correction < 4; correction++)
        for (int n = 0; n < 2; n++) {
            rp_graph *g = rp_graph_new("edges");
            rp_tensor t = rp_slice(row_of(g, RP_DTYPE_F32, x, 1), 0, 0, n);
            finish(g, rp_var(t, 0, true, correction), y, 1);
            check_all("variance", y, want, 1);
        }
}

/* Of one head, [5,1,2]: rows 0 to 1 and 2 to 3 are sequences, the last row is nobody's. */
static void sequences_know_nothing_of_each_other(void **state) {
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    static const double cuts[] = {0, 2, 4};
    (void)state;
    for (int b = 0; b < 3; b++)
        for (int first = 0; first < 5; first += 2) { /* where it is bad, to the next one's */
            double x[10], v[10], y[10], want[10];
            for (int i = 0; i < 10; i++) x[i] = sin(i), v[i] = want[i] = i;
            for (int run = 0; run < 2; run++) {
                rp_graph *g = rp_graph_new("edges");
                for (int i = 2 * first; run && i < 2 * first + 4 && i < 10; i++) v[i] = bad[b];
                rp_tensor q = rp_reshape(row_of(g, RP_DTYPE_F32, x, 10), RP_SHAPE(5, 1, 2));
                rp_tensor values = rp_reshape(row_of(g, RP_DTYPE_F32, v, 10), RP_SHAPE(5, 1, 2));
                rp_tensor cu = row_of(g, RP_DTYPE_I32, cuts, 3);
                rp_varlen_args a = {.q = q, .k = q, .v = values, .cu_q = cu, .cu_k = cu};
                finish(g, rp_varlen_attention(&a, NULL), run ? y : want, 10);
            }
            for (int i = 0; i < 10; i++)
                if (i / 4 != first / 2 && y[i] != want[i])
                    fail_msg("%g from row %d on: element %d is %g, not %g", bad[b], first, i, y[i],
                             want[i]);
        }
}

static void lengths_are_at_least_eps(void **state) {
    static const double x[] = {3, 4, 0, 0, 0.3, -0.4};
    static const double eps[] = {0.25, 1, 8};
    double y[6], want[6];
    (void)state;
    for (int e = 0; e < 6; e++)
        for (int axis = 0; axis < 2; axis++) {
            const rp_dtype type = e < 3 ? RP_DTYPE_F32 : RP_DTYPE_F64;
            rp_graph *g = rp_graph_new("edges");
            rp_tensor t = rp_reshape(row_of(g, type, x, 6), RP_SHAPE(3, 2));
            finish(g, rp_l2_normalize(t, axis, eps[e % 3]), y, 6);
            for (int i = 0; i < 6; i++) {
                double sum = 0;
                for (int k = 0; k < 6; k++)
                    sum += (axis ? k / 2 == i / 2 : k % 2 == i % 2) ? x[k] * x[k] : 0;
                want[i] = x[i] / fmax(sqrt(sum), eps[e % 3]);
            }
            check_all("normalized", y, want, 6);
        }
}

/* Of no elements: no weights, -inf for the logarithm of their sum, and zeros for a row that attends to nothing. */
static void softmax_of_nothing(void **state) {
    static const double x[] = {1, 2, 3, 4};
    const double least[] = {-(double)INFINITY, -(double)INFINITY};
    double y[2];
    (void)state;
    for (int what = 0; what < 4; what++) {
        rp_graph *g = rp_graph_new("edges");
        rp_tensor a = rp_reshape(row_of(g, RP_DTYPE_F32, x, 4), RP_SHAPE(2, 2));
        rp_tensor none = rp_slice(a, 1, 0, 0);
        const rp_sdpa_args s = {.q = a, .k = rp_slice(a, 0, 0, 0), .v = rp_slice(a, 0, 0, 0)};
        rp_tensor out = what == 0   ? rp_softmax(none, 1)
                        : what == 1 ? rp_log_softmax(none, -1)
                        : what == 2 ? rp_logsumexp(none, 1, false)
                                    : rp_slice(rp_scaled_dot_product_attention(&s), 1, 1, 2);
        finish(g, out, y, what < 2 ? 0 : 2);
        if (what == 2) check_all("logsumexp", y, least, 2);
        if (what == 3) check_all("attention", y, (double[]){0, 0}, 2);
    }
}

/* The same where it may come to that. */
static void an_axis_may_be_empty(void **state) {
    (void)state;
    for (int what = 0; what < 5; what++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("edges");
        rp_dim t = rp_symbol(g, "T", 0, 8);
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(t, t));
        rp_tensor y = what == 0   ? rp_softmax(x, 0)
                      : what == 1 ? rp_log_softmax(x, 1)
                      : what == 2 ? rp_logsumexp(x, 1, true)
                      : what == 3 ? rp_flip(x, 0)
                                  : rp_var(x, 0, true, 2);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        rp_graph_free(g);
    }
}

/* Rows, or columns that nobody sees then, may be none: of sizes that are known and of those that are not, and where a sequence has room for more. */
static void sequences_may_be_empty(void **state) {
    static const int64_t sizes[][2] = {{0, 0}, {0, 3}, {3, 0}, {3, 2}};
    static const double values[] = {0.5, -1, 2, 0.25, 1, -0.5};
    (void)state;
    for (int way = 0; way < 4; way++)
        for (int i = 0; i < 4; i++) {
            rp_error err = {0};
            rp_graph *g = rp_graph_new("edges");
            const bool known = way % 2;
            const rp_dim most = rp_dim_const(way / 2 * 3);
            const int64_t t = sizes[i][0], s = sizes[i][1];
            rp_dim rows = known ? rp_dim_const(t) : rp_symbol(g, "T", 0, 3);
            rp_dim columns = known ? rp_dim_const(s) : rp_symbol(g, "S", 0, 3);
            const double cut_q[] = {0, t < 2 ? t : 2, t}, cut_k[] = {0, s < 1 ? s : 1, s};
            const rp_varlen_args a = {.q = rp_input(g, "q", RP_DTYPE_F32, RP_SHAPE(rows, 1, 2)),
                                      .k = rp_input(g, "k", RP_DTYPE_F32, RP_SHAPE(columns, 1, 2)),
                                      .v = rp_input(g, "v", RP_DTYPE_F32, RP_SHAPE(columns, 1, 1)),
                                      .cu_q = row_of(g, RP_DTYPE_I32, cut_q, 3),
                                      .cu_k = row_of(g, RP_DTYPE_I32, cut_k, 3),
                                      .max_q = most,
                                      .max_k = most};
            rp_tensor out[2];
            out[0] = rp_varlen_attention(&a, &out[1]);
            CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
            double x[3][6];
            for (int k = 0; k < 3; k++) memcpy(x[k], values, sizeof values);
            ir_value in[3], y[2] = {0};
            for (int k = 0; k < 3; k++)
                in[k] = (ir_value){.rank = 3,
                                   .dim = {k ? s : t, 1, k < 2 ? 2 : 1},
                                   .n = (k ? s : t) * (k < 2 ? 2 : 1),
                                   .data = x[k]};
            const int64_t symbols[] = {t, s};
            CHECK_OK(ir_eval(trace_graph_ir(g), in, NULL, NULL, known ? NULL : symbols, y, &err),
                     &err);
            assert_int_equal(y[0].n, t);
            assert_int_equal(y[1].n, t);
            /* A sequence of one column gives its value, one of none gives 0. */
            for (int k = 0; k < t; k++) {
                assert_true(y[0].data[k] == (s == 0 ? 0 : values[k / 2]));
                assert_true(s == 0 ? y[1].data[k] == -(double)INFINITY : isfinite(y[1].data[k]));
            }
            ir_value_done(&y[0]);
            ir_value_done(&y[1]);
            rp_graph_free(g);
        }
}

/* Attention in double precision; the first row sees nothing. */
static void attention_of_doubles(void **state) {
    static const double x[] = {0.5, -1, 2, 0.25}, sees[] = {0, 0, 1, 1};
    double y[2], want[] = {0, 0}, sum = 0;
    (void)state;
    rp_graph *g = rp_graph_new("edges");
    rp_tensor q = rp_reshape(row_of(g, RP_DTYPE_F64, x, 2), RP_SHAPE(1, 2, 1));
    rp_tensor k = rp_reshape(row_of(g, RP_DTYPE_F64, x + 2, 2), RP_SHAPE(1, 2, 1));
    rp_tensor mask = rp_reshape(row_of(g, RP_DTYPE_BOOL, sees, 4), RP_SHAPE(2, 2));
    const rp_sdpa_args a = {.q = q, .k = k, .v = k, .mask = mask};
    for (int i = 0; i < 2; i++) {
        const double e = exp(x[1] * x[2 + i]);
        sum += e;
        want[1] += e * x[2 + i];
    }
    want[1] /= sum;
    finish(g, rp_scaled_dot_product_attention(&a), y, 2);
    assert_true(y[0] == 0 && fabs(y[1] - want[1]) < 1e-15);
}

/* --- writes by index ------------------------------------------------------------------- */

/* a[i, j] = v and a[i, j] += v, with indices beyond both ends taken for the ends. */
static void places_of_two_indices(void **state) {
    enum { ROWS = 2, COLUMNS = 5, DEPTH = 3, N = ROWS * COLUMNS * DEPTH, MANY = 5 };
    static const double i[MANY] = {0, 1, 7, -2, 1}, j[MANY] = {4, -3, 2, 1, 2};
    static const int row[MANY] = {0, 1, 1, 0, 1}, column[MANY] = {4, 0, 2, 1, 2};
    static const rp_dtype types[] = {RP_DTYPE_I32, RP_DTYPE_I64};
    (void)state;
    for (int added = 0; added < 2; added++)
        for (int t = 0; t < 2; t++) {
            double y[N], want[N];
            const uint32_t many = added ? MANY : MANY - 1; /* the last one meets the third */
            rp_graph *g = rp_graph_new("edges");
            rp_tensor a = rp_iota(g, RP_DTYPE_F32, RP_SHAPE(N), 0);
            rp_tensor idx[] = {row_of(g, types[t], i, many), row_of(g, types[t], j, many)};
            rp_tensor v = rp_mul_scalar(rp_iota(g, RP_DTYPE_F32, RP_SHAPE(many, DEPTH), 0), 100);
            a = rp_reshape(a, RP_SHAPE(ROWS, COLUMNS, DEPTH));
            finish(g, rp_index_put(a, idx, 2, v, added), y, N);
            for (int k = 0; k < N; k++) want[k] = k;
            for (uint32_t k = 0; k < many; k++)
                for (int d = 0; d < DEPTH; d++) {
                    double *at = &want[(row[k] * COLUMNS + column[k]) * DEPTH + d];
                    *at = added ? *at + 100 * k : 100 * k;
                }
            check_all(added ? "added" : "put", y, want, N);
        }
}

/* In the interpreter, which is what others are compared with: below 0 is 0, the size and above is the last. */
static void places_of_a_scatter(void **state) {
    static const double at[] = {4, -1, 3, 5, -0x1p31, 0x1p31 - 1}, want[] = {104, 1, 2, 105};
    double y[4];
    (void)state;
    for (int t = 0; t < 2; t++) {
        rp_graph *g = rp_graph_new("edges");
        rp_tensor a = rp_iota(g, RP_DTYPE_F32, RP_SHAPE(4), 0);
        rp_tensor idx = row_of(g, t ? RP_DTYPE_I64 : RP_DTYPE_I32, at, 6);
        rp_tensor src = rp_add_scalar(rp_iota(g, RP_DTYPE_F32, RP_SHAPE(6), 0), 100);
        finish(g, rp_scatter(a, 0, idx, src), y, 4);
        check_all("scattered", y, want, 4);
        /* one behind the last alone, in the middle of others */
        g = rp_graph_new("edges");
        a = rp_reshape(rp_iota(g, RP_DTYPE_F32, RP_SHAPE(4), 0), RP_SHAPE(2, 2));
        idx = rp_reshape(row_of(g, t ? RP_DTYPE_I64 : RP_DTYPE_I32, (double[]){2, 0}, 2),
                         RP_SHAPE(2, 1));
        src = rp_reshape(row_of(g, RP_DTYPE_F32, (double[]){7, 8}, 2), RP_SHAPE(2, 1));
        finish(g, rp_scatter(a, 1, idx, src), y, 4);
        check_all("scattered along rows", y, (double[]){0, 7, 8, 3}, 4);
    }
}

/* --- moves --------------------------------------------------------------------------------- */

/* start, start + step, .. below stop, whether whole steps end within the axis or not. */
static void steps_of_any_length(void **state) {
    enum { N = 7 };
    (void)state;
    for (int64_t start = 0; start <= N; start++)
        for (int64_t stop = start; stop <= N; stop++)
            for (int64_t step = 1; step <= N + 1; step++) {
                double y[N] = {0}, want[N] = {0};
                rp_graph *g = rp_graph_new("edges");
                rp_tensor a = rp_reshape(rp_iota(g, RP_DTYPE_F32, RP_SHAPE(N), 0), RP_SHAPE(1, N));
                int n = 0;
                for (int64_t i = start; i < stop; i += step) want[n++] = (double)i;
                finish(g, rp_slice_step(a, 1, start, stop, step), y, n);
                check_all("steps", y, want, n);
            }
}

/* Along each of as many axes as there may be. */
static void steps_along_six_axes(void **state) {
    static const int sizes[RP_MAX_RANK] = {3, 2, 1, 3, 2, 2};
    enum { ALL = 72 };
    (void)state;
    for (int axis = 0, inner = ALL; axis < RP_MAX_RANK; axis++) {
        double y[ALL], want[ALL];
        int n = 0;
        rp_graph *g = rp_graph_new("edges");
        rp_tensor a = rp_iota(g, RP_DTYPE_F32, RP_SHAPE(ALL), 0);
        inner /= sizes[axis];
        for (int i = 0; i < ALL; i++)
            if (i / inner % sizes[axis] % 2 == 0) want[n++] = i;
        a = rp_reshape(a, RP_SHAPE(3, 2, 1, 3, 2, 2));
        finish(g, rp_slice_step(a, axis, 0, sizes[axis], 2), y, n);
        check_all("steps", y, want, n);
    }
}

/* Nothing is turned around where an axis is empty, or may be. */
static void an_empty_axis_is_turned_around(void **state) {
    static const double x[] = {1, 2, 3};
    (void)state;
    for (int n = 0; n < 4; n++) {
        double y[3], want[3];
        rp_graph *g = rp_graph_new("edges");
        rp_tensor a = rp_slice(row_of(g, RP_DTYPE_I32, x, 3), 0, 0, n);
        for (int i = 0; i < n; i++) want[i] = x[n - 1 - i];
        finish(g, rp_flip(a, 0), y, n);
        check_all("turned around", y, want, n);
    }
}

/* Of types whose numbers differ where those of float32 do not. */
static void the_largest_of_wide_types(void **state) {
    static const double x[] = {1,          1 + 0x1p-50, (double)NAN, -(double)INFINITY,
                               0x1p53 + 2, 0x1p53 + 2,  0x1p53,      1 + 0x1p-51};
    static const double at[] = {2, 4, 5, 6, 1, 7, 0, 3};
    double y[8];
    (void)state;
    for (int k = 1; k <= 8; k++) {
        rp_graph *g = rp_graph_new("edges");
        rp_tensor v, i;
        rp_topk(row_of(g, RP_DTYPE_F64, x, 8), k, &v, NULL);
        finish(g, v, y, k);
        for (int j = 0; j < k; j++)
            assert_true(isnan(x[(int)at[j]]) ? isnan(y[j]) : y[j] == x[(int)at[j]]);
        g = rp_graph_new("edges");
        rp_topk_along(row_of(g, RP_DTYPE_F64, x, 8), k, 0, NULL, &i);
        finish(g, i, y, k);
        check_all("places", y, at, k);
    }
    for (int k = 1; k <= 7; k++) {
        static const int64_t n[] = {3, 4, 0, INT64_MIN, INT64_MAX, (1LL << 53) + 1, 1LL << 53};
        static const double order[] = {4, 5, 6, 1, 0, 2, 3};
        rp_graph *g = rp_graph_new("edges");
        rp_tensor one[7], i;
        for (int j = 0; j < 7; j++) one[j] = rp_const_int(g, RP_DTYPE_I64, n[j]);
        rp_topk(rp_stack(one, 7, 0), k, NULL, &i);
        finish(g, i, y, k);
        check_all("places of integers", y, order, k);
    }
    for (int k = 0; k < 3; k++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("edges");
        rp_tensor v;
        rp_topk(rp_slice(row_of(g, RP_DTYPE_I64, x, 2), 0, 0, 1), k == 1 ? 1 : k, &v, NULL);
        assert_int_equal(rp_graph_finish(g, &v, 1, &err), k == 1 ? RP_OK : RP_INVALID);
        if (k != 1)
            assert_non_null(
                strstr(err.text, "must be from 1 to the size of the last axis of i64[1]"));
        rp_graph_free(g);
    }
}

/* What is below 0 takes away, also where the other side adds. */
static void paddings_may_be_negative(void **state) {
    static const double x[] = {1, 2, 3, 4, 5};
    double y[10], want[10];
    (void)state;
    for (int before = -5; before < 3; before++)
        for (int after = -5; after < 3; after++) {
            const int cut = (before < 0 ? -before : 0) + (after < 0 ? -after : 0),
                      n = 5 + before + after;
            rp_error err = {0};
            rp_graph *g = rp_graph_new("edges");
            rp_tensor t = rp_pad(row_of(g, RP_DTYPE_F32, x, 5), 0, before, after, 7);
            if (cut > 5) {
                assert_int_equal(rp_graph_finish(g, &t, 1, &err), RP_INVALID);
                rp_graph_free(g);
                continue;
            }
            for (int i = 0; i < n; i++) {
                const int at = i - before;
                want[i] = at >= 0 && at < 5 && i >= before ? x[at] : 7;
            }
            finish(g, t, y, n);
            check_all("padded", y, want, n);
        }
    rp_error err = {0};
    rp_graph *g = rp_graph_new("edges");
    rp_dim n = rp_symbol(g, "N", 1, 5), less = rp_dim_sub(1, n);
    rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(n)), t = rp_pad(in, 0, less, 0, 0);
    assert_true(rp_dim_eq(rp_tensor_dim(t, 0), 1));
    CHECK_OK(rp_graph_finish(g, &t, 1, &err), &err);
    rp_graph_free(g);
}

/* -1, 0 or 1 of each number; of what has no sign 0 or 1. */
static void signs_of_integers(void **state) {
    static const struct {
        rp_dtype t;
        double x[3], want[3];
    } cases[] = {{RP_DTYPE_U8, {0, 1, 255}, {0, 1, 1}},
                 {RP_DTYPE_I8, {-128, 0, 127}, {-1, 0, 1}},
                 {RP_DTYPE_I16, {-3, 0, 32767}, {-1, 0, 1}},
                 {RP_DTYPE_I32, {0, -0x1p31, 7}, {0, -1, 1}}};
    double y[3];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_graph *g = rp_graph_new("edges");
        finish(g, rp_sign(row_of(g, cases[i].t, cases[i].x, 3)), y, 3);
        check_all("sign", y, cases[i].want, 3);
    }
    rp_error err = {0};
    rp_graph *g = rp_graph_new("edges");
    rp_tensor t = rp_sign(rp_input(g, "x", RP_DTYPE_BOOL, RP_SHAPE(3)));
    assert_int_equal(rp_graph_finish(g, &t, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "not bool[3]; cast it"));
    rp_graph_free(g);
}

/* --- arguments that do not count --------------------------------------------------------- */

/* Of a convolution over one axis, what is said of another. */
static void a_line_has_one_axis(void **state) {
    static const rp_conv_args all[] = {{{0, 2}, {0, 1}, {0, 2}, 1}, {{3, 2}, {4, 1}, {2, 2}, 1}};
    static const double x[] = {1, -2, 3, 5, -8, 13}, w[] = {2, -1, 1};
    double y[2], want[2] = {0};
    (void)state;
    for (int k = 0; k < 2; k++) /* windows every 2, taps 2 apart, one zero in front and behind */
        for (int tap = 0; tap < 3; tap++) {
            const int at = 2 * k + 2 * tap - 1;
            if (at >= 0 && at < 6) want[k] += x[at] * w[tap];
        }
    for (int i = 0; i < 2; i++) {
        rp_graph *g = rp_graph_new("edges");
        rp_tensor in = rp_reshape(row_of(g, RP_DTYPE_F32, x, 6), RP_SHAPE(1, 1, 6));
        rp_tensor taps = rp_reshape(row_of(g, RP_DTYPE_F32, w, 3), RP_SHAPE(1, 1, 3));
        finish(g, rp_conv1d(in, taps, rp_none(), &all[i]), y, 2);
        check_all("convolved", y, want, 2);
    }
}

/* --- what is not given -------------------------------------------------------------------- */

static rp_status asks_for_nothing(void *user, rp_jit_call *call, const rp_value *args,
                                  rp_value *result, rp_error *err) {
    rp_graph *g = rp_jit_graph(call);
    rp_tensor x = rp_jit_tensor(call, &args->item[0]), out[2];
    const rp_scan_args sliced = {.n_sliced = 1};
    (void)err;
    switch (*(const int *)user) {
    case 0: x = rp_concat(NULL, 2, 0); break;
    case 1: x = rp_stack(NULL, 2, 0); break;
    case 2: x = rp_permute(x, NULL, 2); break;
    case 3: x = rp_index_put(x, NULL, 1, x, false); break;
    case 4: x = rp_scaled_dot_product_attention(NULL); break;
    case 5: x = rp_attention(NULL); break;
    case 6: x = rp_scan(g, NULL, NULL, NULL, out, 1); break;
    case 7: x = rp_scan(g, NULL, NULL, &sliced, out, 1); break;
    case 8: x = rp_dot_general(x, x, NULL); break;
    default: break;
    }
    *result = rp_jit_value(call, x);
    return RP_OK;
}

/* An error with the line in a function, and in a graph where a tensor tells which. */
static void null_is_an_error(void **state) {
    static const char *const texts[] = {"concat: the list of tensors is NULL",
                                        "stack: the list of tensors is NULL",
                                        "permute: axes is NULL",
                                        "index_put: the list of indices is NULL",
                                        "scaled_dot_product_attention: args is NULL",
                                        "attention: args is NULL",
                                        "scan: args is NULL",
                                        "scan: sliced is NULL",
                                        "dot_general: the axes is NULL"};
    float data[4] = {0};
    rp_value x = rp_value_tensor((rp_buffer){RP_DTYPE_F32, 2, {2, 2}, data}),
             args = rp_value_tuple(&x, 1);
    (void)state;
    for (int i = 0; i < 9; i++) {
        rp_error err = {0};
        rp_jit *f = NULL;
        rp_output *o = NULL;
        rp_jit_options opt = RP_JIT_OPTIONS(asks_for_nothing);
        opt.user = &i;
        CHECK_OK(rp_jit_new(&opt, &f, &err), &err);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        if (!strstr(err.text, texts[i]) || !strstr(err.text, __FILE__ ":"))
            fail_msg("case %d: %s", i, err.text);
        rp_jit_free(f);
    }
    rp_graph *g = rp_graph_new("edges");
    rp_error err = {0};
    rp_tensor y = rp_concat(NULL, 2, 0);
    assert_int_equal(rp_graph_finish(g, NULL, 1, &err), RP_INVALID);
    assert_string_equal(err.text, "graph @edges: the list of outputs is NULL");
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    rp_graph_free(g);
    assert_int_equal(rp_graph_parse(NULL, 1, &g, &err), RP_INVALID);
    assert_int_equal(rp_graph_parse("x", 1, NULL, &err), RP_INVALID);
    assert_string_equal(err.text, "rp_graph_parse: text and out must be given");
    char *text = NULL;
    assert_int_equal(rp_graph_print(NULL, &text, &err), RP_INVALID);
    g = rp_graph_new("edges");
    assert_int_equal(rp_graph_print(g, NULL, &err), RP_INVALID);
    rp_graph_free(g);
}

/* --- what is of no graph, or of another one ----------------------------------------------- */

/* Longer than g, so that its tensors are numbered beyond those of g. */
static rp_tensor of_another(rp_graph *other) {
    rp_tensor x = rp_input(other, "x", RP_DTYPE_F32, RP_SHAPE(3));
    for (int i = 0; i < 50; i++) x = rp_exp(x);
    return x;
}

/* Composites that look at the shape of an operand first say of it what is wrong, and read no other graph. */
static void operands_of_no_graph_are_told(void **state) {
    rp_graph *other = rp_graph_new("other");
    rp_tensor strange[] = {rp_none(), of_another(other), {NULL, 777, 0}};
    (void)state;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 7; i++) {
            rp_error err = {0};
            rp_graph *g = rp_graph_new("edges");
            rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3, 8, 8)), y = x, w;
            w = k < 2 ? strange[k] : (rp_tensor){g, 777, 0};
            const rp_sdpa_args attend = {.q = x, .k = w, .v = w};
            switch (i) {
            case 0: y = rp_conv2d(x, w, rp_none(), NULL); break;
            case 1: y = rp_conv_transpose2d(x, w, rp_none(), NULL, 0); break;
            case 2: y = rp_rope(x, w, w); break;
            case 3: y = rp_take_along(x, 0, w); break;
            case 4: y = rp_cross_entropy(x, w); break;
            case 5: y = rp_scaled_dot_product_attention(&attend); break;
            default: y = rp_dot_general(x, w, &(rp_dot_dims){0}); break;
            }
            assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
            if (!strstr(err.text, i < 6 ? "no tensor of this graph" : "operand"))
                fail_msg("case %d of %d: %s", i, k, err.text);
            rp_graph_free(g);
        }
    rp_graph_free(other);
}

static void a_concat_has_1024_parts(void **state) {
    static rp_tensor part[1025];
    (void)state;
    for (uint32_t n = 1023; n <= 1025; n++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("edges");
        for (uint32_t i = 0; i < n; i++) part[i] = rp_const(g, RP_DTYPE_F32, i % 7);
        for (uint32_t i = 0; i < n; i++) part[i] = rp_reshape(part[i], RP_SHAPE(1));
        rp_tensor y = rp_concat(part, n, 0);
        rp_status st = rp_graph_finish(g, &y, 1, &err);
        assert_int_equal(st, n > 1024 ? RP_INVALID : RP_OK);
        if (n > 1024) assert_non_null(strstr(err.text, "1025 operands; 1024 are the most"));
        rp_graph_free(g);
    }
}

static void product_axes_are_counted(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("edges");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3)), y;
    (void)state;
    y = rp_dot_general(x, x, &(rp_dot_dims){.n_batch = RP_MAX_RANK + 1});
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    if (!strstr(err.text, "dot_general: 7 batch and 0 contracted axes of f32[2,3]; 6 are the most"))
        fail_msg("%s", err.text);
    rp_graph_free(g);
}

/* What a window leaves of the columns: rows behind the last of them see none, and get zeros. */
static void rows_behind_a_window_see_nothing(void **state) {
    enum { ROWS = 7, COLUMNS = 3, WINDOW = 2 };
    double y[ROWS], want[ROWS] = {0}, ones[ROWS];
    (void)state;
    for (int i = 0; i < ROWS; i++) ones[i] = 1, want[i] = i < COLUMNS + WINDOW - 1;
    for (int causal = 0; causal < 2; causal++)
        for (int window = WINDOW; window >= -1; window -= WINDOW + 1) {
            rp_graph *g = rp_graph_new("edges");
            rp_tensor q = rp_reshape(row_of(g, RP_DTYPE_F32, ones, ROWS), RP_SHAPE(ROWS, 1));
            rp_tensor k = rp_reshape(row_of(g, RP_DTYPE_F32, ones, COLUMNS), RP_SHAPE(COLUMNS, 1));
            rp_sdpa_args a = {.q = q, .k = k, .v = k, .causal = causal, .window = window};
            rp_tensor out = rp_scaled_dot_product_attention(&a);
            if (window > 0) {
                finish(g, out, y, ROWS);
                check_all("attention", y, want, ROWS);
                continue;
            }
            rp_error err = {0};
            assert_int_equal(rp_graph_finish(g, &out, 1, &err), RP_INVALID);
            assert_non_null(strstr(err.text, "a window of -1 over f32[3,1]; 0 is none"));
            rp_graph_free(g);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_of_sums_of_exponentials),
        cmocka_unit_test(the_places_of_extremes),
        cmocka_unit_test(sums_of_small_integers_are_wide),
        cmocka_unit_test(numbers_wrap_around),
        cmocka_unit_test(far_indices_are_clamped),
        cmocka_unit_test(small_integers_are_counted),
        cmocka_unit_test(variances_take_any_correction),
        cmocka_unit_test(variances_of_too_few_are_no_numbers),
        cmocka_unit_test(sequences_know_nothing_of_each_other),
        cmocka_unit_test(lengths_are_at_least_eps),
        cmocka_unit_test(attention_of_doubles),
        cmocka_unit_test(softmax_of_nothing),
        cmocka_unit_test(an_axis_may_be_empty),
        cmocka_unit_test(sequences_may_be_empty),
        cmocka_unit_test(places_of_two_indices),
        cmocka_unit_test(places_of_a_scatter),
        cmocka_unit_test(steps_of_any_length),
        cmocka_unit_test(steps_along_six_axes),
        cmocka_unit_test(an_empty_axis_is_turned_around),
        cmocka_unit_test(the_largest_of_wide_types),
        cmocka_unit_test(signs_of_integers),
        cmocka_unit_test(paddings_may_be_negative),
        cmocka_unit_test(a_line_has_one_axis),
        cmocka_unit_test(null_is_an_error),
        cmocka_unit_test(operands_of_no_graph_are_told),
        cmocka_unit_test(product_axes_are_counted),
        cmocka_unit_test(a_concat_has_1024_parts),
        cmocka_unit_test(rows_behind_a_window_see_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
