/* What an engine promises of its steps on a GPU, by the kernels that it has unless somebody asks for others: few launches, one answer whatever is beside a request, no graph that is made while it serves, and all memory back when it closes. On a real GPU more of each. */
#include "support/check.h"

#include "engine/engine.h"
#include "hal/cuda/device.h"
#include "support/engines.h"
#include "support/gpu.h"
#include "support/invariance.h"
#include "support/kv_growth.h"

static const char *why_not;
static bool real;

#define NEEDS_GPU() \
    if (why_not) SKIP_TEST("%s", why_not)

/* --- launches of a decode step ------------------------------------------------------------ */

static struct {
    uint32_t nodes;
    int (*add)(void **out, void *graph, void *const *from, const cuda_edge *edges, size_t n,
               cuda_node *node);
} added;

static int count_node(void **out, void *graph, void *const *from, const cuda_edge *edges, size_t n,
                      cuda_node *node) {
    added.nodes++;
    return added.add(out, graph, from, edges, n, node);
}

/* Nodes that the driver is given for the graph of a decode step of one sequence, which replaces all else that the step asks for. */
static uint32_t nodes_of_step(const char *model, uint32_t layers) {
    char name[96];
    (void)snprintf(name, sizeof name, "%s,layers=%u", model, layers);
    rp_engine *e = engine_must(
        name, (const char *[]){"device=cuda:0", "max_num_seqs=1", "max_model_len=64",
                               "max_num_batched_tokens=8", "sealed=off", "async_scheduling=false",
                               "cudagraph_num_of_warmups=0", NULL});
    const rp_request_options r = plain_request(8);
    const hal_counters *c = hal_device_counters(e->device);
    cuda_driver *cu = &((cuda_device *)e->device)->cu;
    (void)must_submit(e, &r);
    must_run(e, 2);
    engine_runner_forget(e->runner);
    added.add = cu->graph_add;
    added.nodes = 0;
    cu->graph_add = count_node;
    const uint64_t builds = c->graph_builds;
    must_run(e, 1);
    assert_int_equal(c->graph_builds, builds + 1);
    cu->graph_add = added.add;
    const uint64_t replays = c->graph_launches, launches = c->launches;
    const uint32_t nodes = added.nodes;
    must_run(e, 1);
    assert_int_equal(c->graph_launches, replays + 1);
    assert_int_equal(c->launches, launches);
    assert_int_equal(added.nodes, nodes);
    rp_engine_close(e);
    return nodes;
}

/* Of two layers more, half of which a layer takes; one layer and what is outside of all of them say the same. */
static uint32_t launches_a_layer(const char *model, uint32_t *outside) {
    const uint32_t one = nodes_of_step(model, 1), two = nodes_of_step(model, 2),
                   four = nodes_of_step(model, 4);
    assert_true(one < two && four - two == 2 * (two - one));
    *outside = one - (two - one);
    printf("%s: %u launches a layer and %u outside\n", model, two - one, *outside);
    return two - one;
}

static void a_layer_is_five_launches(void **state) {
    static const char *const bf16[] = {"synthetic:tiny-32", "synthetic:tiny-64",
                                       "synthetic:smollm2-135m,dtype=bf16", "synthetic:llama-1b"};
    /* Of what is made of a model's graph and not for its layer, for whoever reads the log. */
    static const char *const others[] = {"synthetic:tiny", "synthetic:smollm2-135m"};
    uint32_t outside = 0;
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < (real ? 4 : 1); i++) {
        assert_in_range(launches_a_layer(bf16[i], &outside), 1, 5);
        /* Its inputs, the head, the largest logit, the results. */
        assert_in_range(outside, 1, 5);
    }
    for (size_t i = 0; i < (real ? 2 : 1); i++) (void)launches_a_layer(others[i], &outside);
}

/* --- who is beside a request --------------------------------------------------------------- */

