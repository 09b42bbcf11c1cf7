/* Why plans are made although the model has some: told when it is known whether code is compiled for them. One thread. */
#ifndef ENGINE_RECOMPILE_H
#define ENGINE_RECOMPILE_H

#include "engine/plans.h"

typedef struct engine_recompile {
    const engine_plans_options *o;
    engine_plans *out; /* counts it */
    base_buf why; /* the nearest plan's line, then the others'; empty: nothing to tell, or told */
} engine_recompile;

/* Compares what is stored with k. It is asked for the summary's count, too. */
void engine_recompile_find(engine_recompile *r, const cache_key *k);
/* Once; compiles: code, not traces alone. */
void engine_recompile_tell(engine_recompile *r, bool compiles);
/* The options of r, which tell it when the first code is compiled. Valid as long as r. */
engine_plans_options engine_recompile_options(engine_recompile *r);
/* Channels of what was not done say that. */
void engine_recompile_log_none(void);

#endif
