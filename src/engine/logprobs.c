/* Log probabilities of what was sampled, from the logits as the model gave them: temperature and the rest do not enter,
 * so they are those of teacher forcing (score.c), bit for bit. */
#include "engine/logprobs.h"

#include <assert.h>

#include "base/alloc.h"

rp_status engine_logprobs_init(engine_logprobs *l, uint32_t max, uint32_t k, rp_error *err) {
    size_t n = (size_t)max * k; /* both are 32 bits */
    *l = (engine_logprobs){.max = max, .k = k};
    l->chosen = base_alloc_array(max, sizeof *l->chosen);
    l->top_ids = base_alloc_array(n, sizeof *l->top_ids);
    l->top = base_alloc_array(n, sizeof *l->top);
    l->ids = base_alloc_array(1u + k, sizeof *l->ids);
    l->logits = base_alloc_array(1u + k, sizeof *l->logits);
    l->values = base_alloc_array(1u + k, sizeof *l->values);
    if (l->chosen && l->top_ids && l->top && l->ids && l->logits && l->values) return RP_OK;
    return rp_fail(err, RP_NOMEM, "log probabilities of %u tokens with %u alternatives each", max,
                   k);
}

void engine_logprobs_done(engine_logprobs *l) {
    base_free(l->chosen);
    base_free(l->top_ids);
    base_free(l->top);
    base_free(l->ids);
    base_free(l->logits);
    base_free(l->values);
    *l = (engine_logprobs){0};
}

void engine_logprobs_put(engine_logprobs *l, engine_sampler *s, const float *logits, uint32_t at,
                         int32_t token) {
    size_t row = (size_t)at * l->k;
    assert(at < l->max);
    l->ids[0] = token;
    uint32_t k = engine_sampler_top(s, logits, l->k, l->ids + 1, l->logits);
    assert(k == l->k);
    engine_sampler_logprobs(s, logits, l->ids, 1 + k, l->values);
    l->chosen[at] = l->values[0];
    for (uint32_t i = 0; i < k; i++) {
        l->top_ids[row + i] = l->ids[1 + i];
        l->top[row + i] = l->values[1 + i];
    }
}
