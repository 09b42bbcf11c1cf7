/* Graph breaks and what goes wrong: options, errors in front of a break and behind it, memory that runs out. */
#include "support/breaks.h"

#include "support/heard.h"

static rp_jit *with(rp_jit_options o) {
    rp_error err = {0};
    rp_jit *f = NULL;
    CHECK_OK(rp_jit_new(&o, &f, &err), &err);
    return f;
}

static void fullgraph_makes_a_break_an_error(void **state) {
    rp_error err = {0};
    rp_output *o = NULL;
    seen s = {0, 0, 0};
    rp_jit_options options = jit_options(by_sum);
    (void)state;
    options.user = &s;
    for (int by_setting = 0; by_setting < 2; by_setting++) {
        options.fullgraph = !by_setting;
        rp_jit *f = jit_by(options, by_setting ? "level=1 fullgraph=true" : "level=1");
        rp_value v = f32_of(x, 2, 4, 4), args = rp_value_tuple(&v, 1);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_UNSUPPORTED);
        assert_non_null(strstr(err.text, "support/breaks.h:"));
        assert_non_null(strstr(err.text, "graph break with fullgraph: Tensor.item()"));
        assert_true(isnan(s.sum));
        rp_jit_free(f);
    }
}

static rp_status counts_its_runs(void *user, rp_jit_call *call, const rp_value *args,
                                 rp_value *result, rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    ++*(int *)user;
    if (rp_dim_gt(rp_tensor_dim(a, 0), 2)) a = rp_neg(a);
    rp_jit_break(call, "builtin: print");
    *result = rp_jit_value(call, a);
    return RP_OK;
}

static void a_break_that_is_refused_runs_host_code_once(void **state) {
    (void)state;
    for (int suppress = 0; suppress < 2; suppress++) {
        rp_error err = {0};
        rp_output *o = NULL;
        int runs = 0;
        rp_jit_options options = jit_options(counts_its_runs);
        options.fullgraph = true;
        options.suppress_errors = suppress;
        options.dynamic = RP_DYNAMIC_ALL;
        options.user = &runs;
        rp_jit *f = with(options);
        rp_value v = f32_of(x, 2, 4, 4), args = rp_value_tuple(&v, 1);
        assert_int_equal(rp_jit_run(f, &args, &o, &err), RP_UNSUPPORTED);
        assert_non_null(strstr(err.text, "graph break with fullgraph: builtin: print"));
        assert_int_equal(runs, 1);
        rp_jit_free(f);
    }
}

/* Wrong things behind a break: the call fails, and the next one is right. */
static rp_status fails_once(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]);
    int what = *(int *)user;
    double top = rp_item(rp_amax(a, 0, false));
    if (what == 1) return rp_jit_failed(call) ? RP_DEVICE : RP_NOMEM;
    if (what == 2) a = rp_reshape(a, RP_SHAPE(5));
    if (what == 3) (void)rp_item(a);
    if (what == 4) a = rp_param(rp_jit_graph(call), "w", RP_DTYPE_F32, RP_SHAPE(3));
    (void)err;
    *result = rp_jit_value(call, rp_add_scalar(a, top > 0 ? 1 : 2));
    return RP_OK;
}

static void failures_behind_a_break(void **state) {
    static const char *const text[] = {"", "forward: the function gave 'nomem' back without a text",
                                       "jit_break_fails.c:", "not one number",
                                       "'w' is no argument of the call; a function"};
    float data[3] = {1, 2, 3};
    (void)state;
    for (int first = 0; first < 2; first++)
        for (int what = 1; what < 5; what++) {
            int now = first ? 0 : what;
            rp_error err = {0};
            rp_output *o = NULL;
            rp_jit *f = make(fails_once, 2, &now);
            rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
            if (first) rp_output_free(jit_ok(f, &args));
            now = what;
            assert_int_not_equal(rp_jit_run(f, &args, &o, &err), RP_OK);
            if (!strstr(err.text, text[what])) fail_msg("%d: %s", what, err.text);
            now = 0;
            o = jit_ok(f, &args);
            assert_true(((float *)jit_result(o)->tensor.data)[2] == 4);
            rp_output_free(o);
            rp_jit_free(f);
        }
}

