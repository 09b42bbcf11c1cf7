/* Functions that compile themselves: which call makes an entry, what it gives, what is told. */
#include "support/jits.h"

#include "base/alloc.h"
#include "support/heard.h"

static float x[4096], w[4096];

static void fill(void) {
    for (int i = 0; i < 4096; i++) {
        x[i] = (float)(i % 17) / 8 - 1;
        w[i] = (float)(i % 13) / 16 - 0.25f;
    }
}

/* {"x": x[n, k], "w": w[k, m]} */
static rp_value item[2];
static rp_value args_of(int64_t n, int64_t k, int64_t m) {
    static const char *const name[] = {"x", "w"};
    item[0] = f32_of(x, 2, n, k);
    item[1] = f32_of(w, 2, k, m);
    return rp_value_map(name, item, 2);
}

static rp_status product(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    (void)err;
    if (user) ++*(int *)user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    *result = rp_jit_value(call, rp_softmax(rp_matmul(a, b, false), -1));
    return RP_OK;
}

/* The tensor that level 0 gives for these arguments has the bits of o's. */
static void check_same(rp_jit *plain, const rp_value *args, const rp_output *o) {
    rp_output *p = jit_ok(plain, args);
    const rp_buffer *a = &jit_result(o)->tensor, *b = &jit_result(p)->tensor;
    size_t n = sizeof(float);
    assert_int_equal(rp_output_ran(p), RP_RAN_EAGER);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->rank, b->rank);
    for (uint32_t i = 0; i < a->rank; i++) {
        assert_int_equal(a->dim[i], b->dim[i]);
        n *= (size_t)a->dim[i];
    }
    assert_memory_equal(a->data, b->data, n);
    rp_output_free(p);
}

/* One size after the other: the second one makes the axis a symbol, which serves all others, 1 and 0 among them. */
static void the_second_size_is_the_last_compile(void **state) {
    static const int64_t rows[] = {8, 16, 5, 1, 100, 8, 3, 16, 0};
    int runs = 0;
    rp_jit *f = jit_at(product, 2, RP_DYNAMIC_AUTO, &runs);
    rp_jit *plain = jit_at(product, 0, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    fill();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rp_value args = args_of(rows[i], 16, 8);
        rp_output *o = jit_ok(f, &args);
        assert_int_equal(rp_output_ran(o), i < 2 ? RP_RAN_CAPTURE : RP_RAN_REPLAY);
        check_same(plain, &args, o);
        rp_output_free(o);
    }
    rp_jit_info info = jit_info(f);
    assert_int_equal(info.compiles, 2);
    assert_int_equal(info.entries, 2);
    assert_int_equal(info.calls, 9);
    assert_int_equal(info.hits, 7);
    assert_int_equal(runs, 2); /* nothing is asked, so each trace is one run */
    rp_jit_free(f);
    rp_jit_free(plain);
}

/* No rows lie nowhere; of some, an address is wanted. */
static void an_empty_tensor_needs_no_address(void **state) {
    (void)state;
    fill();
    for (int level = 0; level < 3; level += 2) {
        rp_error err = {0};
        rp_jit *f = jit_at(product, level, RP_DYNAMIC_AUTO, NULL);
        rp_value args = args_of(0, 16, 8);
        item[0].tensor.data = NULL;
        rp_output *o = jit_ok(f, &args);
        assert_int_equal(jit_result(o)->tensor.dim[0], 0);
        assert_int_equal(jit_result(o)->tensor.dim[1], 8);
        rp_output_free(o);
        args = args_of(1, 16, 8);
        item[0].tensor.data = NULL;
        o = NULL;
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_null(o);
        rp_jit_free(f);
    }
}

/* --- questions -------------------------------------------------------------------------------- */

/* x + 1 above eight rows, x * 2 below. */
static rp_status branchy(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    if (rp_dim_gt(rp_tensor_dim(a, 0), 8))
        a = rp_add_scalar(a, 1);
    else
        a = rp_mul_scalar(a, 2);
    *result = rp_jit_value(call, a);
    return RP_OK;
}

