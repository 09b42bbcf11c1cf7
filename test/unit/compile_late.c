/* A C compiler that hangs: it is killed when its time is over, and what it was to compile runs op by op, with the reason. */
#include "support/check.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "compile/late.h"
#include "engine/engine.h"
#include "reprise/reprise.h"
#include "support/engines.h"
#include "support/jits.h"
#include "support/trees.h"

static const char hangs[] = "#!/bin/sh\n"
                            "[ \"$1\" = --version ] && echo hanging 1.0 && exit\n"
                            "sleep 600 & sleep 600\n";

static void no_program_is_waited_for(void **state) {
    static const char *const argv[] = {"sh", "-c", "echo begun; sleep 600 & sleep 600", NULL},
                             *const quick[] = {"sh", "-c", "exit 3", NULL};
    bool late = false;
    base_spawn_options o = {.limit_ns = 200 * INT64_C(1000000), .out_late = &late};
    rp_error err = {0};
    int code = -1;
    (void)state;
    assert_int_equal(base_spawn_with(argv, &o, NULL, &code, &err), RP_CANCELLED);
    assert_true(late);
    o.limit_ns = 600 * INT64_C(1000000000);
    err = (rp_error){0};
    CHECK_OK(base_spawn_with(quick, &o, NULL, &code, &err), &err);
    assert_int_equal(code, 3);
    assert_false(late);
}

/* Names a compiler that is this script. */
static void use_compiler(const char *name, const char *script) {
    char path[600];
    rp_error err = {0};
    (void)snprintf(path, sizeof path, "%s/cc", tree_new(name));
    CHECK_OK(base_file_write_atomic(path, script, strlen(script), &err), &err);
    assert_int_equal(chmod(path, 0700) | setenv("REPRISE_CC", path, 1), 0);
}

/* -x * by, op by op since no compiler ended in time. */
static void check_graph(float by, const char *reason) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("late");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y = rp_neg(rp_mul_scalar(x, by));
    float in[] = {1, 2, 3, 4}, out[4];
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    assert_string_equal(info.backend, "eager");
    if (!strstr(info.reason, reason)) fail_msg("%s", info.reason);
    rp_buffer b = {RP_DTYPE_F32, 1, {4}, in}, r = {RP_DTYPE_F32, 1, {4}, out};
    CHECK_OK(rp_compiled_run(c, &b, 1, &r, 1, &err), &err);
    for (int i = 0; i < 4; i++) assert_true(out[i] == -by * in[i]);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

/* It is asked what it is, then has all its time, then a tenth of it, and is then given up. */
static void a_graph_runs_op_by_op(void **state) {
    static const uint64_t runs[] = {2, 1, 0, 0};
    (void)state;
    use_compiler("hangs", hangs);
    for (int i = 0; i < 4; i++) {
        const uint64_t before = base_spawn_count();
        check_graph(2 + (float)i,
                    i == 1 ? "/cc did not end within 0.02 s and was killed; the built-in portable"
                           : "/cc did not end within 0.2 s and was killed; the built-in portable");
        assert_int_equal(base_spawn_count() - before, runs[i]);
    }
    assert_int_equal(setenv("REPRISE_CC_TIMEOUT", "0.3", 1), 0); /* more than it had */
    check_graph(9, "/cc did not end within 0.3 s");
    assert_int_equal(setenv("REPRISE_CC_TIMEOUT", "0.2", 1), 0);
}

/* The time of a run, by what was late before. */
static void times_are_remembered(void **state) {
    const char *path = tree_new("times"); /* anything that is there */
    (void)state;
    assert_true(compile_late_limit(path, 1000) == 1000);
    compile_late_note(path, 1000, false);
    assert_true(compile_late_limit(path, 1000) == 100);
    assert_true(compile_late_limit(path, 2000) == 2000);
    assert_true(compile_late_limit(path, 0) == 0);
    compile_late_clear(path);
    assert_true(compile_late_limit(path, 1000) == 1000);
    compile_late_note(path, 1000, true);
    assert_true(compile_late_limit(path, 1000) == -1);
    assert_true(compile_late_is_news(path));
    assert_false(compile_late_is_news(path));
    compile_late_note(path, 2000, false); /* it had more */
    assert_true(compile_late_limit(path, 1000) == 100);
}