/* A call that goes a new way fails at its end: the next one that goes it compiles it. */
static void a_way_that_failed_is_compiled_later(void **state) {
    rp_error err = {0};
    float data[3] = {1, 2, 3}, out[3] = {0};
    rp_buffer to = {RP_DTYPE_F32, 1, {3}, out};
    rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
    int what = 0;
    rp_jit *f = make(fails_once, 2, &what);
    (void)state;
    rp_output_free(jit_ok(f, &args));
    data[0] = data[1] = data[2] = -1;
    assert_int_equal(rp_jit_run_into(f, &args, NULL, 0, &err), RP_INVALID);
    uint64_t graphs = jit_info(f).graphs;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rp_jit_run_into(f, &args, &to, 1, &err), &err);
        assert_true(out[2] == 1);
        assert_int_equal(jit_info(f).graphs, graphs + 1);
    }
    assert_int_equal(jit_info(f).hits, 1);
    rp_jit_free(f);
}

/* What has run and cannot be compiled has run op by op: its results are right, and say why. */
static void what_is_suppressed_says_so(void **state) {
    float data[3] = {1, 2, 3};
    rp_value v = f32_of(data, 1, 3, 0), args = rp_value_tuple(&v, 1);
    base_buf heard;
    char *cc = getenv("REPRISE_CC") ? strdup(getenv("REPRISE_CC")) : NULL;
    (void)state;
    NOT_ELSEWHERE("it needs no compiler of the host");
    heard_start(&heard, "graph_breaks");
    for (int first = 0; first < 2; first++) {
        int what = 0;
        rp_jit_options o = jit_options(fails_once);
        o.user = &what;
        o.suppress_errors = true;
        data[2] = 3;
        rp_jit *f = with(o);
        if (first) rp_output_free(jit_ok(f, &args));
        uint64_t hits = jit_info(f).hits, compiles = jit_info(f).compiles;
        data[0] = data[1] = data[2] = -1 - (float)first; /* the other way */
        (void)setenv("REPRISE_CC", "no-such-compiler", 1);
        for (int i = 0; i < 2; i++) {
            rp_output *is = jit_ok(f, &args);
            assert_true(((float *)jit_result(is)->tensor.data)[2] == data[2] + 2);
            assert_int_equal(rp_output_ran(is), RP_RAN_EAGER);
            assert_non_null(strstr(rp_output_reason(is), "no-such-compiler"));
            rp_output_free(is);
        }
        (void)(cc ? setenv("REPRISE_CC", cc, 1) : unsetenv("REPRISE_CC"));
        assert_int_equal(jit_info(f).eager, 2);
        assert_int_equal(jit_info(f).hits, hits);
        assert_int_equal(jit_info(f).compiles, compiles);
        assert_int_equal(jit_info(f).entries, 1); /* the second call has found it */
        rp_jit_free(f);
    }
    CHECK_HEARD(&heard, "WON'T CONVERT forward model.c line 8: ");
    heard_done(&heard);
    free(cc);
}

static void values_are_for_functions(void **state) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("plain");
    rp_tensor a = rp_input(g, "a", RP_DTYPE_F32, RP_SHAPE(1));
    (void)state;
    assert_true(isnan(rp_item(a)));
    assert_int_equal(rp_graph_finish(g, &a, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "has no value while it is traced"));
    rp_graph_free(g);
}

static rp_status by_amax(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    seen none = {0, 0, 0};
    (void)user;
    return by_sum(&none, call, args, result, err);
}

/* Two ways, two entries, and back. */
static rp_status whole_life(rp_error *err) {
    static const int64_t rows[] = {2, 8, 2, 8};
    rp_jit_options o = jit_options(by_amax);
    rp_jit *f = NULL;
    rp_status st = rp_jit_new(&o, &f, err);
    for (int i = 0; i < 4 && st == RP_OK; i++) {
        rp_output *out = NULL;
        rp_value v = f32_of(x, 2, rows[i], 3), args = rp_value_tuple(&v, 1);
        st = rp_jit_run(f, &args, &out, err);
        if (st == RP_OK)
            check_by_sum(out, x, (int)rows[i] * 3);
        else
            assert_null(out);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fullgraph_makes_a_break_an_error),
        cmocka_unit_test(a_break_that_is_refused_runs_host_code_once),
        cmocka_unit_test(failures_behind_a_break),
        cmocka_unit_test(a_way_that_failed_is_compiled_later),
        cmocka_unit_test(what_is_suppressed_says_so),
        cmocka_unit_test(values_are_for_functions),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
