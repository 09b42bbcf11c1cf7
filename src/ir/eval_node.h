/* Inside of the interpreter: its state, shared by eval.c, eval_pure.c and eval_effect.c. */
#ifndef IR_EVAL_NODE_H
#define IR_EVAL_NODE_H

#include "ir/eval.h"

/* value[r]: what node r holds; last[r]: the last node that needs it, or IR_NONE. Every version of memory is a value; the last
 * user of one that writes it takes its storage. */
typedef struct eval_state {
    const ir_graph *g;
    const int64_t *symbols;
    ir_value **value;
    const ir_ref *last;
    ir_value *own;   /* per node: storage of values that the interpreter made */
    ir_value **more; /* per node: its results behind the first, until `result` takes them */
    ir_value *after; /* per version that a call overwrites: what it left */
    const ir_eval_watch *watch; /* or NULL */
    rp_error *err;
} eval_state;

/* Sets up own[r] with the node's concrete shape and zeroed elements, and value[r]; and more[r]. */
rp_status ir_eval_alloc(eval_state *s, ir_ref r) RP_MUST_USE;
/* Each computes node r of its kinds from its operands' values. */
rp_status ir_eval_pure(eval_state *s, ir_ref r) RP_MUST_USE;
rp_status ir_eval_effect(eval_state *s, ir_ref r) RP_MUST_USE;
/* Of kinds SCAN and SCATTER, into own[r] and more[r]. */
rp_status ir_eval_scan(eval_state *s, ir_ref r) RP_MUST_USE;
void ir_eval_scatter(eval_state *s, ir_ref r);
/* call, cond, while, scan (eval_graph.c). */
rp_status ir_eval_graphs(eval_state *s, ir_ref r) RP_MUST_USE;
/* The version that a call made. */
rp_status ir_eval_written(eval_state *s, ir_ref r) RP_MUST_USE;

#endif