static void nobody_beside_a_request_changes_it(void **state) {
    static const uint32_t batches[] = {2, 3, 8, 17, 64}, chunks[] = {1, 7, 32};
    static const char *const models[] = {
        "synthetic:tiny-32", "synthetic:tiny", "synthetic:smollm2-135m,layers=4,dtype=bf16",
        "synthetic:smollm2-135m,layers=4", "synthetic:llama-1b,layers=2"};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < (real ? 5 : 1); i++)
        invariance_check(models[i], real ? 64 : 17, real ? 8 : 2, batches, real ? 5 : 4, chunks, 3);
    if (real && getenv("REPRISE_TEST_MODEL"))
        invariance_check(getenv("REPRISE_TEST_MODEL"), 64, 8, batches, 5, chunks, 3);
}

/* --- blocks that come while it serves -------------------------------------------------------- */

static void blocks_come_under_kernels_of_decode_steps(void **state) {
    static const kv_growth small = {"synthetic:tiny-32", NULL, 6, 20, 20, 48},
                           large = {"synthetic:smollm2-135m,layers=4,dtype=bf16",
                                    NULL,
                                    48,
                                    200,
                                    200,
                                    1024};
    (void)state;
    NEEDS_GPU();
    kv_growth_check(real ? &large : &small);
}

/* --- steps of any composition ------------------------------------------------------------------ */

typedef struct storm {
    rp_engine *e;
    uint32_t seed, most; /* of prompts */
    uint64_t id[64];     /* 0: free */
} storm;

static uint32_t next(storm *s, uint32_t below) {
    s->seed = s->seed * 1664525u + 1013904223u;
    return (s->seed >> 8) % below;
}

static void begin_request(storm *s, uint64_t *id) {
    int32_t prompt[64];
    rp_request_options r = plain_request(1 + next(s, 9));
    r.n_prompt_ids = 1 + next(s, s->most);
    for (uint32_t k = 0; k < r.n_prompt_ids; k++) prompt[k] = (int32_t)next(s, 250);
    r.prompt_ids = prompt;
    *id = must_submit(s->e, &r);
}

static void reap(storm *s) {
    rp_result r = RP_RESULT_INIT;
    rp_error err = {0};
    for (size_t i = 0; i < sizeof s->id / sizeof *s->id; i++)
        if (s->id[i] && rp_engine_result(s->e, s->id[i], &r, &err) == RP_OK && r.finish_reason[0]) {
            rp_engine_release(s->e, s->id[i]);
            s->id[i] = 0;
        }
}

/* Some requests come before each of so many steps, of any length, if not all that there are end first. */
static void storm_run(storm *s, uint32_t steps) {
    s->seed = 7;
    for (uint32_t i = 0; i < steps; i++) {
        if (next(s, 8) == 0) must_run(s->e, -1);
        reap(s);
        for (uint32_t n = next(s, 4) ? next(s, 3) : next(s, 17), k = 0; k < 64 && n; k++)
            if (!s->id[k]) begin_request(s, &s->id[k]), n--;
        must_run(s->e, 1);
    }
    must_run(s->e, -1);
    reap(s);
}

/* Graphs of the ladder of a sealed engine, which makes none of them after its start, are as many as an engine makes that finds none, and that only once. */
static void check_storm(const char *model, const char *mode, uint32_t steps) {
    const char *batched = real ? "max_num_batched_tokens=128" : "max_num_batched_tokens=16",
               *seqs = real ? "max_num_seqs=32" : "max_num_seqs=4";
    const char *how[] = {"device=cuda:0",
                         mode,
                         seqs,
                         batched,
                         "max_model_len=64",
                         "sealed=fatal",
                         "cudagraph_num_of_warmups=0",
                         NULL};
    storm s = {.most = real ? 50 : 20};
    s.e = engine_must(model, how);
    const hal_counters *c = hal_device_counters(s.e->device);
    const uint64_t ladder = s.e->capture.graphs;
    assert_int_equal(c->graph_builds, ladder);
    assert_true(ladder > 0);
    storm_run(&s, steps);
    assert_int_equal(c->graph_builds, ladder);
    assert_int_equal(engine_count(s.e, "late_captures"), 0);
    rp_engine_close(s.e);

    how[5] = "sealed=off";
    s.e = engine_must(model, how);
    c = hal_device_counters(s.e->device);
    engine_runner_forget(s.e->runner);
    const uint64_t begun = c->graph_builds;
    storm_run(&s, steps);
    const uint64_t made = c->graph_builds - begun;
    assert_in_range(made, 1, ladder);
    storm_run(&s, steps);
    assert_int_equal(c->graph_builds - begun, made);
    printf("%s %s: %u steps twice, %u graphs of the %u of the ladder\n", model, mode, steps,
           (unsigned)made, (unsigned)ladder);
    rp_engine_close(s.e);
}

