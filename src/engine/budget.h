/* Whether memory of steps and weights fit together: judged once, when the first is there and the second is about to be. One thread at a
 * time. */
#ifndef ENGINE_BUDGET_H
#define ENGINE_BUDGET_H

#include "hal/hal.h"

typedef struct engine_budget {
    hal_device *device;
    uint64_t before, live; /* bytes that it could still give, and that it had given */
} engine_budget;

/* What decides how many KV blocks there are. */
typedef struct engine_lengths {
    uint64_t seqs, len; /* max_num_seqs, max_model_len */
} engine_lengths;

typedef struct engine_asks {
    engine_lengths lengths;
    uint64_t tokens;    /* max_num_batched_tokens */
    size_t kv, weights; /* bytes of the KV cache (there), of weights (to come) */
} engine_asks;

/* KV blocks, with the null block: room for one sequence of any length and for some more. */
uint64_t engine_budget_blocks(engine_lengths l);

/* Before any memory of steps is asked for. */
engine_budget engine_budget_open(hal_device *d);
/* RP_NOMEM: one line with what asks for how much, what there is, and the setting to lower, with a value with which all of it fits. */
rp_status engine_budget_judge(const engine_budget *b, const engine_asks *a,
                              rp_error *err) RP_MUST_USE;

#endif
