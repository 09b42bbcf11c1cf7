/* custom_ops in a model. */
#ifndef ENGINE_OPS_H
#define ENGINE_OPS_H

#include "config/config.h"

/* Its names: of registered ops, which are kept or lowered where passes put them (compile/skips.c), and of what a model itself is made of.
 * RP_UNSUPPORTED for a kernel of its own that the latter does not have; a name of nothing is warned of. */
rp_status engine_ops_check(rp_compilation_config *c, rp_error *err) RP_MUST_USE;

#endif
