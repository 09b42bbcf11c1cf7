/* Resolving a configuration against a model. */
#ifndef ENGINE_FACTS_H
#define ENGINE_FACTS_H

#include "config/config.h"
#include "model/weights.h"

/* rp_config_resolve with what the model says. Entries of splitting_ops that name a built-in op other than attention need
 * its graph: *traces, which may be NULL, counts that. */
rp_status engine_config_resolve(rp_compilation_config *cfg, const model_source *source,
                                uint64_t *traces, rp_error *err) RP_MUST_USE;

#endif
