/* How far a value may be from the interpreter's, op by op: what rounding does is no difference, and what is a little more is one, whatever
 * the size of what lies beside it. */
#include "support/check.h"

#include <math.h>

#include "api/bound.h"
#include "base/alloc.h"

typedef struct tried {
    ir_graph *g;
    api_trial t;
    api_values want, got;
} tried;

/* fill: element i of input `input`. */
static tried tried_on(const char *text, double (*fill)(uint32_t input, int64_t i)) {
    tried x = {0};
    rp_error err = {0};
    CHECK_OK(ir_parse(text, strlen(text), &x.g, &err), &err);
    CHECK_OK(api_trial_init(&x.t, x.g, NULL, 3, &err), &err);
    for (uint32_t k = 0; fill && k < x.t.n[IR_LEAF_INPUT]; k++) {
        ir_value *v = &x.t.leaf[IR_LEAF_INPUT][k];
        for (int64_t i = 0; i < v->n; i++) v->data[i] = fill(k, i);
    }
    CHECK_OK(api_trial_interpret(&x.t, NULL, &x.want, &err), &err);
    CHECK_OK(api_trial_interpret(&x.t, NULL, &x.got, &err), &err);
    return x;
}

static void tried_done(tried *x) {
    api_values_done(&x->want);
    api_values_done(&x->got);
    api_trial_done(&x->t);
    ir_graph_free(x->g);
}

static api_difference found(const tried *x) {
    api_difference d;
    rp_error err = {0};
    CHECK_OK(api_difference_find(&x->t, &x->want, &x->got, &d, &err), &err);
    return d;
}

/* Element i of output v is off by so many ulps. */
static api_difference off_by(const tried *x, uint32_t v, int64_t i, double ulps) {
    const double want = x->want.v[v].data[i];
    double *at = &x->got.v[v].data[i];
    *at = want + ulps * api_ulp(api_trial_type(&x->t, v), want);
    const api_difference d = found(x);
    *at = want;
    return d;
}

static void check(const tried *x, const char *text, int64_t i, double borne, double told) {
    api_difference d = off_by(x, 0, i, borne);
    if (d.found) fail_msg("element %d is off by %g ulps of %g\n%s", (int)i, borne, d.bound, text);
    d = off_by(x, 0, i, told);
    if (!d.found) fail_msg("element %d may be off by %g ulps\n%s", (int)i, told, text);
    assert_int_equal(d.at, i);
    assert_true(d.want == x->want.v[0].data[i] && d.ulps > d.bound);
}

