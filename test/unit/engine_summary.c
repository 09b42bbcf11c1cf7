/* What the summary counts: one prompt of five tokens and three steps after it, by every way to run them. */
#include "support/check.h"

#include "engine/engine.h"
#include "support/engines.h"
#include "support/trees.h"

#define SMALL "max_num_seqs=4", "max_num_batched_tokens=16", "max_model_len=40", "sealed=fatal"
#define LAYERS 3

/* At level 3 the model is LAYERS attentions with a piece in front of each; the head is what follows. Capture sizes are 1, 2, 4, 8 and 16. */
static const struct {
    const char *level, *mode;
    long long none, piecewise, full; /* steps */
    long long padding;               /* of the prompt, in a graph of 8 tokens */
    long long last;                  /* launches of a decode step; 0: one by one */
} cases[] = {
    {"level=0", "cudagraph_mode=NONE", 4, 0, 0, 0, 0},
    {"level=3", "cudagraph_mode=NONE", 4, 0, 0, 0, 0},
    {"level=3", "cudagraph_mode=PIECEWISE", 0, 4, 0, 3, LAYERS + LAYERS + 1},
    {"level=3", "cudagraph_mode=FULL", 0, 0, 4, 3, 1},
    {"level=3", "cudagraph_mode=FULL_DECODE_ONLY", 1, 0, 3, 0, 1},
    {"level=3", "cudagraph_mode=FULL_AND_PIECEWISE", 0, 1, 3, 3, 1},
    {"level=2", "cudagraph_mode=FULL", 0, 0, 4, 3, 1},
};

static void check(rp_engine *e, size_t i, const char *path, long long want) {
    long long is = engine_count(e, path);
    if (is != want)
        fail_msg("%s, %s: %s is %lld, not %lld", cases[i].level, cases[i].mode, path, is, want);
}

/* Launches of model and head; attention is a launch of each layer. */
static long long launches_of(const rp_engine *e) {
    return (long long)e->plans.model->n_launches + e->plans.head->n_launches;
}

static void steps_and_launches_are_counted(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_engine *e = engine_must("synthetic:tiny,layers=3",
                                   (const char *[]){SMALL, cases[i].level, cases[i].mode, NULL});
        rp_request_options r = plain_request(4);
        long long all = launches_of(e), keys = engine_count(e, "captures");
        long long single = engine_count(e, "launches.single");
        long long replays = engine_count(e, "launches.graph_launches");
        assert_int_equal(replays, 0);
        (void)must_submit(e, &r);
        must_run(e, -1);
        check(e, i, "steps.none", cases[i].none);
        check(e, i, "eager_steps", cases[i].none);
        check(e, i, "steps.piecewise", cases[i].piecewise);
        check(e, i, "steps.full", cases[i].full);
        check(e, i, "tokens", 5 + 3);
        check(e, i, "padding", cases[i].padding);
        check(e, i, "prefill_tokens", 5);
        check(e, i, "decode_tokens", 3);
        check(e, i, "launches_per_step", cases[i].last ? cases[i].last : all);
        check(e, i, "replays", cases[i].piecewise * (LAYERS + 1) + cases[i].full);
        check(e, i, "launches.graph_launches", cases[i].piecewise * (LAYERS + 1) + cases[i].full);
        /* of a step in pieces the attentions alone are launched one by one */
        check(e, i, "launches.single", single + cases[i].none * all + cases[i].piecewise * LAYERS);
        check(e, i, "launches.attention", (cases[i].none + cases[i].piecewise) * LAYERS);
        check(e, i, "captures", keys);
        /* pieces with code of their own; at level 0 there are none */
        check(e, i, "pieces.compiled",
              cases[i].level[6] == '3'   ? LAYERS
              : cases[i].level[6] == '2' ? 1
                                         : 0);
        check(e, i, "late_captures", 0);
        /* the ledger is what the device was asked for */
        check(e, i, "memory.kv",
              (long long)hal_device_counters(e->device)->live_bytes -
                  engine_count(e, "memory.arena") - engine_count(e, "memory.constants") -
                  engine_count(e, "memory.inputs") - engine_count(e, "memory.logits"));
        rp_engine_close(e);
    }
}

/* Buffers that inputs are copied to are inputs, too. */
static void copies_of_inputs_are_in_the_ledger(void **state) {
    long long inputs[2];
    (void)state;
    for (int copy = 0; copy < 2; copy++) {
        rp_engine *e = engine_must(
            "synthetic:tiny",
            (const char *[]){SMALL, "level=3", "cudagraph_mode=PIECEWISE",
                             copy ? "cudagraph_copy_inputs=true" : "cudagraph_copy_inputs=false",
                             NULL});
        inputs[copy] = engine_count(e, "memory.inputs");
        assert_int_equal(inputs[copy] + engine_count(e, "memory.kv") +
                             engine_count(e, "memory.arena") + engine_count(e, "memory.constants") +
                             engine_count(e, "memory.logits"),
                         hal_device_counters(e->device)->live_bytes);
        rp_engine_close(e);
    }
    assert_true(inputs[1] > inputs[0]);
}

/* Graphs are in the summary as long as they are there. */
static void graphs_that_are_dropped_take_nothing(void **state) {
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", (const char *[]){SMALL, "level=3", NULL});
    assert_true(engine_count(e, "memory.graphs") > 0);
    engine_runner_forget(e->runner);
    assert_int_equal(engine_count(e, "memory.graphs"), 0);
    rp_engine_close(e);
}

/* Of what steps took the host it tells the one in the middle, in whatever order they came. */
static void the_median_of_steps_is_told(void **state) {
    static const int64_t ns[] = {5000, 1000, 9000, 8000, 2000};
    char *text = NULL;
    rp_error err = {0};
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", (const char *[]){SMALL, "level=0", NULL});
    memcpy(e->times.host_ns, ns, sizeof ns);
    e->times.host_steps = sizeof ns / sizeof *ns;
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    if (!strstr(text, "\"host_us\":5.0,")) fail_msg("%s", strstr(text, "\"host_us\""));
    rp_engine_text_free(text);
    rp_engine_close(e);
}

/* What reads a summary finds every name, also of what there is none of. */
static void every_name_is_there(void **state) {
    static const char names[] =
        "load_ms fetch_ms device_ms trace_ms compile_ms pack_ms weights_ms runner_ms "
        "capture_ms ttft_ms wall_to_first_token_ms prefill_ms decode_ms host_us "
        "wall_ms prefill_tok_s decode_tok_s peak_rss_bytes pieces traces compiles "
        "cache_hits cache_misses kernels compile_sizes compile_ranges decode_kernels "
        "steps launches shared_lists crowded_lists graph_breaks recompiles model "
        "device isa config level cudagraph_mode vocab_size threads chat_template "
        "memory weights_shared draws_within_steps passes skips ";
    rp_engine *e = engine_must("synthetic:tiny", (const char *[]){SMALL, "level=0", NULL});
    (void)state;
    for (const char *p = names; *p; p += strcspn(p, " ") + 1) {
        char name[32];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(p, " "), p);
        (void)engine_count(e, name);
    }
    rp_engine_close(e);
}

static int set_up(void **state) {
    (void)state;
    return setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_and_launches_are_counted),
        cmocka_unit_test(copies_of_inputs_are_in_the_ledger),
        cmocka_unit_test(graphs_that_are_dropped_take_nothing),
        cmocka_unit_test(the_median_of_steps_is_told),
        cmocka_unit_test(every_name_is_there),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
