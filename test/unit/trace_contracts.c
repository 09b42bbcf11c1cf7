/* What functions of the tensor API promise whatever they compute: the type of their results, and what they say of what they refuse. */
#include "support/check.h"

#include "ir/graph.h"
#include "reprise/nn.h"
#include "reprise/reprise.h"
#include "trace/record.h"
#include "trace/trace.h"

/* --- types --------------------------------------------------------------------------- */

/* Functions of one tensor [1,2,4,6] whose result is of its type. */
#define ONE(X)                      \
    X(rp_neg(x))                    \
    X(rp_abs(x))                    \
    X(rp_sqrt(x))                   \
    X(rp_exp(x))                    \
    X(rp_tanh(x))                   \
    X(rp_sigmoid(x))                \
    X(rp_add_scalar(x, 0.5))        \
    X(rp_mul_scalar(x, 0.5))        \
    X(rp_clamp(x, -1, 1))           \
    X(rp_clamp_tensor(x, x, x))     \
    X(rp_lerp(x, x, x))             \
    X(rp_copysign(x, x))            \
    X(rp_atan2(x, x))               \
    X(rp_log1p(x))                  \
    X(rp_expm1(x))                  \
    X(rp_exp2(x))                   \
    X(rp_log2(x))                   \
    X(rp_tan(x))                    \
    X(rp_asin(x))                   \
    X(rp_acos(x))                   \
    X(rp_atan(x))                   \
    X(rp_sinh(x))                   \
    X(rp_cosh(x))                   \
    X(rp_erfinv(x))                 \
    X(rp_sign(x))                   \
    X(rp_trunc(x))                  \
    X(rp_relu(x))                   \
    X(rp_leaky_relu(x, 0.1))        \
    X(rp_elu(x, 0.5))               \
    X(rp_softcap(x, 3))             \
    X(rp_sum(x, 2, true))           \
    X(rp_prod(x, 2, true))          \
    X(rp_amax(x, 2, true))          \
    X(rp_amin(x, 2, true))          \
    X(rp_mean(x, 2, true))          \
    X(rp_var(x, 2, true, 1))        \
    X(rp_logsumexp(x, 2, true))     \
    X(rp_cumsum(x, 2))              \
    X(rp_cumprod(x, 2))             \
    X(rp_cummax(x, 2))              \
    X(rp_cummin(x, 2))              \
    X(rp_flip(x, 2))                \
    X(rp_pad(x, 2, 1, 1, 0.5))      \
    X(rp_slice_step(x, 2, 0, 4, 2)) \
    X(rp_max_pool2d(x, 2, 2, 0))    \
    X(rp_upsample_nearest2d(x, 2))

static void functions_keep_the_type(void **state) {
    static const rp_dtype types[] = {RP_DTYPE_F32, RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_F64};
    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("types");
        rp_tensor x = rp_input(g, "x", types[t], RP_SHAPE(1, 2, 4, 6));
        uint32_t wrong = 0;
#define KEEPS(call)                                                           \
    {                                                                         \
        const rp_tensor y = call;                                             \
        if (rp_tensor_dtype(y) != types[t]) {                                 \
            print_message("%s of %s is %s\n", #call, rp_dtype_name(types[t]), \
                          rp_dtype_name(rp_tensor_dtype(y)));                 \
            wrong++;                                                          \
        }                                                                     \
    }
        ONE(KEEPS)
#undef KEEPS
        CHECK_OK(rp_graph_finish(g, &x, 1, &err), &err);
        rp_graph_free(g);
        assert_int_equal(wrong, 0);
    }
}

/* --- refusals -------------------------------------------------------------------------- */

/* Also those that no operand of two axes brings about: counts of operands, of axes in a term and of a product on the way. */
static void einsum_is_bounded(void **state) {
    static const struct {
        const char *text, *why;
        uint32_t n;
    } cases[] = {
        {"abcdefg,abcd,abcd->a", "einsum: \"abcdefg,abcd,abcd->a\": a term has too many axes", 3},
        {"abcd,efgh,abef->cdgh", "\": a product on the way has too many axes", 3},
        {"abcd,efcd,abef->cdab", NULL, 3}, /* of six */
        {"abcd,efgd,abcf->cdabefg", "\": a term has too many axes", 3},
        {"abcd->", NULL, 1},
        {"abcd", "einsum: 9 operands; it takes 1 to 8", 9},
        {"abcd,", "\": a term has other axes than its operand", 2},
        {"abcd>a", "\": letters, commas and -> are all it takes", 1},
        {"abcd->a,b", "\": the result is letters alone", 1},
        {"abcd->a->b", "\": the result is letters alone", 1},
        {NULL, "the equation of einsum", 1},
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("einsum");
        rp_tensor x[9];
        for (int i = 0; i < 9; i++)
            x[i] = rp_broadcast(rp_const(g, RP_DTYPE_F32, 1), RP_SHAPE(2, 2, 2, 2));
        rp_tensor y = rp_einsum(cases[k].text, x, cases[k].n);
        rp_status st = rp_graph_finish(g, &y, 1, &err);
        if (!cases[k].why)
            CHECK_OK(st, &err);
        else if (st != RP_INVALID || !strstr(err.text, cases[k].why))
            fail_msg("%s: %s", cases[k].text ? cases[k].text : "none", err.text);
        rp_graph_free(g);
    }
}

