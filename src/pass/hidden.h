/* What a mask by position hides: parts of a value of which it is known, from iotas, constants and comparisons alone, that every
 * element is -inf, or +0. */
#ifndef PASS_HIDDEN_H
#define PASS_HIDDEN_H

#include "ir/graph.h"

/* Places of a value: lo to hi, both included, along each axis. Sizes that are symbols are theirs at most. */
typedef struct pass_box {
    int64_t lo[IR_MAX_RANK], hi[IR_MAX_RANK];
} pass_box;

/* All places. */
pass_box pass_box_of(const ir_graph *g, ir_ref r);
/* Every element of r within the box is -inf, or +0, as long as what it is computed from is finite. False where that is not known, or
 * takes long to find out. */
bool pass_is_hidden(const ir_graph *g, ir_ref r, const pass_box *b);
bool pass_is_zero(const ir_graph *g, ir_ref r, const pass_box *b);
/* exp, or pow of a constant above 1: +0 where the exponent is -inf. */
bool pass_is_power(const ir_graph *g, const ir_node *n);

#endif