static void an_answer_is_a_guard(void **state) {
    static const int64_t rows[] = {4, 5, 16, 8, 9, 1000, 2};
    static const rp_ran ran[] = {RP_RAN_CAPTURE, RP_RAN_CAPTURE, RP_RAN_CAPTURE, RP_RAN_REPLAY,
                                 RP_RAN_REPLAY,  RP_RAN_REPLAY,  RP_RAN_REPLAY};
    rp_jit *f = jit_at(branchy, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    fill();
    for (int i = 0; i < 7; i++) {
        rp_value v = f32_of(x, 2, rows[i], 2), args = rp_value_tuple(&v, 1);
        rp_output *o = jit_ok(f, &args);
        const float *y = jit_result(o)->tensor.data;
        assert_int_equal(rp_output_ran(o), ran[i]);
        for (int k = 0; k < rows[i] * 2; k++)
            assert_true(y[k] == (rows[i] > 8 ? x[k] + 1 : x[k] * 2));
        rp_output_free(o);
    }
    rp_jit_free(f);
}

/* a + b, which wants equal sizes, in a tuple with a and a again. */
static rp_status joined(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static rp_value out[3];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    out[0] = rp_jit_value(call, rp_add(a, b));
    out[1] = args->item[0];
    out[2] = rp_jit_value(call, a);
    *result = rp_value_tuple(out, 3);
    return RP_OK;
}

static void an_op_that_wants_equal_sizes_is_a_guard(void **state) {
    rp_error err = {0};
    rp_output *o = NULL;
    rp_jit *f = jit_at(joined, 2, RP_DYNAMIC_ALL, NULL);
    (void)state;
    fill();
    for (int64_t n = 5; n < 9; n++) {
        rp_value v[] = {f32_of(x, 1, n, 0), f32_of(w, 1, n, 0)}, args = rp_value_tuple(v, 2);
        o = jit_ok(f, &args);
        const rp_value *r = jit_result(o);
        assert_int_equal(r->kind, RP_VALUE_TUPLE);
        assert_int_equal(r->item[1].tensor.dim[0], n);
        if (!runs_elsewhere()) assert_ptr_equal(r->item[1].tensor.data, r->item[2].tensor.data);
        for (int k = 0; k < n; k++) {
            assert_true(((float *)r->item[0].tensor.data)[k] == x[k] + w[k]);
            assert_true(((float *)r->item[1].tensor.data)[k] == x[k]);
        }
        rp_output_free(o);
    }
    assert_int_equal(jit_info(f).compiles, 1);
    rp_value v[] = {f32_of(x, 1, 5, 0), f32_of(w, 1, 6, 0)}, args = rp_value_tuple(v, 2);
    assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "forward: "));
    assert_non_null(strstr(err.text, "jit_run.c:"));
    assert_non_null(strstr(err.text, "do not broadcast"));
    v[1] = f32_of(w, 1, 1, 0); /* broadcasts */
    o = jit_ok(f, &args);
    assert_true(((float *)jit_result(o)->item[0].tensor.data)[4] == x[4] + w[0]);
    rp_output_free(o);
    rp_jit_free(f);
}

/* concat(a, b) + c: the size of c is the sum. */
static rp_status concat_add(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_tensor t[3];
    (void)user;
    (void)err;
    for (int i = 0; i < 3; i++) t[i] = rp_jit_tensor(call, &args->item[i]);
    *result = rp_jit_value(call, rp_add(rp_concat(t, 2, 0), t[2]));
    return RP_OK;
}