/* There is no result of no counts. */
static void one_count_is_the_least(void **state) {
    (void)state;
    for (int64_t n = -1; n <= 1; n++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("counts");
        rp_tensor x = rp_broadcast(rp_const_int(g, RP_DTYPE_I32, 0), RP_SHAPE(4));
        rp_tensor y = rp_bincount(x, n);
        rp_status st = rp_graph_finish(g, &y, 1, &err);
        assert_int_equal(st, n < 1 ? RP_INVALID : RP_OK);
        if (n < 1 && !strstr(err.text, "counts; at least 1")) fail_msg("%s", err.text);
        rp_graph_free(g);
    }
}

/* Without a result: letters that stand once, in the order of their codes; blanks are nothing. */
static void einsum_implies_a_result(void **state) {
    static const struct {
        const char *text, *type;
        int64_t x[2], y[2]; /* sizes; y 0: there is one operand */
    } cases[] = {
        {"ij,jk", "f32[2,4]", {2, 3}, {3, 4}},       {"ba", "f32[3,2]", {2, 3}, {0, 0}},
        {"aZ", "f32[3,2]", {2, 3}, {0, 0}},          {"bA,AC", "f32[4,2]", {2, 3}, {3, 4}},
        {" i j , j k ", "f32[2,4]", {2, 3}, {3, 4}}, {"ij , jk -> k i", "f32[4,2]", {2, 3}, {3, 4}},
        {"xy,xy", "f32[]", {2, 3}, {2, 3}},          {"ZA->AZ", "f32[3,2]", {2, 3}, {0, 0}}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_error err = {0};
        const bool two = cases[k].y[0] != 0;
        rp_graph *g = rp_graph_new("einsum");
        rp_tensor x[2] = {rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(cases[k].x[0], cases[k].x[1])),
                          {0}};
        if (two) x[1] = rp_input(g, "y", RP_DTYPE_F32, RP_SHAPE(cases[k].y[0], cases[k].y[1]));
        rp_tensor y = rp_einsum(cases[k].text, x, two ? 2 : 1);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        const char *type = ir_type_of(trace_graph_ir(g), y.ref).s;
        if (strcmp(type, cases[k].type) != 0) fail_msg("%s: %s", cases[k].text, type);
        rp_graph_free(g);
    }
}

/* Also of what is not summed, and of a product with a third operand. */
static void products_of_narrow_floats_are_wide(void **state) {
    static const struct {
        const char *text, *type;
        rp_dtype t[3];
        uint32_t n;
    } cases[] = {
        {"ab,ab->ab", "f32[2,2]", {RP_DTYPE_F16, RP_DTYPE_F16}, 2},
        {"ab,bc->ac", "f32[2,2]", {RP_DTYPE_BF16, RP_DTYPE_F16}, 2},
        {"ab,ba->ba", "f32[2,2]", {RP_DTYPE_BF16, RP_DTYPE_F16}, 2},
        {"ab,bc,ac->ac", "f32[2,2]", {RP_DTYPE_F16, RP_DTYPE_F16, RP_DTYPE_F16}, 3},
        {"ab,ab->ab", "f64[2,2]", {RP_DTYPE_F64, RP_DTYPE_F64}, 2},
        {"ab,ab->ab", "i32[2,2]", {RP_DTYPE_I32, RP_DTYPE_I32}, 2},
        {"ab->ba", "f16[2,2]", {RP_DTYPE_F16}, 1},
    };
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("einsum");
        rp_tensor x[3];
        for (uint32_t i = 0; i < cases[k].n; i++)
            x[i] = rp_broadcast(rp_const(g, cases[k].t[i], 1), RP_SHAPE(2, 2));
        rp_tensor y = rp_einsum(cases[k].text, x, cases[k].n);
        CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
        const char *type = ir_type_of(trace_graph_ir(g), y.ref).s;
        if (strcmp(type, cases[k].type) != 0) fail_msg("%s: %s", cases[k].text, type);
        rp_graph_free(g);
    }
}