static void an_ulp_is_the_type_s(void **state) {
    static const struct {
        rp_dtype t;
        double v;
        int is; /* 2 to that */
    } all[] = {{RP_DTYPE_F32, 1, -23},
               {RP_DTYPE_F32, -1.75, -23},
               {RP_DTYPE_F32, 2, -22},
               {RP_DTYPE_F32, 0, -149},
               {RP_DTYPE_F32, 0x1p-126, -149},
               {RP_DTYPE_F32, 0x1p-125, -148},
               {RP_DTYPE_F32, 0x1p-149, -149},
               {RP_DTYPE_F64, 1, -52},
               {RP_DTYPE_F64, 0, -1074},
               {RP_DTYPE_F64, -0x1p-1022, -1074},
               {RP_DTYPE_F64, 0x1p-1020, -1072},
               {RP_DTYPE_F16, 1, -10},
               {RP_DTYPE_F16, 65504, 5},
               {RP_DTYPE_F16, 0, -24},
               {RP_DTYPE_BF16, 1, -7},
               {RP_DTYPE_BF16, 0, -133},
               {RP_DTYPE_BF16, 300, 1},
               {RP_DTYPE_F8E4M3FN, 1, -3},
               {RP_DTYPE_F8E4M3FN, 448, 5},
               {RP_DTYPE_F8E4M3FN, 0, -9},
               {RP_DTYPE_F8E5M2, 1, -2},
               {RP_DTYPE_F8E5M2, 0, -16},
               {RP_DTYPE_F8E5M2, 57344, 13},
               {RP_DTYPE_I32, 1000, 0},
               {RP_DTYPE_I64, 0x1p60, 0},
               {RP_DTYPE_U8, 0, 0},
               {RP_DTYPE_BOOL, 1, 0},
               {RP_DTYPE_F32, HUGE_VAL, 0},
               {RP_DTYPE_F32, NAN, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (api_ulp(all[i].t, all[i].v) != ldexp(1, all[i].is))
            fail_msg("%s %a: %a", rp_dtype_name(all[i].t), all[i].v, api_ulp(all[i].t, all[i].v));
}

/* Column c of three has numbers near 2^(20 * c). */
static double columns(uint32_t input, int64_t i) {
    (void)input;
    return ldexp(1 + (double)(i % 7) / 8, 20 * (int)(i % 3));
}

static void a_reduction_is_of_its_own_elements(void **state) {
    static const struct {
        const char *op;
        double borne, told;
    } all[] = {{"sum %x {axis=0, keep=false} : f32[3]", 2, 80},
               {"sum %x {axis=1, keep=false} : f32[66]", 2, 80},
               {"prod %x {axis=1, keep=false} : f32[66]", 3, 200},
               {"cumsum %x {axis=0} : f32[66,3]", 1, 200},
               {"cumsum %x {axis=1} : f32[66,3]", 1, 80}};
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        char text[256];
        (void)snprintf(text, sizeof text, "graph @g(%%x: f32[66,3]) {\n  %%0 = %s\n  ret %%0\n}\n",
                       all[k].op);
        tried x = tried_on(text, columns);
        const int64_t n = x.want.v[0].n;
        for (int64_t i = 0; i < n; i += n < 4 ? 1 : n / 4) /* the first column, too */
            check(&x, text, i, all[k].borne, all[k].told);
        tried_done(&x);
    }
}

/* Rows of %a that differ much; one column of %b that is much longer than a row of it, or the other way round. */
static double factors(uint32_t input, int64_t i) {
    if (input == 0) return ldexp(1 + (double)(i % 5) / 8, i < 64 ? 0 : 30);
    return i % 64 == 7 ? 1 : 0x1p-30;
}
static double factors_by_rows(uint32_t input, int64_t i) {
    return input == 0 ? factors(0, i) : i / 64 == 7 ? 1 : 0x1p-30;
}

/* So large that nothing which lies elsewhere is. */
static double large_factors(uint32_t input, int64_t i) {
    return ldexp(factors(input, i), input == 0 ? 60 : 0);
}

static void a_product_is_of_a_row_and_a_column(void **state) {
    (void)state;
    for (int by_rows = 0; by_rows < 2; by_rows++) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "graph @g(%%a: f32[2,64], %%b: f32[64,64]) {\n"
                       "  %%0 = matmul %%a, %%b {trans_b=%s} : f32[2,64]\n  ret %%0\n}\n",
                       by_rows ? "true" : "false");
        tried x = tried_on(text, by_rows ? factors_by_rows : factors);
        /* |row| = 10, |column| = 8, where a sum of 64 may be off by ten roundings: 400 ulps of a half, four times. */
        check(&x, text, 7, 8, 200);
        check(&x, text, 64 + 7, 8, 200);
        tried_done(&x);
    }
    /* All rows of the result have one factor. */
    static const char shared[] =
        "graph @g(%a: f32[1,64], %b: f32[32,64,64]) {\n"
        "  %0 = matmul %a, %b {trans_b=false} : f32[32,1,64]\n  ret %0\n}\n";
    tried x = tried_on(shared, large_factors);
    for (int k = 0; k < 32; k += 31) check(&x, shared, k * 64 + 7, 8, 200);
    tried_done(&x);
}

