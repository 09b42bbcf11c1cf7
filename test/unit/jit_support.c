/* What a model says of itself: dynamic_arg_dims, mark_unbacked_dims, mutates and enable_if, as vLLM's support_torch_compile. */
#include "support/jits.h"

enum { MOST = 16, WIDTH = 3 };

static const rp_arg_dim none[1]; /* of which none count */
static float x[MOST * WIDTH], y[MOST * WIDTH];
static const char *const names[] = {"x", "y", "other"};

static void fill(void) {
    for (int i = 0; i < MOST * WIDTH; i++) {
        x[i] = (float)i;
        y[i] = 0.5f * (float)i;
    }
}

static rp_jit *function(rp_jit_fn fn, const rp_support *s, const char *settings, void *user) {
    rp_jit_options o = jit_options(fn);
    o.support = s;
    o.user = user;
    return jit_by(o, settings);
}

/* {x: [n, 3], y: [n, 3], other: None} */
static rp_value call_of(rp_value item[3], int64_t n) {
    item[0] = f32_of(x, 2, n, WIDTH);
    item[1] = f32_of(y, 2, n, WIDTH);
    item[2] = rp_value_none();
    return rp_value_map(names, item, 3);
}

static rp_status adds(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    (void)user, (void)err;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    *result = rp_jit_value(call, rp_add(a, b));
    return RP_OK;
}

static void run_adds(rp_jit *f, int64_t n) {
    rp_value item[3], args = call_of(item, n);
    rp_output *o = jit_ok(f, &args);
    const rp_value *v = jit_result(o);
    assert_int_equal(v->tensor.dim[0], n);
    for (int i = 0; i < n * WIDTH; i++) assert_true(((float *)v->tensor.data)[i] == x[i] + y[i]);
    rp_output_free(o);
}

/* 0 and 1 as well; with compile_sizes one more, whatever comes first. */
static void dims_are_symbols_from_the_first_call_on(void **state) {
    static const rp_arg_dim both[] = {{"x", 0}, {"y", -2}}, nested[] = {{"L", 0}},
                            absent[] = {{"L['x']", 0}, {"y", 0}, {"other", 0}};
    static const rp_support s[] = {
        {.size = sizeof *s, .dynamic_arg_dims = both, .n_dynamic_arg_dims = 2},
        {.size = sizeof *s},
        {.size = sizeof *s, .dynamic_arg_dims = nested, .n_dynamic_arg_dims = 1},
        {.size = sizeof *s, .dynamic_arg_dims = absent, .n_dynamic_arg_dims = 3}};
    static const int64_t sizes[] = {1, 7, 0, 4, 16, 4};
    (void)state;
    for (size_t i = 0; i < sizeof s / sizeof *s; i++)
        for (int own = 0; own < 2; own++) {
            rp_jit *f = function(adds, &s[i], own ? "level=2 compile_sizes=[4]" : "level=2", NULL);
            for (int k = 0; k < 6; k++) run_adds(f, sizes[k]);
            assert_int_equal(jit_info(f).compiles, own ? 2 : 1);
            rp_jit_free(f);
        }
}

/* None named: numbers, as without the declaration. */
static void what_is_not_named_is_a_number(void **state) {
    static const rp_support s = {.size = sizeof s, .dynamic_arg_dims = none};
    rp_jit_options o = jit_options(adds);
    (void)state;
    o.support = &s;
    o.dynamic = RP_DYNAMIC_NONE;
    rp_jit *f = jit_by(o, "level=2");
    for (int n = 2; n < 5; n++) run_adds(f, n);
    assert_int_equal(jit_info(f).compiles, 3);
    rp_jit_free(f);
}

/* What a user marks holds in place of it. */
static void marks_come_first(void **state) {
    static const rp_support s = {.size = sizeof s};
    rp_error err = {0};
    (void)state;
    rp_jit *f = function(adds, &s, "level=2", NULL);
    CHECK_OK(rp_jit_mark_static(f, "x", 0, &err), &err);
    CHECK_OK(rp_jit_mark_static(f, "y", 0, &err), &err);
    for (int n = 2; n < 5; n++) run_adds(f, n);
    assert_int_equal(jit_info(f).compiles, 3);
    rp_jit_free(f);
}

