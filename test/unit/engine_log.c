/* What an engine says of itself: why it compiled again, and hints when others hold the cores. */
#include "support/heard.h"

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/trees.h"

static char folder[64];

static rp_engine *open_with(const char *setting) {
    char dir[96];
    (void)snprintf(dir, sizeof dir, "cache_dir=%s", folder);
    const char *settings[] = {dir, "threads=1", "level=0", setting,
                              NULL}; /* the last of two counts */
    return engine_must("synthetic:tiny", settings);
}

static void a_factor_that_differs_is_a_recompile(void **state) {
    base_buf heard;
    (void)state;
    heard_start(&heard, "recompiles");
    rp_engine *e = open_with("level=0"); /* met for the first time */
    assert_int_equal(engine_count(e, "traces"), 2);
    assert_int_equal(engine_count(e, "recompiles"), 0);
    rp_engine_close(e);
    e = open_with("level=1"); /* the same list of launches */
    assert_int_equal(engine_count(e, "traces"), 0);
    assert_int_equal(engine_count(e, "recompiles"), 0);
    rp_engine_close(e);
    e = open_with("max_num_seqs=3"); /* traced again; level 0 compiles nothing */
    assert_int_equal(engine_count(e, "traces"), 2);
    assert_int_equal(engine_count(e, "recompiles"), 0);
    rp_engine_close(e);
    CHECK_HEARD(&heard, "[recompiles] Tracing synthetic:tiny,layers=2,dtype=q4_1,seed=0 again, "
                        "compiling nothing, triggered by the following guard failure(s):\n"
                        "[recompiles] - plan ");
    assert_null(strstr(heard.data, "Recompiling"));
    CHECK_HEARD(&heard, " factors differ: max_num_seqs ");
    base_buf_clear(&heard);
    e = open_with("level=1"); /* found */
    assert_int_equal(engine_count(e, "traces"), 0);
    assert_int_equal(engine_count(e, "recompiles"), 0);
    assert_int_equal(engine_count(e, "graph_breaks"), 0);
    assert_int_equal(heard.len, 0);
    rp_engine_close(e);
    char dir[96]; /* another model is met for the first time, whatever is stored of this one */
    (void)snprintf(dir, sizeof dir, "cache_dir=%s", folder);
    e = engine_must("synthetic:tiny,layers=1", (const char *[]){dir, "threads=1", "level=0", NULL});
    assert_int_equal(engine_count(e, "traces"), 2);
    assert_int_equal(engine_count(e, "recompiles"), 0);
    assert_int_equal(heard.len, 0);
    rp_engine_close(e);
    heard_done(&heard);
}

/* Said when code is compiled again, once, and before it is; not where the stored code is found. */
static void code_that_is_made_again_is_a_recompile(void **state) {
    static const char recompiling[] = "Recompiling synthetic:tiny,layers=1,dtype=q4_1,seed=0 "
                                      "triggered by the following guard failure(s):\n";
    const char *dir = tree_new("recompile");
    char cache[4200];
    base_buf heard;
    (void)state;
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", dir);
    heard_start(&heard, "recompiles,inductor");
    const char *settings[] = {cache, "level=2", "isa=portable", NULL, NULL};
    rp_engine_close(engine_must("synthetic:tiny,layers=1", settings));
    assert_null(strstr(heard.data, "Recompiling"));
    base_buf_clear(&heard);
    settings[3] = "numerics=exact";
    rp_engine *e = engine_must("synthetic:tiny,layers=1", settings);
    assert_int_equal(engine_count(e, "recompiles"), 1);
    rp_engine_close(e);
    const char *said = strstr(heard.data, recompiling);
    assert_non_null(said);
    assert_null(strstr(said + 1, recompiling));
    const char *compiled = strstr(heard.data, "Compiling graph");
    assert_true(compiled && said < compiled);
    heard_done(&heard);
}

/* Nothing differs: the cause is what is gone, not the settings of another plan. */
static void code_that_is_lost_is_the_reason(void **state) {
    const char *dir = tree_new("lost");
    char cache[4200], code[4200];
    base_buf heard;
    (void)state;
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", dir);
    (void)snprintf(code, sizeof code, "%s/objects/code", dir);
    const char *settings[] = {cache, "level=2", "isa=portable", "numerics=exact", NULL};
    rp_engine_close(engine_must("synthetic:tiny,layers=1", settings));
    settings[3] = "numerics=default";
    rp_engine_close(engine_must("synthetic:tiny,layers=1", settings));
    tree_remove(code);
    heard_start(&heard, "recompiles");
    rp_engine *e = engine_must("synthetic:tiny,layers=1", settings);
    assert_int_equal(engine_count(e, "recompiles"), 1);
    rp_engine_close(e);
    CHECK_HEARD(&heard, "factors equal, but it or code of it is not in the cache any more");
    assert_null(strstr(heard.data, "numerics"));
    heard_done(&heard);
}

