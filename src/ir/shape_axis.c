/* Shape rules of what goes along an axis: reductions, scans, sorting, scatters, concat, gather. */
#include "ir/rule.h"

static bool has_some(const ir_rule *r, ir_dim d) {
    return ir_dim_le(r->dims, ir_dim_const(r->dims, 1), d) == IR_TRUE;
}

/* A place along an axis is an i32. What symbols make of a size is not known before they have values. */
static rp_status want_places(const ir_rule *r, int64_t axis) {
    int64_t lo, hi;
    ir_dim_bounds(r->dims, r->a->shape.dim[axis], &lo, &hi);
    if (lo - 1 <= INT32_MAX) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "%s: places along axis %lld of %s are more than an i32 holds", r->op,
                   (long long)axis, IR_TYPE(r, 0));
}

rp_status ir_infer_reduce(ir_rule *r) {
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0);
    const ir_shape *s = &r->a->shape;
    RP_TRY(ir_want_number(r, 0));
    r->dtype = r->n->op == IR_argmax ? RP_DTYPE_I32 : r->a->dtype;
    if (r->n->op != IR_sum && r->n->op != IR_prod && !has_some(r, s->dim[axis]))
        return rp_fail(r->err, RP_INVALID, "%s: axis %lld of %s may be empty", r->op,
                       (long long)axis, IR_TYPE(r, 0));
    if (r->n->op == IR_argmax) RP_TRY(want_places(r, axis));
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i != axis)
            r->shape.dim[r->shape.rank++] = s->dim[i];
        else if (ir_attr_int(r->n, IR_ATTR_KEEP, 0))
            r->shape.dim[r->shape.rank++] = ir_dim_const(r->dims, 1);
    }
    return RP_OK;
}

static rp_status infer_sort(ir_rule *r) {
    RP_TRY(ir_want_number(r, 0));
    RP_TRY(want_places(r, ir_attr_int(r->n, IR_ATTR_AXIS, 0)));
    r->more[r->n_more++] = (ir_type){RP_DTYPE_I32, r->shape};
    return RP_OK;
}

rp_status ir_infer_scan(ir_rule *r) {
    const ir_shape *s = &r->a->shape;
    int64_t k = ir_attr_int(r->n, IR_ATTR_K, 0);
    rp_dtype t = r->a->dtype;
    bool cumsum = r->n->op == IR_cumsum;
    r->dtype = t;
    r->shape = *s;
    if (r->n->op == IR_sort) return infer_sort(r);
    if (cumsum) return ir_want_number(r, 0);
    if (!rp_dtype_is_float(t) && t != RP_DTYPE_I32 && !ir_dtype_is_small(t))
        return rp_fail(r->err, RP_INVALID,
                       "%s: wants f32, f16, bf16, i32, i16, i8 or u8, not %s; cast it", r->op,
                       IR_TYPE(r, 0));
    if (s->rank == 0 || k < 1 ||
        ir_dim_le(r->dims, ir_dim_const(r->dims, k), s->dim[s->rank - 1]) != IR_TRUE)
        return rp_fail(r->err, RP_INVALID,
                       "%s: k = %lld must be from 1 to the size of the last axis of %s", r->op,
                       (long long)k, IR_TYPE(r, 0));
    RP_TRY(want_places(r, s->rank - 1));
    r->shape.dim[s->rank - 1] = ir_dim_const(r->dims, k);
    r->more[r->n_more++] = (ir_type){RP_DTYPE_I32, r->shape};
    return RP_OK;
}

/* Axes [from, to) of the index are those of src, or are all of size 1. */
static bool index_fits(const ir_rule *r, uint32_t from, uint32_t to) {
    bool equal = true, one = true;
    for (uint32_t i = from; i < to; i++) {
        equal = equal && ir_dim_same(r->dims, r->b->shape.dim[i], r->c->shape.dim[i]);
        one = one && ir_dim_is(r->dims, r->b->shape.dim[i], 1);
    }
    return equal || one;
}

static rp_status want_index(const ir_rule *r) {
    if (ir_dtype_is_index(r->b->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: index must be i32 or i64, not %s; cast it", r->op,
                   IR_TYPE(r, 1));
}

rp_status ir_infer_scatter(ir_rule *r) {
    const ir_shape *x = &r->a->shape, *index = &r->b->shape, *src = &r->c->shape;
    uint32_t axis = (uint32_t)ir_attr_int(r->n, IR_ATTR_AXIS, 0);
    rp_dtype t = r->a->dtype;
    RP_TRY(ir_want_plain(r, 0));
    if (r->n->op != IR_scatter && t != RP_DTYPE_F32 && t != RP_DTYPE_F64 && !ir_dtype_is_integer(t))
        return rp_fail(r->err, RP_INVALID, "%s: wants f32, f64 or an integer, not %s; cast it",
                       r->op, IR_TYPE(r, 0));
    RP_TRY(ir_same_type(r, 0, 2));
    RP_TRY(want_index(r));
    bool fits = x->rank == src->rank && x->rank == index->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++)
        fits = i == axis || ir_dim_same(r->dims, x->dim[i], src->dim[i]);
    fits = fits && ir_dim_same(r->dims, index->dim[axis], src->dim[axis]) &&
           index_fits(r, 0, axis) && index_fits(r, axis + 1, x->rank);
    if (!fits)
        return rp_fail(
            r->err, RP_INVALID,
            "%s: %s at %s into %s along axis %u: src has the sizes of x elsewhere, index "
            "those of src, or 1 in all axes before or behind",
            r->op, IR_TYPE(r, 2), IR_TYPE(r, 1), IR_TYPE(r, 0), axis);
    r->dtype = r->a->dtype;
    r->shape = *x;
    return RP_OK;
}