static rp_status asks(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                      rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    if (rp_dim_gt(rp_tensor_dim(a, 0), 8)) a = rp_mul_scalar(a, 2);
    if (*(bool *)user) a = rp_add(a, b); /* whose size is a number */
    *result = rp_jit_value(call, a);
    return RP_OK;
}

static rp_status fails(rp_jit *f, int64_t n, rp_error *err) {
    rp_value item[3], args = call_of(item, n);
    rp_output *o = NULL;
    rp_status st = rp_jit_run(f, &args, &o, err);
    rp_output_free(o);
    return st;
}

/* A question splits the sizes; of an unbacked one, and where it becomes a number, it is an error with the line. */
static void promises_are_held(void **state) {
    static const rp_arg_dim dim[] = {{"x", 0}};
    static const rp_support all = {.size = sizeof all},
                            dynamic = {.size = sizeof dynamic,
                                       .dynamic_arg_dims = dim,
                                       .n_dynamic_arg_dims = 1},
                            unbacked = {.size = sizeof unbacked,
                                        .mark_unbacked_dims = dim,
                                        .n_mark_unbacked_dims = 1};
    bool specialises = false;
    (void)state;
    rp_jit *f = function(asks, &all, "level=2", &specialises);
    for (int i = 0; i < 8; i++) CHECK_OK(fails(f, 4 + i, &(rp_error){0}), &(rp_error){0});
    assert_int_equal(jit_info(f).compiles, 2);
    rp_jit_free(f);
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        specialises = !i;
        f = function(asks, i ? &unbacked : &dynamic, "level=2", &specialises);
        assert_int_equal(fails(f, 4, &err), RP_INVALID);
        if (!strstr(err.text, i ? "u0 > 8" : "L['x'].size()[0]") ||
            !strstr(err.text, "jit_support.c:"))
            fail_msg("%s", err.text);
        rp_jit_free(f);
    }
}

static void names_are_looked_for(void **state) {
    static const rp_arg_dim dims[][1] = {{{"z", 0}}, {{"L[0]", 0}}, {{"x", 2}}, {{"y", -3}}};
    static const char *const written[] = {"cache"};
    static const char *const text[] = {
        "forward: dynamic_arg_dims of the model names L['z'], which no argument is called",
        "forward: dynamic_arg_dims of the model names L[0], which no argument is called",
        "forward: dynamic_arg_dims of the model names axis 2 of L['x'], which has 2",
        "forward: dynamic_arg_dims of the model names axis -3 of L['y'], which has 2",
        "forward: mutates of the model names L['cache'], which no argument is called"};
    (void)state;
    for (int level = 0; level <= 2; level += 2)
        for (int i = 0; i < 5; i++) {
            rp_error err = {0};
            rp_support s = {.size = sizeof s};
            if (i < 4) s.dynamic_arg_dims = dims[i];
            s.n_dynamic_arg_dims = i < 4;
            if (i == 4) s.mutates = written;
            s.n_mutates = i == 4;
            rp_jit *f = function(adds, &s, level ? "level=2" : "level=0", NULL);
            assert_int_equal(fails(f, 4, &err), RP_INVALID);
            assert_string_equal(err.text, text[i]);
            rp_jit_free(f);
        }
}

/* x += y, and a state += y, perhaps with a graph break behind. */
static rp_status writes(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                        rp_error *err) {
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), b = rp_jit_tensor(call, &args->item[1]);
    (void)err;
    if (*(bool *)user) (void)rp_item(rp_sum(rp_sum(b, 0, false), 0, false));
    a = rp_update(a, rp_add(a, b));
    if (*(bool *)user) rp_jit_break(call, "builtin: print");
    *result = rp_jit_value(call, rp_mul_scalar(a, 2));
    return RP_OK;
}

