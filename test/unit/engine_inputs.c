/* Step inputs at a new address, in a running engine: with cudagraph_copy_inputs replays go on with equal results,
 * without it the step fails and names the argument. Neither way allocates in a step. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"

#define SMALL                                                                                  \
    "level=3", "max_num_seqs=3", "max_num_batched_tokens=16", "max_model_len=48", "threads=1", \
        "sealed=fatal"

static const int32_t prompt[] = {10, 20, 30, 40, 50};

static void copied_inputs_may_move(void **state) {
    int32_t still[12], moved[12];
    rp_error err = {0};
    (void)state;
    for (int split = 0; split < 2; split++) {
        const char *mode = split ? "cudagraph_mode=FULL_AND_PIECEWISE" : "cudagraph_mode=PIECEWISE";
        rp_engine *e = engine_must(
            "synthetic:tiny", (const char *[]){SMALL, mode, "cudagraph_copy_inputs=true", NULL});
        const hal_counters *c = hal_device_counters(e->device);
        assert_int_equal(engine_greedy(e, prompt, 5, 12, still), 12);
        uint64_t late = engine_runner_state(e->runner)->late, builds = c->graph_builds;
        uint64_t replays = engine_runner_state(e->runner)->replays;
        CHECK_OK(engine_runner_move_inputs(e->runner, &err), &err);
        uint64_t allocs = c->allocs;
        if (split) { /* the decode steps of this mode are FULL, which copies nothing */
            uint64_t id;
            bool more = true;
            rp_request_options r = RP_REQUEST_OPTIONS_INIT;
            r.prompt_ids = prompt;
            r.n_prompt_ids = 5;
            r.max_tokens = 1;
            CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
            while (more) CHECK_OK(rp_engine_step(e, &more, &err), &err);
        } else {
            assert_int_equal(engine_greedy(e, prompt, 5, 12, moved), 12);
            assert_memory_equal(still, moved, sizeof still);
        }
        assert_true(engine_runner_state(e->runner)->replays > replays);
        assert_int_equal(engine_runner_state(e->runner)->late, late);
        assert_int_equal(c->graph_builds, builds);
        assert_int_equal(c->allocs, allocs);
        rp_engine_close(e);
    }
}

/* The first step after a move. */
static void refused(const char *mode, const char *input, const char *advice) {
    rp_error err = {0};
    uint64_t id;
    bool more = true;
    rp_engine *e = engine_must("synthetic:tiny", (const char *[]){SMALL, mode, NULL});
    int32_t out[4];
    assert_int_equal(engine_greedy(e, prompt, 5, 4, out), 4);
    CHECK_OK(engine_runner_move_inputs(e->runner, &err), &err);
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    r.prompt_ids = prompt;
    r.n_prompt_ids = 5;
    r.max_tokens = 2;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    rp_status st = rp_engine_step(e, &more, &err);
    if (st != RP_INVALID || !strstr(err.text, input) || !strstr(err.text, advice))
        fail_msg("%s: %s: %s", mode, rp_status_name(st), err.text);
    rp_engine_close(e);
}

static void other_inputs_may_not(void **state) {
    (void)state;
    refused("cudagraph_mode=PIECEWISE", "input 'token_ids' of piece", "cudagraph_copy_inputs");
    refused("cudagraph_mode=FULL", "input 'token_ids' of step", "keep inputs in place");
}

/* Nothing is captured, so nothing is at a fixed address. */
static void without_graphs_inputs_may_move(void **state) {
    int32_t still[6], moved[6];
    rp_error err = {0};
    (void)state;
    rp_engine *e =
        engine_must("synthetic:tiny", (const char *[]){SMALL, "cudagraph_mode=NONE", NULL});
    assert_int_equal(engine_greedy(e, prompt, 5, 6, still), 6);
    CHECK_OK(engine_runner_move_inputs(e->runner, &err), &err);
    assert_int_equal(engine_greedy(e, prompt, 5, 6, moved), 6);
    assert_memory_equal(still, moved, sizeof still);
    rp_engine_close(e);
}

/* The copies are memory that the summary counts. */
static void copies_are_counted(void **state) {
    engine_memory with, without;
    (void)state;
    rp_engine *e =
        engine_must("synthetic:tiny", (const char *[]){SMALL, "cudagraph_copy_inputs=true", NULL});
    engine_runner_memory(e->runner, &with);
    rp_engine_close(e);
    e = engine_must("synthetic:tiny", (const char *[]){SMALL, NULL});
    engine_runner_memory(e->runner, &without);
    rp_engine_close(e);
    assert_true(with.inputs > without.inputs);
}

static int nothing_left(void **state) {
    (void)state;
    return base_live() != 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(copied_inputs_may_move, nothing_left),
        cmocka_unit_test_teardown(other_inputs_may_not, nothing_left),
        cmocka_unit_test_teardown(without_graphs_inputs_may_move, nothing_left),
        cmocka_unit_test_teardown(copies_are_counted, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
