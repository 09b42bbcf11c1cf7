/* rp_compile and its configuration: registered splitting ops count, names that split nothing are noted, and so are
 * graphs and a cache that there will not be; sources are kept where that was asked for. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "base/str.h"
#include "reprise/reprise.h"
#include "support/trees.h"

static rp_status double_it(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    const float *in = args[0].data;
    float *out = args[n - 1].data;
    (void)call, (void)err;
    for (int64_t i = 0; i < args[0].dim[0]; i++) out[i] = 2 * in[i];
    return RP_OK;
}

/* args: x; its absolute values, whether it is negative, and how often that is. */
static rp_status apart(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    const float *in = args[0].data;
    int64_t *count = args[3].data;
    (void)call;
    if (n != 4 || args[2].dtype != RP_DTYPE_BOOL || args[3].rank != 0)
        return rp_fail(err, RP_INTERNAL, "%u arguments", n);
    *count = 0;
    for (int64_t i = 0; i < args[0].dim[0]; i++) {
        bool below = in[i] < 0;
        ((float *)args[1].data)[i] = below ? -in[i] : in[i];
        ((uint8_t *)args[2].data)[i] = below;
        *count += below;
    }
    return RP_OK;
}

static rp_status fail_silently(const rp_op_call *call, rp_buffer *args, uint32_t n, rp_error *err) {
    (void)call, (void)args, (void)n, (void)err;
    return RP_IO;
}

static rp_status fail_with_a_word(const rp_op_call *call, rp_buffer *args, uint32_t n,
                                  rp_error *err) {
    (void)call, (void)args;
    (void)snprintf(err->text, sizeof err->text, "%u tapes are torn", n);
    return RP_IO;
}

/* y = 2 op(2 x) */
static rp_graph *trace_with(const char *op) {
    rp_error err = {0};
    rp_graph *g = rp_graph_new("custom");
    rp_shape shape = RP_SHAPE(rp_symbol(g, "B", 1, 8));
    rp_tensor t = rp_mul_scalar(rp_input(g, "x", RP_DTYPE_F32, shape), 2.0);
    t = rp_mul_scalar(rp_custom(g, op, &t, 1, RP_DTYPE_F32, shape), 2.0);
    CHECK_OK(rp_graph_finish(g, &t, 1, &err), &err);
    return g;
}

static rp_graph *trace_custom(void) {
    return trace_with("unit::double");
}

static void run(rp_compiled *c) {
    rp_error err = {0};
    float x[4] = {1, -2, 3, 0.5f}, y[4] = {0};
    rp_buffer in = {RP_DTYPE_F32, 1, {4}, x}, out = {RP_DTYPE_F32, 1, {4}, y};
    CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
    for (int i = 0; i < 4; i++) assert_true(y[i] == 8 * x[i]);
}

