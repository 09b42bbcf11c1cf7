/* compile_sizes, compile_ranges_endpoints: steps of those token counts run by code that was made for the number or the range, and give the
 * bits that all others give. */
#include "support/check.h"

#include <jansson.h>

#include "base/alloc.h"
#include "compile/tune.h"
#include "engine/engine.h"
#include "engine/runner_memory.h"
#include "support/engines.h"
#include "support/trees.h"

#define SMALL "max_num_seqs=4", "max_num_batched_tokens=16", "max_model_len=64", "sealed=fatal"
#define UNTUNED \
    "inductor_compile_config={\"max_autotune\":false,\"coordinate_descent_tuning\":false}"
#define REQUESTS 3
#define TOKENS 6
#define TOP 20

/* What was written: ids and the log probabilities of the likeliest. */
typedef struct written {
    int32_t id[REQUESTS][TOKENS];
    double logprob[REQUESTS][TOKENS], top[REQUESTS][TOKENS * TOP];
} written;

/* One request alone, then two beside it: steps of 5, 1, 2 and 3 tokens, and mixed ones. */
static void write_all(rp_engine *e, written *out) {
    uint64_t id[REQUESTS];
    for (uint32_t i = 0; i < REQUESTS; i++) {
        rp_request_options r = plain_request(TOKENS);
        r.n_prompt_ids = 5 - i;
        r.logprobs = true;
        r.top_logprobs = TOP;
        id[i] = must_submit(e, &r);
        must_run(e, 2);
    }
    must_run(e, -1);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        rp_result r = must_result(e, id[i]);
        assert_int_equal(r.n_output_ids, TOKENS);
        memcpy(out->id[i], r.output_ids, sizeof out->id[i]);
        memcpy(out->logprob[i], r.logprobs, sizeof out->logprob[i]);
        memcpy(out->top[i], r.top_logprobs, sizeof out->top[i]);
    }
}

static json_t *listed(const rp_engine *e, const char *key) {
    char *text = NULL;
    rp_error err = {0};
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    json_t *o = json_loads(text, 0, NULL), *a = json_incref(json_object_get(o, key));
    rp_engine_text_free(text);
    json_decref(o);
    assert_non_null(a);
    return a;
}

static json_t *sizes_of(const rp_engine *e) {
    return listed(e, "compile_sizes");
}

static json_t *ranges_of(const rp_engine *e) {
    return listed(e, "compile_ranges");
}

static long long of_size(const json_t *a, size_t i, const char *key) {
    return json_integer_value(json_object_get(json_array_get(a, i), key));
}

static const struct {
    const char *model, *level, *mode, *more;
    long long steps[3]; /* of 1, 2 and 8 tokens, after padding */
} cases[] = {
    {"synthetic:tiny", "level=3", "cudagraph_mode=NONE", "threads=1", {3, 3, 0}},
    {"synthetic:tiny", "level=3", "cudagraph_mode=PIECEWISE", "threads=2", {3, 3, 3}},
    {"synthetic:tiny",
     "level=3",
     "cudagraph_mode=PIECEWISE",
     "cudagraph_copy_inputs=true",
     {3, 3, 3}},
    {"synthetic:tiny", "level=3", "cudagraph_mode=FULL", "cudagraph_num_of_warmups=1", {3, 3, 3}},
    {"synthetic:tiny", "level=3", "cudagraph_mode=FULL_AND_PIECEWISE", "isa=portable", {3, 3, 3}},
    {"synthetic:tiny", "level=2", "cudagraph_mode=FULL", "threads=1", {3, 3, 3}},
    {"synthetic:tiny,dtype=f32",
     "level=3",
     "cudagraph_mode=FULL_AND_PIECEWISE",
     "threads=1",
     {3, 3, 3}},
    {"synthetic:tiny,dtype=bf16", "level=3", "cudagraph_mode=NONE", "numerics=exact", {3, 3, 0}},
};

