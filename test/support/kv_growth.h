/* A KV cache of a GPU that grows while requests run. */
#ifndef SUPPORT_KV_GROWTH_H
#define SUPPORT_KV_GROWTH_H

#include <stdint.h>

typedef struct kv_growth {
    /* reference: the device of an engine that runs them one by one, with batch_invariant; NULL: the tokens are those of an engine that takes all blocks before the first
     * request, by the kernels that decode steps have unless somebody wants others */
    const char *model, *reference;
    uint32_t requests, prompt, tokens, max_model_len;
} kv_growth;

/* Tokens are those of the reference; blocks come at least three times, and no graph is made meanwhile. */
void kv_growth_check(const kv_growth *g);
/* Requests whose prompts come in one step, of which each has more than half of the blocks of the longest sequence. */
void kv_growth_check_at_once(const kv_growth *g);
/* The same where other memory is gone when more is wanted: requests take turns, which is noted. */
void kv_growth_check_full(const kv_growth *g);

#endif
