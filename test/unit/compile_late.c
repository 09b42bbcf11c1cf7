/* A C compiler that hangs: it is killed when its time is over, and what it was to compile runs op by op, with the reason. */
#include "support/check.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "engine/engine.h"
#include "reprise/reprise.h"
#include "support/engines.h"
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

static void a_graph_runs_op_by_op(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("late");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y = rp_neg(rp_mul_scalar(x, 2));
    float in[] = {1, 2, 3, 4}, out[4];
    (void)state;
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    assert_string_equal(info.backend, "eager");
    if (!strstr(info.reason, "/cc did not end within 0.2 s and was killed; the built-in portable"))
        fail_msg("%s", info.reason);
    rp_buffer b = {RP_DTYPE_F32, 1, {4}, in}, r = {RP_DTYPE_F32, 1, {4}, out};
    CHECK_OK(rp_compiled_run(c, &b, 1, &r, 1, &err), &err);
    for (int i = 0; i < 4; i++) assert_true(out[i] == -2 * in[i]);
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
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
                strstr(notes[i].reason, "/cc did not end within 0.2 s and was killed") != NULL;
    assert_true(told);
    rp_engine_close(e);
}

/* Asked what it is, and nothing more: there is no compiler of which anything is known. */
static void nor_for_what_it_is(void **state) {
    static const char mute[] = "#!/bin/sh\nsleep 600\n";
    char path[600], before[600];
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("mute");
    rp_tensor y = rp_neg(rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)));
    (void)state;
    (void)snprintf(before, sizeof before, "%s", getenv("REPRISE_CC"));
    (void)snprintf(path, sizeof path, "%s/cc", tree_new("mute"));
    CHECK_OK(base_file_write_atomic(path, mute, sizeof mute - 1, &err), &err);
    assert_int_equal(chmod(path, 0700) | setenv("REPRISE_CC", path, 1), 0);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
    assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
    if (!strstr(err.text, "/cc did not end within 0.2 s and was killed; REPRISE_CC_TIMEOUT"))
        fail_msg("%s", err.text);
    assert_int_equal(setenv("REPRISE_CC", before, 1), 0);
    rp_graph_free(g);
    rp_config_free(cfg);
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
    static char cc[600];
    rp_error err = {0};
    (void)state;
    (void)snprintf(cc, sizeof cc, "%s/cc", tree_new("hangs"));
    CHECK_OK(base_file_write_atomic(cc, hangs, sizeof hangs - 1, &err), &err);
    return chmod(cc, 0700) | setenv("REPRISE_CC", cc, 1) | setenv("REPRISE_CC_TIMEOUT", "0.2", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_program_is_waited_for), cmocka_unit_test(a_graph_runs_op_by_op),
        cmocka_unit_test(a_model_runs_at_level_0),  cmocka_unit_test(nor_for_what_it_is),
        cmocka_unit_test(a_limit_is_a_number),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
