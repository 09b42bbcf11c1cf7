/* The way of a model onto a GPU, mostly the emulated one: what kernels compute is what the cpu computes, bit for bit. */
#include "support/check.h"

#include <dlfcn.h>
#include <jansson.h>
#include <math.h>

#include "engine/engine.h"
#include "hal/cuda/device.h"
#include "support/engines.h"
#include "support/gpu.h"
#include "support/kv_growth.h"
#include "support/trees.h"

static const char *why_not;

#define NEEDS_GPU() \
    if (why_not) SKIP_TEST("%s", why_not)
/* What asks for a GPU of some size, one alone, or a clock that is known. */
#define NEEDS_EMULATED(what) \
    NEEDS_GPU();             \
    if (getenv("REPRISE_TEST_GPU")) SKIP_TEST("%s of the emulated GPU", what)

static void levels_and_modes_give_the_tokens_of_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    gpu_check_tokens("synthetic:tiny", NULL, true, true);
}

static void formats_give_the_bits_of_the_cpu(void **state) {
    static const char *const models[] = {"synthetic:tiny", "synthetic:tiny,dtype=f32",
                                         "synthetic:tiny,dtype=bf16"};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        gpu_check_scores(models[i], "batch_invariant=true", 40, 16);
    gpu_check_scores("synthetic:tiny", NULL, 20, 1);
    gpu_check_scores("synthetic:tiny", "numerics=exact", 40, 16);
}

static void tensor_cores_give_one_answer(void **state) {
    (void)state;
    NEEDS_GPU();
    gpu_check_near("synthetic:tiny,dtype=bf16", 24, 12);
    gpu_check_near("synthetic:tiny,dtype=bf16", 6, 1);
    gpu_check_near("synthetic:tiny,dtype=bf16", 170, 85); /* more rows than a tile of positions */
}

/* More rows than have clusters of their own, and more positions than a chunk. The host gets 32 rows of logits at once: of 32 that are kept, and of
 * 40. */
static void long_prompts_give_the_bits_of_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    gpu_check_scores("synthetic:tiny", NULL, 340, 200);
    gpu_check_scores("synthetic:tiny,dtype=f32", "max_num_seqs=40", 340, 200);
}

static void a_crowd_gives_the_tokens_of_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    gpu_check_crowd("synthetic:tiny");
}

static void copied_inputs_reach_the_pieces(void **state) {
    (void)state;
    NEEDS_GPU();
    gpu_check_tokens("synthetic:tiny", "cudagraph_copy_inputs=true", false, true);
}

/* Code for 1 and for 8 tokens, and for ranges, gives what the code for all gives. */
static void sizes_of_their_own_give_the_bits_of_all(void **state) {
    static const char *const models[] = {"synthetic:tiny", "synthetic:tiny,dtype=bf16"};
    static const char *const own[] = {NULL, "compile_sizes=1,8", "compile_ranges_endpoints=1,8"};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        rp_request_options o = plain_request(6);
        double logprobs[sizeof own / sizeof *own][6];
        o.logprobs = true;
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
            rp_engine *e = engine_must(
                models[i], (const char *[]){"device=cuda:0", "max_num_seqs=4", "max_model_len=32",
                                            "inductor_compile_config={\"max_autotune\":false,"
                                            "\"coordinate_descent_tuning\":false}",
                                            own[k], NULL});
            const uint64_t id = must_submit(e, &o);
            must_run(e, -1);
            memcpy(logprobs[k], must_result(e, id).logprobs, sizeof logprobs[k]);
            rp_engine_close(e);
            assert_memory_equal(logprobs[0], logprobs[k], sizeof logprobs[0]);
        }
    }
}

/* What multiplies many rows is not made for a range of few. */
static void a_range_has_no_code_for_others(void **state) {
    (void)state;
    NEEDS_GPU();
    rp_engine *e =
        engine_must("synthetic:tiny,dtype=bf16",
                    (const char *[]){"device=cuda:0", "max_num_seqs=4", "max_model_len=32",
                                     "cudagraph_mode=NONE", "compile_ranges_endpoints=8", NULL});
    assert_int_equal(e->plans.n_sized, 2);
    assert_true(e->plans.sized[0].model->n_functions < e->plans.model->n_functions);
    rp_engine_close(e);
}