static void only_what_is_named_is_written(void **state) {
    static const char *const list[][1] = {{"x"}, {"y"}};
    static const char *const settings[] = {"level=0", "level=1", "level=2"};
    (void)state;
    for (int i = 0; i < 3 * 2 * 2 * 3; i++) {
        rp_error err = {0};
        const bool right = i % 3 == 0, kept = i / 3 % 2;
        bool breaks = i / 6 % 2;
        rp_support s = {.size = sizeof s, .dynamic_arg_dims = none};
        rp_value item[3], args = call_of(item, 4);
        rp_output *o = NULL;
        if (i % 3 < 2) s.mutates = list[i % 3];
        s.n_mutates = i % 3 < 2;
        item[0].state = kept;
        fill();
        rp_jit *f = function(writes, &s, settings[i / 12], &breaks);
        rp_status st = rp_jit_run(f, &args, &o, &err);
        assert_int_equal(st, right ? RP_OK : RP_INVALID);
        assert_true(x[2] == (right ? 3 : 2));
        if (!right &&
            (!strstr(err.text, "L['x'] is written, which `mutates` of the model does not name") ||
             !strstr(err.text, "jit_support.c:")))
            fail_msg("%d: %s", i, err.text);
        rp_output_free(o);
        rp_jit_free(f);
    }
}

typedef struct asked {
    bool answer;
    int times;
    int64_t level;
} asked;

static bool wanted(void *user, const rp_compilation_config *config) {
    asked *a = user;
    rp_error err = {0};
    a->times++;
    CHECK_OK(rp_config_get_int(config, "level", &a->level, &err), &err);
    return a->answer;
}

static void enable_if_is_asked_once(void **state) {
    static const rp_support s = {.size = sizeof s, .enable_if = wanted};
    (void)state;
    for (int answer = 0; answer < 2; answer++) {
        asked a = {.answer = answer};
        rp_value item[3], args = call_of(item, 5);
        rp_jit *f = function(adds, &s, "backend=inductor", &a);
        assert_int_equal(a.level, 2);
        for (int n = 2; n < 5; n++) run_adds(f, n);
        rp_output *o = jit_ok(f, &args);
        assert_string_equal(rp_output_reason(o), answer ? "" : "enable_if of the model says no");
        rp_output_free(o);
        assert_int_equal(a.times, 1);
        assert_int_equal(jit_info(f).compiles, answer);
        assert_int_equal(jit_info(f).eager, answer ? 0 : 4);
        rp_jit_free(f);
    }
}

static rp_status one_life(rp_error *err) {
    static const rp_arg_dim dims[] = {{"x", 0}, {"L['y']", 0}}, other[] = {{"other", 0}};
    static const char *const written[] = {"x"};
    static const rp_support s = {.size = sizeof s,
                                 .dynamic_arg_dims = dims,
                                 .n_dynamic_arg_dims = 2,
                                 .mark_unbacked_dims = other,
                                 .n_mark_unbacked_dims = 1,
                                 .mutates = written,
                                 .n_mutates = 1};
    bool breaks = false;
    rp_jit *f = NULL;
    rp_output *o = NULL;
    rp_value item[3], args = call_of(item, 4);
    rp_compilation_config *c = rp_config_new();
    rp_jit_options options = jit_options(writes);
    rp_status st = c ? rp_config_set(c, "level=1", err) : RP_NOMEM;
    options.config = c;
    options.support = &s;
    options.user = &breaks;
    if (st == RP_OK) st = rp_jit_new(&options, &f, err);
    if (st == RP_OK) st = rp_jit_run(f, &args, &o, err);
    rp_output_free(o);
    rp_jit_free(f);
    rp_config_free(c);
    return st;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    jit_fail_each_allocation(one_life, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dims_are_symbols_from_the_first_call_on),
        cmocka_unit_test(what_is_not_named_is_a_number),
        cmocka_unit_test(marks_come_first),
        cmocka_unit_test(promises_are_held),
        cmocka_unit_test(names_are_looked_for),
        cmocka_unit_test(only_what_is_named_is_written),
        cmocka_unit_test(enable_if_is_asked_once),
        cmocka_unit_test(every_allocation_may_fail),
    };
    fill();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
