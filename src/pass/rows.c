/* Row-wise access, op by op. Conservative: what is not known to keep the row does not. */
#include "pass/rows.h"

static ir_dim dim0(const ir_graph *g, const ir_shape *s) {
    return s->rank ? s->dim[0] : ir_dim_const(ir_graph_dims(g), 1);
}

ir_dim pass_rows_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    /* The rows that are written, not those of the memory. */
    if (n->op == IR_kv_store || n->op == IR_update) return dim0(g, &ir_node_at(g, n->in[1])->shape);
    return dim0(g, &n->shape);
}

static bool same_row(const ir_node *n, const ir_node *x) {
    return x->shape.rank == n->shape.rank && x->shape.rank > 0 &&
           x->shape.dim[0] == n->shape.dim[0];
}

bool pass_keeps_row(const ir_graph *g, ir_ref r, uint32_t operand) {
    const ir_node *n = ir_node_at(g, r), *x = ir_node_at(g, n->in[operand]);
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
    /* An effect writes rows of other numbers than its own. */
    if (x->memory != IR_NONE && ir_op_table(x->op)->kind == IR_KIND_EFFECT) return false;
    switch (n->op) {
    case IR_reshape: return n->shape.rank && x->shape.rank && n->shape.dim[0] == x->shape.dim[0];
    case IR_permute: {
        const ir_attr *a = ir_attr_get(n, IR_ATTR_AXES);
        return a && a->n && a->u.ints[0] == 0;
    }
    case IR_slice:
    case IR_concat: return axis != 0;
    case IR_sum:
    case IR_prod:
    case IR_amax:
    case IR_amin:
    case IR_argmax: return axis != 0 && x->shape.rank > 1;
    case IR_cumsum:
    case IR_topk_values:
    case IR_topk_indices: return false; /* kernels of their own */
    case IR_gather: return operand == 1;
    case IR_matmul:
        return n->shape.rank == x->shape.rank && x->shape.rank > (operand == 0 ? 1u : 2u) &&
               n->shape.dim[0] == x->shape.dim[0];
    case IR_quantize:
    case IR_dequant: return x->shape.rank > 1;
    case IR_kv_store: return operand == 1 || operand == 2;
    case IR_update: return operand == 1 && x->shape.rank > 0;
    default: return same_row(n, x);
    }
}
