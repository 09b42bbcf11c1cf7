/* Composites of tensors of as many axes as there may be: those that want an axis more for a while give what they give of fewer, and what has
 * no room is refused by name. */
#include "support/check.h"

#include <math.h>

#include "ir/eval.h"
#include "reprise/reprise.h"
#include "trace/trace.h"

/* Numbers from -1 to 1, of another kind for each seed. */
static rp_tensor some(rp_graph *g, int seed, rp_dtype t, rp_shape s) {
    int64_t n = 1, size;
    for (uint32_t i = 0; i < s.rank; i++) {
        assert_true(rp_dim_is_const(s.dim[i], &size));
        n *= size;
    }
    rp_tensor i = rp_iota(g, RP_DTYPE_F64, RP_SHAPE(n), 0);
    i = rp_sin(
        rp_mul(rp_add(i, rp_const(g, RP_DTYPE_F64, seed)), rp_const(g, RP_DTYPE_F64, 1.7 + seed)));
    return rp_cast(rp_reshape(i, s), t);
}

/* The part [i, j] of x along the first two axes, or what stands for all where such a size is 1. */
static rp_tensor part(rp_tensor x, int64_t i, int64_t j) {
    const int64_t at[] = {i, j};
    for (int k = 0; k < 2; k++) {
        int64_t n;
        assert_true(rp_dim_is_const(rp_tensor_dim(x, 0), &n));
        const int64_t from = n == 1 ? 0 : at[k];
        x = rp_squeeze(rp_slice(x, 0, from, from + 1), 0);
    }
    return x;
}

typedef rp_tensor of_three(rp_tensor a, rp_tensor b, rp_tensor c);

/* f of operands with six axes is f of each part of them, to the bit. Frees g. */
static void check_parts(rp_graph *g, of_three *f, rp_tensor a, rp_tensor b, rp_tensor c) {
    enum { FIRST = 2, SECOND = 3 };
    rp_error err = {0};
    rp_tensor parts[FIRST * SECOND], y[2];
    for (int i = 0; i < FIRST; i++)
        for (int j = 0; j < SECOND; j++)
            parts[i * SECOND + j] = f(part(a, i, j), part(b, i, j), part(c, i, j));
    y[0] = f(a, b, c);
    y[1] = rp_reshape(rp_stack(parts, FIRST * SECOND, 0), rp_tensor_shape(y[0]));
    ir_value v[2] = {{0}};
    CHECK_OK(rp_graph_finish(g, y, 2, &err), &err);
    CHECK_OK(ir_eval(trace_graph_ir(g), NULL, NULL, NULL, NULL, v, &err), &err);
    assert_int_equal(v[0].n, v[1].n);
    assert_memory_equal(v[0].data, v[1].data, (size_t)v[0].n * sizeof(double));
    for (int i = 0; i < 2; i++) ir_value_done(&v[i]);
    rp_graph_free(g);
}

/* Angles are those of the first and of the last axes, in tables of their own. */
static void pairs_of_six_axes_are_turned(void **state) {
    (void)state;
    rp_graph *g = rp_graph_new("rank");
    check_parts(g, (rp_rope_interleaved), some(g, 1, RP_DTYPE_F32, RP_SHAPE(2, 3, 2, 1, 3, 4)),
                some(g, 2, RP_DTYPE_F32, RP_SHAPE(2, 1, 2, 1, 1, 2)),
                some(g, 3, RP_DTYPE_F32, RP_SHAPE(1, 1, 1, 1, 3, 2)));
}

static rp_tensor attend(rp_tensor q, rp_tensor k, rp_tensor v) {
    return rp_scaled_dot_product_attention(&(rp_sdpa_args){.q = q, .k = k, .v = v});
}

/* Keys are those of the first axis, values those of the second. */
static void heads_of_six_axes_share(void **state) {
    (void)state;
    rp_graph *g = rp_graph_new("rank");
    check_parts(g, attend, some(g, 1, RP_DTYPE_F32, RP_SHAPE(1, 3, 1, 4, 3, 2)),
                some(g, 2, RP_DTYPE_F32, RP_SHAPE(2, 1, 1, 2, 5, 2)),
                some(g, 3, RP_DTYPE_F32, RP_SHAPE(1, 3, 1, 2, 5, 2)));
}

static rp_tensor two_products(rp_tensor a, rp_tensor b, rp_tensor c) {
    return rp_matmul(rp_matmul(a, b, false), c, true);
}

static void doubles_of_six_axes_are_multiplied(void **state) {
    (void)state;
    rp_graph *g = rp_graph_new("rank");
    check_parts(g, two_products, some(g, 1, RP_DTYPE_F64, RP_SHAPE(2, 3, 2, 1, 3, 4)),
                some(g, 2, RP_DTYPE_F64, RP_SHAPE(1, 3, 1, 2, 4, 5)),
                some(g, 3, RP_DTYPE_F64, RP_SHAPE(2, 1, 1, 1, 2, 5)));
}

