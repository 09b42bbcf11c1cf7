/* Sizes that the inputs of a graph tell a call: a dimension of one symbol, times and plus numbers, gives its value. */
#ifndef IR_TOLD_H
#define IR_TOLD_H

#include "ir/graph.h"

/* Whether a dimension d of the table t tells this symbol. */
bool ir_dim_tells(const ir_dims *t, ir_dim d, uint32_t symbol);
/* The first symbol that anything which g gives or writes depends on, or any of its nodes where it is not finished, and that no input tells; UINT32_MAX: none. */
rp_status ir_find_untold(const ir_graph *g, uint32_t *out, rp_error *err) RP_MUST_USE;

#endif
