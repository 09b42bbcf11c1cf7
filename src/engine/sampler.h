/* From logits to tokens. One thread at a time per sampler; no allocation after new. */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include "engine/scheduler.h"

typedef struct engine_sampler engine_sampler;

rp_status engine_sampler_new(uint32_t vocab_size, engine_sampler **out, rp_error *err) RP_MUST_USE;
void engine_sampler_free(engine_sampler *s); /* NULL is fine */

/* Chooses from logits[vocab_size]. Greedy: the first of the largest. Else, in vLLM's order:
 * temperature, min_p, top_k, top_p, and one draw that depends on p->seed and step alone (step: output
 * tokens so far). RP_INTERNAL names a logit that is NaN or infinite (-inf is allowed: never chosen). */
rp_status engine_sampler_pick(engine_sampler *s, const engine_sampling *p, const float *logits,
                              uint64_t step, int32_t *out_token, rp_error *err) RP_MUST_USE;
/* The number in [0, 1), of 53 bits, that decides the draw of that step. */
double engine_sampler_uniform(uint64_t seed, uint64_t step);
/* What keeps a row from being sampled whose largest logit is that of id: RP_INTERNAL. */
rp_status engine_sampler_blame(const engine_sampler *s, float best, int32_t id, rp_error *err);
/* The k largest, ties by lower id; k is cut to the vocabulary. Returns how many. */
uint32_t engine_sampler_top(engine_sampler *s, const float *logits, uint32_t k, int32_t *out_ids,
                            float *out_logits);
/* Log probabilities of n tokens under unmodified logits; NaN where bad logits have none. */
void engine_sampler_logprobs(const engine_sampler *s, const float *logits, const int32_t *tokens,
                             uint32_t n, double *out);
/* The same of one token. */
double engine_sampler_logprob(const engine_sampler *s, const float *logits, int32_t token);

#endif
