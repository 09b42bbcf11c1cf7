/* Settings of sizes: compile_sizes have entries of their own, dynamic_shapes_config.type says how a question is answered. */
#include "support/jits.h"

#include <stdlib.h>

enum { MOST = 64 };

/* asks: one question on the size. */
static rp_status doubled(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                         rp_error *err) {
    rp_tensor x = rp_jit_tensor(call, &args->item[0]);
    (void)err;
    if (user && rp_dim_gt(rp_tensor_dim(x, 0), 4)) x = rp_add_scalar(x, 1);
    *result = rp_jit_value(call, rp_mul_scalar(x, 2));
    return RP_OK;
}

static rp_status call(rp_jit *f, int64_t n, float more, rp_error *err) {
    float x[MOST];
    rp_output *o = NULL;
    for (int i = 0; i < MOST; i++) x[i] = (float)i;
    rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
    rp_status st = rp_jit_run(f, &args, &o, err);
    for (int i = 0; i < n && st == RP_OK; i++)
        assert_true(((float *)jit_result(o)->tensor.data)[i] == 2 * (x[i] + more));
    rp_output_free(o);
    return st;
}

static rp_jit *make(void *asks, const char *settings) {
    rp_jit_options o = jit_options(doubled);
    o.user = asks;
    return jit_by(o, settings);
}

static void each_listed_size_has_an_entry_of_its_own(void **state) {
    static const char *const settings[] = {
        "level=1 compile_sizes=16,32",
        "level=1 cudagraph_capture_sizes=16,32 compile_sizes=cudagraph_capture_sizes"};
    (void)state;
    for (int k = 0; k < 2; k++) {
        static const struct {
            int64_t n;
            uint32_t entries;
        } calls[] = {{8, 1}, {9, 2}, {10, 2}, {16, 3}, {11, 3}, {32, 4}, {16, 4}, {33, 4}, {32, 4}};
        rp_error err = {0};
        char *text = NULL;
        rp_jit *f = make(NULL, settings[k]);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            CHECK_OK(call(f, calls[i].n, 0, &err), &err);
            assert_int_equal(jit_info(f).entries, calls[i].entries);
        }
        CHECK_OK(rp_jit_guards_text(f, &text, &err), &err);
        if (!strstr(text, "L[0].size()[0] != 32  # compile_sizes")) fail_msg("%s", text);
        rp_free(text);
        rp_jit_free(f);
    }
}

/* More of them than entries are allowed otherwise. */
static void they_do_not_count_for_the_limit(void **state) {
    rp_error err = {0};
    rp_jit *f = make(NULL, "level=1 compile_sizes=2,3,4,5,6,7,8,9,10,11,12,13");
    (void)state;
    for (int64_t n = 2; n < 40; n++) CHECK_OK(call(f, n, 0, &err), &err);
    assert_int_equal(jit_info(f).general, 0);
    assert_true(jit_info(f).entries <= 14);
    assert_int_equal(jit_info(f).eager, 0);
    rp_jit_free(f);
}

/* doubled, behind a break. */
static rp_status broken(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_jit_break(call, "builtin: print");
    return doubled(user, call, args, result, err);
}

