/* Outputs that no kernel writes: leaves, and values that are returned twice. */
#ifndef COMPILE_RETURNED_H
#define COMPILE_RETURNED_H

#include "plan/plan.h"

/* Appends a launch to the last piece that copies `from` to output i. function: of p, "@copy". p has room for a launch and a
 * record. */
rp_status compile_return_copy(plan *p, plan_arg from, uint32_t i, uint32_t function,
                              rp_error *err) RP_MUST_USE;

#endif