static void steps_of_a_size_have_the_bits_of_all(void **state) {
    static const int sizes[] = {1, 2, 8};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        written want, is;
        const char *plain[] = {SMALL, cases[i].level, cases[i].mode, cases[i].more, NULL};
        const char *sized[] = {SMALL,         cases[i].level,        cases[i].mode,
                               cases[i].more, "compile_sizes=8,1,2", UNTUNED,
                               NULL};
        rp_engine *e = engine_must(cases[i].model, plain);
        write_all(e, &want);
        rp_engine_close(e);
        e = engine_must(cases[i].model, sized);
        write_all(e, &is);
        if (memcmp(&want, &is, sizeof is) != 0) fail_msg("case %zu: other bits", i);
        json_t *a = sizes_of(e);
        assert_int_equal(json_array_size(a), 3);
        for (size_t k = 0; k < 3; k++) {
            assert_int_equal(of_size(a, k, "tokens"), sizes[k]);
            if (of_size(a, k, "steps") != cases[i].steps[k])
                fail_msg("case %zu, %d tokens: %lld steps", i, sizes[k], of_size(a, k, "steps"));
        }
        /* without graphs lists are bound when a step runs: those of the sizes that came */
        for (size_t k = 0; i == 0 && k < 3; k++)
            assert_int_equal(e->runner->parts.whole.own[k]->launches[0].items > 0,
                             cases[i].steps[k] > 0);
        json_decref(a);
        rp_engine_close(e);
    }
}

/* Steps of 1, 2, 3 and 5 tokens; graphs are of 1, 2, 4, 8 and 16. A size of its own is served by that, not by its range. */
static void steps_of_a_range_have_the_bits_of_all(void **state) {
    static const int first[] = {1, 2, 5}, last[] = {1, 4, 16}, steps[] = {3, 4, 3};
    static const char *const how[][4] = {
        {"synthetic:tiny", "level=3", "cudagraph_mode=NONE", "threads=1"},
        {"synthetic:tiny", "level=3", "cudagraph_mode=PIECEWISE", "threads=2"},
        {"synthetic:tiny", "level=2", "cudagraph_mode=FULL", "threads=1"},
        {"synthetic:tiny,dtype=bf16", "level=3", "cudagraph_mode=FULL_AND_PIECEWISE",
         "isa=portable"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        written want, is;
        rp_engine *e =
            engine_must(how[i][0], (const char *[]){SMALL, how[i][1], how[i][2], how[i][3], NULL});
        write_all(e, &want);
        rp_engine_close(e);
        for (int with = 0; with < 2; with++) {
            const char *sizes = with ? "compile_sizes=2" : "compile_sizes=[]";
            e = engine_must(how[i][0],
                            (const char *[]){SMALL, how[i][1], how[i][2], how[i][3], UNTUNED,
                                             "compile_ranges_endpoints=4,1", sizes, NULL});
            write_all(e, &is);
            if (memcmp(&want, &is, sizeof is) != 0) fail_msg("case %zu: other bits", i);
            json_t *a = ranges_of(e), *b = sizes_of(e);
            assert_int_equal(json_array_size(a), 3);
            assert_int_equal(json_array_size(b), with);
            for (size_t k = 0; k < 3; k++) {
                const int own = with && k == 1 ? 3 : 0; /* steps of 2 tokens */
                assert_int_equal(of_size(a, k, "first"), first[k]);
                assert_int_equal(of_size(a, k, "last"), last[k]);
                assert_int_equal(of_size(a, k, "steps"), steps[k] - own);
            }
            if (with) assert_int_equal(of_size(b, 0, "steps"), 3);
            json_decref(a);
            json_decref(b);
            rp_engine_close(e);
        }
    }
}

/* Plans of sizes come from the cache like others, each under its own key. */
static void a_warm_start_compiles_none(void **state) {
    char cache[600];
    (void)state;
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", tree_new("warm"));
    const char *plain[] = {cache, SMALL, "level=3", UNTUNED, NULL},
               *one[] = {cache, SMALL, "level=3", UNTUNED, "compile_sizes=1", NULL},
               *two[] = {cache, SMALL, "level=3", UNTUNED, "compile_sizes=1,2", NULL};
    const struct {
        const char *const *settings;
        long long traces, sizes;
    } starts[] = {{plain, 2, 0}, {one, 1, 1}, {two, 1, 2}, {two, 0, 2}, {one, 0, 1}, {plain, 0, 0}};
    long long loaded[3] = {0}; /* code of warm starts, by sizes */
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        rp_engine *e = engine_must("synthetic:tiny", starts[i].settings);
        assert_int_equal(engine_count(e, "traces"), starts[i].traces);
        if (!starts[i].traces) loaded[starts[i].sizes] = engine_count(e, "pieces.loaded");
        assert_int_equal(engine_count(e, "compiles") > 0, starts[i].traces > 0);
        assert_int_equal(engine_count(e, "recompiles"), 0);
        json_t *a = sizes_of(e);
        assert_int_equal(json_array_size(a), starts[i].sizes);
        json_decref(a);
        /* the ledger is what the device was asked for */
        assert_int_equal(hal_device_counters(e->device)->live_bytes,
                         engine_count(e, "memory.kv") + engine_count(e, "memory.arena") +
                             engine_count(e, "memory.constants") +
                             engine_count(e, "memory.inputs") + engine_count(e, "memory.logits"));
        rp_engine_close(e);
    }
    assert_true(loaded[0] > 0 && loaded[1] > loaded[0] && loaded[2] > loaded[1]);
}

