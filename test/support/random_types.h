/* Random graphs of every op of the table in every type that it takes, over several symbols, one of which may be 0: what the
 * generators of test/support leave out. An op is tried with what comes; where its shape rule refuses, another one is. So
 * what a later version takes is drawn, too.
 *
 * Ops that jump (comparisons, casts, floor) see only values that are the same in every implementation ("exact"), among them NaN,
 * infinities and -0 now and then; values stay below about 100. */
#ifndef TEST_RANDOM_TYPES_H
#define TEST_RANDOM_TYPES_H

#include "ir/graph.h"

/* The same seed gives the same graph, of n_steps tries. */
rp_status random_types_new(uint64_t seed, uint32_t n_steps, ir_graph **out, rp_error *err);

#endif
