/* Shape rules of views: other shapes over the elements of an operand. */
#include "ir/rule.h"

/* The product of a shape's sizes as a constant and the non-constant forms left over. */
static bool split_count(const ir_rule *r, const ir_shape *s, int64_t *k, ir_dim *rest,
                        uint32_t *n) {
    *k = 1;
    *n = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t f = ir_dim_factor(r->dims, s->dim[i]);
        if (__builtin_mul_overflow(*k, f, k)) return false;
        if (!ir_dim_is_const(r->dims, s->dim[i], NULL))
            rest[(*n)++] = ir_dim_floordiv(r->dims, s->dim[i], f);
    }
    return true;
}

/* IR_DIM_BAD where the product has too many terms. */
static ir_dim count(const ir_rule *r, const ir_shape *s) {
    ir_dim n = ir_dim_const(r->dims, 1);
    for (uint32_t i = 0; i < s->rank; i++) n = ir_dim_mul(r->dims, n, s->dim[i]);
    return n;
}

static bool same_count(const ir_rule *r, const ir_shape *a, const ir_shape *b) {
    ir_dim x = count(r, a), y = count(r, b);
    if (x != IR_DIM_BAD && y != IR_DIM_BAD) return ir_dim_eq(r->dims, x, y) == IR_TRUE;
    ir_dim ra[IR_MAX_RANK], rb[IR_MAX_RANK];
    int64_t ka, kb;
    uint32_t na, nb;
    if (!split_count(r, a, &ka, ra, &na) || !split_count(r, b, &kb, rb, &nb) || ka != kb)
        return false;
    if (ka == 0) return true;
    if (na != nb) return false;
    for (uint32_t i = 0; i < na; i++) {
        uint32_t j = 0;
        while (j < nb && rb[j] != ra[i]) j++;
        if (j == nb) return false;
        rb[j] = IR_DIM_BAD; /* used up */
    }
    return true;
}

static rp_status infer_reshape(ir_rule *r) {
    RP_TRY(ir_want_plain(r, 0));
    r->dtype = r->a->dtype;
    ir_rule_shape(r, &r->shape);
    RP_TRY(ir_check_shape(r->g, r->op, r->dtype, &r->shape, r->err));
    if (same_count(r, &r->a->shape, &r->shape)) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "reshape: %s and %s are not known to have equally many elements", IR_TYPE(r, 0),
                   ir_shape_text(r->g, r->dtype, &r->shape).s);
}

static rp_status infer_permute(ir_rule *r) {
    const ir_attr *a = ir_attr_get(r->n, IR_ATTR_AXES);
    uint32_t seen = 0;
    RP_TRY(ir_want_plain(r, 0));
    r->dtype = r->a->dtype;
    r->shape.rank = r->a->shape.rank;
    bool ok = a->n == r->shape.rank;
    for (uint32_t i = 0; ok && i < a->n; i++) {
        int64_t x = a->u.ints[i];
        ok = !(seen >> x & 1); /* in range: counted from the front before */
        if (!ok) break;
        seen |= 1u << x;
        r->shape.dim[i] = r->a->shape.dim[x];
    }
    if (ok) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "permute: axes must name each axis of %s once",
                   IR_TYPE(r, 0));
}

/* Blocks lie along the last axis, so a cut of it must fall between two of them. */
static rp_status check_cut(const ir_rule *r, int64_t axis, ir_dim start) {
    int64_t block = (int64_t)rp_dtype_block(r->dtype);
    if (block == 1 || axis + 1 != r->a->shape.rank) return RP_OK;
    if (ir_dim_divisible(r->dims, start, block) == IR_TRUE) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "slice: start %s of %s is not a multiple of %lld",
                   ir_dim_text(r->g, start).s, IR_TYPE(r, 0), (long long)block);
}

/* 0 <= start <= stop <= size. What a number bounds is asked first: what is learnt of it then has the bound. */
static bool lies_within(ir_dims *t, ir_dim start, ir_dim stop, ir_dim size) {
    const bool first = ir_dim_is_const(t, size, NULL);
    return ir_dim_le(t, ir_dim_const(t, 0), start) == IR_TRUE &&
           (!first || ir_dim_le(t, stop, size) == IR_TRUE) &&
           ir_dim_le(t, start, stop) == IR_TRUE && (first || ir_dim_le(t, stop, size) == IR_TRUE);
}

static rp_status infer_slice(ir_rule *r) {
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0);
    ir_dim start = ir_attr_get(r->n, IR_ATTR_START)->u.dim;
    ir_dim stop = ir_attr_get(r->n, IR_ATTR_STOP)->u.dim;
    r->dtype = r->a->dtype;
    r->shape = r->a->shape;
    if (!lies_within(r->dims, start, stop, r->shape.dim[axis]))
        return rp_fail(
            r->err, RP_INVALID, "slice: [%s, %s) is not known to lie within axis %lld of %s",
            ir_dim_text(r->g, start).s, ir_dim_text(r->g, stop).s, (long long)axis, IR_TYPE(r, 0));
    r->shape.dim[axis] = ir_dim_sub(r->dims, stop, start);
    return check_cut(r, axis, start);
}

static rp_status infer_broadcast(ir_rule *r) {
    ir_shape to = {0};
    RP_TRY(ir_want_plain(r, 0));
    r->dtype = r->a->dtype;
    ir_rule_shape(r, &to);
    RP_TRY(ir_check_shape(r->g, r->op, r->dtype, &to, r->err));
    r->shape = r->a->shape;
    bool ok = ir_broadcast_into(r, &r->shape, &to) && r->shape.rank == to.rank;
    for (uint32_t i = 0; ok && i < to.rank; i++)
        ok = ir_dim_same(r->dims, r->shape.dim[i], to.dim[i]);
    if (!ok)
        return rp_fail(r->err, RP_INVALID, "broadcast: %s does not stretch to %s", IR_TYPE(r, 0),
                       ir_shape_text(r->g, r->dtype, &to).s);
    r->shape = to;
    return RP_OK;
}

static rp_status infer_result(ir_rule *r) {
    int64_t i = ir_attr_int(r->n, IR_ATTR_INDEX, 0);
    if (i < 1 || i > r->a->n_more)
        return rp_fail(
            r->err, RP_INVALID,
            "result: %s has results 0 to %u, of which 0 is its own value; there is no %lld",
            ir_op_table(r->a->op)->name, r->a->n_more, (long long)i);
    r->dtype = r->a->more[i - 1].dtype;
    r->shape = r->a->more[i - 1].shape;
    return RP_OK;
}

rp_status ir_infer_view(ir_rule *r) {
    switch (r->n->op) {
    case IR_reshape: return infer_reshape(r);
    case IR_permute: return infer_permute(r);
    case IR_slice: return infer_slice(r);
    case IR_written: return ir_infer_effect(r);
    case IR_result: return infer_result(r);
    default: return infer_broadcast(r);
    }
}
