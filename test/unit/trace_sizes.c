/* Sizes in the tensor API: arithmetic is of sizes, questions have an answer for all values or end the trace, and what
 * is no size, no slice or no axis is refused. */
#include "support/heard.h"

#include "ir/graph.h"
#include "reprise/tensor.h"
#include "trace/trace.h"

typedef struct traced {
    rp_graph *g;
    rp_dim T, S;
    rp_tensor x; /* f32[T,8] */
} traced;

static traced begin(void) {
    traced t = {.g = rp_graph_new("sizes")};
    t.T = rp_symbol(t.g, "T", 1, 64);
    t.S = rp_symbol(t.g, "S", 2, INT64_MAX);
    t.x = rp_input(t.g, "x", RP_DTYPE_F32, RP_SHAPE(t.T, 8));
    return t;
}

/* The type of y, then the graph is gone. */
static void check_type(traced *t, rp_tensor y, const char *want) {
    rp_error err = {0};
    CHECK_OK(rp_graph_finish(t->g, &y, 1, &err), &err);
    assert_string_equal(ir_type_of(trace_graph_ir(t->g), y.ref).s, want);
    rp_graph_free(t->g);
}

/* The trace must have failed with a message that holds text. */
static void check_refused(traced *t, const char *text) {
    rp_error err = {0};
    assert_int_equal(rp_graph_finish(t->g, &t->x, 1, &err), RP_INVALID);
    if (!strstr(err.text, text)) fail_msg("wanted '%s', got '%s'", text, err.text);
    rp_graph_free(t->g);
}

static void arithmetic_is_of_sizes(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        traced t = begin();
        rp_dim T = t.T, S = t.S;
        static const char *const want[] = {"f32[T+1]", "f32[T-1]",   "f32[T*S]", "f32[(T+15)//16]",
                                           "f32[T%4]", "f32[2*T+6]", "f32[12]",  "f32[T//2]"};
        rp_dim d = i == 0   ? rp_dim_add(T, 1)
                   : i == 1 ? rp_dim_sub(T, 1)
                   : i == 2 ? rp_dim_mul(T, S)
                   : i == 3 ? rp_dim_ceildiv(T, 16)
                   : i == 4 ? rp_dim_mod(T, 4)
                   : i == 5 ? rp_dim_mul(2, rp_dim_add(T, 3))
                   : i == 6 ? rp_dim_sub(rp_dim_add(T, 12), T)
                            : rp_dim_floordiv(T, 2);
        check_type(&t, rp_iota(t.g, RP_DTYPE_F32, RP_SHAPE(d), -1), want[i]);
    }
}

static void numbers_need_no_graph(void **state) {
    int64_t v = 0, lo = 0, hi = 0;
    (void)state;
    assert_true(rp_dim_is_const(rp_dim_mod(rp_dim_sub(3, 10), 4), &v) && v == 1);
    assert_true(rp_dim_is_const(rp_dim_floordiv(-7, 4), &v) && v == -2);
    assert_true(rp_dim_is_const(rp_dim_ceildiv(9, 4), &v) && v == 3);
    assert_true(rp_dim_is_const(rp_dim_mul(6, 7), NULL));
    assert_false(rp_dim_is_const(rp_dim_mul(INT64_MAX, 2), NULL));
    assert_false(rp_dim_is_const(rp_dim_floordiv(8, 0), NULL));
    assert_true(rp_dim_lt(3, 4) && !rp_dim_gt(3, 4) && rp_dim_ne(3, 4));
    rp_dim_bounds(rp_dim_const(5), &lo, &hi);
    assert_true(lo == 5 && hi == 5);
    rp_dim_bounds(rp_dim_mul(INT64_MAX, 2), &lo, &hi); /* what is no size */
    assert_true(lo == INT64_MIN && hi == INT64_MAX);
}

/* Each relation of two numbers, and of sizes of a graph that are known. */
static void relations_are_what_they_say(void **state) {
    (void)state;
    for (int64_t a = 3; a < 6; a++)
        for (int r = RP_DIM_LT; r <= RP_DIM_GT; r++) {
            const bool is[] = {a<4, a <= 4, a == 4, a != 4, a >= 4, a> 4};
            assert_int_equal(rp_dim_compare(a, (rp_relation)r, 4), is[r] ? RP_YES : RP_NO);
            traced t = begin();
            const rp_dim x = rp_dim_add(t.T, a), y = rp_dim_add(t.T, 4);
            assert_int_equal(rp_dim_compare(x, (rp_relation)r, y), is[r] ? RP_YES : RP_NO);
            check_type(&t, t.x, "f32[T,8]");
        }
    assert_int_equal(rp_dim_compare(rp_dim_mul(INT64_MAX, 2), RP_DIM_GT, 0), RP_UNKNOWN);
}

