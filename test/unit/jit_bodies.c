/* Loops and branches of functions with graph breaks: their bodies are on the sizes of the piece that they come into. */
#include "support/breaks.h"

/* --- bodies ---------------------------------------------------------------------------------- */

static void plus_rows(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                      uint32_t n_out, void *user) {
    (void)n_in, (void)n_out, (void)user;
    rp_tensor rows = rp_iota(g, RP_DTYPE_F32, rp_tensor_shape(in[0]), 0);
    out[0] = rp_add(in[0], rows);
}

static void negative(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_neg(in[0]);
}

/* A branch within a branch. */
static void by_first(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    rp_tensor top = rp_amax(rp_amax(in[0], 0, false), 0, false);
    rp_cond(rp_gt(top, rp_const(g, RP_DTYPE_F32, 3)), plus_rows, negative, user, in, n_in, out,
            n_out);
}

static void is_small(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    (void)n_in, (void)n_out, (void)user;
    rp_tensor top = rp_amax(rp_amax(in[0], 0, false), 0, false);
    out[0] = rp_lt(top, rp_const(g, RP_DTYPE_F32, 100));
}

static void twice(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                  void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_add(in[0], in[0]);
}

/* A row added to those in front. */
static void running(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                    void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = out[1] = rp_add(in[0], in[1]);
}

/* Asks which of two sizes is larger, and needs the first columns to be as many as there are rows of the second. */
static void product(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                    void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    rp_dim rows = rp_tensor_dim(in[0], 0);
    out[0] = rp_matmul(in[0], in[1], false);
    if (rp_dim_gt(rows, 8)) out[0] = rp_mul_scalar(out[0], 3); /* asked in a body */
}

static void other_product(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                          uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = rp_neg(rp_matmul(in[0], in[1], false));
}

/* --- functions --------------------------------------------------------------------------------- */

/* A branch in front of a break, and one behind it. */
static rp_status branches(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    (void)user, (void)err;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    rp_tensor sum = rp_sum(rp_sum(a, -1, false), -1, false), y;
    rp_tensor zero = rp_const(rp_jit_graph(call), RP_DTYPE_F32, 0);
    rp_cond(rp_gt(sum, zero), plus_rows, negative, NULL, &a, 1, &y, 1);
    if (rp_item(sum) > 0) y = rp_mul_scalar(y, 2);
    rp_cond(rp_gt(sum, zero), by_first, negative, NULL, &y, 1, &y, 1);
    *result = rp_jit_value(call, y);
    return RP_OK;
}

/* Both kinds of loop behind a break. */
static rp_status loops(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    (void)user, (void)err;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), y, both[2];
    rp_jit_break(call, "a line");
    y = rp_add_scalar(rp_abs(a), 1);
    rp_while(is_small, twice, NULL, &y, 1, &y, 1);
    rp_tensor first = rp_mul_scalar(rp_amax(y, 0, false), 0);
    rp_scan_args s = {.carried = &first, .n_carried = 1, .sliced = &y, .n_sliced = 1};
    rp_scan(rp_jit_graph(call), running, NULL, &s, both, 2);
    *result = rp_jit_value(call, both[1]);
    return RP_OK;
}

static rp_status asks(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    (void)user, (void)err;
    rp_tensor in[] = {rp_jit_tensor(call, &args->item[0]), rp_jit_tensor(call, &args->item[1])}, y;
    rp_tensor sum = rp_sum(rp_sum(in[0], -1, false), -1, false);
    rp_cond(rp_gt(sum, rp_const(rp_jit_graph(call), RP_DTYPE_F32, 0)), product, other_product, NULL,
            in, 2, &y, 1);
    *result = rp_jit_value(call, y);
    return RP_OK;
}

/* Every level gives what level 0 does, for sizes as numbers, then as symbols. */
static void check(rp_jit_fn fn, rp_dynamic dynamic) {
    static const int64_t rows[] = {4, 6, 6, 9, 4, 2, 33};
    rp_jit *plain = jit_at(fn, 0, RP_DYNAMIC_AUTO, NULL);
    for (int level = 1; level <= 3; level++) {
        rp_jit *f = jit_at(fn, level, dynamic, NULL);
        for (int i = 0; i < 7; i++)
            for (int from = 0; from < 2; from++) {
                float *data = x + from * 5;
                rp_output *is = run2(f, data, rows[i], 3), *want = run2(plain, data, rows[i], 3);
                assert_int_equal(jit_result(is)->tensor.dim[0], rows[i]);
                assert_memory_equal(jit_result(is)->tensor.data, jit_result(want)->tensor.data,
                                    (size_t)rows[i] * 3 * sizeof(float));
                rp_output_free(is);
                rp_output_free(want);
            }
        assert_true(jit_info(f).entries <= 2);
        rp_jit_free(f);
    }
    rp_jit_free(plain);
}