static void a_model_runs_at_level_0(void **state) {
    rp_request_options r = plain_request(3);
    (void)state;
    rp_engine *e = engine_must(
        "synthetic:tiny", (const char *[]){"level=3", "max_num_seqs=2", "max_model_len=64", NULL});
    const uint64_t id = must_submit(e, &r);
    must_run(e, -1);
    assert_int_equal(must_result(e, id).n_output_ids, 3);
    assert_int_equal(engine_count(e, "level"), 0);
    const rp_config_note *notes;
    const size_t n = rp_config_notes(e->config, &notes);
    bool told = false;
    for (size_t i = 0; i < n; i++)
        told |= strcmp(notes[i].what, "level 3") == 0 &&
                strstr(notes[i].reason, "/cc did not end within ") != NULL;
    assert_true(told);
    rp_engine_close(e);
}

static const char mute[] = "#!/bin/sh\nsleep 600\n";

static void count_warning(void *user, rp_log_level level, const char *text) {
    if (level == RP_LOG_WARNING && strstr(text, "which is slow; REPRISE_CC_TIMEOUT gives it more"))
        ++*(int *)user;
}

/* Asked what it is, and nothing more; it is waited for once, and told once. */
static void nor_for_what_it_is(void **state) {
    int n_warnings = 0;
    (void)state;
    use_compiler("mute", mute);
    rp_log_set_callback(count_warning, &n_warnings);
    for (int i = 0; i < 3; i++) {
        const uint64_t before = base_spawn_count();
        check_graph(2, "/cc did not end within 0.2 s and was killed; the built-in portable");
        assert_int_equal(base_spawn_count() - before, i == 0);
    }
    rp_log_set_callback(NULL, NULL);
    assert_int_equal(n_warnings, 1);
}

static rp_status twice(void *user, rp_jit_call *call, const rp_value *args, rp_value *result,
                       rp_error *err) {
    (void)user, (void)err;
    *result = rp_jit_value(call, rp_mul_scalar(rp_jit_tensor(call, &args->item[0]), 2));
    return RP_OK;
}

/* Of each size, without suppress_errors and with it. */
static void functions_run_op_by_op(void **state) {
    (void)state;
    use_compiler("mute-again", mute);
    const uint64_t before = base_spawn_count();
    for (int suppress = 0; suppress < 2; suppress++) {
        rp_jit_options o = jit_options(twice);
        o.suppress_errors = suppress;
        rp_jit *f = jit_by(o, "level=2 device=cpu");
        for (int n = 2; n < 6; n++) {
            float x[6] = {1, 2, 3, 4, 5, 6};
            rp_value v = f32_of(x, 1, n, 0), args = rp_value_tuple(&v, 1);
            rp_output *out = jit_ok(f, &args);
            const float *y = jit_result(out)->tensor.data;
            for (int i = 0; i < n; i++) assert_true(y[i] == 2 * x[i]);
            assert_non_null(strstr(rp_output_reason(out), "/cc did not end within 0.2 s"));
            rp_output_free(out);
        }
        assert_int_equal(jit_info(f).entries, 2);
        rp_jit_free(f);
    }
    assert_int_equal(base_spawn_count() - before, 1);
}

static void a_limit_is_a_number(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("limit");
    rp_tensor y = rp_neg(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)));
    (void)state;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    assert_int_equal(setenv("REPRISE_CC_TIMEOUT", "soon", 1), 0);
    assert_int_equal(rp_compile(g, cfg, &c, &err), RP_CONFIG);
    assert_string_equal(err.text, "REPRISE_CC_TIMEOUT=soon: expected seconds, as in 300");
    rp_graph_free(g);
    rp_config_free(cfg);
}

static int set_up(void **state) {
    (void)state;
    use_compiler("hangs", hangs);
    return setenv("REPRISE_CC_TIMEOUT", "0.2", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_program_is_waited_for), cmocka_unit_test(a_graph_runs_op_by_op),
        cmocka_unit_test(times_are_remembered),     cmocka_unit_test(a_model_runs_at_level_0),
        cmocka_unit_test(nor_for_what_it_is),       cmocka_unit_test(functions_run_op_by_op),
        cmocka_unit_test(a_limit_is_a_number),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