static void steps_of_any_size_make_no_graph(void **state) {
    (void)state;
    NEEDS_GPU();
    check_storm("synthetic:tiny-32,layers=1", "cudagraph_mode=FULL_AND_PIECEWISE",
                real ? 10000 : 40);
    if (!real) return;
    check_storm("synthetic:tiny-32,layers=1", "cudagraph_mode=FULL", 10000);
    check_storm("synthetic:tiny,layers=1", "cudagraph_mode=PIECEWISE", 10000);
    check_storm("synthetic:tiny", "cudagraph_mode=FULL_AND_PIECEWISE", 10000);
}

/* --- memory ---------------------------------------------------------------------------------------- */

static size_t left_of(const cuda_device *d) {
    size_t left = 0, all = 0;
    assert_int_equal(d->cu.context_set(d->gpu.context), 0);
    assert_int_equal(d->cu.memory_info(&left, &all), 0);
    return left;
}

/* Serves, with blocks that come meanwhile, and closes. */
static void use_engine(const char *model) {
    const rp_request_options r = plain_request(30);
    rp_engine *e =
        engine_must(model, (const char *[]){"device=cuda:0", "max_num_seqs=4", "max_model_len=64",
                                            "max_num_batched_tokens=16", NULL});
    const uint32_t before = engine_runner_get_blocks(e->runner).now;
    for (int i = 0; i < 4; i++) (void)must_submit(e, &r);
    must_run(e, -1);
    assert_true(engine_runner_get_blocks(e->runner).now > before);
    rp_engine_close(e);
}

/* Somebody has the device open all the time, so that its context stays. What a first engine leaves with the driver, on a real GPU, which keeps code and stacks of kernels for the
 * next, no later one adds to. */
static void a_closed_engine_has_given_all_back(void **state) {
    enum { GRANULARITY = 2 << 20 };
    static const char *const models[] = {"synthetic:tiny-32", "synthetic:tiny",
                                         "synthetic:smollm2-135m,dtype=bf16",
                                         "synthetic:llama-1b,layers=4"};
    hal_device *d = NULL;
    rp_error err = {0};
    (void)state;
    NEEDS_GPU();
    CHECK_OK(hal_open("cuda:0", 1, &d, &err), &err);
    const size_t before = left_of((cuda_device *)d);
    size_t least = before;
    for (size_t i = 0; i < (real ? 4 : 2); i++)
        for (int round = 0; round < (real ? 4 : 2); round++) {
            use_engine(models[i]);
            const size_t left = left_of((cuda_device *)d);
            if (!real) assert_int_equal(left, before);
            if (round == 0) {
                printf("%s: %zd bytes less than before any engine\n", models[i],
                       (ssize_t)before - (ssize_t)left);
                least = left;
            }
            if (left + GRANULARITY < least)
                fail_msg("%s, round %d: %zu bytes are left, %zu after the round before", models[i],
                         round, left, least);
        }
    hal_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_five_launches),
        cmocka_unit_test(nobody_beside_a_request_changes_it),
        cmocka_unit_test(blocks_come_under_kernels_of_decode_steps),
        cmocka_unit_test(steps_of_any_size_make_no_graph),
        cmocka_unit_test(a_closed_engine_has_given_all_back),
    };
    real = getenv("REPRISE_TEST_GPU") != NULL;
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("engine_promises", tests, NULL, NULL);
}
