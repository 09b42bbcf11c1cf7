/* Log probabilities of the tokens that a request wrote and of those it could have written. One thread at a time. */
#ifndef ENGINE_LOGPROBS_H
#define ENGINE_LOGPROBS_H

#include "engine/sampler.h"

typedef struct engine_logprobs {
    double *chosen;   /* [max] */
    int32_t *top_ids; /* [max, k], likeliest first */
    double *top;      /* [max, k] */
    uint32_t max, k;  /* max 0: not wanted */
    int32_t *ids;     /* of one token, [1 + k]: itself, then the likeliest */
    float *logits;
    double *values;
} engine_logprobs;

/* Room for max tokens with k alternatives each, so that a step allocates nothing. Zeros before; done after a failure,
 * too. RP_NOMEM. */
rp_status engine_logprobs_init(engine_logprobs *l, uint32_t max, uint32_t k,
                               rp_error *err) RP_MUST_USE;
void engine_logprobs_done(engine_logprobs *l);
/* The at-th output token is `token`, chosen from these logits. */
void engine_logprobs_put(engine_logprobs *l, engine_sampler *s, const float *logits, uint32_t at,
                         int32_t token);

#endif