/* Of keys and values, 16 bytes each, those that kernels have read before the kernels in front of them ended; the emulated GPU gives what they were before the graph
 * began, and counts them. */
static uint64_t read_early(bool *counted) {
    void *emu = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    uint64_t (*count)(void) = emu ? (uint64_t(*)(void))(uintptr_t)dlsym(emu, "emu_early") : NULL;
    const uint64_t n = count ? count() : 0;
    *counted = count != NULL;
    if (emu) (void)dlclose(emu);
    return n;
}

/* Graphs of steps of one token a sequence alone, of so few sequences that the largest clusters take them, read early what they attend to: with prompts in their graphs, pieces, or without graphs, somebody may store it in the same
 * step. Wherever they are read, log probabilities have the same bits, also those of samples that share the blocks of their prompt. */
static void steps_of_one_token_alone_read_early(void **state) {
    static const struct {
        const char *mode;
        bool early;
    } how[] = {{"cudagraph_mode=NONE", false},
               {"cudagraph_mode=PIECEWISE", false},
               {"cudagraph_mode=FULL", true},
               {"cudagraph_mode=FULL_DECODE_ONLY", true},
               {"cudagraph_mode=FULL_AND_PIECEWISE", true}};
    enum { PROMPT = 70, TOKENS = 6, N = 3 };
    int32_t prompt[PROMPT];
    double want[N][TOKENS];
    (void)state;
    NEEDS_GPU();
    for (int i = 0; i < PROMPT; i++) prompt[i] = (i * 37 + 5) % 250;
    for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
        const char *settings[] = {"device=cuda:0",    "max_num_seqs=4",
                                  "max_model_len=96", "max_num_batched_tokens=24",
                                  how[k].mode,        NULL};
        rp_engine *e = engine_must("synthetic:tiny,dtype=bf16", settings);
        rp_request_options o = plain_request(TOKENS);
        uint64_t id[N];
        bool counted;
        const uint64_t before = read_early(&counted);
        o.prompt_ids = prompt;
        o.n_prompt_ids = PROMPT;
        o.logprobs = true;
        for (int i = 0; i < N; i++) {
            if (i == 2) o.n_prompt_ids = PROMPT - 30; /* the others are the same, and go on alone */
            o.max_tokens = i == 2 ? 2 : TOKENS;
            id[i] = must_submit(e, &o);
        }
        must_run(e, -1);
        for (int i = 0; i < N; i++) {
            const rp_result got = must_result(e, id[i]);
            const size_t size = got.n_output_ids * sizeof *got.logprobs;
            assert_int_equal(got.n_output_ids, i == 2 ? 2 : TOKENS);
            if (!k) memcpy(want[i], got.logprobs, size);
            if (memcmp(got.logprobs, want[i], size)) fail_msg("%s: request %d", how[k].mode, i);
        }
        const uint64_t n = read_early(&counted) - before;
        if (counted && (n > 0) != how[k].early)
            fail_msg("%s: %llu were read early", how[k].mode, (unsigned long long)n);
        rp_engine_close(e);
    }
}

/* Bytes that a step of three requests copies, the second of them as o has it, in each of four steps behind the prompts. */
static void copied_a_step(rp_engine *e, const rp_request_options *o, uint64_t out[4]) {
    const rp_request_options plain = plain_request(8);
    uint64_t id[3] = {must_submit(e, &plain), must_submit(e, o), must_submit(e, &plain)};
    must_run(e, 1);
    for (int i = 0; i < 4; i++) {
        uint64_t before = hal_device_counters(e->device)->copied_bytes;
        must_run(e, 1);
        out[i] = hal_device_counters(e->device)->copied_bytes - before;
    }
    must_run(e, -1);
    for (int i = 0; i < 3; i++) rp_engine_release(e, id[i]);
}

