/* Row-wise access, op by op. Conservative: what is not known to keep the row does not. */
#include "pass/rows.h"

#define NO_DIMS UINT32_MAX

static pass_rows rows_of_shape(const ir_graph *g, const ir_shape *s) {
    ir_dims *t = ir_graph_dims(g);
    pass_rows r = {0};
    ir_dim all = ir_dim_const(t, 1);
    for (uint32_t i = 0; i < s->rank && all != IR_DIM_BAD; i++) {
        all = ir_dim_mul(t, all, s->dim[i]);
        if (all != IR_DIM_BAD && (r.n == 0 || r.at[r.n - 1] != all)) r.at[r.n++] = all;
    }
    if (s->rank == 0) r.at[r.n++] = all;
    return r;
}

/* The parts of a concat and the blocks of a quantize stay in one row; blocks that are moved are by the first dim. */
pass_rows pass_rows_of(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    ir_shape s = n->shape;
    /* The rows that are written, not those of the memory. */
    if (n->op == IR_kv_store || n->op == IR_update) {
        s = ir_node_at(g, n->in[1])->shape;
        if (s.rank > 1) s.rank = 1;
        return rows_of_shape(g, &s);
    }
    if (n->op == IR_concat) s.rank = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    if (n->op == IR_quantize && s.rank > 0)
        s.rank--;
    else if (rp_dtype_is_quant(n->dtype))
        s.rank = 1;
    if (s.rank == 0 && n->shape.rank > 0 && n->op == IR_concat) s.rank = 1;
    return rows_of_shape(g, &s);
}

uint32_t pass_outer_dims(const ir_graph *g, const ir_shape *s, ir_dim rows) {
    ir_dims *t = ir_graph_dims(g);
    ir_dim all = ir_dim_const(t, 1);
    for (uint32_t i = 0; i < s->rank && all != IR_DIM_BAD; i++) {
        all = ir_dim_mul(t, all, s->dim[i]);
        if (all == rows) return i + 1;
    }
    return s->rank == 0 && all == rows ? 0 : NO_DIMS;
}

static bool same_dims(const ir_shape *a, const ir_shape *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

/* numpy broadcasting: the first dims of n are those of x, but for ones that x does not have. */
static bool aligned(const ir_graph *g, const ir_node *n, const ir_node *x, uint32_t outer) {
    uint32_t missing = n->shape.rank - x->shape.rank;
    int64_t v;
    for (uint32_t i = 0; i < outer; i++) {
        if (i >= missing ? x->shape.dim[i - missing] != n->shape.dim[i]
                         : !ir_dim_is_const(ir_graph_dims(g), n->shape.dim[i], &v) || v != 1)
            return false;
    }
    return true;
}

static bool keeps_axes(const ir_node *n, uint32_t outer) {
    const ir_attr *a = ir_attr_get(n, IR_ATTR_AXES);
    for (uint32_t i = 0; i < outer; i++)
        if (!a || i >= a->n || a->u.ints[i] != i) return false;
    return true;
}

bool pass_keeps_row(const ir_graph *g, ir_ref r, uint32_t operand, ir_dim rows) {
    const ir_node *n = ir_node_at(g, r), *x = ir_node_at(g, n->in[operand]);
    /* An effect writes rows of other numbers than its own. */
    if (x->memory != IR_NONE && ir_op_table(x->op)->kind == IR_KIND_EFFECT) return false;
    if (n->op == IR_kv_store || n->op == IR_update)
        return (operand == 1 || (operand == 2 && n->op == IR_kv_store)) && x->shape.rank &&
               x->shape.dim[0] == rows;
    uint32_t outer = pass_outer_dims(g, &n->shape, rows),
             x_outer = pass_outer_dims(g, &x->shape, rows);
    if (outer == NO_DIMS || x_outer == NO_DIMS) return false;
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
    switch (n->op) {
    case IR_reshape: return true;
    case IR_permute: return keeps_axes(n, outer);
    case IR_slice:
    case IR_concat:
    case IR_sum:
    case IR_prod:
    case IR_amax:
    case IR_amin:
    case IR_argmax: return axis >= (int64_t)x_outer && same_dims(&n->shape, &x->shape, x_outer);
    case IR_gather: return operand == 1 && outer <= x->shape.rank;
    case IR_matmul:
        return n->shape.rank == x->shape.rank && outer + 1 + operand <= n->shape.rank &&
               same_dims(&n->shape, &x->shape, outer);
    case IR_quantize:
    case IR_dequant: return outer < n->shape.rank;
    case IR_pack_i4:
    case IR_unpack_i4: return outer < n->shape.rank && outer == x_outer;
    default:
        return (n->op == IR_broadcast || ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE) &&
               aligned(g, n, x, outer);
    }
}