static double scattered(uint32_t input, int64_t i) {
    return input == 1 ? (double)(i % 4) : 1 + (double)(i % 5) / 8;
}

/* What is joined in some order is off by some roundings. */
static void sums_of_scatters_are_rounded(void **state) {
    static const char *const ops[] = {"scatter_add", "scatter_prod"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[4], %%i: i32[8], %%y: f32[8]) {\n"
                       "  %%0 = %s %%x, %%i, %%y {axis=0} : f32[4]\n  ret %%0\n}\n",
                       ops[k]);
        tried x = tried_on(text, scattered);
        check(&x, text, 1, 2, 60);
        tried_done(&x);
    }
}

/* Far below 0: where numbers are subnormal. */
static double near_nothing(uint32_t input, int64_t i) {
    (void)input;
    return i ? -100 : 1;
}

static void what_vanishes_is_the_sigmoid_s_alone(void **state) {
    static const char *const ops[] = {"sigmoid", "exp"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        char text[128];
        (void)snprintf(text, sizeof text, "graph @g(%%x: f32[2]) {\n  %%0 = %s %%x\n  ret %%0\n}\n",
                       ops[k]);
        tried x = tried_on(text, near_nothing);
        assert_true(x.want.v[0].data[1] > 0 && x.want.v[0].data[1] < 0x1p-126);
        x.got.v[0].data[1] = 0;
        assert_int_equal(found(&x).found, k == 1);
        tried_done(&x);
    }
}

static void functions_of_small_floats_are_off_by_one(void **state) {
    static const char *const types[] = {"f16", "bf16"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        char text[128];
        (void)snprintf(text, sizeof text, "graph @g(%%x: %s[2]) {\n  %%0 = exp %%x\n  ret %%0\n}\n",
                       types[k]);
        tried x = tried_on(text, near_nothing);
        check(&x, text, 0, 1, 6);
        tried_done(&x);
    }
}

static double alike(uint32_t input, int64_t i) {
    (void)input, (void)i;
    return 1.25;
}

static void roundings_grow_with_what_is_joined(void **state) {
    static const char prod[] = "graph @g(%x: f32[3]) {\n  %0 = prod %x {axis=0, keep=false}\n"
                               "  ret %0\n}\n";
    static const char sums[] = "graph @g(%x: f32[64]) {\n  %0 = cumsum %x {axis=0}\n"
                               "  ret %0\n}\n";
    (void)state;
    tried x = tried_on(prod, alike); /* three times 3.7 roundings of 1.95, four times */
    check(&x, prod, 0, 20, 60);
    tried_done(&x);
    x = tried_on(sums, alike); /* 3 and 10 roundings, four times */
    check(&x, sums, 0, 2, 12);
    check(&x, sums, 63, 12, 50);
    tried_done(&x);
}

static void doubles_have_roundings_of_their_own(void **state) {
    static const char sum[] = "graph @g(%x: f64[64]) {\n  %0 = sum %x {axis=0, keep=false}\n"
                              "  ret %0\n}\n";
    static const char erf[] = "graph @g(%x: f64[2]) {\n  %0 = erf %x\n  ret %0\n}\n";
    static const char erf32[] = "graph @g(%x: f32[2]) {\n  %0 = erf %x\n  ret %0\n}\n";
    (void)state;
    tried x = tried_on(sum, alike);
    check(&x, sum, 0, 2, 80);
    tried_done(&x);
    x = tried_on(erf, near_nothing); /* 4.1 ulps, of floats 1.7 */
    check(&x, erf, 0, 10, 20);
    tried_done(&x);
    x = tried_on(erf32, near_nothing);
    check(&x, erf32, 0, 3, 10);
    tried_done(&x);
}

/* One row of queries that sees four positions; all values are 1. */
static double small_scores(uint32_t input, int64_t i) {
    (void)i;
    return input == 0 ? 0x1p-10 : input < 3 ? 1 : input == 4 ? 3 : 0;
}
static double large_scores(uint32_t input, int64_t i) {
    return input == 0 ? 8 : input == 1 ? 4 : small_scores(input, i);
}