/* Compiles the graph under some settings and runs it. Returns the pieces; notes: those of the configuration, as lines. */
static uint32_t pieces_of(const char *const *settings, base_buf *notes) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    rp_compiled_info info = RP_COMPILED_INFO_INIT;
    const rp_config_note *note;
    rp_graph *g = trace_custom();
    rp_compilation_config *cfg = rp_config_new();
    for (; *settings; settings++) CHECK_OK(rp_config_set(cfg, *settings, &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
    run(c);
    base_buf_clear(notes);
    size_t n = rp_config_notes(cfg, &note);
    for (size_t i = 0; i < n; i++) base_buf_printf(notes, "%s: %s\n", note[i].what, note[i].reason);
    base_buf_puts(notes, "");
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
    return info.pieces;
}
#define PIECES(...) pieces_of((const char *const[]){__VA_ARGS__, NULL}, &notes)

static void registered_ops_split(void **state) {
    base_buf notes;
    (void)state;
    base_buf_init(&notes, 0);
    assert_int_equal(PIECES("level=3"), 3);
    assert_int_equal(PIECES("level=2"), 1);
    assert_int_equal(PIECES("level=3", "splitting_ops=[]"), 1);
    assert_int_equal(PIECES("level=3", "splitting_ops=[\"unit.double\"]"), 3);
    assert_null(strstr(notes.data, "no op of the graph"));
    assert_int_equal(PIECES("level=3", "splitting_ops=[\"unit::doubel\"]"), 1);
    assert_non_null(
        strstr(notes.data, "splitting_ops: unit::doubel: no op of the graph has this name\n"));
    base_buf_done(&notes);
}

/* What the graph returns may turn out to be a value that another piece left in the arena, which others need later. */
static void a_value_of_another_piece_is_returned(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    float x[8], y[3][8];
    (void)state;
    rp_graph *g = rp_graph_new("returned");
    rp_compilation_config *cfg = rp_config_new();
    rp_shape shape = RP_SHAPE(rp_symbol(g, "B", 1, 8));
    rp_tensor in = rp_input(g, "x", RP_DTYPE_F32, shape), out[3];
    rp_tensor h = rp_custom(g, "unit::double", &in, 1, RP_DTYPE_F32, shape);
    out[0] = rp_neg(rp_neg(h)); /* h, as the passes find */
    rp_tensor more = rp_add_scalar(h, 1.0);
    for (int i = 0; i < 3; i++) /* each leaves a value and takes the place of one */
        more = rp_add_scalar(rp_custom(g, "unit::double", &more, 1, RP_DTYPE_F32, shape), 1.0);
    out[1] = more;
    out[2] = rp_neg(rp_neg(rp_custom(g, "unit::double", &more, 1, RP_DTYPE_F32, shape)));
    CHECK_OK(rp_graph_finish(g, out, 3, &err), &err);
    CHECK_OK(rp_config_set(cfg, "level=3", &err), &err);
    CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
    for (int i = 0; i < 8; i++) x[i] = (float)(3 - i);
    rp_buffer to[3], from = {RP_DTYPE_F32, 1, {8}, x};
    for (int i = 0; i < 3; i++) to[i] = (rp_buffer){RP_DTYPE_F32, 1, {8}, y[i]};
    CHECK_OK(rp_compiled_run(c, &from, 1, to, 3, &err), &err);
    for (int i = 0; i < 8; i++) {
        assert_true(y[0][i] == 2 * x[i]);
        assert_true(y[1][i] == 16 * x[i] + 15);
        assert_true(y[2][i] == 2 * y[1][i]);
    }
    rp_compiled_free(c);
    rp_graph_free(g);
    rp_config_free(cfg);
}

/* At each level; used in a piece behind, returned, and left alone. */
static void every_result_of_an_op_is_there(void **state) {
    static const char *const settings[] = {"level=0", "level=1", "level=2", "level=3"};
    (void)state;
    for (int k = 0; k < 8; k++) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        float x[5] = {1, -2, 3, -4, -5}, y[5];
        uint8_t below[5];
        rp_graph *g = rp_graph_new("apart");
        rp_compilation_config *cfg = rp_config_new();
        rp_shape shape = RP_SHAPE(rp_symbol(g, "B", 1, 8));
        rp_tensor in = rp_add_scalar(rp_input(g, "x", RP_DTYPE_F32, shape), 1), part[3], out[2];
        const rp_tensor_type types[] = {
            {RP_DTYPE_F32, shape}, {RP_DTYPE_BOOL, shape}, {RP_DTYPE_I64, {0}}};
        rp_custom_results(g, "unit::apart", &in, 1, types, 3, part);
        rp_tensor count = rp_cast(part[2], RP_DTYPE_F32);
        out[0] = k & 1 ? rp_add(part[0], count) : rp_broadcast(count, shape);
        out[1] = part[1];
        CHECK_OK(rp_graph_finish(g, out, 2, &err), &err);
        CHECK_OK(rp_config_set(cfg, settings[k / 2], &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        rp_buffer from = {RP_DTYPE_F32, 1, {5}, x};
        rp_buffer to[] = {{RP_DTYPE_F32, 1, {5}, y}, {RP_DTYPE_BOOL, 1, {5}, below}};
        CHECK_OK(rp_compiled_run(c, &from, 1, to, 2, &err), &err);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(below[i], x[i] + 1 < 0);
            assert_true(y[i] == (k & 1 ? fabsf(x[i] + 1) : 0) + 3);
        }
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
}

static void no_graph_is_captured_and_that_is_said(void **state) {
    rp_error err = {0};
    rp_compiled *c = NULL;
    base_buf notes;
    (void)state;
    base_buf_init(&notes, 0);
    (void)PIECES("level=3", "cudagraph_mode=FULL");
    assert_string_equal(notes.data, "cudagraph_mode=FULL: rp_compile captures no graphs\n");
    (void)PIECES("level=2");
    assert_int_equal(notes.len, 0);
    (void)PIECES("level=2", "max_num_seqs=4", "sealed=warn"); /* warn is what it is anyway */
    assert_string_equal(notes.data, "max_num_seqs=4: only models read it\n");
    base_buf_done(&notes);
    rp_graph *g = trace_custom();
    rp_compilation_config *cfg = rp_config_new();
    CHECK_OK(rp_config_set(cfg, "level=3", &err), &err);
    CHECK_OK(rp_config_set(cfg, "require_graph=true", &err), &err);
    assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "rp_compile captures no graphs; leave out require_graph"));
    rp_config_free(cfg);
    cfg = rp_config_new();
    err = (rp_error){0};
    CHECK_OK(rp_config_set(cfg, "compile_sizes=1,2", &err), &err);
    assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "compile_sizes is not supported for a graph"));
    rp_config_free(cfg);
    cfg = rp_config_new();
    err = (rp_error){0};
    CHECK_OK(rp_config_set(cfg, "compile_ranges_endpoints=8", &err), &err);
    assert_int_equal(rp_compile(g, cfg, &c, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "compile_ranges_endpoints is not supported for a graph or a"));
    rp_config_free(cfg);
    rp_graph_free(g);
}

