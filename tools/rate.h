/* How fast requests are served: some at once, of equal length, through the public API. */
#ifndef TOOLS_RATE_H
#define TOOLS_RATE_H

#include "reprise/reprise.h"

enum { TOOL_MAX_LOAD = 1024 }; /* requests at once */

typedef struct tool_load {
    uint32_t n_requests, n_prompt, n_output; /* TOOL_MAX_LOAD requests at most; tokens of each */
    int32_t first_id, n_ids; /* prompts are made of ids first_id .. first_id + n_ids - 1 */
    rp_sampling sampling;    /* request i has seed i */
    bool warm_up;            /* no rate is asked for, and there may be none */
    bool (*stopped)(void);   /* (optional) asked between steps: true ends it, RP_CANCELLED */
} tool_load;

typedef struct tool_rate {
    double prefill_s; /* from the first submit until every request has a token */
    double decode_s;  /* from then until the first has all of its own: steps of all requests */
    uint64_t decoded; /* tokens of that time, of all requests */
} tool_rate;

/* Submits all, runs steps until the first ends and each has a token, and forgets the requests. EOS is ignored. RP_INVALID where no step had all of
 * them behind their prompts. */
rp_status tool_rate_measure(rp_engine *e, const tool_load *l, tool_rate *out,
                            rp_error *err) RP_MUST_USE;

#endif
