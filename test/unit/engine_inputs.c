/* Step inputs at a new address, in a running engine: with cudagraph_copy_inputs replays go on with equal results,
 * without it the step fails and names the argument. Neither way allocates in a step. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/border.h"
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

/* Also where a step has logits of more rows than it has requests. */
static void copied_rows_are_all_of_a_step(void **state) {
    int32_t ids[20];
    rp_error err = {0};
    rp_score_options how = RP_SCORE_OPTIONS_INIT;
    (void)state;
    for (int i = 0; i < 20; i++) ids[i] = (i * 37 + 5) % 250;
    for (uint32_t step = 0; step <= 3;
         step++) { /* as many as fit, or some: heads of these are graphs */
        double was[2];
        for (int copies = 0; copies < 2; copies++) {
            rp_engine *e = engine_must(
                "synthetic:tiny",
                (const char *[]){SMALL, "cudagraph_mode=PIECEWISE",
                                 copies ? "cudagraph_copy_inputs=true" : "threads=1", NULL});
            how.step = step;
            was[copies] = must_score(e, ids, 2, 20, how);
            if (copies) CHECK_OK(engine_runner_move_inputs(e->runner, &err), &err);
            assert_true(was[copies] > 1 && must_score(e, ids, 2, 20, how) == was[copies]);
            rp_engine_close(e);
        }
        assert_true(was[0] == was[1]);
    }
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

enum { TOKENS = 24, SEQS = 3, BLOCKS = 4, WIDTH = 3, ARRAYS = 6, RESULTS = 5, RAN = 7 };

static void open_border(border *b, const char *device, uint32_t max_rows) {
    *b = (border){
        .results = {.max_rows = RESULTS, .row_size = 64},
        .in.b = {
            .max_tokens = TOKENS, .max_seqs = SEQS, .max_rows = max_rows, .max_blocks = BLOCKS}};
    border_open(b, device);
}

/* Whether element j of array k is brought by a step of RAN tokens, 2 requests with WIDTH blocks at most, and 3 logit rows. */
static bool is_brought(uint32_t k, uint32_t j) {
    return k < 4 ? j < RAN : k == 4 ? j < 3 : j < 2 * BLOCKS && j % BLOCKS < WIDTH;
}

static int32_t written(uint32_t turn, uint32_t k, uint32_t j) {
    return (int32_t)(turn * 10000 + k * 1000 + j + 1);
}

/* A step: what kernels find afterwards, and what the step left for the host. Each has the token of row 2 of the one before as its fourth. */
static void check_step(border *b, uint32_t turn) {
    const rp_dispatch d = {.padded = RAN, .padded_reqs = 2, .padded_logits = 3};
    const uint32_t n[ARRAYS] = {TOKENS, TOKENS, TOKENS, TOKENS, b->in.b.max_rows, SEQS * BLOCKS};
    const engine_route route = engine_results_route(&b->results);
    int32_t *const a[ARRAYS] = {b->in.b.token_ids, b->in.b.positions, b->in.b.slots,
                                b->in.b.seqs,      b->in.b.rows,      b->in.b.block_tables};
    rp_error err = {0};
    hal_device *device = b->device;
    for (uint32_t k = 0; k < ARRAYS; k++)
        for (uint32_t j = 0; j < n[k]; j++) a[k][j] = written(turn, k, j);
    if (turn > 0) a[0][3] = -1 - 2;
    CHECK_OK(engine_inputs_write(&b->in, &d, (engine_step_extent){.width = WIDTH}, &route, &err),
             &err);
    CHECK_OK(engine_inputs_fetch(&b->in, &err), &err);
    for (uint32_t k = 0; k < ARRAYS; k++) {
        int32_t got[TOKENS];
        if (!b->in.copy) assert_ptr_equal(engine_inputs_for_kernels(&b->in, a[k]), a[k]);
        border_read(b, got, engine_inputs_for_kernels(&b->in, a[k]), n[k] * sizeof *got);
        for (uint32_t j = 0; j < n[k]; j++) {
            int32_t want = !b->in.copy || is_brought(k, j) ? written(turn, k, j) : 0;
            if (turn > 0 && k == 0 && j == 3) want = 502 + 100 * ((int32_t)turn - 1);
            assert_int_equal(got[j], want);
        }
    }
    CHECK_OK(engine_inputs_fetch(&b->in, &err), &err); /* there is nothing to take */
    int32_t best[2 * RESULTS];
    for (int32_t i = 0; i < RESULTS; i++) best[RESULTS + i] = 500 + 100 * (int32_t)turn + i;
    for (int i = 0; i < RESULTS; i++) best[i] = 0;
    CHECK_OK(device->ops->copy(device, b->results.best, best, sizeof best, &err), &err);
    CHECK_OK(engine_results_deliver(&b->results, 3, &err), &err);
    CHECK_OK(engine_results_launched(&b->results, &err), &err);
    CHECK_OK(engine_results_wait(&b->results, &err), &err);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(engine_results_best(&b->results).id[i], 500 + 100 * (int32_t)turn + i);
}

/* Code that another version of the compiler made, or that is for another GPU, is not taken. */
static void kernels_are_of_one_compiler(void **state) {
    static const char *const of[][2] = {
        {"sm_90", "NVRTC 1.0"}, {"sm_90", "NVRTC 1.1"}, {"sm_80", "NVRTC 1.0"}};
    enum { N = sizeof of / sizeof *of };
    const char *no_gpu = NULL;
    compile_nvrtc n = {0};
    cache_store *store = NULL;
    rp_error err = {0};
    (void)state;
    if (!gpu_emulate(&no_gpu)) SKIP_TEST("%s", no_gpu);
    CHECK_OK(cache_store_open(NULL, &store, &err), &err);
    CHECK_OK(compile_nvrtc_find("sm_90", &n, &err), &err);
    plan *p = plan_new("kernels");
    for (int i = 0; i < N; i++) {
        (void)snprintf(n.arch, sizeof n.arch, "%s", of[i][0]);
        (void)snprintf(n.version, sizeof n.version, "%s", of[i][1]);
        CHECK_OK(engine_exchange_compile(&n, store, p, &err), &err);
    }
    assert_int_equal(p->n_modules, N);
    for (int i = 0; i < N; i++)
        assert_memory_not_equal(&p->modules[i].key, &p->modules[(i + 1) % N].key,
                                sizeof p->modules[i].key);
    plan_free(p);
    compile_nvrtc_done(&n);
    cache_store_close(store);
}

/* Kernels have arrays of their own where, and only where, they do not read the host's memory. */
static void steps_cross_the_border(void **state) {
    static const char *const devices[] = {"cpu", "cuda:0"};
    const char *no_gpu = NULL;
    (void)state;
    bool gpu = gpu_emulate(&no_gpu);
    for (int i = 0; i < 2 * (1 + gpu); i++) {
        border b;
        open_border(&b, devices[i / 2], i % 2 ? TOKENS : 5);
        assert_int_equal(b.in.copy != NULL, i / 2);
        for (uint32_t turn = 0; turn < 5; turn++) check_step(&b, turn);
        border_close(&b);
    }
    if (!gpu) SKIP_TEST("%s", no_gpu);
}

/* Tables that change more than a block has room for go ahead of the step, and blocks that nobody takes in time are waited for. */
static void tables_of_any_size_cross(void **state) {
    const char *no_gpu = NULL;
    const rp_dispatch d = {.padded = RAN, .padded_reqs = SEQS, .padded_logits = 2};
    border b;
    rp_error err = {0};
    (void)state;
    if (!gpu_emulate(&no_gpu)) SKIP_TEST("%s", no_gpu);
    open_border(&b, "cuda:0", TOKENS);
    b.in.room = 5;
    for (int32_t turn = 1; turn < 4; turn++) {
        int32_t got[SEQS * BLOCKS], ids[TOKENS];
        const engine_route route = engine_results_nowhere(&b.results);
        for (int32_t i = 0; i < SEQS * BLOCKS; i++) b.in.b.block_tables[i] = turn * 100 + i;
        for (int32_t i = 0; i < RAN; i++) b.in.b.token_ids[i] = turn * 1000 + i;
        CHECK_OK(
            engine_inputs_write(&b.in, &d, (engine_step_extent){.width = BLOCKS}, &route, &err),
            &err);
        CHECK_OK(engine_inputs_fetch(&b.in, &err), &err);
        border_read(&b, got, engine_inputs_for_kernels(&b.in, b.in.b.block_tables), sizeof got);
        assert_memory_equal(got, b.in.b.block_tables, sizeof got);
        border_read(&b, ids, engine_inputs_for_kernels(&b.in, b.in.b.token_ids), sizeof ids);
        assert_memory_equal(ids, b.in.b.token_ids, RAN * sizeof *ids);
    }
    assert_int_equal(b.x.sent, 3 * 3); /* two ahead of each */
    border_close(&b);
}

/* A row that is the same was compared as far as a narrower step reads it. */
static void what_a_narrow_step_left_out_crosses_later(void **state) {
    static const uint32_t widths[] = {BLOCKS, 1, BLOCKS, 2, WIDTH};
    const char *no_gpu = NULL;
    const rp_dispatch d = {.padded = RAN, .padded_reqs = SEQS, .padded_logits = 2};
    uint64_t stamps[SEQS] = {7, 8, 9};
    border b;
    rp_error err = {0};
    (void)state;
    if (!gpu_emulate(&no_gpu)) SKIP_TEST("%s", no_gpu);
    open_border(&b, "cuda:0", TOKENS);
    b.in.stamps = stamps;
    const engine_route route = engine_results_nowhere(&b.results);
    for (size_t turn = 0; turn < sizeof widths / sizeof *widths; turn++) {
        int32_t got[SEQS * BLOCKS];
        if (turn % 2 == 1) /* other tables, which the next step has, too */
            for (int32_t i = 0; i < SEQS * BLOCKS; i++)
                b.in.b.block_tables[i] = (int32_t)turn * 100 + i;
        for (int i = 0; i < SEQS; i++) stamps[i] += turn % 2;
        CHECK_OK(engine_inputs_write(&b.in, &d, (engine_step_extent){.width = widths[turn]}, &route,
                                     &err),
                 &err);
        CHECK_OK(engine_inputs_fetch(&b.in, &err), &err);
        border_read(&b, got, engine_inputs_for_kernels(&b.in, b.in.b.block_tables), sizeof got);
        for (uint32_t i = 0; i < SEQS * BLOCKS; i++)
            if (i % BLOCKS < widths[turn]) assert_int_equal(got[i], b.in.b.block_tables[i]);
    }
    border_close(&b);
}

/* A block that was written and never taken does not stand in the way of those behind it. */
static void a_lost_block_is_forgotten(void **state) {
    const char *no_gpu = NULL;
    const rp_dispatch d = {.padded = RAN, .padded_reqs = 1, .padded_logits = 1};
    border b;
    rp_error err = {0};
    int32_t got;
    (void)state;
    if (!gpu_emulate(&no_gpu)) SKIP_TEST("%s", no_gpu);
    open_border(&b, "cuda:0", TOKENS);
    const engine_route route = engine_results_nowhere(&b.results);
    b.in.b.block_tables[0] = 66;
    CHECK_OK(engine_inputs_write(&b.in, &d, (engine_step_extent){.width = 1}, &route, &err), &err);
    engine_inputs_lost(&b.in);
    b.in.b.token_ids[0] = 77;
    CHECK_OK(engine_inputs_write(&b.in, &d, (engine_step_extent){.width = 1}, &route, &err), &err);
    CHECK_OK(engine_inputs_fetch(&b.in, &err), &err);
    border_read(&b, &got, engine_inputs_for_kernels(&b.in, b.in.b.token_ids), sizeof got);
    assert_int_equal(got, 77);
    border_read(&b, &got, engine_inputs_for_kernels(&b.in, b.in.b.block_tables), sizeof got);
    assert_int_equal(got, 66);
    border_close(&b);
}

static hal_device_ops real_ops;
static int launches_left; /* until one fails */

static rp_status failing_launch(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch,
                                rp_error *err) {
    if (launches_left-- == 0) return rp_fail(err, RP_DEVICE, "no launch");
    return real_ops.launch(d, list, n, scratch, err);
}

/* One of the three launches of a step whose tables need two blocks of their own fails. The step after it brings all of it. */
static void a_launch_that_fails_loses_nothing(void **state) {
    const char *no_gpu = NULL;
    const rp_dispatch d = {.padded = RAN, .padded_reqs = SEQS, .padded_logits = 2};
    static const uint64_t stamps[SEQS] = {1, 2, 3};
    (void)state;
    if (!gpu_emulate(&no_gpu)) SKIP_TEST("%s", no_gpu);
    for (int at = 0; at < 3; at++) {
        border b;
        rp_error err = {0};
        int32_t got[SEQS * BLOCKS], ids[RAN];
        open_border(&b, "cuda:0", TOKENS);
        b.in.room = 5;
        b.in.stamps = stamps;
        const engine_route route = engine_results_nowhere(&b.results);
        for (int32_t i = 0; i < SEQS * BLOCKS; i++) b.in.b.block_tables[i] = 100 + i;
        const hal_device_ops *own = b.device->ops;
        hal_device_ops failing = real_ops = *own;
        failing.launch = failing_launch;
        b.device->ops = &failing;
        launches_left = at;
        rp_status st =
            engine_inputs_write(&b.in, &d, (engine_step_extent){.width = BLOCKS}, &route, &err);
        if (st == RP_OK) st = engine_inputs_fetch(&b.in, &err);
        assert_int_equal(st, RP_DEVICE);
        b.device->ops = own;
        for (int32_t i = 0; i < RAN; i++) b.in.b.token_ids[i] = 1000 + i;
        CHECK_OK(
            engine_inputs_write(&b.in, &d, (engine_step_extent){.width = BLOCKS}, &route, &err),
            &err);
        CHECK_OK(engine_inputs_fetch(&b.in, &err), &err);
        border_read(&b, ids, engine_inputs_for_kernels(&b.in, b.in.b.token_ids), sizeof ids);
        assert_memory_equal(ids, b.in.b.token_ids, sizeof ids);
        border_read(&b, got, engine_inputs_for_kernels(&b.in, b.in.b.block_tables), sizeof got);
        assert_memory_equal(got, b.in.b.block_tables, sizeof got);
        border_close(&b);
    }
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
        cmocka_unit_test_teardown(copied_rows_are_all_of_a_step, nothing_left),
        cmocka_unit_test_teardown(other_inputs_may_not, nothing_left),
        cmocka_unit_test_teardown(without_graphs_inputs_may_move, nothing_left),
        cmocka_unit_test_teardown(kernels_are_of_one_compiler, nothing_left),
        cmocka_unit_test_teardown(steps_cross_the_border, nothing_left),
        cmocka_unit_test_teardown(tables_of_any_size_cross, nothing_left),
        cmocka_unit_test_teardown(what_a_narrow_step_left_out_crosses_later, nothing_left),
        cmocka_unit_test_teardown(a_lost_block_is_forgotten, nothing_left),
        cmocka_unit_test_teardown(a_launch_that_fails_loses_nothing, nothing_left),
        cmocka_unit_test_teardown(copies_are_counted, nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
