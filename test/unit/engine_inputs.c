/* Step inputs at a new address, in a running engine: with cudagraph_copy_inputs replays go on with equal results,
 * without it the step fails and names the argument. Neither way allocates in a step. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "engine/inputs.h"
#include "support/engines.h"
#include "support/gpu.h"

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

/* Arrays that are as long as they say and apart; a copy where, and only where, kernels do not read the host's memory. What is
 * sent is what a step of its padded sizes reads. */
static void arrays_are_apart_and_sent(void **state) {
    enum { TOKENS = 24, SEQS = 3, ROWS = 5, BLOCKS = 4, ARRAYS = 6 };
    static const char *const devices[] = {"cpu", "cuda:0"};
    static const uint32_t sent[ARRAYS] = {7, 7, 7, 7, 2, 2 * BLOCKS};
    const rp_dispatch d = {.padded = 7, .padded_reqs = 2, .padded_logits = 2};
    const char *no_gpu = NULL;
    (void)state;
    bool gpu = gpu_emulate(&no_gpu);
    for (int i = 0; i < 1 + gpu; i++) {
        hal_device *device = NULL;
        rp_error err = {0};
        engine_inputs in = {
            .b = {.max_tokens = TOKENS, .max_seqs = SEQS, .max_rows = ROWS, .max_blocks = BLOCKS}};
        CHECK_OK(hal_open(devices[i], 1, &device, &err), &err);
        CHECK_OK(engine_inputs_open(&in, device, &err), &err);
        int32_t *const a[ARRAYS] = {in.b.token_ids, in.b.positions, in.b.slots,
                                    in.b.seqs,      in.b.rows,      in.b.block_tables};
        static const uint32_t n[ARRAYS] = {TOKENS, TOKENS, TOKENS, TOKENS, ROWS, SEQS * BLOCKS};
        assert_int_equal(in.copy != NULL, i);
        assert_int_equal(engine_inputs_bytes(&in), in.size * (size_t)(1 + i));
        for (uint32_t k = 0; k < ARRAYS; k++) {
            assert_true((char *)a[k] >= (char *)in.memory);
            assert_true((char *)(a[k] + n[k]) <= (char *)in.memory + in.size);
            for (uint32_t j = 0; j < n[k]; j++) a[k][j] = (int32_t)(k * 1000 + j);
        }
        CHECK_OK(engine_inputs_send(&in, &d, &err), &err);
        CHECK_OK(device->ops->synchronize(device, &err), &err);
        for (uint32_t k = 0; k < ARRAYS; k++) {
            int32_t got[TOKENS];
            const int32_t *at = engine_inputs_for_kernels(&in, a[k]);
            if (i == 0) assert_ptr_equal(at, a[k]);
            CHECK_OK(device->ops->copy(device, got, at, n[k] * sizeof *got, &err), &err);
            CHECK_OK(device->ops->synchronize(device, &err), &err);
            for (uint32_t j = 0; j < n[k]; j++)
                assert_int_equal(got[j], i == 0 || j < sent[k] ? (int32_t)(k * 1000 + j) : 0);
        }
        engine_inputs_close(&in);
        assert_int_equal(hal_device_counters(device)->live_bytes, 0);
        hal_close(device);
    }
    if (!gpu) SKIP_TEST("%s", no_gpu);
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
        cmocka_unit_test_teardown(arrays_are_apart_and_sent, nothing_left),
        cmocka_unit_test_teardown(copies_are_counted, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
