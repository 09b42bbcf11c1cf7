/* Memory of the host is promised before it is there, so what steps were given is taken off what there was before. A driver says
 * what is really left, of which its own needs are gone, too. */
#include "engine/budget.h"

#include <stdio.h>

#include "model/llama.h"

/* Positions that the KV cache holds at least; more when one sequence can be longer. */
#define MIN_KV_TOKENS 16384

uint64_t engine_budget_blocks(engine_lengths l) {
    uint64_t seqs = l.seqs * l.len;
    uint64_t tokens = l.len > MIN_KV_TOKENS ? l.len : MIN_KV_TOKENS;
    if (tokens > seqs) tokens = seqs;
    /* One block more a sequence: its last block is rarely full. */
    return (tokens + MODEL_KV_BLOCK - 1) / MODEL_KV_BLOCK + l.seqs + 1;
}

uint64_t engine_budget_first(engine_lengths l) {
    return (l.len + MODEL_KV_BLOCK - 1) / MODEL_KV_BLOCK + 2;
}

uint64_t engine_budget_most(engine_lengths l, uint64_t bytes, uint64_t block) {
    enum { MOST = INT32_MAX / MODEL_KV_BLOCK }; /* slots are numbers of 32 bits */
    uint64_t each = (l.len + MODEL_KV_BLOCK - 1) / MODEL_KV_BLOCK + 1, n = l.seqs * each + 1;
    if (n > bytes / block) n = bytes / block;
    return n < MOST ? n : MOST;
}

static uint64_t available(hal_device *d) {
    return d->ops->available ? d->ops->available(d) : UINT64_MAX;
}

engine_budget engine_budget_open(hal_device *d) {
    return (engine_budget){d, available(d), hal_live_bytes(d)};
}

uint64_t engine_budget_left(hal_device *d, double share) {
    hal_device_info info;
    d->ops->info(d, &info);
    const uint64_t there = available(d), all = (uint64_t)(share * (double)info.memory);
    const uint64_t taken = info.memory > there ? info.memory - there : 0;
    return all > taken ? all - taken : 0;
}

/* --- a setting that is less ---------------------------------------------------------- */

typedef struct cure {
    const char *setting;
    uint64_t value; /* 0: none helps */
} cure;

static uint64_t kv_bytes(const engine_asks *a, engine_lengths l) {
    const uint64_t block = a->kv / engine_budget_blocks(a->lengths);
    return block * engine_budget_blocks(l);
}

/* Halves the length, or the number, of sequences until `most` bytes hold the KV cache. */
static cure lower_lengths(const engine_asks *a, bool by_seqs, uint64_t most) {
    engine_lengths l = a->lengths;
    uint64_t *v = by_seqs ? &l.seqs : &l.len;
    cure c = {by_seqs ? "max_num_seqs" : "max_model_len", 0};
    while (*v > 1 && !c.value) {
        *v /= 2;
        if (kv_bytes(a, l) <= most) c.value = *v;
    }
    return c;
}

static cure lower_tokens(const engine_asks *a, uint64_t steps, uint64_t most) {
    uint64_t v = a->tokens;
    while (v > 1 && steps / a->tokens * v > most) v /= 2;
    return (cure){"max_num_batched_tokens", steps / a->tokens * v <= most ? v : 0};
}

/* steps: bytes beside the KV cache. */
static cure find_cure(const engine_asks *a, uint64_t steps, uint64_t there) {
    const bool by_seqs = a->lengths.seqs > a->lengths.len / MODEL_KV_BLOCK;
    const uint64_t others = steps + a->weights, cache = a->kv + a->weights;
    cure c = {0};
    if (steps > a->kv && there > cache) c = lower_tokens(a, steps, there - cache);
    if (!c.value && there > others) c = lower_lengths(a, by_seqs, there - others);
    if (!c.value && there > others) c = lower_lengths(a, !by_seqs, there - others);
    if (!c.value && there > cache) c = lower_tokens(a, steps, there - cache);
    return c;
}

static void say_cure(const engine_asks *a, uint64_t there, cure c, char out[160]) {
    if (c.value)
        (void)snprintf(out, 160, "%s=%llu fits", c.setting, (unsigned long long)c.value);
    else if (a->weights >= there)
        (void)snprintf(out, 160, "the weights alone do not fit; take a smaller model");
    else
        (void)snprintf(out, 160, "lower all three, or take a smaller model");
}

rp_status engine_budget_judge(const engine_budget *b, const engine_asks *a, rp_error *err) {
    const uint64_t taken = hal_live_bytes(b->device) - b->live - a->kv_there + a->kv;
    const uint64_t after = available(b->device);
    const uint64_t had = hal_live_bytes(b->device) - b->live;
    const uint64_t with = after < UINT64_MAX - had ? after + had : UINT64_MAX;
    const uint64_t there = b->before < with ? b->before : with;
    const uint64_t steps = taken > a->kv ? taken - a->kv : 0;
    char what_to_do[160];
    if (taken <= there && a->weights <= there - taken) return RP_OK;
    say_cure(a, there, find_cure(a, steps, there), what_to_do);
    return rp_fail(err, RP_NOMEM,
                   "not enough memory on %s: KV cache %.1f MB (max_model_len=%llu, "
                   "max_num_seqs=%llu), steps %.1f MB (max_num_batched_tokens=%llu), weights %.1f "
                   "MB, of %.1f MB; %s",
                   b->device->ops->name, (double)a->kv / 1e6, (unsigned long long)a->lengths.len,
                   (unsigned long long)a->lengths.seqs, (double)steps / 1e6,
                   (unsigned long long)a->tokens, (double)a->weights / 1e6, (double)there / 1e6,
                   what_to_do);
}