static void attention_is_off_by_its_scores(void **state) {
    static const char text[] =
        "graph @g(%q: f32[1,4], %k: f32[1,1,4,4], %v: f32[1,1,4,4], %s: i32[1], %p: i32[1],\n"
        "  %b: i32[1,1]) {\n  %o = empty {dtype=f32, shape=[1,4]}\n"
        "  %a = attention %q, %k, %v, %s, %p, %b, %o {heads=1, head_dim=4, kv_heads=1, scale=0.5}\n"
        "  ret %a\n}\n";
    (void)state;
    tried x = tried_on(text, small_scores); /* 32 roundings of 1, four times */
    check(&x, text, 2, 30, 80);
    tried_done(&x);
    x = tried_on(text, large_scores); /* and four times 8 * 4 * 0.5 * 4 */
    check(&x, text, 2, 300, 700);
    tried_done(&x);
}

/* exp of element 1 lies between two numbers of an f16. */
static double on_a_border(uint32_t input, int64_t i) {
    (void)input;
    return i == 1 ? (double)(float)log1p(0x1p-11) : 0;
}
static double off_borders(uint32_t input, int64_t i) {
    (void)input, (void)i;
    return 0;
}

static void what_moves_one_may_move_another_by_an_ulp(void **state) {
    static const char text[] = "graph @g(%x: f32[3]) {\n  %0 = exp %x\n"
                               "  %1 = cast %0 {dtype=f16}\n  ret %1\n}\n";
    (void)state;
    tried x = tried_on(text, on_a_border);
    check(&x, text, 0, 1, 2);
    check(&x, text, 2, 1, 2);
    tried_done(&x);
    x = tried_on(text, off_borders);
    check(&x, text, 0, 0, 1);
    tried_done(&x);
}

static double spread_out(uint32_t input, int64_t i) {
    (void)input;
    return (double)(i % 5) + 0.3;
}

/* What IEEE 754 rounds once, and what is only moved. */
static void what_is_exact_is_exact(void **state) {
    static const char *const ops[] = {"add %x, %x", "div %x, %x", "sqrt %x", "neg %x",
                                      "amax %x {axis=0, keep=true}"};
    (void)state;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        char text[128];
        (void)snprintf(text, sizeof text, "graph @g(%%x: f32[6]) {\n  %%0 = %s\n  ret %%0\n}\n",
                       ops[k]);
        tried x = tried_on(text, spread_out);
        assert_false(found(&x).found);
        const api_difference d = off_by(&x, 0, 0, 1);
        assert_true(d.found && d.ulps == 1 && d.bound == 0);
        tried_done(&x);
    }
}

static double strays(uint32_t input, int64_t i) {
    (void)input;
    return i == 1 ? (double)NAN : i == 2 ? HUGE_VAL : 1;
}

/* A NaN is one wherever it comes from, and nothing else is; no number is near infinity. */
static void what_is_no_number_is_equal_or_not(void **state) {
    static const char text[] = "graph @g(%x: f32[3]) {\n  %0 = exp %x\n  ret %0\n}\n";
    static const struct {
        int at;
        double got;
        bool found;
    } all[] = {{1, -(double)NAN, false}, {1, 1, true},           {1, HUGE_VAL, true},
               {2, HUGE_VAL, false},     {2, -HUGE_VAL, true},   {2, 3e38, true},
               {2, (double)NAN, true},   {0, (double)NAN, true}, {0, HUGE_VAL, true}};
    (void)state;
    tried x = tried_on(text, strays);
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        double *got = &x.got.v[0].data[all[k].at], was = *got;
        *got = all[k].got;
        const api_difference d = found(&x);
        if (d.found != all[k].found) fail_msg("case %d", (int)k);
        assert_true(!d.found || (d.at == all[k].at && d.ulps == HUGE_VAL));
        *got = was;
    }
    tried_done(&x);
}