static void a_size_may_be_a_form_of_others(void **state) {
    rp_error err = {0};
    rp_output *o = NULL;
    rp_jit *f = jit_at(concat_add, 2, RP_DYNAMIC_ALL, NULL);
    (void)state;
    fill();
    for (int64_t n = 2; n < 6; n++)
        for (int64_t m = 2; m < 5; m++) {
            rp_value v[] = {f32_of(x, 1, n, 0), f32_of(w, 1, m, 0), f32_of(x + 64, 1, n + m, 0)};
            rp_value args = rp_value_tuple(v, 3);
            o = jit_ok(f, &args);
            const float *y = jit_result(o)->tensor.data;
            for (int k = 0; k < n + m; k++)
                assert_true(y[k] == (k < n ? x[k] : w[k - n]) + x[64 + k]);
            rp_output_free(o);
            v[2].tensor.dim[0]++;
            assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        }
    assert_int_equal(jit_info(f).compiles, 1);
    rp_jit_free(f);
}

/* Rows in groups of four, where the count divides; else as they are. */
static rp_status grouped(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    rp_dim n = rp_tensor_dim(a, 0);
    (void)user;
    (void)err;
    if (rp_dim_eq(rp_dim_mod(n, 4), 0)) a = rp_reshape(a, RP_SHAPE(rp_dim_floordiv(n, 4), 4));
    *result = rp_jit_value(call, rp_sum(a, 0, false));
    return RP_OK;
}

static void divisibility_is_learnt(void **state) {
    rp_jit *f = jit_at(grouped, 2, RP_DYNAMIC_ALL, NULL);
    rp_jit *plain = jit_at(grouped, 0, RP_DYNAMIC_ALL, NULL);
    (void)state;
    fill();
    for (int64_t n = 2; n < 30; n++) {
        rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
        rp_output *o = jit_ok(f, &args);
        assert_int_equal(jit_result(o)->tensor.rank, n % 4 ? 0 : 1);
        check_same(plain, &args, o);
        rp_output_free(o);
    }
    assert_int_equal(jit_info(f).compiles, 2);
    rp_jit_free(f);
    rp_jit_free(plain);
}

/* --- arguments and results ----------------------------------------------------------------------- */

/* Literals of the arguments act on the trace, and each value is an entry. */
static rp_status scaled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static const char *const name[] = {"y", "n", "s", "none"};
    static rp_value out[4];
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)user;
    (void)err;
    a = rp_mul_scalar(a, args->item[1].as.number);
    if (strcmp(args->item[2].as.string, "neg") == 0) a = rp_neg(a);
    out[0] = rp_jit_value(call, a);
    out[1] = rp_value_int(7);
    out[2] = args->item[2];
    out[3] = rp_value_none();
    *result = rp_value_map(name, out, 4);
    return RP_OK;
}

static void literals_are_guards_and_results(void **state) {
    static const char *const mode[] = {"neg", "pos", "a longer text"};
    rp_jit *f = jit_at(scaled, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    fill();
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < 6; i++) {
            rp_value v[] = {f32_of(x, 1, 4, 0), rp_value_float(i % 2 ? 2 : 3),
                            rp_value_string(mode[i % 3])};
            rp_value args = rp_value_tuple(v, 3);
            rp_output *o = jit_ok(f, &args);
            const rp_value *r = jit_result(o);
            assert_int_equal(rp_output_ran(o), turn ? RP_RAN_REPLAY : RP_RAN_CAPTURE);
            assert_string_equal(r->item[2].as.string, mode[i % 3]);
            assert_int_equal(r->item[1].as.integer, 7);
            assert_int_equal(r->item[3].kind, RP_VALUE_NONE);
            for (int k = 0; k < 4; k++)
                assert_true(((float *)r->item[0].tensor.data)[k] ==
                            x[k] * (i % 2 ? 2 : 3) * (i % 3 ? 1 : -1));
            rp_output_free(o);
        }
    rp_jit_free(f);
}

static rp_status identity(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    (void)user;
    (void)call;
    (void)err;
    *result = *args;
    return RP_OK;
}

