/* Random graphs of values of any rank and type over several symbols, one of which may be 0: what random_graph.h leaves out. */
#ifndef SUPPORT_RANDOM_RANKS_H
#define SUPPORT_RANDOM_RANKS_H

#include "ir/graph.h"

/* The same seed gives the same graph, of n_steps actions. Values stay small; ops that jump see only values that are the same in
 * every implementation, so that a right one stays near the interpreter. composites: of random_composites.h, too. */
rp_status random_ranks_new(uint64_t seed, uint32_t n_steps, bool composites, ir_graph **out,
                           rp_error *err) RP_MUST_USE;

#endif
