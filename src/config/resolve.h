/* Steps of resolving that live in different files. Called in the order of rp_config_resolve. */
#ifndef CONFIG_RESOLVE_H
#define CONFIG_RESOLVE_H

#include "config/config.h"

/* check.c: what cannot be, whatever the model is. */
rp_status config_check(rp_compilation_config *cfg, rp_error *err) RP_MUST_USE;
/* custom_ops.c: entries that are none, or contradict each other. */
rp_status config_check_custom_ops(const rp_compilation_config *cfg, rp_error *err) RP_MUST_USE;
/* limits.c: batch limits, capture ladder, compile sizes and ranges. */
rp_status config_resolve_limits(rp_compilation_config *cfg, const rp_model_facts *facts,
                                rp_error *err) RP_MUST_USE;

/* A note that is also logged: as a warning when the user had given the setting. */
rp_status config_overrule(rp_compilation_config *cfg, bool typed, const char *reason, rp_error *err,
                          const char *what, ...) RP_PRINTF(5, 6) RP_MUST_USE;

#endif