static void a_view_is_given_dense(void **state) {
    static const int64_t stride[] = {1, 8};
    rp_jit *f = jit_at(identity, 2, RP_DYNAMIC_AUTO, NULL);
    (void)state;
    fill();
    rp_buffer b = {RP_DTYPE_F32, 2, {8, 4}, x + 3};
    rp_value v = rp_value_strided(b, stride), args = rp_value_list(&v, 1);
    for (int turn = 0; turn < 2; turn++) {
        rp_output *o = jit_ok(f, &args);
        const float *y = jit_result(o)->item[0].tensor.data;
        assert_int_equal(jit_result(o)->kind, RP_VALUE_LIST);
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < 4; k++) assert_true(y[i * 4 + k] == x[3 + i + 8 * k]);
        rp_output_free(o);
    }
    rp_jit_free(f);
}

/* state += x, and the sum before it. */
static rp_status accumulate(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_tensor s = rp_jit_tensor(call, &args->item[0]), a = rp_jit_tensor(call, &args->item[1]);
    (void)user;
    (void)err;
    rp_tensor before = rp_mul_scalar(s, 1);
    (void)rp_update(s, rp_add(s, a));
    *result = rp_jit_value(call, before);
    return RP_OK;
}

static void a_state_is_written_where_it_lies(void **state) {
    float sum[4] = {1, 1, 1, 1};
    rp_error err = {0};
    rp_output *o = NULL;
    (void)state;
    fill();
    for (int level = 0; level <= 3; level++) {
        rp_jit *f = jit_at(accumulate, level, RP_DYNAMIC_AUTO, NULL);
        for (int i = 0; i < 4; i++) sum[i] = 1;
        rp_buffer b = {RP_DTYPE_F32, 1, {4}, sum};
        rp_value v[] = {rp_value_state(b), f32_of(x, 1, 4, 0)}, args = rp_value_tuple(v, 2);
        for (int turn = 0; turn < 3; turn++) {
            o = jit_ok(f, &args);
            const float *y = jit_result(o)->tensor.data;
            for (int i = 0; i < 4; i++) {
                float was = 1;
                for (int k = 0; k < turn; k++) was += x[i];
                assert_true(y[i] == was);
                assert_true(sum[i] == was + x[i]);
            }
            rp_output_free(o);
        }
        v[1] = rp_value_tensor(b); /* what it was before the call */
        float was = sum[2];
        rp_output_free(jit_ok(f, &args));
        assert_true(sum[2] == was + was);
        v[1] = rp_value_state(b);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
        assert_non_null(
            strstr(err.text, "forward: L[0] and L[1], which are states, share memory; give one"));
        v[0] = rp_value_tensor(b); /* likewise, as what the function writes */
        v[1] = f32_of(x, 1, 4, 0);
        was = sum[2];
        rp_output_free(jit_ok(f, &args));
        assert_true(sum[2] == was + x[2]);
        rp_jit_free(f);
    }
}

/* What differs in a state is a number in each graph, where every size is to be a symbol, too. */
static void sizes_of_states_are_numbers(void **state) {
    static const int64_t n[] = {4, 6, 8, 6, 4};
    (void)state;
    fill();
    for (int all = 0; all < 2; all++) {
        rp_jit *f = jit_at(accumulate, 2, all ? RP_DYNAMIC_ALL : RP_DYNAMIC_AUTO, NULL);
        for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
            float sum[8] = {0};
            rp_buffer b = {RP_DTYPE_F32, 1, {n[i]}, sum};
            rp_value v[] = {rp_value_state(b), f32_of(x, 1, n[i], 0)}, args = rp_value_tuple(v, 2);
            rp_output_free(jit_ok(f, &args));
            for (int k = 0; k < 8; k++) assert_true(sum[k] == (k < n[i] ? x[k] : 0));
        }
        assert_int_equal(jit_info(f).compiles, 3);
        rp_jit_free(f);
    }
}

