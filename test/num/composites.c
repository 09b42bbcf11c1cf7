/* Calls that are made of several ops against plain C, on inputs of random numbers; by the interpreter, the compiler and level 0. */
#include <math.h>

#include "support/both.h"

#include "reprise/reprise.h"

/* Frees g. The first output at b.want[0]. */
static both run(rp_graph *g, rp_tensor y, uint64_t seed) {
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_graph_print(g, &text, &err), &err);
    both b = both_of(text, seed);
    both_agree(&b, text, 1e-4);
    rp_free(text);
    rp_graph_free(g);
    return b;
}

static const double *input(const both *b, uint32_t i) {
    return b->l.leaf[IR_LEAF_INPUT][i].data;
}

static void near(double got, double want, const char *what, int64_t i) {
    if ((isnan(want) && isnan(got)) || got == want) return;
    if (isinf(want) || !(fabs(got - want) <= 1e-4 * fmax(1, fabs(want))))
        fail_msg("%s, element %lld: %.9g, not %.9g", what, (long long)i, got, want);
}

/* --- einsum ------------------------------------------------------------------------ */

enum { SIZES = 26, MOST_LETTERS = 8 };

/* Size of letter c. */
static int64_t size_of(char c) {
    return 2 + (c - 'a') % 4;
}

static rp_tensor operand(rp_graph *g, const char *term, uint32_t n, int which) {
    char name[8];
    rp_shape s = {.rank = n};
    for (uint32_t i = 0; i < n; i++) s.dim[i] = rp_dim_const(size_of(term[i]));
    (void)snprintf(name, sizeof name, "x%d", which);
    return rp_input(g, name, RP_DTYPE_F32, s);
}

static int64_t place(const char *term, uint32_t n, const int64_t at[SIZES]) {
    int64_t p = 0;
    for (uint32_t i = 0; i < n; i++) p = p * size_of(term[i]) + at[term[i] - 'a'];
    return p;
}

/* Adds products over all letters, one after the other. */
static void einsum_by_hand(const both *b, const char *const terms[], uint32_t n, const char *out,
                           double *y) {
    char all[MOST_LETTERS + 1] = "";
    int64_t at[SIZES] = {0}, total = 1;
    for (uint32_t k = 0; k < n; k++)
        for (const char *p = terms[k]; *p; p++)
            if (!strchr(all, *p)) strncat(all, p, 1);
    for (const char *p = all; *p; p++) total *= size_of(*p);
    for (int64_t t = 0; t < total; t++) {
        int64_t left = t;
        double v = 1;
        for (const char *p = all; *p; p++) {
            at[*p - 'a'] = left % size_of(*p);
            left /= size_of(*p);
        }
        for (uint32_t k = 0; k < n; k++)
            v *= input(b, k)[place(terms[k], (uint32_t)strlen(terms[k]), at)];
        y[place(out, (uint32_t)strlen(out), at)] += v;
    }
}

static void sums_of_products_are_einstein_s(void **state) {
    static const struct {
        const char *text, *terms[4], *out;
    } cases[] = {{"ab,bc->ac", {"ab", "bc"}, "ac"},
                 {"ab,bc->ca", {"ab", "bc"}, "ca"},
                 {"ab,bc", {"ab", "bc"}, "ac"},
                 {"ba", {"ba"}, "ab"},
                 {"abc->b", {"abc"}, "b"},
                 {"abc->", {"abc"}, ""},
                 {"bhqd,bhkd->bhqk", {"bhqd", "bhkd"}, "bhqk"},
                 {"bqk, bkd -> bqd", {"bqk", "bkd"}, "bqd"},
                 {"a,b->ba", {"a", "b"}, "ba"},
                 {"ab,ab->a", {"ab", "ab"}, "a"},
                 {"ab,ab->ba", {"ab", "ab"}, "ba"},
                 {"abe,bc->ac", {"abe", "bc"}, "ac"},
                 {"ab,bc,cd->ad", {"ab", "bc", "cd"}, "ad"},
                 {"ab,a,b->", {"ab", "a", "b"}, ""},
                 {",ab->ba", {"", "ab"}, "ba"},
                 {"a,,b->ab", {"a", "", "b"}, "ab"},
                 {" ,->", {"", ""}, ""},
                 {"ab,cb,bd,d->ca", {"ab", "cb", "bd", "d"}, "ca"}};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_graph *g = rp_graph_new("einsum");
        rp_tensor x[4];
        uint32_t n = 0;
        double *want = test_calloc(4096, sizeof *want);
        for (; n < 4 && cases[k].terms[n]; n++)
            x[n] = operand(g, cases[k].terms[n], (uint32_t)strlen(cases[k].terms[n]), (int)n);
        both b = run(g, rp_einsum(cases[k].text, x, n), 3 + k);
        einsum_by_hand(&b, cases[k].terms, n, cases[k].out, want);
        for (int64_t i = 0; i < b.want[0].n; i++)
            near(b.want[0].data[i], want[i], cases[k].text, i);
        both_done(&b);
        test_free(want);
    }
}

