/* Parts of a graph as graphs of their own, for a search that makes one smaller. */
#ifndef API_PART_H
#define API_PART_H

#include "ir/graph.h"

/* What computes the roots, where the value of a node that is cut is an input. The arrays are the caller's. */
typedef struct api_part {
    const ir_graph *g;
    bool *cut; /* by ref */
    ir_ref *roots;
    uint32_t n_roots;
} api_part;

/* A value of the graph, which may be an input in place of it. */
bool api_part_can_cut(const ir_graph *g, ir_ref r);
/* A value that is computed, and may be an output. */
bool api_part_can_return(const ir_graph *g, ir_ref r);
/* needed[r]: node r is computed. */
void api_part_needed(const api_part *p, bool *needed);
/* Inputs that stand for nodes are called v0, v1 .. by ref of g. Symbols whose sizes no input of the part tells are numbers then: those of
 * `sizes`, by symbol of g. Roots that write are effects of *out, the others its outputs, in their order. from (base_free): by ref of *out,
 * what it is in g. */
rp_status api_part_build(const api_part *p, const int64_t *sizes, ir_graph **out, ir_ref **from,
                         rp_error *err) RP_MUST_USE;

/* All of g, of whose sizes some no input tells (api_check_sizes): they are numbers, by the text `sizes` of rp_graph_eval_text. A piece of a model
 * has such ones, and so has the model. */
rp_status api_part_fixed(const ir_graph *g, const char *sizes, ir_graph **out,
                         rp_error *err) RP_MUST_USE;

#endif