static void results_go_into_memory_of_the_caller(void **state) {
    float y[4][8];
    rp_error err = {0};
    rp_jit *f = jit_at(joined, 2, RP_DYNAMIC_ALL, NULL);
    (void)state;
    fill();
    rp_value v[] = {f32_of(x, 1, 8, 0), f32_of(w, 1, 8, 0)}, args = rp_value_tuple(v, 2);
    rp_buffer out[4];
    for (int i = 0; i < 4; i++) out[i] = (rp_buffer){RP_DTYPE_F32, 1, {8}, y[i]};
    for (int turn = 0; turn < 2; turn++) {
        memset(y, 0, sizeof y);
        CHECK_OK(rp_jit_run_into(f, &args, out, 3, &err), &err);
        for (int k = 0; k < 8; k++) {
            assert_true(y[0][k] == x[k] + w[k]);
            assert_true(y[1][k] == x[k] && y[2][k] == x[k]);
        }
    }
    assert_int_equal(rp_jit_run_into(f, &args, out, 2, &err), RP_INVALID);
    assert_string_equal(err.text, "the result has more tensors than the 2 that were given");
    assert_int_equal(rp_jit_run_into(f, &args, out, 4, &err), RP_INVALID);
    assert_string_equal(err.text, "the result has 3 tensors; 4 were given");
    out[1].dim[0] = 7;
    assert_int_equal(rp_jit_run_into(f, &args, out, 3, &err), RP_INVALID);
    assert_string_equal(err.text, "output 1 size mismatch at index 0. expected 8, actual 7");
    out[1].dim[0] = 8;
    out[1].dtype = RP_DTYPE_I32;
    assert_int_equal(rp_jit_run_into(f, &args, out, 3, &err), RP_INVALID);
    assert_string_equal(err.text, "output 1 is i32 of rank 1; the result has f32 of rank 1");
    out[1] = (rp_buffer){RP_DTYPE_F32, 2, {8, 1}, y[1]};
    assert_int_equal(rp_jit_run_into(f, &args, out, 3, &err), RP_INVALID);
    assert_string_equal(err.text, "output 1 is f32 of rank 2; the result has f32 of rank 1");
    rp_jit_free(f);
}

/* The first argument backwards, or with a user behind a graph break. */
static rp_status turned(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    static rp_value out[2];
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    if (user) rp_jit_break(call, "builtin: print");
    out[0] = rp_jit_value(call, rp_flip(t, 0));
    out[1] = rp_jit_value(call, rp_neg(t));
    *result = rp_value_tuple(out, 2);
    return RP_OK;
}

/* What would be written while it is read is refused; a view is read before, and what touches is apart. */
static void results_lie_over_nothing(void **state) {
    (void)state;
    NOT_ELSEWHERE("results and arguments have memory of their own there");
    for (int k = 0; k < 4; k++) {
        float m[24], y[16];
        rp_error err = {0};
        rp_jit *f = jit_at(turned, k % 2 * 2, RP_DYNAMIC_AUTO, k / 2 ? m : NULL);
        for (int i = 0; i < 24; i++) m[i] = (float)i;
        rp_value v = f32_of(m, 1, 8, 0), args = rp_value_tuple(&v, 1);
        rp_buffer out[] = {{RP_DTYPE_F32, 1, {8}, m + 8}, {RP_DTYPE_F32, 1, {8}, m + 16}};
        CHECK_OK(rp_jit_run_into(f, &args, out, 2, &err), &err); /* beside each other */
        for (int i = 0; i < 8; i++) assert_true(m[8 + i] == (float)(7 - i) && m[16 + i] == -m[i]);
        for (int shift = 0; shift < 8; shift += 7) {
            out[0].data = m + shift;
            out[1].data = y;
            assert_int_equal(rp_jit_run_into(f, &args, out, 2, &err), RP_INVALID);
            assert_string_equal(err.text,
                                "forward: output 0 lies over L[0], an argument, which is read "
                                "while it is written; give it memory of its own, or take the "
                                "result of rp_jit_run");
            out[0].data = y + shift;
            assert_int_equal(rp_jit_run_into(f, &args, out, 2, &err), RP_INVALID);
            assert_string_equal(err.text, "forward: outputs 0 and 1 lie over each other; give each "
                                          "memory of its own");
        }
        out[0].data = y; /* whichever lies over it, of outputs in any order */
        out[1].data = m + 7;
        assert_int_equal(rp_jit_run_into(f, &args, out, 2, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "output 1 lies over L[0], an argument"));
        out[0].data = m + 3;
        out[1].data = m + 11;
        assert_int_equal(rp_jit_run_into(f, &args, out, 2, &err), RP_INVALID);
        assert_non_null(strstr(err.text, "output 0 lies over L[0], an argument"));
        v = f32_of(m + 8, 1, 8, 0);
        out[0].data = m + 16; /* on both sides of it */
        out[1].data = m;
        for (int i = 0; i < 24; i++) m[i] = (float)i;
        CHECK_OK(rp_jit_run_into(f, &args, out, 2, &err), &err);
        for (int i = 0; i < 8; i++) assert_true(m[16 + i] == (float)(15 - i) && m[i] == -m[8 + i]);
        for (int i = 0; i < 24; i++) m[i] = (float)i;
        v = rp_value_strided(f32_of(m + 7, 1, 8, 0).tensor, (int64_t[]){-1});
        out[0].data = m;
        out[1].data = y;
        CHECK_OK(rp_jit_run_into(f, &args, out, 2, &err), &err);
        for (int i = 0; i < 8; i++) assert_true(m[i] == (float)i && y[i] == (float)(i - 7));
        rp_jit_free(f);
    }
}

