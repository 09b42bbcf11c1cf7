/* Row-wise access: does reading operand i of a node at row t stay within row t? */
#ifndef PASS_ROWS_H
#define PASS_ROWS_H

#include "ir/graph.h"

/* Size of dim 0 of a node's own iteration; constant 1 for rank 0. */
ir_dim pass_rows_of(const ir_graph *g, ir_ref r);
bool pass_keeps_row(const ir_graph *g, ir_ref r, uint32_t operand);

#endif