/* A budget that is none is an error of who measures, and of nobody else. */
static void listed_sizes_are_measured(void **state) {
    static const struct {
        const char *settings;
        bool breaks, measures;
    } is[] = {{"level=2 compile_sizes=16", false, true},
              {"level=2 compile_sizes=16", true, true},
              {"level=3 compile_sizes=16", false, true},
              {"level=1 compile_sizes=16", false, false},
              {"level=2 compile_sizes=16 backend=aot_eager", false, false},
              {"level=2 compile_sizes=16 inductor_compile_config.max_autotune=false", false, true},
              {"level=2 compile_sizes=16 inductor_compile_config.max_autotune=false "
               "inductor_compile_config.coordinate_descent_tuning=false",
               false, false}};
    static const char budget[] = "REPRISE_AUTOTUNE_BUDGET";
    (void)state;
    char *before = getenv(budget) ? base_strdup(getenv(budget)) : NULL;
    (void)setenv(budget, "soon", 1);
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        rp_error err = {0};
        if (runs_elsewhere() && strstr(is[i].settings, "aot_eager")) continue; /* the host's */
        rp_jit *f = jit_by(jit_options(is[i].breaks ? broken : doubled), is[i].settings);
        for (int64_t n = 8; n < 11; n++) CHECK_OK(call(f, n, 0, &err), &err);
        rp_status st = call(f, 16, 0, &err);
        if ((st == RP_OK) == is[i].measures) fail_msg("%s: %s", is[i].settings, err.text);
        if (is[i].measures) assert_non_null(strstr(err.text, "REPRISE_AUTOTUNE_BUDGET=soon"));
        err = (rp_error){0};
        CHECK_OK(call(f, 17, 0, &err), &err);
        rp_jit_free(f);
    }
    (void)(before ? setenv(budget, before, 1) : unsetenv(budget));
    base_free(before);
}

/* Rows of 16, which is listed and never another size. */
static rp_status call_rows(rp_jit *f, int64_t n, rp_error *err) {
    static float x[MOST];
    rp_output *o = NULL;
    rp_value v = f32_of(x, 2, n, 16), args = rp_value_tuple(&v, 1);
    rp_status st = rp_jit_run(f, &args, &o, err);
    rp_output_free(o);
    return st;
}

/* Its first call has one, and what has symbols is for others; a marked size is a symbol whatever it is. */
static void what_is_for_others_is_not_measured(void **state) {
    static const char budget[] = "REPRISE_AUTOTUNE_BUDGET";
    (void)state;
    char *before = getenv(budget) ? base_strdup(getenv(budget)) : NULL;
    rp_error err = {0};
    rp_jit *f = make(NULL, "level=2 compile_sizes=16"),
           *marked = make(NULL, "level=2 compile_sizes=4");
    (void)setenv(budget, "soon", 1);
    assert_int_not_equal(call_rows(f, 2, &err), RP_OK);
    (void)unsetenv(budget);
    err = (rp_error){0};
    CHECK_OK(call_rows(f, 2, &err), &err);
    (void)setenv(budget, "soon", 1);
    for (int64_t n = 3; n < 5; n++) CHECK_OK(call_rows(f, n, &err), &err);
    CHECK_OK(rp_jit_mark_dynamic(marked, "L[0]", 0, 1, 64, &err), &err);
    CHECK_OK(call_rows(marked, 4, &err), &err);
    (void)(before ? setenv(budget, before, 1) : unsetenv(budget));
    base_free(before);
    rp_jit_free(marked);
    rp_jit_free(f);
}

/* A state's sizes are numbers anyway; a size that is marked static is one at the first call alone. */
static void what_was_a_number_anyway_is_not_measured(void **state) {
    static const char budget[] = "REPRISE_AUTOTUNE_BUDGET";
    (void)state;
    char *before = getenv(budget) ? base_strdup(getenv(budget)) : NULL;
    (void)setenv(budget, "soon", 1);
    for (int i = 0; i < 2; i++) {
        static float x[MOST];
        rp_error err = {0};
        rp_output *o = NULL;
        rp_jit *f = make(NULL, "level=2 compile_sizes=16");
        rp_value v = f32_of(x, 1, 16, 0), args = rp_value_tuple(&v, 1);
        v.state = i == 0;
        if (i == 1) CHECK_OK(rp_jit_mark_static(f, "L[0]", 0, &err), &err);
        const rp_status st = rp_jit_run(f, &args, &o, &err);
        assert_int_equal(st == RP_OK, i == 0);
        rp_output_free(o);
        rp_jit_free(f);
    }
    (void)(before ? setenv(budget, before, 1) : unsetenv(budget));
    base_free(before);
}