/* The dynamo channel is not the only one that would be silent. */
static void a_channel_of_what_is_not_done_says_so(void **state) {
    static const char *const silent[] = {"dynamo", "dynamic",      "graph",
                                         "guards", "graph_breaks", "inductor",
                                         "fusion", "output_code",  "kernel_code"};
    base_buf heard;
    (void)state;
    rp_engine_close(open_with("level=0"));
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        char want[160];
        heard_start(&heard, silent[i]);
        rp_engine_close(open_with("level=0"));
        (void)snprintf(want, sizeof want,
                       "[%s] nothing is %s: both plans were in the cache; "
                       "REPRISE_DISABLE_COMPILE_CACHE=1 makes them again",
                       silent[i], i < 5 ? "traced" : "compiled");
        CHECK_HEARD(&heard, want);
        heard_done(&heard);
    }
}

static void crowded_cores_are_hinted_at_each_doubling(void **state) {
    const int32_t prompt[] = {104};
    int32_t out[4];
    base_buf heard;
    (void)state;
    heard_start(&heard, "perf_hints");
    rp_engine *e = open_with("level=1");
    for (uint64_t n = 0; n < 4; n++) {
        base_buf_clear(&heard);
        e->device->counters.crowded_lists = n;
        assert_int_equal(engine_greedy(e, prompt, 1, 1, out), 1);
        bool said = heard.data && strstr(heard.data, "ran on one thread");
        assert_int_equal(said, n == 1 || n == 2);
    }
    rp_engine_close(e);
    heard_done(&heard);
}

/* Nowhere to put anything is no reason not to run. */
static void without_a_cache_folder_it_runs_and_says_so(void **state) {
    static const char *const names[] = {"HOME", "XDG_CACHE_HOME", "REPRISE_CACHE_DIR"};
    const char *settings[] = {"level=1", NULL};
    char *was[3];
    const int32_t prompt[] = {104};
    int32_t out[2];
    char *json = NULL;
    rp_error err = {0};
    base_buf heard;
    (void)state;
    for (int i = 0; i < 3; i++) {
        was[i] = getenv(names[i]) ? base_strdup(getenv(names[i])) : NULL;
        assert_int_equal(unsetenv(names[i]), 0);
    }
    heard_start(&heard, "cache");
    rp_engine *e = engine_must("synthetic:tiny", settings);
    assert_int_equal(engine_greedy(e, prompt, 1, 2, out), 2);
    CHECK_HEARD(&heard, "running uncached: no cache folder: neither REPRISE_CACHE_DIR");
    CHECK_OK(rp_engine_summary(e, &json, &err), &err);
    const char *skips = strstr(json, "\"skips\"");
    assert_non_null(skips);
    assert_non_null(strstr(skips, "no cache folder: neither REPRISE_CACHE_DIR"));
    rp_engine_text_free(json);
    rp_engine_close(e);
    e = engine_with("smollm2", settings, &err); /* a name needs a folder to be fetched to */
    assert_null(e);
    assert_int_equal(err.code, RP_NOT_FOUND);
    heard_done(&heard);
    for (int i = 0; i < 3; i++) {
        if (was[i]) assert_int_equal(setenv(names[i], was[i], 1), 0);
        base_free(was[i]);
    }
}

static int set_up(void **state) {
    (void)state;
    return tree_make(folder, sizeof folder);
}

static int tear_down(void **state) {
    rp_error err = {0};
    (void)state;
    return base_path_remove(folder, &err) == RP_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_factor_that_differs_is_a_recompile),
        cmocka_unit_test(code_that_is_made_again_is_a_recompile),
        cmocka_unit_test(code_that_is_lost_is_the_reason),
        cmocka_unit_test(without_a_cache_folder_it_runs_and_says_so),
        cmocka_unit_test(a_channel_of_what_is_not_done_says_so),
        cmocka_unit_test(crowded_cores_are_hinted_at_each_doubling),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
