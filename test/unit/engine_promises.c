/* What an engine promises of its steps on a GPU, by the kernels that it has unless somebody asks for others: few launches, one answer whatever is beside a request, and no graph that is made while it serves. On a real GPU more of each. */
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
    static const char *const others[] = {"synthetic:tiny", "synthetic:tiny,dtype=q8_0",
                                         "synthetic:smollm2-135m"};
    uint32_t outside = 0;
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < (real ? 4 : 1); i++) {
        assert_in_range(launches_a_layer(bf16[i], &outside), 1, 5);
        /* Its inputs, the head, the largest logit, the results. */
        assert_in_range(outside, 1, 5);
    }
    for (size_t i = 0; i < (real ? 3 : 1); i++) (void)launches_a_layer(others[i], &outside);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_is_five_launches),
        cmocka_unit_test(nobody_beside_a_request_changes_it),
        cmocka_unit_test(blocks_come_under_kernels_of_decode_steps),
    };
    real = getenv("REPRISE_TEST_GPU") != NULL;
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("engine_promises", tests, NULL, NULL);
}