static void what_einsum_cannot_read_is_told(void **state) {
    static const struct {
        const char *text, *why;
        uint32_t n;
    } cases[] = {{"ab,bc->ad", "the result has a letter of no operand", 2},
                 {"aa->a", "a letter stands twice in one term", 1},
                 {"abc,bc->a", "a term has other axes than its operand", 2},
                 {"ab", "it has fewer terms than there are operands", 2},
                 {"ab,bc,cd->ad", "it has more terms than there are operands", 2},
                 {"ab,bc-ac", "letters, commas and -> are all it takes", 2},
                 {"...a,ab->b", "letters, commas and -> are all it takes", 2},
                 {"ab,bc->a,c", "the result is letters alone", 2}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("einsum");
        rp_tensor x[] = {rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2, 3)),
                         rp_input(g, "y", RP_DTYPE_F32, RP_SHAPE(3, 4))};
        rp_tensor y = rp_einsum(cases[k].text, x, cases[k].n);
        assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
        if (!strstr(err.text, cases[k].why) || !strstr(err.text, cases[k].text))
            fail_msg("%s: %s", cases[k].text, err.text);
        rp_graph_free(g);
    }
}

/* --- by value ------------------------------------------------------------------------ */

enum { N = 60, K = 7 };

static void values_find_their_bucket(void **state) {
    static const double bounds[K] = {-2, -0.5, -0.5, 0, 0.25, 1, 3};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int right = 0; right < 2; right++) {
        rp_graph *g = rp_graph_new("buckets");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 12)), all[K];
        /* A quarter of a whole number is often a bound. */
        rp_tensor q = rp_mul_scalar(rp_round(rp_mul_scalar(x, 4)), 0.25);
        rp_tensor none = rp_const(g, RP_DTYPE_F32, NAN), zero = rp_const(g, RP_DTYPE_F32, 0);
        q = rp_where(rp_eq(q, zero), none, q);
        for (int i = 0; i < K; i++) all[i] = rp_const(g, RP_DTYPE_F32, bounds[i]);
        both b = run(g, rp_bucketize(q, rp_stack(all, K, 0), right), 5);
        for (int i = 0; i < N; i++) {
            const double v = nearbyint(4 * input(&b, 0)[i]) / 4;
            int want = 0;
            for (int k = 0; k < K; k++) want += v == 0 || (right ? bounds[k] <= v : bounds[k] < v);
            near(b.want[0].data[i], want, "bucketize", i);
        }
        both_done(&b);
    }
}

static void values_are_counted(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    rp_graph *g = rp_graph_new("counts");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 12));
    rp_tensor i = rp_cast(rp_mul_scalar(x, 6), RP_DTYPE_I32);
    both b = run(g, rp_bincount(i, K), 6);
    for (int k = 0; k < K; k++) {
        int want = 0;
        for (int j = 0; j < N; j++) want += (int)(float)(input(&b, 0)[j] * 6) == k;
        near(b.want[0].data[k], want, "bincount", k);
    }
    both_done(&b);
}

static void a_mask_takes_the_next_of_a_source(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    rp_graph *g = rp_graph_new("mask");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 12));
    rp_tensor m = rp_input(g, "m", RP_DTYPE_F32, RP_SHAPE(5, 12));
    rp_tensor s = rp_input(g, "s", RP_DTYPE_F32, RP_SHAPE(6, 10));
    rp_tensor mask = rp_gt(m, rp_const(g, RP_DTYPE_F32, 0));
    both b = run(g, rp_masked_scatter(x, mask, s), 7);
    for (int i = 0, k = 0; i < N; i++)
        near(b.want[0].data[i], input(&b, 1)[i] > 0 ? input(&b, 2)[k++] : input(&b, 0)[i],
             "masked_scatter", i);
    both_done(&b);
}

