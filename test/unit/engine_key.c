/* Law: settings that give the same key give the same plans, stage by stage and byte by byte, and settings that give another
 * key give another plan. Every setting is changed here, so that one which should be in the key is found, and one which
 * should not.
 *
 * Dumping makes the plans anew although the cache has them; only code comes from there, under the text it was made of. */
#include "support/check.h"

#include <sys/stat.h>

#include "base/alloc.h"
#include "base/spawn.h"
#include "config/table.h"
#include "engine/engine.h"
#include "engine/facts.h"
#include "engine/isa.h"
#include "engine/plans.h"
#include "model/resolve.h"
#include "reprise/pass.h"
#include "support/engines.h"
#include "support/stored_cc.h"
#include "support/trees.h"

static model_source *source;
static cache_store *store;

typedef struct made {
    base_hash128 key;
    char *plan[2];
    size_t size[2];
    char dir[512];
} made;

static void made_done(made *m) {
    base_free(m->plan[0]);
    base_free(m->plan[1]);
    *m = (made){0};
}

typedef enum outcome { MADE, OTHER_KEY, IMPOSSIBLE } outcome;

/* The plans of a configuration, with dumps below a folder of that name. cfg is taken over. A key other than that of like
 * (may be NULL) shows the change, so nothing is made. */
static outcome make(rp_compilation_config *cfg, const char *name, const made *like, made *out) {
    rp_error err = {0};
    engine_plans plans = {0};
    cache_key *key = NULL;
    engine_plans_options o = {.source = source, .config = cfg, .store = store, .threads = 1};
    (void)snprintf(out->dir, sizeof out->dir, "%s", tree_new(name));
    CHECK_OK(rp_config_set_key(cfg, "debug_dump_path", out->dir, &err), &err);
    if (engine_config_resolve(cfg, source, &err) != RP_OK ||
        engine_isa_choose(cfg, &o.isa, &err) != RP_OK) {
        rp_config_free(cfg);
        return IMPOSSIBLE;
    }
    CHECK_OK(engine_plans_key(&o, &key, &err), &err);
    out->key = cache_key_hash(key);
    cache_key_free(key);
    if (like && memcmp(&out->key, &like->key, sizeof out->key) != 0) {
        rp_config_free(cfg);
        return OTHER_KEY;
    }
    CHECK_OK(engine_plans_load(&o, &plans, &err), &err);
    CHECK_OK(plan_save(plans.model, &out->plan[0], &out->size[0], &err), &err);
    CHECK_OK(plan_save(plans.head, &out->plan[1], &out->size[1], &err), &err);
    engine_plans_done(&plans);
    rp_config_free(cfg);
    return MADE;
}

static rp_compilation_config *base_config(void) {
    static const char *const settings[] = {"level=3", "max_num_seqs=4", "max_num_batched_tokens=32",
                                           "max_model_len=64", "cudagraph_mode=FULL_AND_PIECEWISE"};
    rp_error err = {0};
    rp_compilation_config *cfg = rp_config_new();
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK_OK(rp_config_set(cfg, settings[i], &err), &err);
    return cfg;
}

