/* Sizes that a piece of a function reads and none of its values has: of what follows a graph break, and between ops that split. */
#include "support/heard.h"
#include "support/jits.h"

enum { MOST = 16 };

/* What crosses the break is one number; the rest is made of sizes, one of them of an argument that was written. */
static rp_status behind(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static rp_value out[3];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_tensor_dim(a, 0), m = rp_tensor_dim(b, 0);
    rp_graph *g = rp_jit_graph(call);
    rp_tensor sum = rp_add(rp_sum(a, 0, false), rp_sum(b, 0, false));
    (void)user, (void)err;
    (void)rp_update(b, rp_neg(b));
    if (rp_item(sum) > 0) sum = rp_neg(sum); /* always */
    rp_tensor i = rp_cast(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(n, m), 1), RP_DTYPE_F32);
    out[0] = rp_jit_value(call, rp_add(i, sum));
    out[1] = rp_jit_value(call, rp_dim_value(g, rp_dim_add(n, rp_dim_mul(m, 100)), RP_DTYPE_I64));
    out[2] = rp_jit_value(call, rp_broadcast(sum, RP_SHAPE(m)));
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

/* The same without a break: sums along an axis split it. */
static rp_status split(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    static rp_value out[3];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_tensor_dim(a, 0), m = rp_tensor_dim(b, 0);
    rp_graph *g = rp_jit_graph(call);
    rp_tensor i = rp_cast(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(n), 0), RP_DTYPE_F32);
    rp_tensor sums = rp_cumsum(i, 0);
    (void)user, (void)err;
    rp_tensor first = rp_cumsum(rp_broadcast(rp_sum(a, 0, true), RP_SHAPE(3)), 0);
    out[0] = rp_jit_value(
        call, rp_broadcast(rp_reshape(rp_slice(first, 0, 2, 3), RP_SHAPE(1)), RP_SHAPE(m)));
    out[1] = rp_jit_value(call, rp_mul_scalar(sums, 2));
    out[2] = rp_jit_value(call, rp_add(rp_slice(first, 0, 0, 1), rp_dim_value(g, m, RP_DTYPE_F32)));
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