static void a_word_without_a_list_is_refused(void **state) {
    static const char *const settings[] = {
        "level=1 compile_sizes=cudagraph_capture_sizes",
        "level=1 cudagraph_capture_sizes=all compile_sizes=cudagraph_capture_sizes"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_jit *f = NULL;
        assert_int_equal(jit_of(jit_options(doubled), settings[i], &f, &err), RP_CONFIG);
        assert_non_null(strstr(err.text, "stands for the numbers that are given there"));
    }
}

/* Whether or not what cannot be compiled runs op by op: it is no matter of a graph. */
static void ranges_are_refused(void **state) {
    rp_error err = {0};
    rp_jit *f = NULL;
    rp_jit_options o = jit_options(doubled);
    (void)state;
    o.suppress_errors = true;
    assert_int_equal(jit_of(o, "level=1 compile_ranges_endpoints=8", &f, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "compile_ranges_endpoints is not supported for a graph or a"));
}

/* Backed: 1 is a number, questions are guards. Oblivious: 1 is a symbol. Unbacked: no question has an answer. */
static void types_of_dynamic_shapes_act(void **state) {
    static int asks;
    rp_error err = {0};
    (void)state;
    rp_jit *f = make(&asks, "level=1 dynamic_shapes_config.type=backed");
    CHECK_OK(call(f, 8, 1, &err), &err);
    CHECK_OK(call(f, 9, 1, &err), &err);
    CHECK_OK(call(f, 3, 0, &err), &err);
    assert_int_equal(jit_info(f).entries, 3);
    rp_jit_free(f);
    for (int oblivious = 0; oblivious < 2; oblivious++) {
        f = make(NULL, oblivious ? "level=1 dynamic_shapes_config.type=backed_size_oblivious"
                                 : "level=1 dynamic_shapes_config.type=backed");
        CHECK_OK(call(f, 8, 0, &err), &err);
        CHECK_OK(call(f, 1, 0, &err), &err);
        CHECK_OK(call(f, 9, 0, &err), &err);
        assert_int_equal(jit_info(f).entries, oblivious ? 2 : 3);
        rp_jit_free(f);
    }
    f = make(&asks, "level=1 dynamic_shapes_config.type=unbacked");
    CHECK_OK(call(f, 8, 1, &err), &err); /* a number still */
    assert_int_equal(call(f, 9, 1, &err), RP_INVALID);
    if (!strstr(err.text, ": not known: u0 > 4")) fail_msg("%s", err.text);
    rp_jit_free(f);
    f = make(NULL, "level=1 dynamic_shapes_config.type=unbacked");
    for (int64_t n = 8; n > 0; n--) CHECK_OK(call(f, n, 0, &err), &err);
    assert_int_equal(jit_info(f).entries, 2);
    rp_jit_free(f);
}