/* Value i to try for a field, as text; false: there are no more. */
static bool value_of(const config_field *f, size_t i, char text[64]) {
    static const char *const bools[] = {"true", "false"};
    int64_t low = f->min == INT64_MIN ? 1 : f->min;
    switch (f->kind) {
    case CONFIG_KIND_BOOL:
    case CONFIG_KIND_OBOOL:
        if (i < 2) (void)snprintf(text, 64, "%s", bools[i]);
        return i < 2;
    case CONFIG_KIND_ENUM:
    case CONFIG_KIND_OENUM:
        if (i < f->names->n) (void)snprintf(text, 64, "%s", f->names->v[i].name);
        return i < f->names->n;
    case CONFIG_KIND_INT:
    case CONFIG_KIND_OINT: (void)snprintf(text, 64, "%lld", (long long)low + (i ? 3 : 0)); break;
    case CONFIG_KIND_FLOAT: (void)snprintf(text, 64, "%s", i ? "0.25" : "0.75"); break;
    case CONFIG_KIND_STR: (void)snprintf(text, 64, "%s", i ? "null" : "nowhere"); break;
    case CONFIG_KIND_INTS:
    case CONFIG_KIND_SIZES: (void)snprintf(text, 64, "[%lld]", (long long)low + 3 * (int)i); break;
    case CONFIG_KIND_STRS:
        if (f == &config_table[CONFIG_ID_custom_ops])
            (void)snprintf(text, 64, "[\"%s\"]", i ? "all" : "+a::b");
        else
            (void)snprintf(text, 64, "[\"%s\"]", i ? "reprise::kv_store" : "a::b");
        break;
    case CONFIG_KIND_DICT:
        (void)snprintf(text, 64, "{\"%s\":%s}",
                       f == &config_table[CONFIG_ID_inductor_passes] ? "nothing" : "max_autotune",
                       bools[i & 1]);
        break;
    }
    return i < 2;
}

static void compare(const made *a, const made *b, const char *name, const char *value) {
    for (int i = 0; i < 2; i++)
        if (a->size[i] != b->size[i] || memcmp(a->plan[i], b->plan[i], a->size[i]) != 0)
            fail_msg("%s=%s changes the %s plan and not its key", name, value,
                     i ? "head" : "model");
    assert_true(tree_same(a->dir, b->dir) > 10);
}

static void what_is_not_in_the_key_changes_nothing(void **state) {
    made base = {0}, other = {0};
    unsigned tried = 0;
    (void)state;
    assert_int_equal(make(base_config(), "base", NULL, &base), MADE);
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const config_field *f = &config_table[id];
        unsigned done = 0;
        char value[64];
        if (f->key != CONFIG_KEY_NONE || f->status == CONFIG_UNSUP || f->status == CONFIG_DERIVED ||
            id == CONFIG_ID_debug_dump_path) /* differs anyway */
            continue;
        for (size_t i = 0; value_of(f, i, value); i++) {
            rp_error err = {0};
            rp_compilation_config *cfg = base_config();
            if (rp_config_set_key(cfg, f->name, value, &err) != RP_OK) {
                rp_config_free(cfg);
                continue;
            }
            outcome what = make(cfg, "other", &base, &other);
            if (what == MADE) compare(&base, &other, f->name, value);
            made_done(&other);
            done += what != IMPOSSIBLE;
        }
        if (!done) fail_msg("%s: no value of it could be tried", f->name);
        tried++;
    }
    assert_true(tried > 20);
    made_done(&base);
}

/* A value that changes what is made, for each setting that is in the key. */
static const char *const effects[][2] = {{"backend", "eager"},
                                         {"splitting_ops", "[]"},
                                         {"skip_passes", "[\"fuse_norm_quant\"]"},
                                         {"pass_config.eliminate_noops", "false"},
                                         {"pass_config.fuse_norm_quant", "false"},
                                         {"pass_config.fuse_act_quant", "false"},
                                         {"pass_config.fuse_rope_kvcache", "false"},
                                         {"pass_config.fuse_attn_quant", "true"},
                                         {"numerics", "exact"},
                                         {"max_num_seqs", "3"},
                                         {"max_num_batched_tokens", "16"}};

static const char *effect_of(const char *name) {
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++)
        if (strcmp(effects[i][0], name) == 0) return effects[i][1];
    return NULL;
}

/* The other direction: nothing is in the key that could be left out. Plans name code by what it was compiled from, so equal
 * code gives equal plans. */