static void the_largest_are_found_along_any_axis(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int axis = -2; axis < 2; axis++) {
        rp_graph *g = rp_graph_new("topk");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 12)), v, i;
        rp_topk_along(x, 2, axis, &v, &i);
        both b = run(g, rp_add(v, rp_cast(i, RP_DTYPE_F32)), 8);
        const int first = axis == 0 || axis == -2, lines = first ? 12 : 5, n = first ? 5 : 12;
        for (int l = 0; l < lines; l++) {
            int best = -1;
            for (int rank = 0; rank < 2; rank++) {
                int at = -1;
                for (int j = 0; j < n; j++) {
                    const double y = input(&b, 0)[first ? j * 12 + l : l * 12 + j];
                    if (j != best &&
                        (at < 0 || y > input(&b, 0)[first ? at * 12 + l : l * 12 + at]))
                        at = j;
                }
                const double y = input(&b, 0)[first ? at * 12 + l : l * 12 + at];
                near(b.want[0].data[first ? rank * 12 + l : l * 2 + rank], y + at, "topk_along", l);
                best = at;
            }
        }
        both_done(&b);
    }
}

static double join(int how, double a, double b) {
    if (how == 0) return a * b;
    if (isnan(a) || isnan(b)) return NAN;
    return how == 1 ? fmax(a, b) : fmin(a, b);
}

static void runs_go_along_any_axis(void **state) {
    static rp_tensor (*const calls[])(rp_tensor, int) = {rp_cumprod, rp_cummax, rp_cummin};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int how = 0; how < 3; how++)
        for (int axis = -3; axis < 3; axis++) {
            rp_graph *g = rp_graph_new("runs");
            rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(3, 4, 5));
            rp_tensor big = rp_const(g, RP_DTYPE_F32, 2), none = rp_const(g, RP_DTYPE_F32, NAN);
            both b = run(g, calls[how](rp_where(rp_gt(x, big), none, x), axis), 14);
            const int inner = axis % 3 == 0 ? 20 : (axis + 3) % 3 == 1 ? 5 : 1;
            const int n = 3 + (axis + 3) % 3;
            for (int i = 0; i < N; i++) {
                double want = 0;
                for (int j = i / inner % n, k = 0; k <= j; k++) {
                    const double v = input(&b, 0)[i - (j - k) * inner];
                    want = k ? join(how, want, v > 2 ? NAN : v) : v > 2 ? NAN : v;
                }
                near(b.want[0].data[i], want, "running", i);
            }
            both_done(&b);
        }
}

/* --- rows ---------------------------------------------------------------------------- */

static void gates_multiply_the_other_half(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int by_erf = 0; by_erf < 2; by_erf++) {
        rp_graph *g = rp_graph_new("gates");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 12));
        both b = run(g, by_erf ? rp_geglu(x) : rp_swiglu(x), 9);
        for (int i = 0; i < N / 2; i++) {
            const double v = input(&b, 0)[i / 6 * 12 + i % 6],
                         u = input(&b, 0)[i / 6 * 12 + 6 + i % 6];
            near(b.want[0].data[i],
                 u * (by_erf ? v / 2 * (1 + erf(v / sqrt(2))) : v / (1 + exp(-v))), "gate", i);
        }
        both_done(&b);
    }
    rp_error err = {0};
    rp_graph *g = rp_graph_new("odd");
    rp_tensor y = rp_swiglu(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 11)));
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "swiglu: wants a last axis of two halves, not f32[5,11]"));
    rp_graph_free(g);
}

static void means_leave_out_what_is_masked(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    rp_graph *g = rp_graph_new("means");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 12));
    rp_tensor m =
        rp_gt(rp_input(g, "m", RP_DTYPE_F32, RP_SHAPE(5, 1)), rp_const(g, RP_DTYPE_F32, 0));
    both b = run(g, rp_masked_mean(x, m, 0, false), 10);
    for (int j = 0; j < 12; j++) {
        double sum = 0, n = 0;
        for (int i = 0; i < 5; i++) {
            if (!(input(&b, 1)[i] > 0)) continue;
            sum += input(&b, 0)[i * 12 + j];
            n++;
        }
        near(b.want[0].data[j], sum / n, "masked_mean", j);
    }
    both_done(&b);
}