/* The option comes first; past the limit one entry serves every size. */
static void the_limit_may_be_a_setting(void **state) {
    static const struct {
        const char *settings;
        uint32_t option, general;
    } cases[] = {{"level=1 recompile_limit=2", 0, 1},
                 {"level=1 recompile_limit=2", 4, 0},
                 {"level=1", 0, 0},
                 {"level=1 recompile_limit=16", 2, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_jit_options o = jit_options(doubled);
        rp_error err = {0};
        o.dynamic = RP_DYNAMIC_NONE;
        o.recompile_limit = cases[i].option;
        rp_jit *f = jit_by(o, cases[i].settings);
        for (int n = 2; n < 6; n++) CHECK_OK(call(f, n, 0, &err), &err);
        assert_int_equal(jit_info(f).general, cases[i].general);
        rp_jit_free(f);
    }
}

static rp_status rows_times_w(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                              rp_error *err) {
    (void)user;
    (void)err;
    *result = rp_jit_value(
        call, rp_linear(rp_jit_tensor(call, &args->item[0]), rp_jit_tensor(call, &args->item[1])));
    return RP_OK;
}

static rp_status call_linear(rp_jit *f, int64_t rows, int64_t k, rp_error *err) {
    static float x[MOST * 2], w[3 * 8];
    rp_output *o = NULL;
    rp_value in[] = {f32_of(x, 2, rows, k), f32_of(w, 2, 3, 8)}, args = rp_value_tuple(in, 2);
    rp_status st = rp_jit_run(f, &args, &o, err);
    rp_output_free(o);
    return st;
}

/* The k that did not fit is no size that has differed. */
static void a_call_that_fails_changes_no_other(void **state) {
    static const char *const types[] = {"level=1 dynamic_shapes_config.type=unbacked", "level=1"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_jit *f = jit_by(jit_options(rows_times_w), types[i]);
        assert_int_equal(call_linear(f, 4, 7, &err), RP_INVALID);
        CHECK_OK(call_linear(f, 4, 8, &err), &err);
        assert_int_equal(call_linear(f, 4, 7, &err), RP_INVALID);
        CHECK_OK(call_linear(f, 5, 8, &err), &err); /* rows are a symbol, k is not */
        assert_int_equal(call_linear(f, 5, 7, &err), RP_INVALID);
        /* with the sizes of the call, where a symbol has an example */
        if (!strstr(err.text, i ? "f32[5,7]" : "f32[u0,u1]")) fail_msg("%s", err.text);
        for (int64_t rows = 6; rows < 9; rows++) CHECK_OK(call_linear(f, rows, 8, &err), &err);
        assert_int_equal(jit_info(f).entries, 2);
        rp_jit_free(f);
    }
}

/* Takes numbers alone. */
static rp_status of_numbers(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                            rp_error *err) {
    int64_t n;
    if (!rp_dim_is_const(rp_tensor_dim(rp_jit_tensor(call, &args->item[0]), 0), &n)) {
        (void)snprintf(err->text, sizeof err->text, "a size is no number");
        return RP_INVALID;
    }
    return doubled(user, call, args, result, err);
}

static void what_fails_with_symbols_is_made_of_numbers(void **state) {
    rp_error err = {0};
    (void)state;
    rp_jit *f = jit_by(jit_options(of_numbers), "level=1");
    for (int64_t n = 4; n < 8; n++) CHECK_OK(call(f, n, 0, &err), &err);
    assert_int_equal(jit_info(f).entries, 4);
    assert_int_equal(jit_info(f).eager, 0);
    rp_jit_free(f);
    rp_jit_options o = jit_options(of_numbers);
    o.dynamic = RP_DYNAMIC_ALL;
    f = jit_by(o, "level=1");
    CHECK_OK(call(f, 4, 0, &err), &err);
    CHECK_OK(rp_jit_mark_dynamic(f, "L[0]", 0, 2, INT64_MAX, &err), &err); /* is to be one */
    assert_int_equal(call(f, 5, 0, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "a size is no number"));
    rp_jit_free(f);
}

static void without_a_level_it_is_two(void **state) {
    static const struct {
        const char *settings;
        bool compiles;
    } is[] = {{"threads=1", true},          {"recompile_limit=3", true},
              {"isa=portable", true},       {"dynamic_shapes_config.type=unbacked", true},
              {"level=0", false},           {"optimization_level=0", false},
              {"enforce_eager=true", false}};
    (void)state;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) {
        rp_error err = {0};
        rp_jit *f = make(NULL, is[i].settings);
        CHECK_OK(call(f, 8, 0, &err), &err);
        if ((jit_info(f).compiles == 1) != is[i].compiles) fail_msg("%s", is[i].settings);
        rp_jit_free(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_may_be_a_setting),
        cmocka_unit_test(each_listed_size_has_an_entry_of_its_own),
        cmocka_unit_test(they_do_not_count_for_the_limit),
        cmocka_unit_test(listed_sizes_are_measured),
        cmocka_unit_test(what_is_for_others_is_not_measured),
        cmocka_unit_test(what_was_a_number_anyway_is_not_measured),
        cmocka_unit_test(a_word_without_a_list_is_refused),
        cmocka_unit_test(ranges_are_refused),
        cmocka_unit_test(types_of_dynamic_shapes_act),
        cmocka_unit_test(a_call_that_fails_changes_no_other),
        cmocka_unit_test(what_fails_with_symbols_is_made_of_numbers),
        cmocka_unit_test(without_a_level_it_is_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