/* No row of logits where all are greedy or drawn within the step, and else that of the request that wants log probabilities. */
static void logits_stay_on_the_device_unless_asked_for(void **state) {
    const char *how[] = {"device=cuda:0", "max_num_seqs=4", "max_model_len=32", NULL};
    (void)state;
    NEEDS_GPU();
    rp_engine *e = engine_must("synthetic:tiny", how);
    const uint64_t row = model_source_hparams(e->source)->n_vocab * sizeof(float);
    rp_request_options greedy = plain_request(8), drawn = greedy, explained = greedy;
    uint64_t without[4], with[4];
    drawn.sampling.temperature = 0.8;
    explained.logprobs = true;
    copied_a_step(e, &greedy, without);
    for (int i = 0; i < 4; i++) assert_true(without[i] < row);
    copied_a_step(e, &drawn, with);
    assert_memory_equal(with, without, sizeof with);
    copied_a_step(e, &explained, with);
    for (int i = 0; i < 4; i++) assert_in_range(with[i], row, without[i] + row);
    assert_true(engine_number(e, "host_us") > 0); /* counted in such steps, too */
    rp_engine_close(e);
}

/* --- what a step asks of the driver ------------------------------------------------- */

static struct {
    uint32_t launches, graphs, copies, records, waits;
    cuda_driver real;
} asked;

/* clang-format off */
static int count_copy(uint64_t to, uint64_t from, size_t n, void *s) { asked.copies++; return asked.real.copy(to, from, n, s); }
static int count_copy_2d(const cuda_copy_2d *c, void *s) { asked.copies++; return asked.real.copy_2d(c, s); }
static int count_record(void *e, void *s) { asked.records++; return asked.real.event_record(e, s); }
static int count_wait(void *e) { asked.waits++; return asked.real.event_synchronize(e); }
static int count_sync(void *s) { asked.waits++; return asked.real.stream_synchronize(s); }
static int count_graph(void *x, void *s) { asked.graphs++; return asked.real.graph_launch(x, s); }
static int count_launch(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **p, void **x) {
    asked.launches++;
    return asked.real.launch(f, gx, gy, gz, bx, by, bz, shared, s, p, x);
}
/* clang-format on */

static void count_calls(rp_engine *e) {
    cuda_driver *cu = &((cuda_device *)e->device)->cu;
    asked.real = *cu;
    cu->copy = count_copy;
    cu->copy_2d = count_copy_2d;
    cu->event_record = count_record;
    cu->event_synchronize = count_wait;
    cu->stream_synchronize = count_sync;
    cu->graph_launch = count_graph;
    cu->launch = count_launch;
}

/* The KV cache takes no more memory from here on. */
static void give_all_blocks(rp_engine *e) {
    rp_error err = {0};
    CHECK_OK(engine_runner_grow_kv(e->runner, engine_runner_get_blocks(e->runner).most, &err),
             &err);
}

/* A decode step with a graph is one launch, one event and one wait: inputs and results are read and written where the host has them, block
 * tables as they grow included. */
static void a_step_is_one_launch(void **state) {
    static const char *const async[] = {"async_scheduling=false", "async_scheduling=true"};
    (void)state;
    NEEDS_GPU();
    for (int i = 0; i < 2; i++) {
        enum { STEPS = 24 };
        rp_engine *e =
            engine_must("synthetic:tiny", (const char *[]){"device=cuda:0", "max_num_seqs=4",
                                                           "max_model_len=64", async[i], NULL});
        const rp_request_options r = plain_request(48);
        for (int k = 0; k < 3; k++) (void)must_submit(e, &r);
        must_run(e, 3);
        give_all_blocks(e);
        count_calls(e);
        memset(&asked, 0, offsetof(__typeof__(asked), real));
        must_run(e, STEPS);
        assert_int_equal(asked.graphs, STEPS);
        assert_int_equal(asked.launches, 0);
        assert_int_equal(asked.copies, 0);
        assert_int_equal(asked.records, STEPS);
        assert_int_equal(asked.waits, STEPS);
        must_run(e, -1);
        rp_engine_close(e);
    }
}

