/* Resolving a configuration against a model. */
#ifndef ENGINE_FACTS_H
#define ENGINE_FACTS_H

#include "config/config.h"
#include "model/weights.h"

/* rp_config_resolve with what the model says. */
rp_status engine_config_resolve(rp_compilation_config *cfg, const model_source *source,
                                rp_error *err) RP_MUST_USE;

#endif
