/* Random graphs with effects: a graph of random_graph_new whose values take ways through memory.
 *
 * A value is written to a state, an input, an empty or a cache, whole, in two parts, row by row or by a custom op, and later nodes
 * read it there, at random. Memory is used again while old versions are still read, so that reads must move or be copied; the
 * first outputs stay what they were. */
#ifndef SUPPORT_RANDOM_EFFECTS_H
#define SUPPORT_RANDOM_EFFECTS_H

#include "ir/graph.h"

/* At most this many states. */
enum { RANDOM_EFFECTS_STATES = 6 };

/* Registers the custom op "random::store" at the first call. The outputs of `pure` come first, then up to four reads of
 * versions. bodies: loops and branches write, too. */
rp_status random_effects_new(const ir_graph *pure, uint64_t seed, bool bodies, ir_graph **out,
                             rp_error *err) RP_MUST_USE;

#endif
