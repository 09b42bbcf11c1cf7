/* What shape rules ask of their operands. */
#include "ir/rule.h"

ir_rule ir_rule_of(const ir_graph *g, const ir_node *n, rp_error *err) {
    static const ir_node none; /* so that rules may look at what is not there */
    ir_rule r = {
        .g = g, .dims = ir_graph_dims(g), .n = n, .op = ir_op_table(n->op)->name, .err = err};
    r.a = n->n_in > 0 ? ir_node_at(g, n->in[0]) : &none;
    r.b = n->n_in > 1 ? ir_node_at(g, n->in[1]) : &none;
    r.c = n->n_in > 2 ? ir_node_at(g, n->in[2]) : &none;
    return r;
}

bool ir_dtype_is_index(rp_dtype t) {
    return t == RP_DTYPE_I32 || t == RP_DTYPE_I64;
}

static bool is_one(const ir_rule *r, ir_dim d) {
    return ir_dim_eq(r->dims, d, ir_dim_const(r->dims, 1)) == IR_TRUE;
}

bool ir_broadcast_into(const ir_rule *r, ir_shape *into, const ir_shape *s) {
    ir_shape out = *into;
    if (s->rank > out.rank) {
        uint32_t d = s->rank - out.rank;
        for (uint32_t i = out.rank; i-- > 0;) out.dim[i + d] = out.dim[i];
        for (uint32_t i = 0; i < d; i++) out.dim[i] = s->dim[i];
        out.rank = s->rank;
    }
    uint32_t shared = s->rank < into->rank ? s->rank : into->rank;
    for (uint32_t i = 1; i <= shared; i++) {
        ir_dim x = into->dim[into->rank - i], y = s->dim[s->rank - i];
        bool one = ir_dim_is(r->dims, x, 1);
        if (!one && !ir_dim_is(r->dims, y, 1) && !ir_dim_same(r->dims, x, y)) {
            one = is_one(r, x); /* the call may have it so */
            if (!one && !is_one(r, y)) return false;
        }
        out.dim[out.rank - i] = one ? y : x;
    }
    *into = out;
    return true;
}

rp_status ir_no_broadcast(const ir_rule *r, uint32_t i, uint32_t j) {
    return rp_fail(r->err, RP_INVALID,
                   "%s: %s and %s do not broadcast; axes counted from the last must be known to be "
                   "equal, or 1",
                   r->op, IR_TYPE(r, i), IR_TYPE(r, j));
}

rp_status ir_same_type(const ir_rule *r, uint32_t i, uint32_t j) {
    if (ir_node_at(r->g, r->n->in[i])->dtype == ir_node_at(r->g, r->n->in[j])->dtype) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: element types of %s and %s differ; cast one", r->op,
                   IR_TYPE(r, i), IR_TYPE(r, j));
}

rp_status ir_want_float(const ir_rule *r, uint32_t i) {
    if (rp_dtype_is_float(ir_node_at(r->g, r->n->in[i])->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: wants f32, f16 or bf16, not %s; cast it", r->op,
                   IR_TYPE(r, i));
}

rp_status ir_want_real(const ir_rule *r, uint32_t i) {
    rp_dtype t = ir_node_at(r->g, r->n->in[i])->dtype;
    if (t == RP_DTYPE_F64 || rp_dtype_is_float(t)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: wants f32, f16, bf16 or f64, not %s; cast it", r->op,
                   IR_TYPE(r, i));
}

rp_status ir_want_number(const ir_rule *r, uint32_t i) {
    rp_dtype t = ir_node_at(r->g, r->n->in[i])->dtype;
    if (t == RP_DTYPE_F64 || rp_dtype_is_float(t) || ir_dtype_is_integer(t)) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "%s: wants f32, f16, bf16, f64 or an integer, not %s; cast it", r->op,
                   IR_TYPE(r, i));
}

rp_status ir_want_int(const ir_rule *r, uint32_t i) {
    if (ir_dtype_is_integer(ir_node_at(r->g, r->n->in[i])->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: wants integers, not %s; cast it", r->op, IR_TYPE(r, i));
}

rp_status ir_want_word(const ir_rule *r, uint32_t i) {
    if (ir_dtype_is_index(ir_node_at(r->g, r->n->in[i])->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: wants i32 or i64, not %s; cast it", r->op,
                   IR_TYPE(r, i));
}

rp_status ir_want_bits(const ir_rule *r, uint32_t i) {
    rp_dtype t = ir_node_at(r->g, r->n->in[i])->dtype;
    if (t == RP_DTYPE_BOOL || ir_dtype_is_integer(t)) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "%s: operand %u must be bool or an integer, not %s; compare or cast it", r->op,
                   i, IR_TYPE(r, i));
}

rp_status ir_want_bool(const ir_rule *r, uint32_t i) {
    if (ir_node_at(r->g, r->n->in[i])->dtype == RP_DTYPE_BOOL) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: operand %u must be bool, not %s; compare it", r->op, i,
                   IR_TYPE(r, i));
}

rp_status ir_want_plain(const ir_rule *r, uint32_t i) {
    if (!rp_dtype_is_quant(ir_node_at(r->g, r->n->in[i])->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: not for %s; dequant it", r->op, IR_TYPE(r, i));
}

void ir_rule_shape(const ir_rule *r, ir_shape *s) {
    const ir_attr *a = ir_attr_get(r->n, IR_ATTR_SHAPE);
    s->rank = a->n;
    for (uint32_t i = 0; i < a->n; i++) s->dim[i] = a->u.dims[i];
}
