/* Rows: how the elements of a value are dealt to work items.
 *
 * A row is what belongs to one index into the flattened leading dims. A value of [B,T,C] has rows by B, by B*T and by
 * B*T*C, coarse to fine; nodes of one loop agree on one number of rows, by which each of them is cut. */
#ifndef PASS_ROWS_H
#define PASS_ROWS_H

#include "ir/graph.h"

/* Numbers of rows, coarse to fine, each once. */
typedef struct pass_rows {
    uint32_t n;
    ir_dim at[IR_MAX_RANK];
} pass_rows;

/* Those that node r can iterate by; 1 for rank 0. Sizes that overflow are left out. */
pass_rows pass_rows_of(const ir_graph *g, ir_ref r);
/* Leading dims that give so many rows; UINT32_MAX when no number of them does. */
uint32_t pass_outer_dims(const ir_graph *g, const ir_shape *s, ir_dim rows);
/* Whether reading an operand at row t of `rows` stays within row t of the operand. */
bool pass_keeps_row(const ir_graph *g, ir_ref r, uint32_t operand, ir_dim rows);

#endif