static void sizes_tell_what_is_known(void **state) {
    int64_t lo, hi;
    traced t = begin();
    (void)state;
    assert_false(rp_dim_is_const(t.T, NULL));
    assert_true(rp_dim_is_const(rp_tensor_dim(t.x, -1), &lo) && lo == 8);
    rp_dim_bounds(rp_dim_add(t.T, 1), &lo, &hi);
    assert_true(lo == 2 && hi == 65);
    rp_dim_bounds(t.S, &lo, &hi);
    assert_true(lo == 2 && hi == INT64_MAX);
    assert_int_equal(rp_dim_compare(t.T, RP_DIM_GT, 8), RP_UNKNOWN);
    assert_int_equal(rp_dim_compare(t.T, RP_DIM_GT, 64), RP_NO);
    assert_int_equal(rp_dim_compare(t.T, RP_DIM_LE, 64), RP_YES);
    assert_int_equal(rp_dim_compare(rp_dim_mul(t.T, 2), RP_DIM_EQ, 7), RP_NO);
    assert_int_equal(rp_dim_compare(t.T, RP_DIM_NE, rp_dim_add(t.T, 1)), RP_YES);
    assert_int_equal(rp_dim_compare(t.T, RP_DIM_EQ, t.S), RP_UNKNOWN);
    check_type(&t, t.x, "f32[T,8]"); /* none of these ends the trace */
}

/* An answer holds for all values and is told; each relation, both ways. */
static void questions_are_answered_and_told(void **state) {
    base_buf heard;
    (void)state;
    heard_start(&heard, "dynamic");
    traced t = begin();
    assert_true(rp_dim_lt(t.T, 65) && !rp_dim_lt(t.T, 1));
    assert_true(rp_dim_le(t.T, 64) && !rp_dim_le(t.T, 0));
    assert_true(rp_dim_gt(t.T, 0) && !rp_dim_gt(t.T, 64));
    assert_true(rp_dim_ge(t.T, 1) && !rp_dim_ge(t.T, 65));
    assert_true(rp_dim_eq(rp_dim_mod(rp_dim_mul(t.T, 8), 4), 0) && !rp_dim_eq(t.T, 99));
    assert_true(rp_dim_ne(t.T, 99) && !rp_dim_ne(t.T, t.T));
    CHECK_HEARD(&heard, "[dynamic] eval T < 65: yes at test/unit/trace_sizes.c:");
    CHECK_HEARD(&heard, "[dynamic] eval T != T: no at test/unit/trace_sizes.c:");
    check_type(&t, t.x, "f32[T,8]");
    heard_done(&heard);
}

static void a_branch_without_an_answer_ends_the_trace(void **state) {
    char want[160];
    traced t = begin();
    (void)state;
    bool taken = rp_dim_gt(t.T, 8);
    (void)snprintf(want, sizeof want, "trace_sizes.c:%d: not known: T > 8; T is in [1,64]; ",
                   __LINE__ - 2);
    assert_false(taken);
    assert_false(rp_dim_gt(t.T, 0)); /* nothing is answered any more */
    assert_int_equal(rp_dim_compare(t.T, RP_DIM_GT, 0), RP_UNKNOWN);
    check_refused(&t, want);
    t = begin();
    assert_false(rp_dim_eq(t.T, t.S));
    check_refused(&t, "not known: T == S; T is in [1,64]; S is in [2,inf]");
}

