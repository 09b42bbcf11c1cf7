/* Resolving a configuration against a model. */
#ifndef ENGINE_FACTS_H
#define ENGINE_FACTS_H

#include "base/str.h"
#include "config/config.h"
#include "model/weights.h"

/* rp_config_resolve with what the model says. */
rp_status engine_config_resolve(rp_compilation_config *cfg, const model_source *source,
                                rp_error *err) RP_MUST_USE;
/* The ops of the model at which a resolved configuration splits it, each once and by its own name, as ["reprise::attention"]:
 * equal for lists that differ in order, aliases or ops that the model lacks. */
rp_status engine_config_splits(const rp_compilation_config *cfg, base_buf *out,
                               rp_error *err) RP_MUST_USE;

#endif