/* A range is found again under its ends, whatever other ranges there are. */
static void ranges_are_found_by_their_ends(void **state) {
    char cache[600];
    (void)state;
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", tree_new("ranges"));
    static const struct {
        const char *ends;
        long long traces, ranges;
    } starts[] = {{"[]", 2, 0},   {"[4]", 2, 2},    {"[1,4]", 2, 3}, {"[1,4]", 0, 3},
                  {"[16]", 1, 1}, {"[4,16]", 0, 2}, {"[1]", 1, 2}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        char ends[64];
        (void)snprintf(ends, sizeof ends, "compile_ranges_endpoints=%s", starts[i].ends);
        rp_engine *e = engine_must(
            "synthetic:tiny,layers=1",
            (const char *[]){cache, SMALL, "level=3", "cudagraph_mode=NONE", ends, NULL});
        if (engine_count(e, "traces") != starts[i].traces)
            fail_msg("%s: %lld traces", starts[i].ends, (long long)engine_count(e, "traces"));
        assert_int_equal(engine_count(e, "recompiles"), 0);
        json_t *a = ranges_of(e);
        assert_int_equal(json_array_size(a), starts[i].ranges);
        json_decref(a);
        rp_engine_close(e);
    }
}

/* The reason of the note about `what`; NULL: there is none. Borrowed. */
static const char *noted(const rp_engine *e, const char *what) {
    const rp_config_note *notes;
    const size_t n = rp_config_notes(e->config, &notes);
    for (size_t i = 0; i < n; i++)
        if (strcmp(notes[i].what, what) == 0) return notes[i].reason;
    return NULL;
}

/* A size that nothing is stored for costs a warm start its own code, not the code that there is. */
static void without_a_compiler_the_others_stay(void **state) {
    char cache[600], want[600], *path = base_strdup(getenv("PATH"));
    const char *nothing = tree_new("nothing");
    (void)state;
    assert_non_null(path);
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", tree_new("some"));
    const char *some[] = {cache, SMALL, "level=3", UNTUNED, "compile_sizes=2", NULL},
               *more[] = {cache, SMALL, "level=3", UNTUNED, "compile_sizes=1,2,4", NULL};
    rp_engine_close(engine_must("synthetic:tiny", some));
    assert_int_equal(setenv("PATH", nothing, 1), 0);
    rp_engine *e = engine_must("synthetic:tiny", more);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(engine_count(e, "level"), 3);
    json_t *a = sizes_of(e);
    assert_int_equal(json_array_size(a), 1);
    assert_int_equal(of_size(a, 0, "tokens"), 2);
    (void)snprintf(want, sizeof want,
                   "no C compiler (no cc, gcc or clang in PATH=%s) and nothing cached for it",
                   nothing);
    assert_string_equal(noted(e, "compile_sizes: 1"), want);
    assert_string_equal(noted(e, "compile_sizes: 4"), want);
    assert_null(noted(e, "compile_sizes: 2"));
    assert_null(noted(e, "level 3"));
    json_decref(a);
    rp_engine_close(e);
    base_free(path);
}