/* What the prefill of a prompt asks of the driver; graphs are made at the start, so their number says what a start makes, too. */
static void check_prefill(const char *mode, const char *more, uint32_t graphs, uint32_t launches) {
    const rp_request_options r = plain_request(2);
    rp_engine *e =
        engine_must("synthetic:tiny",
                    (const char *[]){"device=cuda:0", "max_num_seqs=2", "max_model_len=64",
                                     "sealed=fatal", "async_scheduling=false", mode, more, NULL});
    (void)must_submit(e, &r);
    give_all_blocks(e);
    count_calls(e);
    memset(&asked, 0, offsetof(__typeof__(asked), real));
    must_run(e, 1);
    assert_int_equal(asked.graphs, graphs);
    assert_int_equal(asked.launches, launches);
    must_run(e, -1);
    rp_engine_close(e);
}

/* Pieces and attention are one graph where the mode has whole graphs, too; a graph of the head is behind it, and what delivers the results. Whoever
 * wants pieces gets them, with inputs and attention of two layers launched beside them. */
static void pieces_of_a_prefill_are_one_graph(void **state) {
    (void)state;
    NEEDS_GPU();
    check_prefill("cudagraph_mode=FULL_AND_PIECEWISE", NULL, 2, 1);
    check_prefill("cudagraph_mode=PIECEWISE", NULL, 3, 4);
    check_prefill("cudagraph_mode=FULL_AND_PIECEWISE", "cudagraph_copy_inputs=true", 3, 4);
    check_prefill("cudagraph_mode=FULL", NULL, 1, 0);
}

static void a_warm_start_needs_no_compiler(void **state) {
    const char *how[] = {"device=cuda:0", "max_num_seqs=4", NULL};
    const char *nvrtc = getenv("REPRISE_NVRTC");
    char absent[256];
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    rp_engine_close(engine_must("synthetic:tiny", how));
    (void)snprintf(absent, sizeof absent, "%s/libnvrtc.so", tree_new("nothing"));
    (void)setenv("REPRISE_NVRTC", absent, 1);
    rp_engine *e = engine_must("synthetic:tiny", how);
    assert_int_equal(engine_count(e, "compiles"), 0);
    assert_int_equal(engine_count(e, "traces"), 0);
    assert_memory_equal(engine_text(e, "isa"), "sm_", 3);
    rp_engine_close(e);
    /* what is not in the cache wants one */
    assert_null(engine_with("synthetic:tiny,layers=3", how, &err));
    assert_int_equal(nvrtc ? setenv("REPRISE_NVRTC", nvrtc, 1) : unsetenv("REPRISE_NVRTC"), 0);
    assert_int_equal(err.code, RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, absent));
    assert_non_null(strstr(err.text, " is no libnvrtc that can be loaded"));
}

static void another_gpu_is_refused(void **state) {
    const char *how[] = {"device=cuda:7", NULL};
    rp_error err = {0};
    (void)state;
    NEEDS_EMULATED("the number");
    assert_null(engine_with("synthetic:tiny", how, &err));
    assert_int_equal(err.code, RP_UNSUPPORTED);
    assert_string_equal(err.text, "no cuda:7 here; there is cuda:0 alone");
}

static void the_cache_grows_in_place(void **state) {
    static const kv_growth g = {"synthetic:tiny", "device=cpu", 6, 4, 40, 48},
                           long_ones = {"synthetic:tiny", "device=cpu", 3, 120, 3, 128};
    (void)state;
    NEEDS_EMULATED("the memory");
    kv_growth_check(&g);
    kv_growth_check_at_once(&long_ones);
    assert_int_equal(setenv("EMU_MEMORY", "67108864", 1), 0);
    kv_growth_check_full(&g);
    (void)unsetenv("EMU_MEMORY");
}

/* KV blocks that there may be, with that share of a GPU of 256 MB; bytes of one, and of the GPU beside all that is taken. */
static uint32_t blocks_with(const char *share, size_t *block, uint64_t *there) {
    hal_device_info info;
    rp_engine *e = engine_must("synthetic:tiny",
                               (const char *[]){"device=cuda:0", "max_num_seqs=256", share,
                                                "max_model_len=1024", "max_num_batched_tokens=256",
                                                "cudagraph_mode=NONE", NULL});
    uint32_t n = engine_kv_n_usable(e->kv) + 1;
    e->device->ops->info(e->device, &info);
    *there = e->device->ops->available(e->device);
    *block = engine_kv_least_bytes(e) / engine_budget_blocks(engine_kv_lengths(e));
    assert_int_equal(info.memory, 256 << 20);
    assert_int_equal(engine_runner_get_blocks(e->runner).now, 1024 / 16 + 2);
    rp_engine_close(e);
    return n;
}