/* Files of C source below dir/name after compiling with the setting. */
static int sources_in(const char *dir, const char *name, const char *setting) {
    base_buf notes;
    char cache[512];
    int sources = 0;
    base_buf_init(&notes, 0);
    (void)snprintf(cache, sizeof cache, "cache_dir=%s/%s", dir, name);
    (void)PIECES("level=2", cache, setting);
    base_buf_done(&notes);
    tree_list l = tree_files(cache + strlen("cache_dir="));
    for (size_t i = 0; i < l.n; i++) {
        const char *dot = strrchr(l.path[i], '.');
        sources += dot && strcmp(dot, ".c") == 0;
    }
    tree_list_free(&l);
    return sources;
}

static void sources_are_kept_when_asked_for(void **state) {
    const char *dir = tree_new("sources");
    (void)state;
    assert_int_equal(sources_in(dir, "plain", "compile_cache_save_format=binary"), 0);
    assert_true(sources_in(dir, "unpacked", "compile_cache_save_format=unpacked") > 0);
}

static void a_cache_that_is_off_is_noted(void **state) {
    const char *dir = tree_new("off");
    char cache[512];
    base_buf notes;
    (void)state;
    base_buf_init(&notes, 0);
    tree_write(dir, "file", "x", 1); /* no folder can be there */
    (void)snprintf(cache, sizeof cache, "cache_dir=%s/file", dir);
    (void)PIECES("level=2", cache);
    if (strncmp(notes.data, "cache: ", 7) != 0) fail_msg("notes: %s", notes.data);
    base_buf_done(&notes);
}

static void what_an_op_says_of_its_failure_is_given_on(void **state) {
    static const char *const ops[] = {"unit::silent", "unit::word"};
    static const char *const want[] = {"custom op unit::silent failed (io) and gave no reason",
                                       "custom op unit::word: 2 tapes are torn"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_compiled *c = NULL;
        char *text = NULL;
        float x[1] = {1}, y[1];
        rp_buffer in = {RP_DTYPE_F32, 1, {1}, x}, out = {RP_DTYPE_F32, 1, {1}, y};
        rp_compilation_config *cfg = rp_config_new();
        rp_graph *g = trace_with(ops[i]);
        CHECK_OK(rp_config_set(cfg, "level=0", &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        assert_int_equal(rp_compiled_run(c, &in, 1, &out, 1, &err), RP_IO);
        assert_int_equal(err.code, RP_IO);
        assert_string_equal(err.text, want[i]);
        assert_int_equal(rp_compiled_run(c, &in, 1, &out, 1, NULL), RP_IO);
        assert_int_equal(rp_graph_eval_text(g, RP_BACKEND_INTERP, 1, NULL, &text, &err), RP_IO);
        assert_non_null(strstr(err.text, want[i]));
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
}

/* One error serves a whole program: it tells of the last call. */
static void an_error_is_that_of_the_last_call(void **state) {
    (void)state;
    rp_error err = {0};
    rp_compilation_config *c = rp_config_new();
    rp_graph *g = NULL;
    assert_int_equal(rp_config_set(c, "levl=3", &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "levl"));
    assert_int_equal(rp_graph_parse("x", 1, &g, &err), RP_INVALID);
    assert_int_equal(err.code, RP_INVALID);
    assert_null(strstr(err.text, "levl"));
    assert_int_equal(rp_compiled_run(NULL, NULL, 0, NULL, 0, &err), RP_INVALID);
    assert_string_equal(err.text, "compiled graph is NULL");
    CHECK_OK(rp_config_set(c, "threads=2", &err), &err);
    assert_int_equal(err.code, RP_OK);
    assert_string_equal(err.text, "");
    rp_config_free(c);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}

int main(void) {
    static const rp_op_desc op = {
        .size = sizeof op, .name = "unit::double", .splitting = true, .cpu = double_it};
    static const rp_op_desc three = {.size = sizeof three,
                                     .name = "unit::apart",
                                     .result_like = -1,
                                     .splitting = true,
                                     .cpu = apart,
                                     .n_results = 3};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(registered_ops_split, nothing_left),
        cmocka_unit_test_teardown(a_value_of_another_piece_is_returned, nothing_left),
        cmocka_unit_test_teardown(every_result_of_an_op_is_there, nothing_left),
        cmocka_unit_test_teardown(no_graph_is_captured_and_that_is_said, nothing_left),
        cmocka_unit_test_teardown(sources_are_kept_when_asked_for, nothing_left),
        cmocka_unit_test_teardown(a_cache_that_is_off_is_noted, nothing_left),
        cmocka_unit_test_teardown(what_an_op_says_of_its_failure_is_given_on, nothing_left),
        cmocka_unit_test_teardown(an_error_is_that_of_the_last_call, nothing_left),
    };
    static const rp_op_desc silent = {
        .size = sizeof silent, .name = "unit::silent", .cpu = fail_silently};
    static const rp_op_desc word = {
        .size = sizeof word, .name = "unit::word", .cpu = fail_with_a_word};
    const rp_op_desc *const all[] = {&op, &three, &silent, &word};
    rp_error err = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (rp_op_register(all[i], &err) != RP_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
