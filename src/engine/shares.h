/* How a step is dealt among prompts: the first gets its half, or what a setting allows, the others from the one with the least left on. */
#ifndef ENGINE_SHARES_H
#define ENGINE_SHARES_H

#include "engine/request.h"

/* A prompt and how many tokens of it this step takes. */
typedef struct engine_share {
    engine_request *r;
    uint32_t n;
    bool dealt;
} engine_share;

/* What of a step is not given away yet. */
typedef struct engine_purse {
    uint32_t tokens, rows;
} engine_purse;

/* v: prompts that compute, in order of arrival, with n 0. most: tokens of each; 0: no limit. shared: half of the step for the first, as much for
 * each other, and what is left once more in order. */
void engine_shares_deal(engine_share *v, uint32_t n, uint32_t most, bool shared,
                        engine_purse *left);

#endif