/* Of a size that is a number products may be built in: the setting says which plan is found. */
static void built_in_products_are_in_their_key(void **state) {
    static const char model[] = "synthetic:tiny,dtype=f32,layers=1";
    char cache[600];
    (void)state;
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", tree_new("products"));
    const char *with[] = {cache, SMALL, "level=3", UNTUNED, "compile_sizes=1", NULL},
               *without[] = {
                   cache, SMALL, "level=3", UNTUNED, "compile_sizes=1", "built_in_products=false",
                   NULL};
    const struct {
        const char *const *settings;
        long long traces; /* never again those of all sizes */
    } starts[] = {{with, 3}, {without, 1}, {with, 0}, {without, 0}};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        rp_engine *e = engine_must(model, starts[i].settings);
        assert_int_equal(engine_count(e, "traces"), starts[i].traces);
        rp_engine_close(e);
    }
}

/* They get all that the autotuner has, where nobody has said otherwise. */
static void they_are_measured(void **state) {
    static const char model[] = "synthetic:tiny,layers=1";
    char cache[600];
    (void)state;
    (void)snprintf(cache, sizeof cache, "cache_dir=%s", tree_new("measured"));
    const char *untuned[] = {cache, SMALL, "level=3", "compile_sizes=1", UNTUNED, NULL},
               *tuned[] = {cache, SMALL, "level=3", "compile_sizes=1", NULL},
               *nothing[] = {cache, SMALL, "level=3", "compile_sizes=1", "device=null", NULL};
    rp_engine_close(engine_must(model, untuned));
    assert_int_equal(compile_tune_readings(), 0);
    rp_engine_close(engine_must(model, tuned));
    assert_true(compile_tune_readings() > 0);
    rp_engine *e = engine_must(model, nothing); /* which runs nothing that could be */
    json_t *a = sizes_of(e);
    assert_int_equal(json_array_size(a), 1);
    json_decref(a);
    rp_engine_close(e);
}

/* One step runs at a time, so more sizes take no more memory of steps. */
static void sizes_share_their_memory(void **state) {
    static const char *const sizes[] = {"compile_sizes=[]", "compile_sizes=1",
                                        "compile_sizes=1,2,8,15"};
    long long arena[3];
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        rp_engine *e = engine_must("synthetic:tiny,layers=1",
                                   (const char *[]){SMALL, "level=3", UNTUNED, sizes[i], NULL});
        arena[i] = engine_count(e, "memory.arena");
        assert_true(arena[i] > 0);
        assert_int_equal(arena[i], arena[0]);
        rp_engine_close(e);
    }
}

/* A measured step is one of theirs: as many launches as their plan has. */
static void a_profile_is_of_the_plan_that_runs(void **state) {
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    rp_error err = {0};
    char *text = NULL;
    (void)state;
    rp_engine *e = engine_must(
        "synthetic:tiny", (const char *[]){SMALL, "level=3", UNTUNED, "compile_sizes=1", NULL});
    o.steps = 2;
    o.context = 8;
    CHECK_OK(rp_engine_profile(e, &o, &text, &err), &err);
    assert_non_null(strstr(text, "\"name\":\"model_1.submod_0\""));
    assert_null(strstr(text, "\"name\":\"model.submod_0\""));
    rp_engine_text_free(text);
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            they_are_measured), /* first: readings are counted from the start of the process */
        cmocka_unit_test(a_warm_start_compiles_none),
        cmocka_unit_test(ranges_are_found_by_their_ends),
        cmocka_unit_test(without_a_compiler_the_others_stay),
        cmocka_unit_test(built_in_products_are_in_their_key),
        cmocka_unit_test(sizes_share_their_memory),
        cmocka_unit_test(a_profile_is_of_the_plan_that_runs),
        cmocka_unit_test(steps_of_a_size_have_the_bits_of_all),
        cmocka_unit_test(steps_of_a_range_have_the_bits_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
