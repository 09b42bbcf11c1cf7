/* Shape rules: dtype and shape of each op from its operands and attributes. Here is what chooses the rule, and those of elementwise ops,
 * products, block formats and leaves. */
#include <assert.h>

#include "ir/rule.h"

static rp_status want_operand(const ir_rule *r, uint32_t i) {
    switch (ir_op_operands(r->n->op)) {
    case IR_REALS: return ir_want_real(r, i);
    case IR_INTS: return ir_op_is_random(r->n->op) ? ir_want_word(r, i) : ir_want_int(r, i);
    case IR_NUMBERS: return ir_want_number(r, i);
    case IR_BITS: return ir_want_bits(r, i);
    case IR_PLAIN: return ir_want_plain(r, i);
    }
    return RP_OK;
}

/* A bool is true for any byte but 0, and blocks have no elements of their own. */
static bool has_bits(rp_dtype t) {
    return t != RP_DTYPE_BOOL && !rp_dtype_is_quant(t);
}

static rp_status bitcast_type(ir_rule *r) {
    const rp_dtype from = r->a->dtype, to = (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
    if (!has_bits(from) || !has_bits(to))
        return rp_fail(r->err, RP_INVALID, "bitcast: %s to %s; %s has no bits of its own, cast it",
                       IR_TYPE(r, 0), rp_dtype_name(to), rp_dtype_name(has_bits(from) ? to : from));
    if (rp_dtype_block_bytes(from) != rp_dtype_block_bytes(to))
        return rp_fail(r->err, RP_INVALID, "bitcast: %s to %s; elements have %zu and %zu bytes",
                       IR_TYPE(r, 0), rp_dtype_name(to), rp_dtype_block_bytes(from),
                       rp_dtype_block_bytes(to));
    r->dtype = to;
    return RP_OK;
}

static rp_status elementwise_types(ir_rule *r) {
    if (r->n->op == IR_bitcast) return bitcast_type(r);
    if (r->n->op == IR_cast) {
        r->dtype = (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
        if (rp_dtype_is_quant(r->dtype))
            return rp_fail(r->err, RP_INVALID, "cast: to %s is done by quantize",
                           rp_dtype_name(r->dtype));
        return ir_want_plain(r, 0);
    }
    if (r->n->op == IR_where) {
        r->dtype = r->b->dtype;
        RP_TRY(ir_want_bool(r, 0));
        RP_TRY(ir_want_plain(r, 1));
        return ir_same_type(r, 1, 2);
    }
    r->dtype = ir_op_compares(r->n->op) ? RP_DTYPE_BOOL : r->a->dtype;
    RP_TRY(want_operand(r, 0));
    for (uint32_t i = 1; i < r->n->n_in; i++) RP_TRY(ir_same_type(r, 0, i));
    return RP_OK;
}

static rp_status infer_elementwise(ir_rule *r) {
    RP_TRY(elementwise_types(r));
    r->shape = r->a->shape;
    if (r->n->n_in > 1 && !ir_broadcast_into(r, &r->shape, &r->b->shape))
        return ir_no_broadcast(r, 0, 1);
    if (r->n->n_in > 2 && !ir_broadcast_into(r, &r->shape, &r->c->shape))
        return ir_no_broadcast(r, 1, 2);
    return RP_OK;
}

static rp_status infer_matmul(ir_rule *r) {
    const ir_shape *a = &r->a->shape, *b = &r->b->shape;
    int64_t trans = ir_attr_int(r->n, IR_ATTR_TRANS_B, 0);
    RP_TRY(ir_want_float(r, 0));
    RP_TRY(ir_want_float(r, 1));
    if (a->rank < 2 || b->rank < 2)
        return rp_fail(r->err, RP_INVALID, "matmul: %s and %s need two axes each; reshape",
                       IR_TYPE(r, 0), IR_TYPE(r, 1));
    ir_dim k = b->dim[trans ? b->rank - 1 : b->rank - 2];
    if (!ir_dim_same(r->dims, a->dim[a->rank - 1], k))
        return rp_fail(r->err, RP_INVALID, "matmul: k of %s and %s%s differ", IR_TYPE(r, 0),
                       IR_TYPE(r, 1), trans ? " (transposed)" : "");
    ir_shape batch = *a, other = *b;
    batch.rank -= 2;
    other.rank -= 2;
    if (!ir_broadcast_into(r, &batch, &other)) return ir_no_broadcast(r, 0, 1);
    r->dtype = RP_DTYPE_F32;
    r->shape = batch;
    r->shape.dim[r->shape.rank++] = a->dim[a->rank - 2];
    r->shape.dim[r->shape.rank++] = b->dim[trans ? b->rank - 2 : b->rank - 1];
    return RP_OK;
}

static rp_status infer_quant(ir_rule *r) {
    r->shape = r->a->shape;
    if (r->n->op == IR_dequant) {
        r->dtype = RP_DTYPE_F32;
        if (rp_dtype_is_quant(r->a->dtype)) return RP_OK;
        return rp_fail(r->err, RP_INVALID, "dequant: %s is not of a block format", IR_TYPE(r, 0));
    }
    r->dtype = (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
    if (r->dtype != RP_DTYPE_I16B32)
        return rp_fail(r->err, RP_INVALID,
                       "quantize: to %s; activations are quantised to i16b32 only",
                       rp_dtype_name(r->dtype));
    if (r->a->dtype != RP_DTYPE_F32)
        return rp_fail(r->err, RP_INVALID, "quantize: wants f32, not %s; cast it", IR_TYPE(r, 0));
    return RP_OK;
}

/* An i32 must hold it, whatever the symbols are; a trace may assume that it does. */
static rp_status check_size(const ir_rule *r) {
    ir_dim d = ir_attr_get(r->n, IR_ATTR_SIZE)->u.dim;
    int64_t lo, hi;
    ir_dim_bounds(r->dims, d, &lo, &hi);
    if (r->dtype != RP_DTYPE_I32 || (lo >= INT32_MIN && hi <= INT32_MAX)) return RP_OK;
    if (lo >= INT32_MIN && ir_dim_le(r->dims, d, ir_dim_const(r->dims, INT32_MAX)) == IR_TRUE)
        return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "size: %s may be more than an i32 holds; bound its symbols, or take i64",
                   ir_dim_text(r->g, d).s);
}

static rp_status infer_leaf(ir_rule *r) {
    r->dtype = (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
    if (r->n->op == IR_const) return RP_OK;
    if (r->n->op != IR_size) ir_rule_shape(r, &r->shape);
    if (r->n->op == IR_empty) return RP_OK;
    if (r->dtype != RP_DTYPE_F32 && r->dtype != RP_DTYPE_F64 && !ir_dtype_is_index(r->dtype))
        return rp_fail(r->err, RP_INVALID, "%s: of %s; f32, f64, i32 and i64 are supported", r->op,
                       rp_dtype_name(r->dtype));
    return r->n->op == IR_size ? check_size(r) : RP_OK;
}

static rp_status infer_kind(ir_rule *r) {
    switch (ir_op_table(r->n->op)->kind) {
    case IR_KIND_LEAF: return infer_leaf(r);
    case IR_KIND_VIEW: return ir_infer_view(r);
    case IR_KIND_ELEMENTWISE: return infer_elementwise(r);
    case IR_KIND_REDUCE: return ir_infer_reduce(r);
    case IR_KIND_SCAN: return ir_infer_scan(r);
    case IR_KIND_SCATTER: return ir_infer_scatter(r);
    case IR_KIND_MOVE: return ir_infer_move(r);
    case IR_KIND_CONTRACT: return infer_matmul(r);
    case IR_KIND_QUANT: return infer_quant(r);
    case IR_KIND_EFFECT: break;
    }
    return ir_infer_effect(r);
}

rp_status ir_infer(const ir_graph *g, const ir_node *n, ir_type out[IR_MAX_RESULTS],
                   uint32_t *n_out, rp_error *err) {
    ir_rule r = ir_rule_of(g, n, err);
    const ir_kind kind = ir_op_table(n->op)->kind;
    RP_TRY(infer_kind(&r));
    assert(r.n_more < IR_MAX_RESULTS);
    if (r.n_more > 0 && kind != IR_KIND_SCAN && kind != IR_KIND_EFFECT)
        return rp_fail(err, RP_INTERNAL, "%s: kernels of its kind write one result", r.op);
    *n_out = r.n_more + 1;
    for (uint32_t i = 0; i < *n_out; i++) {
        out[i] = i ? r.more[i - 1] : (ir_type){r.dtype, r.shape};
        RP_TRY(ir_check_shape(g, r.op, out[i].dtype, &out[i].shape, err));
        assert(out[i].shape.rank <= IR_MAX_RANK);
        for (uint32_t d = out[i].shape.rank; d < IR_MAX_RANK; d++) out[i].shape.dim[d] = 0;
    }
    return RP_OK;
}
