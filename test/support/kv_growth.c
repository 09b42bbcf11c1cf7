#include "support/kv_growth.h"

#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "engine/runner_memory.h"
#include "support/engines.h"
#include "support/kv_bytes.h"

enum { MOST_PROMPT = 512 };

static rp_engine *open_with(const kv_growth *g, const char *device, uint32_t seqs,
                            const char *batched) {
    char at_once[32], len[32];
    (void)snprintf(at_once, sizeof at_once, "max_num_seqs=%u", seqs);
    (void)snprintf(len, sizeof len, "max_model_len=%u", g->max_model_len);
    return engine_must(
        g->model,
        (const char *[]){device, at_once, len, batched,
                         g->reference ? "batch_invariant=true" : "batch_invariant=false", NULL});
}

static rp_engine *open_engine(const kv_growth *g, const char *device, uint32_t seqs) {
    return open_with(g, device, seqs, "max_num_batched_tokens=256");
}

static uint64_t submit(const kv_growth *g, rp_engine *e, uint32_t i) {
    int32_t prompt[MOST_PROMPT];
    rp_request_options r = plain_request(g->tokens);
    assert_true(g->prompt <= MOST_PROMPT);
    for (uint32_t k = 0; k < g->prompt; k++) prompt[k] = (int32_t)((i * 37 + k * 11) % 250);
    r.prompt_ids = prompt;
    r.n_prompt_ids = g->prompt;
    return must_submit(e, &r);
}

static int32_t *ids_of(const kv_growth *g, rp_engine *e, const uint64_t *id) {
    int32_t *ids = base_alloc_array(g->requests * g->tokens, sizeof *ids);
    assert_non_null(ids);
    for (uint32_t i = 0; i < g->requests; i++) {
        rp_result r = must_result(e, id[i]);
        assert_int_equal(r.n_output_ids, g->tokens);
        memcpy(ids + i * g->tokens, r.output_ids, g->tokens * sizeof *ids);
    }
    return ids;
}

static int32_t *expected(const kv_growth *g) {
    uint64_t *id = base_alloc_array(g->requests, sizeof *id);
    rp_engine *e = open_engine(g, g->reference, 1);
    assert_non_null(id);
    for (uint32_t i = 0; i < g->requests; i++) id[i] = submit(g, e, i);
    must_run(e, -1);
    int32_t *ids = ids_of(g, e, id);
    rp_engine_close(e);
    base_free(id);
    return ids;
}

static uint64_t builds(const rp_engine *e) {
    return hal_device_counters(e->device)->graph_builds;
}

/* Runs all, one more with every step, since one step takes blocks for all that it lets in. Gives what they chose, *times: how often blocks came. */
static int32_t *run_all(const kv_growth *g, rp_engine *e, uint32_t *times) {
    uint64_t *id = base_alloc_array(g->requests, sizeof *id), before = builds(e);
    uint32_t grown = 0, blocks = engine_runner_get_blocks(e->runner).now;
    bool more = true;
    rp_error err = {0};
    assert_non_null(id);
    for (uint32_t i = 0; more || i < g->requests; i++) {
        if (i < g->requests) id[i] = submit(g, e, i);
        CHECK_OK(rp_engine_step(e, &more, &err), &err);
        CHECK_OK(engine_kv_check(e->kv, &err), &err);
        uint32_t now = engine_runner_get_blocks(e->runner).now;
        assert_true(now >= blocks);
        grown += now > blocks;
        blocks = now;
    }
    int32_t *ids = ids_of(g, e, id);
    assert_int_equal(builds(e), before);
    base_free(id);
    *times = grown;
    return ids;
}

static uint32_t run(const kv_growth *g, rp_engine *e, const int32_t *want) {
    uint32_t grown = 0;
    int32_t *ids = run_all(g, e, &grown);
    assert_memory_equal(ids, want, g->requests * g->tokens * sizeof *ids);
    base_free(ids);
    return grown;
}

/* By an engine whose blocks are all there from the start. */
static int32_t *without_growth(const kv_growth *g) {
    rp_engine *e = open_engine(g, "device=cuda:0", g->requests);
    uint32_t grown = 0;
    kv_bytes_take_all(e);
    int32_t *ids = run_all(g, e, &grown);
    assert_int_equal(grown, 0);
    rp_engine_close(e);
    return ids;
}

void kv_growth_check(const kv_growth *g) {
    int32_t *want = g->reference ? expected(g) : without_growth(g);
    rp_engine *e = open_engine(g, "device=cuda:0", g->requests);
    assert_true(run(g, e, want) >= 3);
    if (!g->reference) assert_true(engine_count(e, "decode_kernels.steps") > 0);
    engine_sched_stats stats;
    engine_sched_get_stats(e->sched, &stats);
    assert_int_equal(stats.preemptions, 0);
    rp_engine_close(e);
    base_free(want);
}

/* A prompt that asks for more than half as many blocks as there are has them in that step, and others come later. */
void kv_growth_check_at_once(const kv_growth *g) {
    int32_t *want = expected(g);
    uint64_t *id = base_alloc_array(g->requests, sizeof *id);
    char at_once[40];
    (void)snprintf(at_once, sizeof at_once, "max_num_batched_tokens=%u", g->requests * g->prompt);
    rp_engine *e = open_with(g, "device=cuda:0", g->requests, at_once);
    const uint32_t before = engine_runner_get_blocks(e->runner).now;
    rp_error err = {0};
    engine_sched_stats stats;
    bool more = true;
    assert_non_null(id);
    for (uint32_t i = 0; i < g->requests; i++) id[i] = submit(g, e, i);
    CHECK_OK(rp_engine_step(e, &more, &err), &err);
    assert_true(engine_runner_get_blocks(e->runner).now > before + before / 2);
    /* Who looks at the context sees all of it. */
    const rp_kv_cache_tensor *kv = &e->runner->context.kv_cache_data[0];
    assert_int_equal(kv->size, e->runner->kv.block * engine_runner_get_blocks(e->runner).now);
    must_run(e, -1);
    engine_sched_get_stats(e->sched, &stats);
    assert_int_equal(stats.preemptions, 0);
    int32_t *ids = ids_of(g, e, id);
    assert_memory_equal(ids, want, g->requests * g->tokens * sizeof *ids);
    rp_engine_close(e);
    base_free(ids);
    base_free(id);
    base_free(want);
}

/* Takes what the device has left, but `rest`. */
static void *take_rest(hal_device *d, uint64_t rest, size_t *size) {
    void *p = NULL;
    rp_error err = {0};
    *size = (size_t)(d->ops->available(d) - rest);
    CHECK_OK(d->ops->alloc(d, HAL_DEVICE_MEMORY, *size, &p, &err), &err);
    return p;
}

void kv_growth_check_full(const kv_growth *g) {
    const rp_config_note *notes;
    int32_t *want = expected(g);
    rp_engine *e = open_engine(g, "device=cuda:0", g->requests);
    const uint32_t least = engine_runner_get_blocks(e->runner).now;
    size_t taken = 0, n_noted = 0;
    void *p = take_rest(e->device, 4096, &taken);
    (void)run(g, e, want);
    size_t n = rp_config_notes(e->config, &notes);
    for (size_t i = 0; i < n; i++)
        n_noted += strstr(notes[i].what, "KV cache of more than") != NULL;
    assert_int_equal(n_noted, 1);
    assert_true(engine_runner_get_blocks(e->runner).now < 3 * least);
    e->device->ops->release(e->device, p, taken);
    rp_engine_close(e);
    base_free(want);
}