static rp_status infer_concat(ir_rule *r) {
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0);
    if (r->n->n_in == 0) return rp_fail(r->err, RP_INVALID, "concat: no operands");
    r->dtype = r->a->dtype;
    r->shape = r->a->shape;
    for (uint32_t i = 1; i < r->n->n_in; i++) {
        const ir_node *x = ir_node_at(r->g, r->n->in[i]);
        RP_TRY(ir_same_type(r, 0, i));
        bool ok = x->shape.rank == r->shape.rank;
        for (uint32_t j = 0; ok && j < r->shape.rank; j++)
            ok = j == axis || ir_dim_same(r->dims, r->shape.dim[j], x->shape.dim[j]);
        if (!ok)
            return rp_fail(r->err, RP_INVALID, "concat: %s and %s differ beside axis %lld",
                           IR_TYPE(r, 0), IR_TYPE(r, i), (long long)axis);
        r->shape.dim[axis] = ir_dim_add(r->dims, r->shape.dim[axis], x->shape.dim[axis]);
    }
    return RP_OK;
}

/* For sure: no index is looked at. */
static bool is_empty(const ir_rule *r, const ir_shape *s) {
    int64_t n;
    uint32_t i = 0;
    while (i < s->rank && !(ir_dim_is_const(r->dims, s->dim[i], &n) && n == 0)) i++;
    return i < s->rank;
}

static rp_status infer_gather(ir_rule *r) {
    const ir_shape *t = &r->a->shape, *x = &r->b->shape;
    r->dtype = r->a->dtype;
    RP_TRY(want_index(r));
    if (t->rank == 0 || (rp_dtype_is_quant(r->dtype) && t->rank < 2))
        return rp_fail(r->err, RP_INVALID, "gather: table %s has no rows", IR_TYPE(r, 0));
    if (!is_empty(r, x) && !ir_dim_empty_with(r->dims, t->dim[0], x->dim, x->rank) &&
        !has_some(r, t->dim[0]))
        return rp_fail(r->err, RP_INVALID, "gather: table %s may be empty", IR_TYPE(r, 0));
    if (x->rank + t->rank - 1 > IR_MAX_RANK)
        return rp_fail(r->err, RP_INVALID, "gather: result of %s by %s has more than %d axes",
                       IR_TYPE(r, 0), IR_TYPE(r, 1), IR_MAX_RANK);
    r->shape = *x;
    for (uint32_t i = 1; i < t->rank; i++) r->shape.dim[r->shape.rank++] = t->dim[i];
    return RP_OK;
}

/* Two numbers of four bits a byte, along the last axis. */
static rp_status infer_i4(ir_rule *r) {
    const bool packs = r->n->op == IR_pack_i4;
    const rp_dtype x = r->a->dtype;
    r->dtype = packs ? RP_DTYPE_U8 : (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
    r->shape = r->a->shape;
    if (packs ? x != RP_DTYPE_I8 && x != RP_DTYPE_U8 : x != RP_DTYPE_U8)
        return rp_fail(r->err, RP_INVALID, "%s: wants %s, not %s; cast it", r->op,
                       packs ? "i8 or u8" : "bytes, u8", IR_TYPE(r, 0));
    if (r->dtype != RP_DTYPE_I8 && r->dtype != RP_DTYPE_U8)
        return rp_fail(r->err, RP_INVALID, "%s: to %s; i8 and u8 hold numbers of four bits", r->op,
                       rp_dtype_name(r->dtype));
    if (r->shape.rank == 0)
        return rp_fail(r->err, RP_INVALID, "%s: %s has no last axis", r->op, IR_TYPE(r, 0));
    ir_dim *last = &r->shape.dim[r->shape.rank - 1];
    if (packs && ir_dim_divisible(r->dims, *last, 2) != IR_TRUE)
        return rp_fail(r->err, RP_INVALID,
                       "%s: the last axis of %s is not known to be even; pad it", r->op,
                       IR_TYPE(r, 0));
    *last = packs ? ir_dim_floordiv(r->dims, *last, 2) : ir_dim_mul_const(r->dims, *last, 2);
    return RP_OK;
}

rp_status ir_infer_move(ir_rule *r) {
    if (r->n->op == IR_pack_i4 || r->n->op == IR_unpack_i4) return infer_i4(r);
    if (r->n->op == IR_concat) return infer_concat(r);
    if (r->n->op == IR_gather) return infer_gather(r);
    r->dtype = r->a->dtype;
    r->shape = r->a->shape;
    return ir_want_plain(r, 0);
}
