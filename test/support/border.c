#include "support/border.h"

#include <math.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "engine/draw.h"
#include "engine/sampler.h"
#include "gen/best.h"
#include "support/check.h"

void border_open(border *b, const char *device) {
    rp_error err = {0};
    compile_nvrtc nvrtc = {0};
    hal_device_info info;
    CHECK_OK(hal_open(device, 1, &b->device, &err), &err);
    b->device->ops->info(b->device, &info);
    if (!info.unified) {
        CHECK_OK(cache_store_open(NULL, &b->store, &err), &err);
        CHECK_OK(compile_nvrtc_find(info.arch, &nvrtc, &err), &err);
        b->code = plan_new("border");
        CHECK_OK(engine_exchange_compile(&nvrtc, b->store, b->code, &err), &err);
        compile_nvrtc_done(&nvrtc);
        const plan_exec_options o = {.device = b->device, .store = b->store};
        CHECK_OK(plan_exec_new(b->code, &o, &b->exec, &err), &err);
    }
    CHECK_OK(engine_exchange_open(&b->x, b->device, b->exec, &err), &err);
    b->results.device = b->device;
    b->results.x = b->in.x = &b->x;
    CHECK_OK(engine_results_open(&b->results, 1, &err), &err);
    b->in.results = &b->results;
    CHECK_OK(engine_inputs_open(&b->in, b->device, &err), &err);
}

void border_close(border *b) {
    engine_inputs_close(&b->in);
    engine_results_close(&b->results);
    engine_exchange_close(&b->x);
    plan_exec_free(b->exec);
    plan_free(b->code);
    cache_store_close(b->store);
    assert_int_equal(hal_device_counters(b->device)->live_bytes, 0);
    hal_close(b->device);
}

void border_read(border *b, void *to, const void *from, size_t size) {
    hal_device *d = b->device;
    rp_error err = {0};
    CHECK_OK(d->ops->copy(d, to, from, size, &err), &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
}

/* --- draws ------------------------------------------------------------------------- */

static double uniform(uint64_t seed, uint64_t at) {
    return (double)(base_philox_bits(seed, at) >> 11) * 0x1p-53;
}

/* As models have them, flat, with many equal ones, steep, with few that can be chosen at all, and one that holds no number. */
static void fill_row(float *x, uint32_t n, uint32_t kind, uint64_t seed) {
    for (uint32_t i = 0; i < n; i++) {
        const double u = uniform(seed, i), v = uniform(seed + 1, i);
        const double normal = sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
        x[i] = kind == 0   ? (float)(2.5 * normal)
               : kind == 1 ? 3.25f
               : kind == 2 ? floorf((float)(u * 16)) / 8
               : kind == 3 ? (float)(-40 * u * (double)((i + n / 3) % n))
               : kind == 4 ? (i % 97 == 5 ? (float)normal : -INFINITY)
               : kind == 5 ? (i % 3 ? 0.0f : -0.0f)
                           : (float)(1e30 * normal);
    }
    if (kind == 7) x[n / 2] = NAN;
    if (kind == 4) x[n / 2] = 0;
}

static engine_sampling random_sampling(uint32_t n, uint64_t seed) {
    static const double temperature[] = {0.01, 0.3, 1, 1, 5, 100},
                        top_p[] = {1, 1, 0.999, 0.95, 0.5, 1e-9},
                        min_p[] = {0, 0, 0, 0.05, 1e-4, 1e-7, 1};
    const int32_t top_k[] = {0, 0, -1, 1, 2, 40, 700, 5000, (int32_t)n, (int32_t)n + 1};
    return (engine_sampling){.temperature = temperature[base_philox_bits(seed, 1) % 6],
                             .top_p = top_p[base_philox_bits(seed, 2) % 6],
                             .min_p = min_p[base_philox_bits(seed, 3) % 7],
                             .top_k = top_k[base_philox_bits(seed, 4) % 10],
                             .seed = base_philox_bits(seed, 5)};
}

static bool is_drawn(uint32_t row) {
    return row % 5 != 3;
}

/* Runs a step whose rows have these logits and draws. */
static void run_draws(border *b, const float *logits, float *best, const int32_t *draws,
                      uint32_t n_rows) {
    const rp_dispatch d = {
        .padded = (int32_t)n_rows, .padded_reqs = 1, .padded_logits = (int32_t)n_rows};
    const engine_route route = engine_results_route(&b->results);
    hal_device *device = b->device;
    rp_error err = {0};
    b->in.draws = draws;
    CHECK_OK(engine_inputs_write(&b->in, &d, (engine_step_extent){.width = 1, .n_draws = n_rows},
                                 &route, &err),
             &err);
    CHECK_OK(engine_inputs_fetch(&b->in, &err), &err);
    CHECK_OK(
        device->ops->copy(device, b->results.logits, logits, n_rows * b->results.row_size, &err),
        &err);
    CHECK_OK(device->ops->copy(device, b->results.best, best, 2 * n_rows * sizeof *best, &err),
             &err);
    CHECK_OK(engine_results_deliver(&b->results, n_rows, &err), &err);
    CHECK_OK(engine_results_launched(&b->results, &err), &err);
    CHECK_OK(engine_results_wait(&b->results, &err), &err);
}

void border_check_draws(const char *device, uint32_t vocab, uint32_t n_rows, uint64_t seed) {
    border b = {
        .results = {.max_rows = n_rows, .row_size = vocab * sizeof(float)},
        .in.b = {.max_tokens = n_rows, .max_seqs = n_rows, .max_rows = n_rows, .max_blocks = 1}};
    float *logits = base_alloc_array(n_rows, vocab * sizeof *logits);
    float *best = base_alloc_array(n_rows, 2 * sizeof *best);
    int32_t *draws = base_alloc_array(n_rows, GEN_DRAW_WORDS * sizeof *draws);
    engine_sampler *s = NULL;
    rp_error err = {0};
    assert_true(logits && best && draws);
    CHECK_OK(engine_sampler_new(vocab, &s, &err), &err);
    border_open(&b, device);
    for (uint32_t i = 0; i < n_rows; i++) {
        const engine_sampling p = random_sampling(vocab, seed + i);
        float *x = logits + (size_t)i * vocab;
        fill_row(x, vocab, i % 8, seed + 1000 * i);
        const int32_t at = (int32_t)gen_best(x, vocab);
        best[i] = x[at];
        memcpy(&best[n_rows + i], &at, sizeof at);
        if (is_drawn(i)) engine_draw_put(&p, i, draws + (size_t)i * GEN_DRAW_WORDS);
    }
    run_draws(&b, logits, best, draws, n_rows);
    const engine_best got = engine_results_best(&b.results);
    for (uint32_t i = 0; i < n_rows; i++) {
        engine_sampling p = random_sampling(vocab, seed + i);
        int32_t want = (int32_t)gen_best(logits + (size_t)i * vocab, vocab), next;
        if (!is_drawn(i)) p.temperature = 0;
        if (i % 8 != 7)
            CHECK_OK(engine_sampler_pick(s, &p, logits + (size_t)i * vocab, i, &want, &err), &err);
        border_read(&b, &next, b.results.tokens + i, sizeof next);
        if (got.id[i] != want || next != want)
            fail_msg("row %u of %u logits, temperature %g, top_k %d, top_p %g, min_p %g: token %d "
                     "(%d for the next step), the host's is %d",
                     i, vocab, p.temperature, p.top_k, p.top_p, p.min_p, got.id[i], next, want);
    }
    border_close(&b);
    engine_sampler_free(s);
    base_free(logits);
    base_free(best);
    base_free(draws);
}
