/* Shape rules: what each reads and writes, and what several of them ask. Two sizes fit when they are known to be equal; sizes that may
 * differ do not fit, and the message says which. */
#ifndef IR_RULE_H
#define IR_RULE_H

#include "ir/node.h"

typedef struct ir_rule {
    const ir_graph *g;
    ir_dims *dims;
    const ir_node *n;
    const char *op;
    const ir_node *a, *b, *c; /* operands; an empty node beyond n_in */
    rp_dtype dtype;           /* of the first result, as shape */
    ir_shape shape;
    ir_type more[IR_MAX_RESULTS]; /* results behind the first */
    uint32_t n_more;
    rp_error *err;
} ir_rule;

ir_rule ir_rule_of(const ir_graph *g, const ir_node *n, rp_error *err);

/* Operand i as text, for messages. */
#define IR_TYPE(r, i) ir_type_of((r)->g, (r)->n->in[i]).s

bool ir_dtype_is_index(rp_dtype t); /* i32, i64 */

/* RP_INVALID with the types of the operands where they are not what is asked for (shape_want.c). */
rp_status ir_same_type(const ir_rule *r, uint32_t i, uint32_t j) RP_MUST_USE;
rp_status ir_want_float(const ir_rule *r, uint32_t i) RP_MUST_USE; /* f32, f16, bf16 */
rp_status ir_want_real(const ir_rule *r, uint32_t i) RP_MUST_USE;  /* those and f64 */
rp_status ir_want_number(const ir_rule *r, uint32_t i) RP_MUST_USE;
rp_status ir_want_int(const ir_rule *r, uint32_t i) RP_MUST_USE;
rp_status ir_want_word(const ir_rule *r, uint32_t i) RP_MUST_USE; /* i32, i64 */
rp_status ir_want_bits(const ir_rule *r,
                       uint32_t i) RP_MUST_USE; /* booleans, or bits of integers */
rp_status ir_want_bool(const ir_rule *r, uint32_t i) RP_MUST_USE;
rp_status ir_want_plain(const ir_rule *r, uint32_t i) RP_MUST_USE; /* of no block format */

/* Broadcasts s over *into, which becomes the result; false when they do not fit. */
bool ir_broadcast_into(const ir_rule *r, ir_shape *into, const ir_shape *s);
/* Says that operands i and j do not. */
rp_status ir_no_broadcast(const ir_rule *r, uint32_t i, uint32_t j);

/* The attribute `shape`. */
void ir_rule_shape(const ir_rule *r, ir_shape *s);

/* Rules of the kinds; they set dtype, shape and more. */
rp_status ir_infer_view(ir_rule *r) RP_MUST_USE;   /* shape_view.c */
rp_status ir_infer_reduce(ir_rule *r) RP_MUST_USE; /* shape_axis.c, as the next three */
rp_status ir_infer_scan(ir_rule *r) RP_MUST_USE;
rp_status ir_infer_scatter(ir_rule *r) RP_MUST_USE;
rp_status ir_infer_move(ir_rule *r) RP_MUST_USE;
rp_status ir_infer_effect(ir_rule *r) RP_MUST_USE; /* shape_effect.c; also `written` */
rp_status ir_infer_graphs(ir_rule *r) RP_MUST_USE; /* shape_graph.c */

#endif
