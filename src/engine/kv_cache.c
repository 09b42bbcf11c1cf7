/* How many KV blocks an engine has: those with which it opens, as many as there may ever be, and more of them while it runs. */
#include "base/log.h"
#include "engine/budget.h"
#include "engine/engine.h"
#include "model/llama.h"

engine_lengths engine_kv_lengths(const rp_engine *e) {
    return (engine_lengths){(uint64_t)e->config->max_num_seqs.v, e->max_model_len};
}

/* Of a block, in all layers. */
static uint64_t block_bytes(const rp_engine *e) {
    const model_hparams *hp = model_source_hparams(e->source);
    const uint64_t row = (uint64_t)hp->n_head_kv * hp->head_dim;
    return 2 * hp->n_layer * row * MODEL_KV_BLOCK * rp_dtype_block_bytes(engine_kv_dtype(e));
}

uint64_t engine_kv_least_bytes(const rp_engine *e) {
    return engine_budget_blocks(engine_kv_lengths(e)) * block_bytes(e);
}

void engine_kv_size(const rp_engine *e, engine_runner_options *r) {
    const engine_lengths l = engine_kv_lengths(e);
    hal_device_info info;
    e->device->ops->info(e->device, &info);
    r->n_blocks = (uint32_t)(info.memory ? engine_budget_first(l) : engine_budget_blocks(l));
    if (info.memory) r->most_blocks = (uint32_t)engine_budget_most(l, info.memory, block_bytes(e));
}

/* Half as many more where there is room: a device waits when it takes memory. */
static uint32_t grow(void *user, uint32_t n) {
    rp_engine *e = user;
    const engine_runner_blocks b = engine_runner_get_blocks(e->runner);
    const uint32_t most = engine_kv_n_usable(e->kv) + 1;
    uint32_t roomy = b.now + b.now / 2;
    rp_error why = {0};
    if (roomy > most) roomy = most;
    if (roomy < n) roomy = n;
    rp_status st = engine_runner_grow_kv(e->runner, roomy, &why);
    if (st != RP_OK && roomy > n) st = engine_runner_grow_kv(e->runner, roomy = n, &why);
    if (st == RP_OK) {
        base_log(RP_LOG_DEBUG, "the KV cache has %u blocks, %u before", roomy, b.now);
        return roomy;
    }
    base_log(RP_LOG_WARNING,
             "the KV cache stays at %u blocks: %s; requests take turns from now on, lower "
             "gpu_memory_utilization",
             b.now, why.text);
    if (config_note_add(e->config, why.text, NULL, "KV cache of more than %u blocks", b.now) !=
        RP_OK)
        base_log(RP_LOG_WARNING, "no memory to note it");
    return b.now;
}

/* Less than what sequences of these lengths are promised elsewhere. */
static rp_status note_few(rp_engine *e, uint64_t blocks, rp_error *err) {
    if (blocks >= engine_budget_blocks(engine_kv_lengths(e))) return RP_OK;
    return config_note_add(e->config,
                           "what is taken of the device's memory leaves the KV cache little: "
                           "requests take turns",
                           err, "gpu_memory_utilization=%g: %llu blocks of the KV cache",
                           e->config->gpu_memory_utilization, (unsigned long long)blocks);
}

rp_status engine_kv_open_cache(rp_engine *e, rp_error *err) {
    const engine_runner_blocks b = engine_runner_get_blocks(e->runner);
    engine_kv_options k = {.n_blocks = b.now,
                           .max_seqs = (uint32_t)e->config->max_num_seqs.v,
                           .max_blocks = engine_runner_max_blocks(e->runner)};
    if (b.most > b.now) {
        uint64_t left = engine_budget_left(e->device, e->config->gpu_memory_utilization);
        uint64_t n = b.now + left / block_bytes(e);
        k.n_blocks = n < b.most ? (uint32_t)n : b.most;
        k.n_ready = b.now;
        k.grow = grow;
        k.user = e;
        RP_TRY(note_few(e, k.n_blocks, err));
    }
    return engine_kv_new(&k, &e->kv, err);
}
