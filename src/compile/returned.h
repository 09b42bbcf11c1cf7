/* Outputs that no kernel writes: leaves, and values that are returned twice. */
#ifndef COMPILE_RETURNED_H
#define COMPILE_RETURNED_H

#include "plan/plan.h"

/* Appends a launch to the last piece that copies `from` to output i. p has room for it: a launch, a function, a
 * record and a symbol map. */
rp_status compile_return_copy(plan *p, plan_arg from, uint32_t i, rp_error *err) RP_MUST_USE;

#endif
