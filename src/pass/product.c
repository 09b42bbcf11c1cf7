/* Facts about products, read off the graph. */
#include "pass/product.h"

static bool is_transpose(const ir_node *n) {
    const ir_attr *a = ir_attr_get(n, IR_ATTR_AXES);
    return n->op == IR_permute && a && a->n == 2 && a->u.ints[0] == 1 && a->u.ints[1] == 0;
}

bool pass_product_weights(const ir_graph *g, ir_ref r, pass_weights *out) {
    const ir_node *n = ir_node_at(g, r);
    pass_weights w = {.param = n->in[1], .by_k = !ir_attr_int(n, IR_ATTR_TRANS_B, 0)};
    while (is_transpose(ir_node_at(g, w.param))) {
        w.param = ir_node_at(g, w.param)->in[0];
        w.by_k = !w.by_k;
    }
    if (ir_node_at(g, w.param)->op == IR_dequant) w.param = ir_node_at(g, w.param)->in[0];
    const ir_node *p = ir_node_at(g, w.param);
    if (p->op != IR_param || p->shape.rank != 2) return false;
    w.dtype = p->dtype;
    if (!ir_dim_is_const(ir_graph_dims(g), p->shape.dim[w.by_k ? 1 : 0], &w.n) ||
        !ir_dim_is_const(ir_graph_dims(g), p->shape.dim[w.by_k ? 0 : 1], &w.k) || w.n < 1 ||
        w.k < 1)
        return false;
    if (rp_dtype_is_quant(w.dtype) ? w.by_k || w.k % 32 || w.dtype == RP_DTYPE_I16B32
                                   : !rp_dtype_is_float(w.dtype))
        return false;
    *out = w;
    return true;
}

bool pass_is_packed_matmul(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    pass_weights w;
    if (n->op != IR_matmul || !pass_product_weights(g, r, &w) || !rp_dtype_is_quant(w.dtype))
        return false;
    const ir_node *a = ir_node_at(g, n->in[0]);
    if (a->op != IR_dequant) return false;
    a = ir_node_at(g, a->in[0]);
    return a->dtype == RP_DTYPE_I16B32 && ir_op_table(a->op)->kind != IR_KIND_VIEW;
}

bool pass_products_join(const ir_graph *g, ir_ref a, ir_ref b) {
    pass_weights x, y;
    return pass_product_weights(g, a, &x) && pass_product_weights(g, b, &y) && x.dtype == y.dtype;
}