/* A size that may be negative, until what the op needs is known. */
static rp_status without_last(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    static rp_value out[3];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    rp_jit_break(call, "the last row");
    out[0] = rp_jit_value(call, rp_slice(a, 0, 0, rp_dim_sub(rp_tensor_dim(a, 0), 1)));
    if (rp_dim_gt(rp_tensor_dim(b, 0), 2))
        b = rp_slice(b, 0, 0, rp_dim_sub(rp_tensor_dim(b, 0), 2));
    out[1] = rp_jit_value(call, rp_neg(b));
    out[2] = rp_jit_value(call, rp_exp(b));
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

/* What an op needs of several sizes at once, in front of a second break: that a and b in two rows each are as many. */
static rp_status needs(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    static rp_value out[3];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_tensor_dim(a, 0), m = rp_tensor_dim(b, 0);
    (void)user, (void)err;
    rp_jit_break(call, "builtin: print");
    rp_tensor wide = rp_mul(rp_reshape(a, RP_SHAPE(n, 1)), rp_reshape(b, RP_SHAPE(1, m)));
    rp_tensor halves = rp_reshape(wide, RP_SHAPE(2, rp_dim_floordiv(rp_dim_mul(n, m), 2)));
    if (rp_item(rp_sum(rp_sum(halves, 1, false), 0, false)) > 0) b = rp_neg(b); /* always */
    out[0] = rp_jit_value(call, halves);
    out[1] = rp_jit_value(call, rp_add_scalar(b, 1));
    out[2] = rp_jit_value(call, rp_exp(a));
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

/* A size that takes more operations than a plan has for one. */
static rp_status long_size(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    static rp_value out[3];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_tensor_dim(a, 0), m = rp_tensor_dim(b, 0), d = rp_dim_mul(n, 0);
    (void)user, (void)err;
    rp_jit_break(call, "builtin: print");
    for (int i = 2; i < 10; i++)
        d = rp_dim_add(d, rp_dim_mul(rp_dim_floordiv(n, i), rp_dim_mod(m, i)));
    out[0] = rp_jit_value(call, rp_neg(a));
    out[1] = rp_jit_value(call, rp_dim_value(rp_jit_graph(call), d, RP_DTYPE_I64));
    out[2] = rp_jit_value(call, rp_exp(b));
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

/* What is two values until two sizes are found to be one, and is read behind the break as two. */
static rp_status alike(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    static rp_value out[3];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    rp_dim n = rp_tensor_dim(a, 0), m = rp_tensor_dim(b, 0);
    rp_graph *g = rp_jit_graph(call);
    rp_tensor sums = rp_cumsum(rp_neg(a), 0);
    rp_tensor i = rp_cast(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(n), 0), RP_DTYPE_F32);
    rp_tensor k = rp_cast(rp_iota(g, RP_DTYPE_I32, RP_SHAPE(m), 0), RP_DTYPE_F32);
    (void)user, (void)err;
    const bool one = rp_dim_eq(n, m);
    rp_jit_break(call, "what is there so far");
    out[0] = rp_jit_value(call, one ? rp_mul(k, sums) : sums);
    out[1] = rp_jit_value(call, rp_add_scalar(i, 1));
    out[2] = rp_jit_value(call, rp_neg(k));
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

static void check_like_level_0(rp_jit_fn fn, const char *settings, const char *mode, int graphs) {
    static const int64_t rows[][2] = {{3, 2}, {5, 4}, {7, 2}, {2, 9}, {4, 4}, {MOST, 3}, {6, 6}};
    rp_jit_options o = jit_options(fn);
    rp_jit *plain = jit_by(o, "level=0 threads=1");
    o.mode = mode;
    rp_jit *f = jit_by(o, settings);
    for (int i = 0; i < 7; i++) {
        float a[MOST], b[2][MOST], *y[2][3];
        rp_output *out[2];
        for (int k = 0; k < MOST; k++) {
            a[k] = (float)(k % 3 + i);
            b[0][k] = b[1][k] = (float)(k + i) / 4;
        }
        for (int k = 0; k < 2; k++) {
            rp_value v[] = {f32_of(a, 1, rows[i][0], 0), f32_of(b[k], 1, rows[i][1], 0)};
            rp_value args = rp_value_tuple(v, 2);
            out[k] = jit_ok(k ? f : plain, &args);
            for (int j = 0; j < 3; j++) y[k][j] = jit_result(out[k])->item[j].tensor.data;
        }
        for (int j = 0; j < 3; j++) {
            const rp_buffer *is = &jit_result(out[1])->item[j].tensor;
            const rp_buffer *want = &jit_result(out[0])->item[j].tensor;
            size_t bytes = is->dtype == RP_DTYPE_I64 ? 8 : 4;
            assert_int_equal(is->rank, want->rank);
            for (uint32_t d = 0; d < is->rank; d++) {
                assert_int_equal(is->dim[d], want->dim[d]);
                bytes *= (size_t)is->dim[d];
            }
            assert_memory_equal(y[0][j], y[1][j], bytes);
        }
        assert_memory_equal(b[0], b[1], sizeof b[0]);
        rp_output_free(out[0]);
        rp_output_free(out[1]);
    }
    rp_jit_info info = jit_info(f);
    assert_int_equal(info.eager, 0);
    assert_int_equal(info.graphs, graphs);
    rp_jit_free(f);
    rp_jit_free(plain);
}

static void sizes_cross_a_break(void **state) {
    (void)state;
    /* [3] and [2], then [s0] and [s1]: in front of the break and behind. */
    if (!runs_elsewhere()) check_like_level_0(behind, "level=1", NULL, 4);
    check_like_level_0(behind, "level=2", NULL, 4);
    check_like_level_0(behind, "level=2", "reduce-overhead", 4);
}

static void sizes_are_learnt_behind_a_break(void **state) {
    (void)state;
    /* [3] and [2]; [s0] and [s1], of b above 2 and not. */
    check_like_level_0(without_last, "level=2", NULL, 3);
}

static void needs_are_learnt_behind_a_break(void **state) {
    (void)state;
    NOT_ELSEWHERE("sizes are learnt by the host");
    check_like_level_0(needs, "level=2", NULL, 6);
}

static void a_size_too_long_behind_a_break_is_a_number(void **state) {
    base_buf said;
    (void)state;
    NOT_ELSEWHERE("sizes are learnt by the host");
    heard_start(&said, "dynamic");
    check_like_level_0(long_size, "level=1", NULL, 7);
    CHECK_HEARD(&said, "sizes of forward are numbers: test/unit/jit_break_sizes.c:");
    heard_done(&said);
}

/* a has the shape of b behind the break, which no ranges of theirs say. */
static rp_status shaped_as(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                           rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user, (void)err;
    rp_jit_break(call, "builtin: print");
    *result = rp_jit_value(call, rp_add(b, rp_reshape(a, rp_tensor_shape(b))));
    return RP_OK;
}

static void a_mark_holds_behind_a_break(void **state) {
    float x[2][MOST] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    rp_value v[] = {f32_of(x[0], 2, 4, 2), f32_of(x[1], 2, 4, 2)}, args = rp_value_tuple(v, 2);
    (void)state;
    for (int marked = 0; marked < 2; marked++) {
        rp_error err = {0};
        rp_output *out = NULL;
        rp_jit *f = jit_at(shaped_as, 2, RP_DYNAMIC_ALL, NULL);
        if (marked) CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 2, 100, &err), &err);
        if (rp_jit_run(f, &args, &out, &err) != (marked ? RP_INVALID : RP_OK) ||
            (marked && !strstr(err.text, "You marked L[0].size()[0] as dynamic but ")))
            fail_msg("%s", err.text);
        if (!marked) assert_true(((float *)jit_result(out)->tensor.data)[3] == 12);
        rp_output_free(out);
        rp_jit_free(f);
    }
}

static void sizes_cross_an_op_that_splits(void **state) {
    (void)state;
    check_like_level_0(split,
                       "level=3 splitting_ops=reprise::cumsum cudagraph_copy_inputs=true "
                       "cudagraph_mode=PIECEWISE",
                       NULL, 2 * 5); /* five pieces */
}

static void values_that_turn_out_to_be_one_are_two(void **state) {
    (void)state;
    /* [3] and [2], then [s0] and [s1], and both [s0]: in front of the break three pieces, and one behind. */
    check_like_level_0(alike, "level=2", NULL, 6);
    check_like_level_0(alike, "level=3 splitting_ops=reprise::cumsum cudagraph_mode=NONE", NULL, 6);
    check_like_level_0(alike,
                       "level=3 splitting_ops=reprise::cumsum cudagraph_copy_inputs=true "
                       "cudagraph_mode=PIECEWISE",
                       NULL, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_cross_a_break),
        cmocka_unit_test(sizes_are_learnt_behind_a_break),
        cmocka_unit_test(needs_are_learnt_behind_a_break),
        cmocka_unit_test(a_size_too_long_behind_a_break_is_a_number),
        cmocka_unit_test(a_mark_holds_behind_a_break),
        cmocka_unit_test(sizes_cross_an_op_that_splits),
        cmocka_unit_test(values_that_turn_out_to_be_one_are_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