static void the_cache_may_take_a_share(void **state) {
    size_t block = 0;
    uint64_t there = 0;
    (void)state;
    NEEDS_EMULATED("the memory");
    assert_int_equal(setenv("EMU_MEMORY", "268435456", 1), 0);
    uint32_t some = blocks_with("gpu_memory_utilization=0.15", &block, &there);
    double own = 0.15 * (256 << 20) - (double)((256 << 20) - there);
    assert_int_equal(some, 66 + (uint32_t)(own / (double)block));
    uint32_t most = blocks_with("gpu_memory_utilization=1", &block, &there);
    assert_int_equal(most, 256 * 65 + 1 < 66 + there / block ? 256 * 65 + 1 : 66 + there / block);
    assert_true(66 < some && some < most);
    assert_int_equal(blocks_with("gpu_memory_utilization=0", &block, &there), 66);
    (void)unsetenv("EMU_MEMORY");
}

/* The emulated clock says a millisecond between any two events: each launch of a step takes that, unless it is one without work, and the
 * kernel that reads the weights. It is compiled once, measuring is allowed in a sealed engine, and answers stay what they were. */
static void launches_are_timed_by_the_clock_of_the_gpu(void **state) {
    const char *how[] = {"device=cuda:0", "sealed=fatal", "max_model_len=64", NULL};
    rp_profile_options o = RP_PROFILE_OPTIONS_INIT;
    int32_t want[4], got[4];
    rp_error err = {0};
    char *text = NULL;
    json_t *l;
    size_t k;
    (void)state;
    NEEDS_EMULATED("the clock");
    rp_engine *e = engine_must("synthetic:tiny,layers=4", how);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 4, want), 4);
    o.steps = 3;
    o.context = 8;
    o.read_limit = o.timeline = true;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rp_engine_profile(e, &o, &text, &err), &err);
        json_t *j = json_loads(text, 0, NULL);
        double launched = 0;
        json_array_foreach(json_object_get(j, "timeline"), k, l) {
            const double ms = json_number_value(json_object_get(l, "ms"));
            assert_true(ms == 1 || ms == 0);
            launched += ms;
        }
        assert_true(launched > (double)k / 2 && launched < (double)k);
        assert_true(json_number_value(json_object_get(j, "launches_ms")) == launched);
        size_t size = 0;
        (void)engine_weights_packed(e->weights, &size);
        const double limit = json_number_value(json_object_get(j, "read_limit_gb_s"));
        assert_true(fabs(limit - (double)(size / 65536 * 65536) / 1e6) < 1e-9);
        json_decref(j);
        rp_engine_text_free(text);
    }
    assert_int_equal(hal_device_counters(e->device)->late_module_loads, 0);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 4, got), 4);
    assert_memory_equal(got, want, sizeof got);
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_modes_give_the_tokens_of_the_cpu),
        cmocka_unit_test(formats_give_the_bits_of_the_cpu),
        cmocka_unit_test(tensor_cores_give_one_answer),
        cmocka_unit_test(long_prompts_give_the_bits_of_the_cpu),
        cmocka_unit_test(a_crowd_gives_the_tokens_of_the_cpu),
        cmocka_unit_test(copied_inputs_reach_the_pieces),
        cmocka_unit_test(sizes_of_their_own_give_the_bits_of_all),
        cmocka_unit_test(a_range_has_no_code_for_others),
        cmocka_unit_test(steps_of_one_token_alone_read_early),
        cmocka_unit_test(logits_stay_on_the_device_unless_asked_for),
        cmocka_unit_test(a_step_is_one_launch),
        cmocka_unit_test(pieces_of_a_prefill_are_one_graph),
        cmocka_unit_test(a_warm_start_needs_no_compiler),
        cmocka_unit_test(another_gpu_is_refused),
        cmocka_unit_test(the_cache_grows_in_place),
        cmocka_unit_test(the_cache_may_take_a_share),
        cmocka_unit_test(launches_are_timed_by_the_clock_of_the_gpu),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("engine_cuda", tests, NULL, NULL);
}
