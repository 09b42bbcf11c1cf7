/* Inside of the interpreter: its state, shared by eval.c, eval_pure.c and eval_effect.c. */
#ifndef IR_EVAL_NODE_H
#define IR_EVAL_NODE_H

#include "ir/eval.h"

/* value[r]: what node r holds. Leaves, effects and what they write may share one. */
typedef struct eval_state {
    const ir_graph *g;
    const int64_t *symbols;
    ir_value **value;
    ir_value *own; /* per node: storage of values that the interpreter made */
    rp_error *err;
} eval_state;

/* Sets up own[r] with the node's concrete shape and zeroed elements, and value[r]. */
rp_status ir_eval_alloc(eval_state *s, ir_ref r) RP_MUST_USE;
/* Each computes node r of its kinds from its operands' values. */
rp_status ir_eval_pure(eval_state *s, ir_ref r) RP_MUST_USE;
rp_status ir_eval_effect(eval_state *s, ir_ref r) RP_MUST_USE;

#endif