static void what_is_in_the_key_changes_a_plan(void **state) {
    made base = {0}, other = {0};
    (void)state;
    assert_int_equal(make(base_config(), "base", NULL, &base), MADE);
    for (int id = 0; id < CONFIG_ID_COUNT_; id++) {
        const config_field *f = &config_table[id];
        const char *value = effect_of(f->name);
        rp_error err = {0};
        if (f->key == CONFIG_KEY_NONE) continue;
        /* What a clock says decides: test/unit/compile_tune.c has one that is set. */
        if (id == CONFIG_ID_inductor_compile_config) continue;
        /* Models that have heads of a norm: none of the library's, see test/unit/pass_turned.c. */
        if (id == CONFIG_ID_pass_enable_qk_norm_rope_fusion ||
            id == CONFIG_ID_pass_fuse_qk_norm_rope_kvcache)
            continue;
        if (!value)
            fail_msg("%s is in the key: a value of it that has an effect is wanted here", f->name);
        rp_compilation_config *cfg = base_config();
        CHECK_OK(rp_config_set_key(cfg, f->name, value, &err), &err);
        assert_int_equal(make(cfg, "other", NULL, &other), MADE);
        if (memcmp(&other.key, &base.key, sizeof base.key) == 0)
            fail_msg("%s=%s does not change the key", f->name, value);
        bool same = true;
        for (int i = 0; i < 2; i++)
            same &= other.size[i] == base.size[i] &&
                    memcmp(other.plan[i], base.plan[i], base.size[i]) == 0;
        if (same) fail_msg("%s=%s changes the key and neither plan", f->name, value);
        made_done(&other);
    }
    made_done(&base);
}

/* Ops that split may be named in several ways and in any order; those that the model lacks split nothing. */
static void equal_lists_of_ops_are_one_key(void **state) {
    static const char *const lists[][4] = {
        {"[\"reprise::attention\"]", "[\"vllm::unified_attention\"]",
         "[\"aiter.unified_attention.default\",\"vllm.unified_attention_with_output\"]",
         "[\"another::kv_store\",\"reprise::attention\",\"mylibra::kv_store\"]"},
        {"[\"reprise::attention\",\"reprise::kv_store\"]",
         "[\"vllm::unified_kv_cache_update\",\"aiter::unified_attention\"]",
         "[\"reprise::kv_store\",\"a::b\",\"reprise::attention\"]",
         "[\"reprise::kv_store\",\"mylibra::gather\",\"reprise::attention\"]"},
    };
    made first[2] = {0}, other = {0};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 4; k++) {
            rp_error err = {0};
            rp_compilation_config *cfg = base_config();
            CHECK_OK(rp_config_set_key(cfg, "splitting_ops", lists[i][k], &err), &err);
            assert_int_equal(make(cfg, k ? "other" : "first", NULL, k ? &other : &first[i]), MADE);
            if (k && memcmp(&first[i].key, &other.key, sizeof other.key) != 0)
                fail_msg("splitting_ops=%s has a key of its own", lists[i][k]);
            if (k) compare(&first[i], &other, "splitting_ops", lists[i][k]);
            made_done(&other);
        }
    assert_memory_not_equal(&first[0].key, &first[1].key, sizeof first[0].key);
    made_done(&first[0]);
    made_done(&first[1]);
}

/* ---- engines: what a warm start does for it ---- */

static long long cold_work(rp_engine *e) {
    return engine_count(e, "traces") + engine_count(e, "compiles") +
           (engine_count(e, "pack_ms") > 0);
}

/* Graphs and the KV cache are made of a plan, so no setting of theirs traces, compiles or packs again. */
static void what_is_made_of_a_plan_is_no_part_of_it(void **state) {
    static const char *const changes[] = {"cudagraph_mode=NONE",
                                          "cudagraph_mode=PIECEWISE",
                                          "cudagraph_mode=FULL",
                                          "cudagraph_mode=FULL_DECODE_ONLY",
                                          "cudagraph_capture_sizes=[1,2]",
                                          "cudagraph_capture_sizes=all",
                                          "cuda_graph_sizes=[3]",
                                          "max_cudagraph_capture_size=4",
                                          "performance_mode=interactivity",
                                          "fullgraph=true",
                                          "max_model_len=32",
                                          "max_model_len=128"};
    char dir[600];
    (void)state;
    (void)snprintf(dir, sizeof dir, "cache_dir=%s", tree_new("warm"));
    stored_cc_install();
    for (size_t i = 0; i <= sizeof changes / sizeof *changes; i++) {
        const char *settings[] = {dir,
                                  "max_num_seqs=4",
                                  "max_num_batched_tokens=16",
                                  "max_model_len=64",
                                  i ? changes[i - 1] : NULL,
                                  NULL};
        rp_engine *e = engine_must("synthetic:tiny", settings);
        if ((cold_work(e) != 0) != (i == 0))
            fail_msg("%s: %lld traces, compiles and packings", i ? changes[i - 1] : "cold",
                     cold_work(e));
        rp_engine_close(e);
    }
}