static void what_is_no_size_is_refused(void **state) {
    static const char *const want[] = {
        "slice: [-1, 8) is not known to lie within axis 1 of f32[T,8]",
        "slice: [0, T+1) is not known to lie within axis 0 of f32[T,8]",
        "reshape: axis 0 of f32[-1,8] is negative",
        "sum: axis -3 out of range for f32[T,8]",
        "argmax: axis 2 out of range for f32[T,8]",
        "slice: axis -3 out of range for f32[T,8]",
        "concat: axis -3 out of range for f32[T,8]",
        "mean: axis -3 out of range for f32[T,8]",
        "softmax: axis -3 out of range for f32[T,8]",
        "iota: axis -3 out of range for i32[T,8]",
        "permute: axis -3 out of range for f32[T,8]",
        "size: axis 2 out of range for f32[T,8]",
        "size (T) // (0): a size is divided by positive numbers alone",
        "size (1152921504606846976*T) * (4): it overflows",
        "input: axis 0 of f32[T-2] may be negative",
        "a size of graph @sizes is used in graph @other",
    };
    (void)state;
    for (int i = 0; i < (int)(sizeof want / sizeof *want); i++) {
        static const int back[] = {0, -3};
        traced t = begin(), other;
        rp_tensor x = t.x;
        switch (i) {
        case 0: (void)rp_slice(x, 1, -1, 8); break;
        case 1: (void)rp_slice(x, 0, 0, rp_dim_add(t.T, 1)); break;
        case 2: (void)rp_reshape(x, RP_SHAPE(-1, 8)); break;
        case 3: (void)rp_sum(x, -3, false); break;
        case 4: (void)rp_argmax(x, 2, false); break;
        case 5: (void)rp_slice(x, -3, 0, 1); break;
        case 6: (void)rp_concat((rp_tensor[]){x, x}, 2, -3); break;
        case 7: (void)rp_mean(x, -3, false); break;
        case 8: (void)rp_softmax(x, -3); break;
        case 9: (void)rp_iota(t.g, RP_DTYPE_I32, RP_SHAPE(t.T, 8), -3); break;
        case 10: (void)rp_permute(x, back, 2); break;
        case 11: (void)rp_tensor_dim(x, 2); break;
        case 12: (void)rp_dim_floordiv(t.T, 0); break;
        case 13: (void)rp_dim_mul(rp_dim_mul(t.T, INT64_C(1) << 60), 4); break;
        case 14: (void)rp_input(t.g, "y", RP_DTYPE_F32, RP_SHAPE(rp_dim_sub(t.T, 2))); break;
        default:
            other = (traced){.g = rp_graph_new("other")};
            other.x = rp_input(other.g, "x", RP_DTYPE_F32, RP_SHAPE(t.T));
            rp_graph_free(t.g);
            t = other;
        }
        check_refused(&t, want[i]);
    }
}

static void negative_axes_count_from_the_last(void **state) {
    static const int back[] = {-1, -2};
    (void)state;
    traced t = begin();
    check_type(&t, rp_permute(t.x, back, 2), "f32[8,T]");
    t = begin();
    check_type(&t, rp_slice(t.x, -2, rp_dim_sub(rp_tensor_dim(t.x, -2), 1), t.T), "f32[1,8]");
}

static void symbols_say_what_clashes(void **state) {
    static const char *const want[] = {
        "symbol 'R' in [9,2]: the least value is above the greatest",
        "symbol 'T' in [1,65]: it is in [1,64] already; give one name one range",
        "symbol 'S' in [2,9]: it is in [2,inf] already",
        "symbol 'a b' in [1,2]: a name is a letter or _, then",
        "symbol '' in [1,2]: a name is",
        "symbol '1' in [2,2]: a name is",
        "symbol 'T' in [-inf,64]: it is in [1,64] already",
        "symbol 'T' in [1,inf]: it is in [1,64] already",
    };
    static const struct {
        const char *name;
        int64_t min, max;
    } symbols[] = {{"R", 9, 2},  {"T", 1, 65}, {"S", 2, 9},          {"a b", 1, 2},
                   {NULL, 1, 2}, {"1", 2, 2},  {"T", INT64_MIN, 64}, {"T", 1, INT64_MAX}};
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        traced t = begin();
        (void)rp_symbol(t.g, symbols[i].name, symbols[i].min, symbols[i].max);
        check_refused(&t, want[i]);
    }
}

static void means_are_of_floats(void **state) {
    traced t = begin();
    (void)state;
    (void)rp_mean(rp_input(t.g, "i", RP_DTYPE_I32, RP_SHAPE(t.T, 4)), 1, false);
    check_refused(&t, "mean: wants f32, f16, bf16 or f64, not i32[T,4]; cast it");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_is_of_sizes),
        cmocka_unit_test(numbers_need_no_graph),
        cmocka_unit_test(relations_are_what_they_say),
        cmocka_unit_test(sizes_tell_what_is_known),
        cmocka_unit_test(questions_are_answered_and_told),
        cmocka_unit_test(a_branch_without_an_answer_ends_the_trace),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(negative_axes_count_from_the_last),
        cmocka_unit_test(symbols_say_what_clashes),
        cmocka_unit_test(means_are_of_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