/* Of row 0 two are the largest; of row 1 one. */
static double ties(uint32_t input, int64_t i) {
    (void)input;
    return i < 2 ? 1 : i == 5 ? 2 : 0;
}

/* An index that rounding moves is not wrong; beside it, one that is off by one is. */
static void an_index_is_off_by_none(void **state) {
    static const char text[] = "graph @g(%x: f32[2,4]) {\n  %0 = exp %x\n"
                               "  %1 = argmax %0 {axis=1, keep=false}\n  ret %1\n}\n";
    (void)state;
    tried x = tried_on(text, ties);
    ir_value *got = &x.got.v[0];
    const bool wide = api_trial_type(&x.t, 0) == RP_DTYPE_I64;
    for (int64_t row = 0; row < 2; row++) {
        const int64_t is = wide ? ir_value_int(got, row) : (int64_t)got->data[row];
        const int64_t other = row == 0 ? 1 - is : is + 1;
        if (wide)
            ir_value_set_int(got, row, other);
        else
            got->data[row] = (double)other;
        assert_int_equal(found(&x).found, row == 1);
        if (row == 1) assert_int_equal(found(&x).at, 1);
    }
    tried_done(&x);
}

static double bits_of_large(uint32_t input, int64_t i) {
    const int64_t large = (INT64_C(1) << 60) - i;
    double bits;
    (void)input;
    memcpy(&bits, &large, sizeof bits);
    return bits;
}

/* Beyond what a double tells apart. */
static void large_integers_are_told_apart(void **state) {
    static const char text[] = "graph @g(%x: i64[2]) {\n  %0 = neg %x\n  ret %0\n}\n";
    (void)state;
    tried x = tried_on(text, bits_of_large);
    assert_false(found(&x).found);
    ir_value_set_int(&x.got.v[0], 1, ir_value_int(&x.want.v[0], 1) + 1);
    assert_true(found(&x).found && found(&x).at == 1);
    tried_done(&x);
}

/* Of the first value that is wrong, the element that is worst, the first of several. */
static void the_worst_is_told(void **state) {
    static const char text[] = "graph @g(%x: f32[6]) {\n  %0 = neg %x\n  %1 = abs %x\n"
                               "  ret %0, %1\n}\n";
    (void)state;
    tried x = tried_on(text, spread_out);
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < 6; i++) {
            const double want = x.want.v[v].data[i];
            const double by = v ? 1000 : i == 2 || i == 5 ? 5 : i == 4 ? 3 : 2;
            x.got.v[v].data[i] = want + by * api_ulp(RP_DTYPE_F32, want);
        }
    const api_difference d = found(&x);
    assert_true(d.found);
    assert_int_equal(d.value, 0);
    assert_int_equal(d.at, 2);
    assert_true(d.ulps == 5 && d.got == x.got.v[0].data[2]);
    tried_done(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ulp_is_the_type_s),
        cmocka_unit_test(a_reduction_is_of_its_own_elements),
        cmocka_unit_test(a_product_is_of_a_row_and_a_column),
        cmocka_unit_test(sums_of_scatters_are_rounded),
        cmocka_unit_test(what_vanishes_is_the_sigmoid_s_alone),
        cmocka_unit_test(functions_of_small_floats_are_off_by_one),
        cmocka_unit_test(roundings_grow_with_what_is_joined),
        cmocka_unit_test(doubles_have_roundings_of_their_own),
        cmocka_unit_test(attention_is_off_by_its_scores),
        cmocka_unit_test(what_moves_one_may_move_another_by_an_ulp),
        cmocka_unit_test(what_is_exact_is_exact),
        cmocka_unit_test(what_is_no_number_is_equal_or_not),
        cmocka_unit_test(an_index_is_off_by_none),
        cmocka_unit_test(large_integers_are_told_apart),
        cmocka_unit_test(the_worst_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
