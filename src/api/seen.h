/* What of a graph is random, and what the host sees of it while it runs: the facts RANDOM, RUN_BY_HOST and READ_BY_HOST of ops.def, as
 * a compiler takes the ops that have them. */
#ifndef API_SEEN_H
#define API_SEEN_H

#include "compile/compiler.h"
#include "ir/custom.h"

/* Whether `by` compiles the source of a custom op; otherwise a function of the host runs it. */
bool api_runs_source(const rp_compiler *by, const rp_op_desc *d);
/* What the host sees of node n where `by` compiles it; NULL: nothing. */
const char *api_host_sees(const ir_node *n, const rp_compiler *by);
/* Sets given[r], of as many as g has nodes, where something that a call gives may decide the value of node r; all are false before. Another
 * one has the same value at each call. */
void api_mark_given(const ir_graph *g, bool *given);

#endif