/* Channels are cut into equal groups, here and where a convolution is turned around. */
static void groups_divide_channels(void **state) {
    static const struct {
        int64_t channels, of_weight, groups;
        bool ok;
    } cases[] = {{6, 6, 2, true},  {6, 6, 3, true},  {6, 6, 4, false},
                 {5, 5, 2, false}, {6, 4, 2, false}, {6, 6, 1, true}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("turned");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(1, cases[k].channels, 5));
        rp_tensor w = rp_input(g, "w", RP_DTYPE_F32, RP_SHAPE(cases[k].of_weight, 2, 3));
        const rp_conv_args args = {.groups = cases[k].groups};
        rp_tensor y = rp_conv_transpose1d(x, w, rp_none(), &args, 0);
        const rp_status st = rp_graph_finish(g, &y, 1, &err);
        if ((st == RP_OK) != cases[k].ok) fail_msg("case %d: %s", (int)k, err.text);
        if (st != RP_OK && !strstr(err.text, "conv_transpose: x f32[1,")) fail_msg("%s", err.text);
        if (st == RP_OK) {
            char want[32];
            (void)snprintf(want, sizeof want, "f32[1,%d,7]", (int)(2 * cases[k].groups));
            assert_string_equal(ir_type_of(trace_graph_ir(g), y.ref).s, want);
        }
        rp_graph_free(g);
    }
}

/* No index needs no element; any index needs one. */
static void nothing_is_taken_of_nothing(void **state) {
    (void)state;
    for (int64_t n = 0; n < 2; n++)
        for (int64_t rows = 0; rows < 2; rows++) {
            rp_error err = {0};
            rp_graph *g = rp_graph_new("take");
            rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(rows, 3));
            rp_tensor i = rp_input(g, "i", RP_DTYPE_I64, RP_SHAPE(n, 3));
            rp_tensor y = rp_take_along(a, 0, i);
            const rp_status st = rp_graph_finish(g, &y, 1, &err);
            assert_int_equal(st, rows == 0 && n ? RP_INVALID : RP_OK);
            rp_graph_free(g);
        }
}

static void places_have_a_type_that_holds_them(void **state) {
    (void)state;
    assert_int_equal(trace_place_type(rp_dim_const(INT32_MAX)), RP_DTYPE_I32);
    assert_int_equal(trace_place_type(rp_dim_const(INT64_C(1) + INT32_MAX)), RP_DTYPE_I64);
    assert_int_equal(trace_place_type(rp_dim_const(UINT32_MAX)), RP_DTYPE_I64);
    rp_graph *g = rp_graph_new("places");
    assert_int_equal(trace_place_type(rp_symbol(g, "T", 0, INT32_MAX)), RP_DTYPE_I32);
    assert_int_equal(trace_place_type(rp_symbol(g, "S", 0, INT64_MAX)), RP_DTYPE_I64);
    rp_graph_free(g);
}

/* As many indices as there are axes, and one more. */
static void index_put_takes_all_axes(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= 3; n++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("put");
        rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(4, 5));
        rp_tensor i = rp_input(g, "i", RP_DTYPE_I64, RP_SHAPE(3)), idx[] = {i, i, i};
        rp_tensor v = rp_const(g, RP_DTYPE_F32, 1), y = rp_index_put(a, idx, n, v, false);
        const rp_status st = rp_graph_finish(g, &y, 1, &err);
        if (n < 3) {
            CHECK_OK(st, &err);
            assert_string_equal(ir_type_of(trace_graph_ir(g), y.ref).s, "f32[4,5]");
        } else {
            assert_int_equal(st, RP_INVALID);
            assert_non_null(strstr(err.text, "index_put: 3 indices of 1 axes into f32[4,5]"));
        }
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(einsum_is_bounded),
        cmocka_unit_test(einsum_implies_a_result),
        cmocka_unit_test(one_count_is_the_least),
        cmocka_unit_test(products_of_narrow_floats_are_wide),
        cmocka_unit_test(index_put_takes_all_axes),
        cmocka_unit_test(groups_divide_channels),
        cmocka_unit_test(nothing_is_taken_of_nothing),
        cmocka_unit_test(places_have_a_type_that_holds_them),
        cmocka_unit_test(functions_keep_the_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