static void branches_beside_a_break(void **state) {
    (void)state;
    fill();
    check(branches, RP_DYNAMIC_AUTO);
    check(branches, RP_DYNAMIC_ALL);
}

static void loops_behind_a_break(void **state) {
    (void)state;
    fill();
    check(loops, RP_DYNAMIC_AUTO);
    check(loops, RP_DYNAMIC_ALL);
}

/* What a body asks of sizes, or an op in it needs, is a guard as any other, with its line. */
static void a_body_asks(void **state) {
    static const int64_t rows[] = {4, 5, 9, 12, 6}, inner[] = {3, 6, 4, 8, 2};
    static const uint32_t entries[] = {1, 2, 3, 3, 3};
    rp_jit *f = jit_at(asks, 2, RP_DYNAMIC_AUTO, NULL),
           *plain = jit_at(asks, 0, RP_DYNAMIC_AUTO, NULL);
    char *text = NULL;
    rp_error err = {0};
    (void)state;
    fill();
    for (int i = 0; i < 5; i++) {
        rp_value v[] = {f32_of(x, 2, rows[i], inner[i]), f32_of(w, 2, inner[i], 5)};
        rp_value args = rp_value_tuple(v, 2);
        rp_output *is = jit_ok(f, &args), *want = jit_ok(plain, &args);
        assert_memory_equal(jit_result(is)->tensor.data, jit_result(want)->tensor.data,
                            (size_t)rows[i] * 5 * sizeof(float));
        assert_int_equal(jit_info(f).entries, entries[i]);
        rp_output_free(is);
        rp_output_free(want);
    }
    CHECK_OK(rp_jit_guards_text(f, &text, &err), &err);
    if (!strstr(text, "jit_bodies.c:")) fail_msg("no line of the body in %s", text);
    rp_free(text);
    rp_jit_free(plain);
    rp_jit_free(f);
}

static rp_status whole_life(rp_error *err) {
    static const int64_t rows[] = {4, 6};
    rp_jit_options o = jit_options(branches);
    rp_jit *f = NULL;
    rp_status st = rp_jit_new(&o, &f, err);
    for (int i = 0; i < 2 && st == RP_OK; i++) {
        rp_output *out = NULL;
        rp_value v = f32_of(x, 2, rows[i], 3), args = rp_value_tuple(&v, 1);
        st = rp_jit_run(f, &args, &out, err);
        rp_output_free(out);
    }
    rp_jit_free(f);
    return st;
}

static void every_allocation_may_fail(void **state) {
    rp_error err = {0};
    (void)state;
    fill();
    for (int i = 0; i < 2; i++) CHECK_OK(whole_life(&err), &err);
    jit_fail_each_allocation(whole_life, 64);
}

/* There is no value in a body, and no break. */
static void wants_a_value(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                          uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out;
    if (user)
        rp_jit_break(user, "builtin: print");
    else
        (void)rp_item(rp_sum(in[0], 0, false));
    out[0] = in[0];
}

static rp_status broken_inside(void *user, rp_jit_call *call, const rp_value *args,
                               rp_value *result, rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0]), u;
    (void)err;
    rp_cond(rp_gt(rp_sum(t, 0, false), rp_const(rp_jit_graph(call), RP_DTYPE_F32, 3)),
            wants_a_value, negative, user ? call : NULL, &t, 1, &u, 1);
    *result = rp_jit_value(call, u);
    return RP_OK;
}

static void a_break_in_a_body_is_refused(void **state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        float data[4] = {1, 2, 3, 4};
        rp_error err = {0};
        rp_output *o = NULL;
        rp_jit *f = jit_at(broken_inside, 2, RP_DYNAMIC_AUTO, k ? data : NULL);
        rp_value v = f32_of(data, 1, 4, 0), args = rp_value_tuple(&v, 1);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_non_null(strstr(err.text,
                               "graph break in the body of a loop or branch, which has no "
                               "values while it is traced: break in front of"));
        assert_non_null(strstr(err.text, k ? "(builtin: print)" : "(Tensor.item())"));
        rp_jit_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_beside_a_break),
        cmocka_unit_test(loops_behind_a_break),
        cmocka_unit_test(a_body_asks),
        cmocka_unit_test(a_break_in_a_body_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