/* Plans are made and never run: a compiler that writes nothing is quick. */
static void install_quick_cc(const char *name) {
    char path[512], script[256];
    const char *dir = tree_new(name);
    int n = snprintf(script, sizeof script,
                     "#!/bin/sh\n"
                     "case $1 in --version) echo '%s 1.0'; exit 0 ;; esac\n"
                     "for a in \"$@\"; do o=$a; done\n"
                     "echo code >\"$o\"\n",
                     name);
    tree_write(dir, "cc", script, (size_t)n);
    (void)snprintf(path, sizeof path, "%s/cc", dir);
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(setenv("REPRISE_CC", path, 1), 0);
}

static base_hash128 key_of(int level) {
    rp_error err = {0};
    char setting[16];
    cache_key *k = NULL;
    rp_compilation_config *cfg = base_config();
    engine_plans_options o = {.source = source, .config = cfg, .store = store};
    (void)snprintf(setting, sizeof setting, "level=%d", level);
    CHECK_OK(rp_config_set(cfg, setting, &err), &err);
    CHECK_OK(engine_config_resolve(cfg, source, &err), &err);
    CHECK_OK(engine_plans_key(&o, &k, &err), &err);
    base_hash128 key = cache_key_hash(k);
    cache_key_free(k);
    rp_config_free(cfg);
    return key;
}

static bool is_found(void) {
    rp_error err = {0};
    engine_plans p = {0};
    rp_compilation_config *cfg = base_config();
    engine_plans_options o = {.source = source, .config = cfg, .store = store, .threads = 1};
    CHECK_OK(engine_config_resolve(cfg, source, &err), &err);
    CHECK_OK(engine_plans_load(&o, &p, &err), &err);
    bool found = p.from_cache;
    engine_plans_done(&p);
    rp_config_free(cfg);
    return found;
}

static bool same(base_hash128 a, base_hash128 b) {
    return a.lo == b.lo && a.hi == b.hi;
}

static base_hash128 tuned_key(const char *options, uint32_t threads) {
    rp_error err = {0};
    cache_key *k = NULL;
    hal_device *device = NULL;
    rp_compilation_config *cfg = base_config();
    CHECK_OK(hal_cpu_open(threads, &device, &err), &err);
    CHECK_OK(rp_config_set_key(cfg, "inductor_compile_config", options, &err), &err);
    CHECK_OK(engine_config_resolve(cfg, source, &err), &err);
    const engine_plans_options o = {
        .source = source, .config = cfg, .store = store, .device = device};
    CHECK_OK(engine_plans_key(&o, &k, &err), &err);
    base_hash128 key = cache_key_hash(k);
    cache_key_free(k);
    hal_close(device);
    rp_config_free(cfg);
    return key;
}

/* What is the fastest by two threads need not be by one. */
static void threads_are_in_the_key_where_a_tuner_acts(void **state) {
    static const char *const asks[] = {"{\"max_autotune\":true}",
                                       "{\"coordinate_descent_tuning\":true}"};
    (void)state;
    assert_true(same(tuned_key("{}", 1), tuned_key("{}", 2)));
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
        assert_false(same(tuned_key(asks[i], 1), tuned_key(asks[i], 2)));
        assert_true(same(tuned_key(asks[i], 2), tuned_key(asks[i], 2)));
    }
}