static void losses_are_smoothed_and_left_out(void **state) {
    const rp_cross_entropy_args args = {
        .label_smoothing = 0.1, .z_loss = 0.01, .ignores = true, .ignore_index = -1};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    rp_graph *g = rp_graph_new("losses");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(5, 12));
    rp_tensor i = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(5), 0); /* -1, 1, 3, 5, 7 */
    rp_tensor target = rp_add_scalar(rp_mul_scalar(i, 2), -1);
    both b = run(g, rp_cross_entropy_with(x, target, &args), 11);
    for (int r = 0; r < 5; r++) {
        const double *v = input(&b, 0) + r * 12;
        double sum = 0, all = 0;
        for (int j = 0; j < 12; j++) sum += exp(v[j]), all += v[j];
        const double z = log(sum), own = r ? v[2 * r - 1] : 0;
        const double want = 0.9 * (z - own) + 0.1 * (z - all / 12) + 0.01 * z * z;
        near(b.want[0].data[r], r ? want : 0, "cross_entropy_with", r);
    }
    both_done(&b);
}

/* --- random ------------------------------------------------------------------------------ */

enum { MANY = 20000 };

static void elements_are_dropped_as_often_as_said(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int tenths = 0; tenths <= 10; tenths += 5) {
        rp_graph *g = rp_graph_new("drop");
        rp_tensor x = rp_broadcast(rp_const(g, RP_DTYPE_F32, 3), RP_SHAPE(MANY));
        rp_tensor key = rp_const(g, RP_DTYPE_I64, 11), at = rp_const(g, RP_DTYPE_I64, 0);
        both b = run(g, rp_dropout(x, tenths / 10.0, key, at), 12);
        int n = 0;
        for (int i = 0; i < MANY; i++) {
            const double v = b.want[0].data[i];
            if (v == 0) n++;
            if (v != 0) near(v, 3 / (1 - tenths / 10.0), "dropout", i);
        }
        assert_true(abs(n - MANY * tenths / 10) < (tenths % 10 ? 4 * 71 : 1));
        both_done(&b);
    }
}

/* Four standard deviations of each count. */
static void places_are_drawn_by_their_share(void **state) {
    static const double share[4] = {0.1, 0.2, 0.3, 0.4};
    int n[4] = {0};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    rp_graph *g = rp_graph_new("draw");
    rp_tensor l[4];
    for (int i = 0; i < 4; i++) l[i] = rp_const(g, RP_DTYPE_F32, log(share[i]) + 5);
    rp_tensor logits = rp_broadcast(rp_stack(l, 4, 0), RP_SHAPE(MANY, 4));
    rp_tensor key = rp_const(g, RP_DTYPE_I64, 5), at = rp_const(g, RP_DTYPE_I64, 100);
    both b = run(g, rp_categorical(logits, key, at), 13);
    for (int i = 0; i < MANY; i++) n[(int)b.want[0].data[i]]++;
    for (int i = 0; i < 4; i++)
        if (fabs(n[i] - share[i] * MANY) > 4 * sqrt(MANY * share[i] * (1 - share[i])))
            fail_msg("place %d: %d times of %d", i, n[i], MANY);
    both_done(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_products_are_einstein_s),
        cmocka_unit_test(what_einsum_cannot_read_is_told),
        cmocka_unit_test(values_find_their_bucket),
        cmocka_unit_test(values_are_counted),
        cmocka_unit_test(a_mask_takes_the_next_of_a_source),
        cmocka_unit_test(the_largest_are_found_along_any_axis),
        cmocka_unit_test(runs_go_along_any_axis),
        cmocka_unit_test(gates_multiply_the_other_half),
        cmocka_unit_test(means_leave_out_what_is_masked),
        cmocka_unit_test(losses_are_smoothed_and_left_out),
        cmocka_unit_test(elements_are_dropped_as_often_as_said),
        cmocka_unit_test(places_are_drawn_by_their_share),
    };
    return cmocka_run_group_tests_name("num/composites", tests, both_set_up, both_tear_down);
}