/* --- what goes wrong ------------------------------------------------------------------------------ */

static rp_status wrong(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    static float y[2];
    static rp_value two[2];
    static const char *const name[2] = {"a", "b"};
    rp_buffer b = {RP_DTYPE_F32, 1, {2}, y};
    (void)args;
    switch (*(int *)user) {
    case 0: return rp_graph_finish(NULL, NULL, 0, err); /* its own failure */
    case 1: *result = rp_value_tensor(b); return RP_OK; /* memory as a result */
    case 2: (void)rp_jit_tensor(call, result); return RP_OK;
    case 3: *result = rp_value_list(NULL, 2); return RP_OK;
    case 4: *result = rp_jit_value(call, rp_none()); return RP_OK;
    case 5: *result = rp_value_list(two, UINT32_MAX); return RP_OK; /* there are two */
    case 6: *result = rp_value_map(name, two, 1 << 28); return RP_OK;
    default: return RP_INTERNAL; /* without a word */
    }
}

static void mistakes_are_told(void **state) {
    static const char *const text[] = {
        "forward: graph is NULL",
        "forward: the result has a tensor that is not of this call; give rp_jit_value",
        "rp_jit_tensor: the value is no tensor of the arguments of this call",
        "forward: the result has a list or tuple of 2 items without any",
        "rp_jit_value: the tensor is of another graph than this call's",
        "forward: the result has a list or tuple of 4294967295 items, which ends where memory can "
        "no longer be read; n is too large",
        "forward: the result has a map of 268435456 items, which ends where memory can no longer "
        "be read; n is too large",
        "forward: the function gave 'internal' back without a text; write one to err->text",
    };
    (void)state;
    for (int level = 0; level <= 2; level += 2)
        for (int i = 0; i < 8; i++) {
            rp_error err = {0};
            rp_output *o = NULL;
            rp_jit *f = jit_at(wrong, level, RP_DYNAMIC_AUTO, &i);
            rp_value v = f32_of(x, 1, 4, 0), args = rp_value_tuple(&v, 1);
            assert_true(rp_jit_run(f, &args, &o, &err) != RP_OK);
            if (!strstr(err.text, text[i])) fail_msg("no '%s' in '%s'", text[i], err.text);
            assert_null(strstr(err.text, ": jit_tensor: ")); /* the call is told once */
            if ((i == 2 || i == 4) && !strstr(err.text, "jit_run.c:")) fail_msg("%s", err.text);
            assert_null(o);
            v.tensor.dim[0] = -1;
            assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_INVALID);
            assert_string_equal(err.text, "arguments of forward: [0] a tensor of f32 has sizes "
                                          "that no memory has");
            rp_jit_free(f);
        }
}

