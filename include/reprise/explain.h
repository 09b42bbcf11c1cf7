/* What compiling makes of a graph, for tools that show it.
 *
 * The stages of compiling, but for the compiler of the host or the GPU, run once more, and what they know is told: pieces, kernels with the nodes
 * that they compute and where these were made, bytes, sources, fusions that were refused and why, what is assumed of the arguments, which bits are random, what the host sees, and the memory that values share. */
#ifndef REPRISE_EXPLAIN_H
#define REPRISE_EXPLAIN_H

#include "reprise/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An object of JSON, whose fields are in docs/explain.md; owned by the caller (rp_free). config (borrowed, resolved here; NULL: level 2) says what
 * would be compiled, sizes ("T=4,R=2", may be NULL; as in rp_graph_eval_text) at which sizes bytes are counted. Nothing is compiled, run or stored, and a GPU is not
 * needed to explain what would be made for one. Thread-safe. */
RP_API rp_status rp_graph_explain(const rp_graph *g, rp_compilation_config *config,
                                  const char *sizes, char **out, rp_error *err) RP_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
