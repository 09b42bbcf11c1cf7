/* One prompt on a scheduler of its own: for what an engine without requests is asked beside serving. */
#ifndef ENGINE_ALONE_H
#define ENGINE_ALONE_H

#include "engine/engine.h"

typedef struct engine_alone_options {
    const char *what;   /* wants it, for errors: "scoring wants" */
    const int32_t *ids; /* n; of the engine's vocabulary, borrowed until the end */
    uint32_t n;
    uint32_t max_tokens; /* greedy ones behind it */
    uint32_t chunk;      /* tokens of a prompt in a step; 0: as many as one takes */
    bool all_logits;
} engine_alone_options;

typedef struct engine_alone {
    engine_sched *sched;
    engine_request *req;
    bool under_way;
} engine_alone;

/* RP_INVALID while requests are under way. Closed in any case. */
rp_status engine_alone_open(engine_alone *a, rp_engine *e, const engine_alone_options *o,
                            rp_error *err) RP_MUST_USE;
/* The next step, which the caller runs; the one before it is over. NULL: there is none. */
rp_status engine_alone_next(engine_alone *a, const engine_batch **out, rp_error *err) RP_MUST_USE;
void engine_alone_close(engine_alone *a); /* one of zeros is fine */

#endif