static void fewer_axes_meet_six(void **state) {
    (void)state;
    rp_error err = {0};
    rp_graph *g = rp_graph_new("rank");
    rp_tensor a = some(g, 1, RP_DTYPE_F64, RP_SHAPE(2, 3, 2, 1, 3, 4));
    rp_tensor b = some(g, 2, RP_DTYPE_F64, RP_SHAPE(4, 5));
    rp_tensor y[] = {rp_matmul(a, b, false),
                     rp_reshape(rp_matmul(rp_reshape(a, RP_SHAPE(36, 4)), b, false),
                                RP_SHAPE(2, 3, 2, 1, 3, 5))};
    ir_value v[2] = {{0}};
    CHECK_OK(rp_graph_finish(g, y, 2, &err), &err);
    CHECK_OK(ir_eval(trace_graph_ir(g), NULL, NULL, NULL, NULL, v, &err), &err);
    assert_memory_equal(v[0].data, v[1].data, 180 * sizeof(double));
    for (int i = 0; i < 2; i++) ir_value_done(&v[i]);
    rp_graph_free(g);
}

/* Rows of three axes that an index of three axes puts are those of one axis; of four there is no room. */
static void rows_of_six_axes_are_put(void **state) {
    (void)state;
    rp_error err = {0};
    rp_graph *g = rp_graph_new("rank");
    rp_tensor a = some(g, 1, RP_DTYPE_F32, RP_SHAPE(5, 2, 1, 2)),
              flat = rp_iota(g, RP_DTYPE_I64, RP_SHAPE(4), 0);
    rp_tensor i = rp_reshape(flat, RP_SHAPE(2, 1, 2)),
              v = some(g, 2, RP_DTYPE_F32, RP_SHAPE(2, 1, 2, 2, 1, 2));
    rp_tensor y[] = {rp_index_put(a, &i, 1, v, false),
                     rp_index_put(a, &flat, 1, rp_reshape(v, RP_SHAPE(4, 2, 1, 2)), false)};
    ir_value is[2] = {{0}};
    CHECK_OK(rp_graph_finish(g, y, 2, &err), &err);
    CHECK_OK(ir_eval(trace_graph_ir(g), NULL, NULL, NULL, NULL, is, &err), &err);
    assert_memory_equal(is[0].data, is[1].data, 20 * sizeof(double));
    for (int k = 0; k < 2; k++) ir_value_done(&is[k]);
    rp_graph_free(g);
    g = rp_graph_new("rank");
    a = some(g, 1, RP_DTYPE_F32, RP_SHAPE(5, 2, 1, 2));
    i = rp_reshape(rp_iota(g, RP_DTYPE_I64, RP_SHAPE(4), 0), RP_SHAPE(2, 1, 2, 1));
    y[0] = rp_index_put(a, &i, 1, a, false);
    assert_int_equal(rp_graph_finish(g, y, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "index_put: 1 indices of 4 axes into f32[5,2,1,2]"));
    rp_graph_free(g);
}

/* Not even of one axis more than there are. */
static void more_indices_than_axes_are_refused(void **state) {
    (void)state;
    rp_error err = {0};
    rp_graph *g = rp_graph_new("rank");
    rp_tensor a = some(g, 1, RP_DTYPE_F32, RP_SHAPE(5)),
              row = rp_iota(g, RP_DTYPE_I64, RP_SHAPE(2), 0);
    rp_tensor at[] = {row, row},
              y = rp_index_put(a, at, 2, some(g, 2, RP_DTYPE_F32, RP_SHAPE(2)), false);
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "index_put: 2 indices of 1 axes into f32[5]"));
    rp_graph_free(g);
}

/* The line of the call, the call, and its operand. */
static void a_seventh_axis_is_refused(void **state) {
    (void)state;
    static const char *const texts[] = {
        "unsqueeze: i32[2,2,2,2,2,2] with an axis more; 6 are the most",
        "stack: i32[2,2,2,2,2,2] with an axis more; 6 are the most",
        "one_hot: i32[2,2,2,2,2,2] with an axis more; 6 are the most"};
    for (int i = 0; i < 3; i++) {
        rp_error err = {0};
        rp_graph *g = rp_graph_new("rank");
        rp_tensor x = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(2, 2, 2, 2, 2, 2), 0);
        rp_tensor y = i == 0   ? rp_unsqueeze(x, 3)
                      : i == 1 ? rp_stack(&x, 1, -1)
                               : rp_one_hot(x, 2, RP_DTYPE_F32);
        assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_UNSUPPORTED);
        const char *at = strstr(err.text, "trace_rank.c:");
        if (!at || !strstr(at, texts[i])) fail_msg("\"%s\" is not \"%s\"", err.text, texts[i]);
        rp_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_of_six_axes_are_turned),
        cmocka_unit_test(heads_of_six_axes_share),
        cmocka_unit_test(doubles_of_six_axes_are_multiplied),
        cmocka_unit_test(fewer_axes_meet_six),
        cmocka_unit_test(rows_of_six_axes_are_put),
        cmocka_unit_test(more_indices_than_axes_are_refused),
        cmocka_unit_test(a_seventh_axis_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
