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

enum { TOKENS = 24, SEQS = 3, BLOCKS = 4, WIDTH = 3, ARRAYS = 6 };

/* Whether element j of array k is sent by a step of 7 tokens, 2 requests with WIDTH blocks at most, and 2 logit rows; these lie behind
 * arrays of as many elements as they have where the two are alike, and then go with them. */
static bool is_sent(uint32_t k, uint32_t j, bool alike) {
    if (k < 4) return j < 7;
    if (k == 4) return j < (alike ? 7u : 2u);
    return j < 2 * BLOCKS && j % BLOCKS < WIDTH;
}

/* One set of arrays: as long as they say, apart, and what kernels find afterwards. */
static void check_set(engine_inputs *in, uint32_t turn) {
    const rp_dispatch d = {.padded = 7, .padded_reqs = 2, .padded_logits = 2};
    const uint32_t rows = in->b.max_rows,
                   n[ARRAYS] = {TOKENS, TOKENS, TOKENS, TOKENS, rows, SEQS * BLOCKS};
    hal_device *device = in->device;
    rp_error err = {0};
    engine_inputs_turn(in, turn);
    int32_t *const a[ARRAYS] = {in->b.token_ids, in->b.positions, in->b.slots,
                                in->b.seqs,      in->b.rows,      in->b.block_tables};
    for (uint32_t k = 0; k < ARRAYS; k++) {
        char *begin = (char *)in->memory + (in->copy ? turn * in->size : 0);
        assert_true((char *)a[k] >= begin && (char *)(a[k] + n[k]) <= begin + in->size);
        for (uint32_t j = 0; j < n[k]; j++) a[k][j] = (int32_t)(turn * 10000 + k * 1000 + j + 1);
    }
    CHECK_OK(engine_inputs_send(in, &d, WIDTH, &err), &err);
    CHECK_OK(device->ops->synchronize(device, &err), &err);
    for (uint32_t k = 0; k < ARRAYS; k++) {
        int32_t got[TOKENS];
        const int32_t *at = engine_inputs_for_kernels(in, a[k]);
        if (!in->copy) assert_ptr_equal(at, a[k]);
        CHECK_OK(device->ops->copy(device, got, at, n[k] * sizeof *got, &err), &err);
        CHECK_OK(device->ops->synchronize(device, &err), &err);
        for (uint32_t j = 0; j < n[k]; j++) {
            bool sent = !in->copy || is_sent(k, j, rows == TOKENS);
            assert_int_equal(got[j], sent ? (int32_t)(turn * 10000 + k * 1000 + j + 1) : 0);
        }
    }
}

/* A copy where, and only where, kernels do not read the host's memory, and then two sets of arrays that it is made of. */
static void arrays_are_apart_and_sent(void **state) {
    static const char *const devices[] = {"cpu", "cuda:0"};
    const char *no_gpu = NULL;
    (void)state;
    bool gpu = gpu_emulate(&no_gpu);
    for (int i = 0; i < 2 * (1 + gpu); i++) {
        hal_device *device = NULL;
        rp_error err = {0};
        engine_inputs in = {.b = {.max_tokens = TOKENS,
                                  .max_seqs = SEQS,
                                  .max_rows = i % 2 ? TOKENS : 5,
                                  .max_blocks = BLOCKS}};
        CHECK_OK(hal_open(devices[i / 2], 1, &device, &err), &err);
        CHECK_OK(engine_inputs_open(&in, device, &err), &err);
        assert_int_equal(in.copy != NULL, i / 2);
        assert_int_equal(engine_inputs_bytes(&in), in.size * (i / 2 ? 3u : 1u));
        check_set(&in, 0);
        check_set(&in, 1);
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
