/* Writes through the tensor API: what is traced, what is refused, and what the caller's memory holds after a run at each
 * level. */
#include "support/check.h"

#include <reprise/reprise.h>

static rp_status halve(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    float *m = args[0].data, *out = args[n_args - 1].data;
    (void)call, (void)err;
    for (int64_t i = 0; i < args[0].dim[0]; i++) {
        out[i] = m[i];
        m[i] *= 0.5f;
    }
    return RP_OK;
}

static int set_up(void **state) {
    rp_op_desc op = {.size = sizeof op, .name = "unit::halve", .mutates = 1, .cpu = halve};
    (void)state;
    return rp_op_register(&op, NULL) == RP_OK ? 0 : -1;
}

static rp_graph *finish(rp_graph *g, const rp_tensor *out, uint32_t n) {
    rp_error err = {0};
    CHECK_OK(rp_graph_finish(g, out, n, &err), &err);
    return g;
}

/* s' = s with x at 1, then halved; m' = x + the old m; returns the old s, the half of s and the old m. */
static rp_graph *trace(void) {
    rp_graph *g = rp_graph_new("effects");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
    rp_tensor m = rp_mutable_input(g, "m", RP_DTYPE_F32, RP_SHAPE(2));
    rp_tensor s = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(4));
    rp_tensor s1 = rp_update_at(s, x, RP_SHAPE(1));
    rp_tensor was = rp_custom(g, "unit::halve", &s1, 1, RP_DTYPE_F32, RP_SHAPE(4));
    rp_tensor s2 = rp_written(s1, was);
    rp_tensor m1 = rp_update(m, rp_add(x, m));
    rp_tensor out[] = {rp_slice(s, 0, 0, 2), rp_neg(s2), rp_add(m, m1), was};
    return finish(g, out, 4);
}

static void writes_are_versions(void **state) {
    static const char want[] =
        "graph @effects(%x: f32[2], %m: f32[2] mutates) -> (f32[2], f32[4], f32[2], f32[4]) {\n"
        "  %0 = state @s                             : f32[4]\n"
        "  %1 = update %0, %x {offsets=[1]}          : f32[4]\n"
        "  %2 = custom %1 {name=\"unit::halve\"}       : f32[4]\n"
        "  %3 = written %1, %2                       : f32[4]\n"
        "  %4 = add %x, %m                           : f32[2]\n"
        "  %5 = update %m, %4                        : f32[2]\n"
        "  %6 = slice %0 {axis=0, start=0, stop=2}   : f32[2]\n"
        "  %7 = neg %3                               : f32[4]\n"
        "  %8 = add %m, %5                           : f32[2]\n"
        "  ret %6, %7, %8, %2\n}\n";
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    rp_graph *g = trace();
    CHECK_OK(rp_graph_print(g, &text, &err), &err);
    assert_string_equal(text, want);
    rp_free(text);
    rp_graph_free(g);
}

static void check_floats(const float *got, const float *want, int n, const char *what) {
    for (int i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("%s[%d] is %g, not %g", what, i, got[i], want[i]);
}

static void memory_ends_as_its_last_version(void **state) {
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        float x[2] = {6, 8}, m[2] = {1, 2}, s[4] = {10, 20, 30, 40};
        float old[2], half[4], sum[2], was[4];
        rp_buffer in[] = {{RP_DTYPE_F32, 1, {2}, x}, {RP_DTYPE_F32, 1, {2}, m}};
        rp_buffer out[] = {{RP_DTYPE_F32, 1, {2}, old},
                           {RP_DTYPE_F32, 1, {4}, half},
                           {RP_DTYPE_F32, 1, {2}, sum},
                           {RP_DTYPE_F32, 1, {4}, was}};
        rp_error err = {0};
        rp_compiled *c = NULL;
        rp_graph *g = trace();
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set(cfg, levels[i], &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_bind(c, "s", s, &err), &err);
        CHECK_OK(rp_compiled_run(c, in, 2, out, 4, &err), &err);
        check_floats(old, (float[]){10, 20}, 2, "the old s");
        check_floats(was, (float[]){10, 6, 8, 40}, 4, "what halve found");
        check_floats(half, (float[]){-5, -3, -4, -20}, 4, "minus the new s");
        check_floats(s, (float[]){5, 3, 4, 20}, 4, "s");
        check_floats(m, (float[]){7, 10}, 2, "m");
        check_floats(sum, (float[]){8, 12}, 2, "old and new m");
        CHECK_OK(rp_compiled_run(c, in, 2, out, 4, &err), &err);
        check_floats(s, (float[]){2.5f, 3, 4, 10}, 4, "s, after the second run");
        check_floats(m, (float[]){13, 18}, 2, "m, after the second run");
        rp_compiled_free(c);
        rp_config_free(cfg);
        rp_graph_free(g);
    }
}

