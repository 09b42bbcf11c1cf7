/* Sizes that the inputs of a graph tell a call: a dimension of one symbol, times and plus numbers, gives its value. */
#ifndef IR_TOLD_H
#define IR_TOLD_H

#include "ir/graph.h"

/* The first symbol that anything which g gives, writes or has the host run depends on, or any of its nodes where it is not finished, and that no input tells; UINT32_MAX: none. */
rp_status ir_find_untold(const ir_graph *g, uint32_t *out, rp_error *err) RP_MUST_USE;
/* The first node that depends on the symbol, of those that matter to ir_find_untold; IR_NONE: none. */
rp_status ir_find_dependent(const ir_graph *g, uint32_t symbol, ir_ref *out,
                            rp_error *err) RP_MUST_USE;
/* The first input of `from` that would tell g the value of this symbol of g, whose table imports the sizes of `from`; IR_NONE: none does. */
ir_ref ir_find_telling(const ir_graph *from, ir_graph *g, uint32_t symbol);

#endif