/* n of what has no items is nothing's. */
static rp_status counted(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0]);
    (void)user, (void)err;
    *result = args->item[1].n ? rp_value_none() : rp_jit_value(call, rp_add(t, t));
    result->n = 7;
    return RP_OK;
}

static void literals_and_tensors_have_no_items(void **state) {
    (void)state;
    for (int level = 0; level <= 2; level++) {
        rp_jit *f = jit_at(counted, level, RP_DYNAMIC_AUTO, NULL);
        rp_value v[] = {f32_of(x, 1, 4, 0), rp_value_int(3)}, args = rp_value_tuple(v, 2);
        v[0].n = 5;
        v[1].n = 6;
        v[1].item = (const rp_value *)8;
        rp_output *o = jit_ok(f, &args);
        assert_int_equal(jit_result(o)->kind, RP_VALUE_TENSOR);
        assert_int_equal(jit_result(o)->n, 0);
        rp_output_free(o);
        rp_jit_free(f);
    }
}

static void bad_calls_are_refused(void **state) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_output *o = NULL;
    rp_value v = rp_value_none();
    rp_jit_options none = RP_JIT_OPTIONS(NULL);
    rp_jit_info info = {.size = 3};
    (void)state;
    assert_int_equal(rp_jit_new(NULL, &f, &err), RP_INVALID);
    assert_int_equal(rp_jit_new(&none, &f, &err), RP_INVALID);
    none.fn = identity;
    none.dynamic = (rp_dynamic)9;
    assert_int_equal(rp_jit_new(&none, &f, &err), RP_INVALID);
    assert_int_equal(rp_jit_run(NULL, &v, &o, &err), RP_INVALID);
    f = jit_at(identity, 2, RP_DYNAMIC_AUTO, NULL);
    assert_int_equal(rp_jit_run(f, NULL, &o, &err), RP_INVALID);
    assert_int_equal(rp_jit_get_info(f, &info, &err), RP_INVALID);
    assert_int_equal(rp_jit_mark_dynamic(f, "x", 6, 0, 1, &err), RP_INVALID);
    assert_int_equal(rp_jit_mark_dynamic(f, "x", 0, 2, 1, &err), RP_INVALID);
    assert_int_equal(rp_jit_mark_static(f, NULL, 0, &err), RP_INVALID);
    rp_jit_free(f);
    rp_jit_free(NULL);
}

/* No tensors at all, and a result without any. */
static void values_without_tensors_work(void **state) {
    rp_jit *f = jit_at(identity, 2, RP_DYNAMIC_AUTO, NULL);
    rp_value v = rp_value_int(5);
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_output *o = jit_ok(f, &v);
        assert_int_equal(jit_result(o)->as.integer, 5);
        rp_output_free(o);
    }
    rp_jit_free(f);
}

/* Outputs outlive the function, which leaves nothing behind. */
static void outputs_outlive_the_function(void **state) {
    size_t live = base_live();
    (void)state;
    fill();
    rp_jit *f = jit_at(product, 2, RP_DYNAMIC_AUTO, NULL);
    rp_value args = args_of(8, 16, 8);
    rp_output *o = jit_ok(f, &args);
    rp_jit_reset(f);
    assert_int_equal(jit_info(f).entries, 0);
    rp_output_free(jit_ok(f, &args));
    assert_int_equal(jit_info(f).compiles, 2);
    rp_jit_free(f);
    assert_int_equal(jit_result(o)->tensor.dim[1], 8);
    rp_output_free(o);
    assert_int_equal(base_live(), live);
}

/* --- lines ---------------------------------------------------------------------------------- */