/* An old version that is read after what a custom op made of it is a copy; later writes are of the memory itself. */
static void what_a_call_wrote_is_the_memory(void **state) {
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        float x[2] = {6, 8}, s[4] = {10, 20, 30, 40}, product[4], was[4];
        rp_buffer in = {RP_DTYPE_F32, 1, {2}, x};
        rp_buffer out[] = {{RP_DTYPE_F32, 1, {4}, product}, {RP_DTYPE_F32, 1, {4}, was}};
        rp_error err = {0};
        rp_compiled *c = NULL;
        rp_graph *g = rp_graph_new("versions");
        rp_tensor a = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
        rp_tensor s0 = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(4));
        rp_tensor call = rp_custom(g, "unit::halve", &s0, 1, RP_DTYPE_F32, RP_SHAPE(4));
        rp_tensor s1 = rp_written(s0, call);
        rp_tensor both = rp_mul(s0, s1); /* the old one and the new one */
        (void)rp_update_at(s1, a, RP_SHAPE(1));
        finish(g, (const rp_tensor[]){both, call}, 2);
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set(cfg, levels[i], &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_bind(c, "s", s, &err), &err);
        CHECK_OK(rp_compiled_run(c, &in, 1, out, 2, &err), &err);
        check_floats(product, (float[]){50, 200, 450, 800}, 4, "old times new");
        check_floats(was, (float[]){10, 20, 30, 40}, 4, "what halve found");
        check_floats(s, (float[]){5, 6, 8, 20}, 4, "s");
        CHECK_OK(rp_compiled_run(c, &in, 1, out, 2, &err), &err);
        check_floats(s, (float[]){2.5f, 6, 8, 10}, 4, "s, after the second run");
        rp_compiled_free(c);
        rp_config_free(cfg);
        rp_graph_free(g);
    }
}

/* A call takes what the one before left, where that left it. */
static void calls_write_in_turn(void **state) {
    static const char *const levels[] = {"level=0", "level=1", "level=2", "level=3"};
    (void)state;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        float s[4] = {16, 24, 32, 40}, was[4];
        rp_buffer out = {RP_DTYPE_F32, 1, {4}, was};
        rp_error err = {0};
        rp_compiled *c = NULL;
        rp_graph *g = rp_graph_new("turns");
        rp_tensor version = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(4)), call = version;
        for (int turn = 0; turn < 3; turn++) {
            call = rp_custom(g, "unit::halve", &version, 1, RP_DTYPE_F32, RP_SHAPE(4));
            version = rp_written(version, call);
        }
        finish(g, &call, 1);
        rp_compilation_config *cfg = rp_config_new();
        CHECK_OK(rp_config_set(cfg, levels[i], &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_bind(c, "s", s, &err), &err);
        CHECK_OK(rp_compiled_run(c, NULL, 0, &out, 1, &err), &err);
        check_floats(was, (float[]){4, 6, 8, 10}, 4, "what the third found");
        check_floats(s, (float[]){2, 3, 4, 5}, 4, "s");
        rp_compiled_free(c);
        rp_config_free(cfg);
        rp_graph_free(g);
    }
}

static void refused(rp_graph *g, rp_tensor out, const char *why) {
    rp_error err = {0};
    assert_int_equal(rp_graph_finish(g, &out, 1, &err), RP_INVALID);
    if (!strstr(err.text, why)) fail_msg("%s", err.text);
    rp_graph_free(g);
}

static void wrong_writes_end_the_trace(void **state) {
    (void)state;
    rp_graph *g = rp_graph_new("g");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
    refused(g, rp_update(x, x), "update: writes input 'x', which the graph does not declare");
    g = rp_graph_new("g");
    x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
    refused(g, rp_update(rp_neg(x), x), "operand 0 is written, so it must be a state");
    g = rp_graph_new("g");
    rp_tensor s = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(2));
    x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
    (void)rp_update(s, x);
    refused(g, rp_update(s, rp_neg(x)), "update: %0 is overwritten by %1 = update already");
    g = rp_graph_new("g");
    s = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(4));
    x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
    refused(g, rp_update_at(s, x, RP_SHAPE(3)), "at offset 3 of axis 0 is not known to lie within");
    g = rp_graph_new("g");
    s = rp_state(g, "s", RP_DTYPE_F32, RP_SHAPE(2));
    refused(g, rp_written(s, rp_neg(s)), "is no call that writes");
}

/* Memory without contents is no result, whether it is written afterwards or not; the line is that of the call. */
static void contents_are_returned(void **state) {
    char line[64];
    (void)state;
    for (int written = 0; written < 2; written++) {
        rp_graph *g = rp_graph_new("g");
        rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(2));
        rp_tensor e = rp_empty(g, RP_DTYPE_F32, RP_SHAPE(2));
        (void)snprintf(line, sizeof line, "trace_effects.c:%d: verify: ", __LINE__ - 1);
        if (written) (void)rp_update(e, x);
        refused(g, e, line);
    }
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_graph *g = rp_graph_new("g");
    rp_tensor e = rp_neg(rp_empty(g, RP_DTYPE_F32, RP_SHAPE(2)));
    (void)snprintf(line, sizeof line, "trace_effects.c:%d: verify: ", __LINE__ - 1);
    CHECK_OK(rp_graph_finish(g, &e, 1, &err), &err);
    assert_int_equal(rp_compile(g, NULL, &c, &err), RP_INVALID);
    if (!strstr(err.text, line)) fail_msg("%s", err.text);
    rp_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_versions),
        cmocka_unit_test(memory_ends_as_its_last_version),
        cmocka_unit_test(what_a_call_wrote_is_the_memory),
        cmocka_unit_test(calls_write_in_turn),
        cmocka_unit_test(wrong_writes_end_the_trace),
        cmocka_unit_test(contents_are_returned),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