/* A budget of nothing decides nothing, so the next start looks again. */
static void what_was_not_tuned_is_not_stored(void **state) {
    (void)state;
    assert_int_equal(setenv("REPRISE_AUTOTUNE_BUDGET", "0", 1), 0);
    for (int tuned = 0; tuned < 2; tuned++) {
        hal_device *device = NULL;
        rp_error err = {0};
        CHECK_OK(hal_cpu_open(1, &device, &err), &err);
        for (int i = 0; i < 2; i++) {
            engine_plans p = {0};
            rp_compilation_config *cfg = base_config();
            engine_plans_options o = {
                .source = source, .config = cfg, .store = store, .device = device, .threads = 1};
            CHECK_OK(rp_config_set_key(cfg, "max_num_seqs", "5", &err), &err);
            if (tuned)
                CHECK_OK(rp_config_set_key(cfg, "inductor_compile_config",
                                           "{\"max_autotune\":true}", &err),
                         &err);
            CHECK_OK(engine_config_resolve(cfg, source, &err), &err);
            CHECK_OK(engine_plans_load(&o, &p, &err), &err);
            assert_int_equal(p.from_cache, i == 1 && !tuned);
            assert_int_equal(p.undecided > 0, tuned);
            engine_plans_done(&p);
            rp_config_free(cfg);
        }
        hal_close(device);
    }
    assert_int_equal(unsetenv("REPRISE_AUTOTUNE_BUDGET"), 0);
}

/* It is run once to say what it is; without any compiler the plan of any is found. */
static void the_compiler_that_is_named_is_in_the_key(void **state) {
    char absent[600];
    (void)state;
    install_quick_cc("first");
    base_hash128 first = key_of(3), eager = key_of(0);
    assert_false(is_found());
    uint64_t before = base_spawn_count();
    assert_true(same(key_of(3), first));
    assert_true(is_found());
    assert_int_equal(base_spawn_count(), before);
    install_quick_cc("second");
    assert_false(same(key_of(3), first));
    assert_true(same(key_of(0), eager)); /* compiles nothing */
    assert_false(is_found());
    before = base_spawn_count();
    (void)snprintf(absent, sizeof absent, "%s/cc", tree_new("nothing"));
    assert_int_equal(setenv("REPRISE_CC", absent, 1), 0);
    base_hash128 none = key_of(3);
    assert_false(same(none, first));
    assert_true(is_found());
    assert_int_equal(unsetenv("REPRISE_CC"), 0);
    assert_true(same(key_of(3), none));
    assert_int_equal(base_spawn_count(), before);
}

/* What inductor_passes can name here. */
static rp_status no_change(void *user, rp_rewrite *r, rp_error *err) {
    (void)user, (void)r, (void)err;
    return RP_OK;
}

static int open_all(void **state) {
    rp_error err = {0};
    rp_pass_desc nothing = {
        .size = sizeof nothing, .name = "nothing", .uuid = "1", .run = no_change};
    CHECK_OK(rp_pass_register(&nothing, &err), &err);
    install_quick_cc("quick");
    model_resolve_options r = {.offline = true};
    (void)state;
    CHECK_OK(model_resolve("synthetic:tiny", &r, &source, &err), &err);
    CHECK_OK(cache_store_open(tree_new("store"), &store, &err), &err);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    model_source_free(source);
    cache_store_close(store);
    return base_live() != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_in_the_key_changes_nothing),
        cmocka_unit_test(what_is_in_the_key_changes_a_plan),
        cmocka_unit_test(equal_lists_of_ops_are_one_key),
        cmocka_unit_test(what_is_made_of_a_plan_is_no_part_of_it),
        cmocka_unit_test(threads_are_in_the_key_where_a_tuner_acts),
        cmocka_unit_test(what_was_not_tuned_is_not_stored),
        cmocka_unit_test(the_compiler_that_is_named_is_in_the_key),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
