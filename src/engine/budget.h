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
    uint64_t tokens; /* max_num_batched_tokens */
    size_t kv, kv_there,
        weights; /* bytes of the least KV cache, of what is there of it, of weights (to come) */
} engine_asks;

/* KV blocks, with the null block: room for one sequence of any length and for some more. */
uint64_t engine_budget_blocks(engine_lengths l);
/* Of those that a device with memory of its own begins with, for it can take more later: one sequence of any length. */
uint64_t engine_budget_first(engine_lengths l);
/* All that the sequences can ever use, or that so many bytes hold, `block` bytes each. */
uint64_t engine_budget_most(engine_lengths l, uint64_t bytes, uint64_t block);
/* Bytes that d may still give to a KV cache: what `share` of its memory leaves beside all that is taken now, whoever has it. */
uint64_t engine_budget_left(hal_device *d, double share);

/* Before any memory of steps is asked for. */
engine_budget engine_budget_open(hal_device *d);
/* RP_NOMEM: one line with what asks for how much, what there is, and the setting to lower, with a value with which all of it fits. */
rp_status engine_budget_judge(const engine_budget *b, const engine_asks *a,
                              rp_error *err) RP_MUST_USE;

#endif