static rp_status fetching(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                          rp_error *err) {
    rp_value v = args->item[0];
    (void)user, (void)err;
    rp_tensor a = rp_jit_tensor(call, &v);
    v = rp_jit_value(call, rp_neg(a));
    *result = rp_jit_value(call, rp_exp(rp_jit_tensor(call, &v)));
    return RP_OK;
}
enum { FETCH_LINE = __LINE__ - 5 };

/* Inputs are of the line that fetches them; what is fetched else is of the line that made it. */
static void inputs_have_the_line_that_fetches_them(void **state) {
    base_buf heard;
    char want[400];
    (void)state;
    rp_jit *f = jit_at(fetching, 1, RP_DYNAMIC_ALL, NULL);
    rp_value v[] = {f32_of(x, 1, 4, 0), f32_of(x, 1, 4, 0)}, args = rp_value_tuple(v, 2);
    heard_start(&heard, "graph");
    rp_output_free(jit_ok(f, &args));
    (void)snprintf(want, sizeof want,
                   "[graph] CALL SITES of forward:\n[graph] %%arg0 : %s:%d rp_jit_tensor\n"
                   "[graph] %%0 : %s:%d rp_neg\n[graph] %%1 : %s:%d rp_exp\n",
                   __FILE__, FETCH_LINE, __FILE__, FETCH_LINE + 1, __FILE__, FETCH_LINE + 2);
    CHECK_HEARD(&heard, want);
    heard_done(&heard);
    rp_jit_free(f);
}

static rp_status twice_of_map(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    rp_tensor t = rp_jit_tensor(call, &args->item[0].item[0].item[1]);
    (void)user;
    (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(t, 2));
    return RP_OK;
}

/* Which of two items of one name is meant nobody can say. */
static void items_of_one_name_are_refused(void **state) {
    const char *const same[] = {"a", "b", "a"}, *const own[] = {"a", "b", "c"};
    rp_value items[] = {f32_of(x, 1, 2, 0), f32_of(x, 1, 2, 0), rp_value_int(1)};
    (void)state;
    for (int level = 0; level <= 2; level += 2) {
        rp_jit *f = jit_at(twice_of_map, level, RP_DYNAMIC_AUTO, NULL);
        for (int k = 0; k < 4; k++) { /* before the first entry, and beside it */
            rp_error err = {0};
            rp_output *o = NULL;
            rp_value map = rp_value_map(k % 2 ? own : same, items, 3),
                     list = rp_value_list(&map, 1);
            rp_value args = rp_value_tuple(&list, 1);
            assert_int_equal(rp_jit_run(f, &args, &o, &err), k % 2 ? RP_OK : RP_INVALID);
            assert_string_equal(err.text, k % 2 ? ""
                                                : "arguments of forward: items 0 and 2 of a map "
                                                  "are both named 'a'");
            rp_output_free(o);
        }
        rp_jit_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_size_is_the_last_compile),
        cmocka_unit_test(items_of_one_name_are_refused),
        cmocka_unit_test(an_empty_tensor_needs_no_address),
        cmocka_unit_test(an_answer_is_a_guard),
        cmocka_unit_test(an_op_that_wants_equal_sizes_is_a_guard),
        cmocka_unit_test(a_size_may_be_a_form_of_others),
        cmocka_unit_test(divisibility_is_learnt),
        cmocka_unit_test(literals_are_guards_and_results),
        cmocka_unit_test(a_view_is_given_dense),
        cmocka_unit_test(a_state_is_written_where_it_lies),
        cmocka_unit_test(sizes_of_states_are_numbers),
        cmocka_unit_test(results_go_into_memory_of_the_caller),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(literals_and_tensors_have_no_items),
        cmocka_unit_test(results_lie_over_nothing),
        cmocka_unit_test(bad_calls_are_refused),
        cmocka_unit_test(values_without_tensors_work),
        cmocka_unit_test(outputs_outlive_the_function),
        cmocka_unit_test(inputs_have_the_line_that_fetches_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
