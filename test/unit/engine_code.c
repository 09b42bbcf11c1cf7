/* Stored code that passes its checksum and cannot be loaded, as code for another C library: made again, once. */
#include "support/heard.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "reprise/reprise.h"
#include "support/engines.h"
#include "support/trees.h"

/* Without the file "good" beside it, it writes what no loader takes; its version, and so every key, stays the same. */
static const char script[] = "#!/bin/sh\n"
                             "case $1 in --version) echo 'gcc of two minds 1.0'; exit 0 ;; esac\n"
                             "[ -f \"${0%/*}/good\" ] && exec gcc \"$@\"\n"
                             "for a in \"$@\"; do o=$a; done\n"
                             "echo 'no code' >\"$o\"\n";
static char cc_dir[256];

/* One folder more: tree_new gives its name until the next call. */
static const char *new_folder(const char *name, char out[256]) {
    (void)snprintf(out, 256, "%s", tree_new(name));
    return out;
}

static void install_cc(void) {
    char path[512];
    (void)new_folder("cc", cc_dir);
    tree_write(cc_dir, "cc", script, sizeof script - 1);
    (void)snprintf(path, sizeof path, "%s/cc", cc_dir);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("REPRISE_CC", path, 1), 0);
}

static rp_engine *open_in(const char *dir, rp_error *err) {
    char cache[512];
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", dir);
    const char *settings[] = {cache,
                              "level=3",
                              "max_num_seqs=2",
                              "max_num_batched_tokens=8",
                              "max_model_len=32",
                              "cudagraph_mode=FULL",
                              NULL};
    *err = (rp_error){0};
    return engine_with("synthetic:tiny", settings, err);
}

static void refused(const char *dir) {
    rp_error err;
    assert_null(open_in(dir, &err));
    assert_int_equal(err.code, RP_DEVICE);
    assert_non_null(strstr(err.text, "cannot be loaded"));
}

static rp_status count_code(void *user, const char *name, bool is_dir, rp_error *err) {
    const char *end = strrchr(name, '.');
    (void)is_dir, (void)err;
    *(int64_t *)user += end && strcmp(end, ".so") == 0;
    return RP_OK;
}

/* Objects of code in a cache. */
static int64_t stored_code(const char *dir) {
    char path[512];
    int64_t n = 0;
    rp_error err = {0};
    (void)snprintf(path, sizeof path, "%s/objects/code", dir);
    CHECK_OK(base_dir_list(path, count_code, &n, &err), &err);
    return n;
}

static void code_that_cannot_be_loaded_is_a_miss(void **state) {
    const int32_t prompt[] = {10, 20, 30};
    int32_t first[4], again[4];
    char folder[256];
    const char *dir = new_folder("cache", folder);
    rp_error err;
    base_buf heard;
    (void)state;
    install_cc();
    refused(dir); /* made now */
    heard_start(&heard, "cache");
    refused(dir); /* found, put away, made again, the same */
    CHECK_HEARD(&heard, "moved to quarantine: code object ");
    tree_write(cc_dir, "good", "", 0);
    base_buf_clear(&heard);
    rp_engine *e = open_in(dir, &err);
    if (!e) fail_msg("%s", err.text);
    CHECK_HEARD(&heard, "cannot be loaded: "); /* the reason of the miss */
    assert_true(engine_count(e, "compiles") > 0);
    assert_int_equal(engine_count(e, "compiles"), stored_code(dir)); /* of the model and the head */
    assert_int_equal(engine_greedy(e, prompt, 3, 4, first), 4);
    rp_engine_close(e);
    e = open_in(dir, &err); /* warm */
    if (!e) fail_msg("%s", err.text);
    assert_int_equal(engine_count(e, "compiles"), 0);
    assert_int_equal(engine_count(e, "traces"), 0);
    assert_int_equal(engine_greedy(e, prompt, 3, 4, again), 4);
    assert_memory_equal(first, again, sizeof first);
    rp_engine_close(e);
    heard_done(&heard);
}

static rp_status compile_square(const char *dir, rp_compiled **out, rp_error *err) {
    char cache[512];
    rp_compilation_config *cfg = rp_config_new();
    rp_graph *g = rp_graph_new("square");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(4)), y = rp_mul(x, x);
    *err = (rp_error){0};
    CHECK_OK(rp_graph_finish(g, &y, 1, err), err);
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", dir);
    CHECK_OK(rp_config_set(cfg, cache, err), err);
    CHECK_OK(rp_config_set(cfg, "level=3", err), err);
    rp_status st = rp_compile(g, cfg, out, err);
    rp_graph_free(g);
    rp_config_free(cfg);
    return st;
}

static void and_so_it_is_for_one_graph(void **state) {
    char folder[256];
    const char *dir = new_folder("graph", folder);
    rp_compiled *c = NULL;
    rp_error err;
    float x[4] = {1, 2, 3, 4}, y[4];
    (void)state;
    install_cc();
    for (int i = 0; i < 2; i++) { /* made now, then found and made again */
        assert_int_equal(compile_square(dir, &c, &err), RP_DEVICE);
        assert_non_null(strstr(err.text, "cannot be loaded"));
    }
    tree_write(cc_dir, "good", "", 0);
    CHECK_OK(compile_square(dir, &c, &err), &err);
    rp_buffer in = {RP_DTYPE_F32, 1, {4}, x}, out = {RP_DTYPE_F32, 1, {4}, y};
    CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
    assert_true(y[3] == 16.0f);
    rp_compiled_free(c);
}

/* Where plans alone are gone, all that was compiled is found: of the model and of the head. */
static void code_without_plans_is_loaded(void **state) {
    char folder[256], plans[512];
    const char *dir = new_folder("without", folder);
    long long compiles = 0;
    rp_error err;
    (void)state;
    install_cc();
    tree_write(cc_dir, "good", "", 0);
    (void)snprintf(plans, sizeof plans, "%s/objects/plan", dir);
    for (int i = 0; i < 2; i++) {
        rp_engine *e = open_in(dir, &err);
        if (!e) fail_msg("%s", err.text);
        if (i == 0) compiles = engine_count(e, "compiles");
        assert_int_equal(engine_count(e, "compiles"), i ? 0 : compiles);
        assert_int_equal(engine_count(e, "pieces.loaded"), i ? compiles : 0);
        assert_true(compiles > 1);
        rp_engine_close(e);
        tree_remove(plans);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_that_cannot_be_loaded_is_a_miss),
        cmocka_unit_test(and_so_it_is_for_one_graph),
        cmocka_unit_test(code_without_plans_is_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
