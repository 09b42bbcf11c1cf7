/* Shape rules: dtype and shape of each pure op from its operands and attributes.
 *
 * Two sizes fit when they are known to be equal; sizes that may differ do not fit, and the message
 * says which. Effects are in shape_effect.c. */
#include <assert.h>
#include <string.h>

#include "ir/node.h"

/* What a rule reads and writes. */
typedef struct rule {
    const ir_graph *g;
    ir_dims *dims;
    const ir_node *n;
    const char *op;
    const ir_node *a, *b, *c; /* operands; an empty node beyond n_in */
    rp_dtype dtype;
    ir_shape shape;
    ir_type more[IR_MAX_RESULTS]; /* results behind the first */
    uint32_t n_more;
    rp_error *err;
} rule;

#define TYPE(r, i) ir_type_of((r)->g, (r)->n->in[i]).s

static bool same(const rule *r, ir_dim a, ir_dim b) {
    return a == b || ir_dim_eq(r->dims, a, b) == IR_TRUE;
}

static bool is_one(const rule *r, ir_dim d) {
    int64_t v;
    return ir_dim_is_const(r->dims, d, &v) && v == 1;
}

static bool is_int(rp_dtype t) {
    return t == RP_DTYPE_I32 || t == RP_DTYPE_I64;
}

/* Broadcasts s over *into, which becomes the result; false when they do not fit. */
static bool broadcast_into(const rule *r, ir_shape *into, const ir_shape *s) {
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
        if (!same(r, x, y) && !is_one(r, x) && !is_one(r, y)) return false;
        out.dim[out.rank - i] = is_one(r, x) ? y : x;
    }
    *into = out;
    return true;
}

static rp_status no_broadcast(const rule *r, uint32_t i, uint32_t j) {
    return rp_fail(r->err, RP_INVALID,
                   "%s: %s and %s do not broadcast; axes counted from the last must be known to be "
                   "equal, or 1",
                   r->op, TYPE(r, i), TYPE(r, j));
}

static rp_status same_type(const rule *r, uint32_t i, uint32_t j) {
    if (ir_node_at(r->g, r->n->in[i])->dtype == ir_node_at(r->g, r->n->in[j])->dtype) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: element types of %s and %s differ; cast one", r->op,
                   TYPE(r, i), TYPE(r, j));
}

static rp_status want_float(const rule *r, uint32_t i) {
    if (rp_dtype_is_float(ir_node_at(r->g, r->n->in[i])->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: wants f32, f16 or bf16, not %s; cast it", r->op,
                   TYPE(r, i));
}

static rp_status want_number(const rule *r, uint32_t i) {
    rp_dtype t = ir_node_at(r->g, r->n->in[i])->dtype;
    if (t == RP_DTYPE_F64 || rp_dtype_is_float(t) || is_int(t)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: wants f32, f16, bf16, f64, i32 or i64, not %s; cast it",
                   r->op, TYPE(r, i));
}

static rp_status want_int(const rule *r, uint32_t i) {
    if (is_int(ir_node_at(r->g, r->n->in[i])->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: wants i32 or i64, not %s; cast it", r->op, TYPE(r, i));
}

/* Booleans, or bits of integers. */
static rp_status want_bits(const rule *r, uint32_t i) {
    rp_dtype t = ir_node_at(r->g, r->n->in[i])->dtype;
    if (t == RP_DTYPE_BOOL || is_int(t)) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "%s: operand %u must be bool, i32 or i64, not %s; compare or cast it", r->op, i,
                   TYPE(r, i));
}

static rp_status want_bool(const rule *r, uint32_t i) {
    if (ir_node_at(r->g, r->n->in[i])->dtype == RP_DTYPE_BOOL) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: operand %u must be bool, not %s; compare it", r->op, i,
                   TYPE(r, i));
}

static rp_status want_plain(const rule *r, uint32_t i) {
    if (!rp_dtype_is_quant(ir_node_at(r->g, r->n->in[i])->dtype)) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "%s: not for %s; dequant it", r->op, TYPE(r, i));
}

static rp_status elementwise_types(rule *r) {
    uint32_t n = r->n->n_in;
    r->dtype = r->a->dtype;
    switch (r->n->op) {
    case IR_cast:
        r->dtype = (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
        if (rp_dtype_is_quant(r->dtype))
            return rp_fail(r->err, RP_INVALID, "cast: to %s is done by quantize",
                           rp_dtype_name(r->dtype));
        return want_plain(r, 0);
    case IR_not:
    case IR_and:
    case IR_or:
    case IR_xor:
        for (uint32_t i = 0; i < n; i++) RP_TRY(want_bits(r, i));
        return n > 1 ? same_type(r, 0, 1) : RP_OK;
    case IR_floor_divide:
    case IR_remainder:
    case IR_shift_left:
    case IR_philox:
    case IR_shift_right: RP_TRY(want_int(r, 0)); return same_type(r, 0, 1);
    case IR_where:
        r->dtype = r->b->dtype;
        RP_TRY(want_bool(r, 0));
        RP_TRY(want_plain(r, 1));
        return same_type(r, 1, 2);
    case IR_eq:
    case IR_ne:
        RP_TRY(want_plain(r, 0));
        r->dtype = RP_DTYPE_BOOL;
        return same_type(r, 0, 1);
    case IR_lt:
    case IR_le:
    case IR_gt:
    case IR_ge:
        r->dtype = RP_DTYPE_BOOL;
        RP_TRY(want_number(r, 0));
        return same_type(r, 0, 1);
    case IR_neg:
    case IR_abs:
    case IR_add:
    case IR_sub:
    case IR_mul:
    case IR_max:
    case IR_min: RP_TRY(want_number(r, 0)); return n > 1 ? same_type(r, 0, 1) : RP_OK;
    default:
        if (r->dtype != RP_DTYPE_F64 || !ir_op_on_doubles(r->n->op)) RP_TRY(want_float(r, 0));
        for (uint32_t i = 1; i < n; i++) RP_TRY(same_type(r, 0, i));
        return RP_OK;
    }
}

static rp_status infer_elementwise(rule *r) {
    RP_TRY(elementwise_types(r));
    r->shape = r->a->shape;
    if (r->n->n_in > 1 && !broadcast_into(r, &r->shape, &r->b->shape)) return no_broadcast(r, 0, 1);
    if (r->n->n_in > 2 && !broadcast_into(r, &r->shape, &r->c->shape)) return no_broadcast(r, 1, 2);
    return RP_OK;
}

static rp_status infer_reduce(rule *r) {
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0), lo, hi;
    const ir_shape *s = &r->a->shape;
    RP_TRY(want_number(r, 0));
    r->dtype = r->n->op == IR_argmax ? RP_DTYPE_I32 : r->a->dtype;
    ir_dim_bounds(r->dims, s->dim[axis], &lo, &hi);
    if (lo < 1 && r->n->op != IR_sum && r->n->op != IR_prod)
        return rp_fail(r->err, RP_INVALID, "%s: axis %lld of %s may be empty", r->op,
                       (long long)axis, TYPE(r, 0));
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i != axis)
            r->shape.dim[r->shape.rank++] = s->dim[i];
        else if (ir_attr_int(r->n, IR_ATTR_KEEP, 0))
            r->shape.dim[r->shape.rank++] = ir_dim_const(r->dims, 1);
    }
    return RP_OK;
}

static rp_status infer_sort(rule *r) {
    RP_TRY(want_number(r, 0));
    r->more[r->n_more++] = (ir_type){RP_DTYPE_I32, r->shape};
    return RP_OK;
}

static rp_status infer_scan(rule *r) {
    const ir_shape *s = &r->a->shape;
    int64_t k = ir_attr_int(r->n, IR_ATTR_K, 0);
    rp_dtype t = r->a->dtype;
    bool cumsum = r->n->op == IR_cumsum;
    r->dtype = t;
    r->shape = *s;
    if (r->n->op == IR_sort) return infer_sort(r);
    if (!rp_dtype_is_float(t) && t != RP_DTYPE_I32 && !(cumsum && t == RP_DTYPE_I64))
        return rp_fail(r->err, RP_INVALID, "%s: wants f32, f16, bf16%s, not %s; cast it", r->op,
                       cumsum ? ", i32 or i64" : " or i32", TYPE(r, 0));
    if (cumsum) return RP_OK;
    if (s->rank == 0 || k < 1 ||
        ir_dim_le(r->dims, ir_dim_const(r->dims, k), s->dim[s->rank - 1]) != IR_TRUE)
        return rp_fail(r->err, RP_INVALID,
                       "%s: k = %lld must be from 1 to the size of the last axis of %s", r->op,
                       (long long)k, TYPE(r, 0));
    r->shape.dim[s->rank - 1] = ir_dim_const(r->dims, k);
    r->more[r->n_more++] = (ir_type){RP_DTYPE_I32, r->shape};
    return RP_OK;
}

/* Axes [from, to) of the index are those of src, or are all of size 1. */
static bool index_fits(const rule *r, uint32_t from, uint32_t to) {
    bool equal = true, one = true;
    for (uint32_t i = from; i < to; i++) {
        equal = equal && same(r, r->b->shape.dim[i], r->c->shape.dim[i]);
        one = one && is_one(r, r->b->shape.dim[i]);
    }
    return equal || one;
}

static rp_status infer_scatter(rule *r) {
    const ir_shape *x = &r->a->shape, *index = &r->b->shape, *src = &r->c->shape;
    uint32_t axis = (uint32_t)ir_attr_int(r->n, IR_ATTR_AXIS, 0);
    rp_dtype t = r->a->dtype;
    RP_TRY(want_plain(r, 0));
    if (r->n->op != IR_scatter && t != RP_DTYPE_F32 && t != RP_DTYPE_F64 && !is_int(t))
        return rp_fail(r->err, RP_INVALID, "%s: wants f32, f64, i32 or i64, not %s; cast it", r->op,
                       TYPE(r, 0));
    RP_TRY(same_type(r, 0, 2));
    RP_TRY(want_int(r, 1));
    bool fits = x->rank == src->rank && x->rank == index->rank;
    for (uint32_t i = 0; fits && i < x->rank; i++)
        fits = i == axis || same(r, x->dim[i], src->dim[i]);
    fits = fits && same(r, index->dim[axis], src->dim[axis]) && index_fits(r, 0, axis) &&
           index_fits(r, axis + 1, x->rank);
    if (!fits)
        return rp_fail(
            r->err, RP_INVALID,
            "%s: %s at %s into %s along axis %u: src has the sizes of x elsewhere, index "
            "those of src, or 1 in all axes before or behind",
            r->op, TYPE(r, 2), TYPE(r, 1), TYPE(r, 0), axis);
    r->dtype = r->a->dtype;
    r->shape = *x;
    return RP_OK;
}

/* The product of a shape's sizes as a constant and the non-constant forms left over. */
static bool split_count(const rule *r, const ir_shape *s, int64_t *k, ir_dim *rest, uint32_t *n) {
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
static ir_dim count(const rule *r, const ir_shape *s) {
    ir_dim n = ir_dim_const(r->dims, 1);
    for (uint32_t i = 0; i < s->rank; i++) n = ir_dim_mul(r->dims, n, s->dim[i]);
    return n;
}

static bool same_count(const rule *r, const ir_shape *a, const ir_shape *b) {
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

static void attr_shape(const rule *r, ir_shape *s) {
    const ir_attr *a = ir_attr_get(r->n, IR_ATTR_SHAPE);
    s->rank = a->n;
    for (uint32_t i = 0; i < a->n; i++) s->dim[i] = a->u.dims[i];
}

static rp_status infer_reshape(rule *r) {
    RP_TRY(want_plain(r, 0));
    r->dtype = r->a->dtype;
    attr_shape(r, &r->shape);
    RP_TRY(ir_check_shape(r->g, r->op, r->dtype, &r->shape, r->err));
    if (same_count(r, &r->a->shape, &r->shape)) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "reshape: %s and %s are not known to have equally many elements", TYPE(r, 0),
                   ir_shape_text(r->g, r->dtype, &r->shape).s);
}

static rp_status infer_permute(rule *r) {
    const ir_attr *a = ir_attr_get(r->n, IR_ATTR_AXES);
    uint32_t seen = 0;
    RP_TRY(want_plain(r, 0));
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
    return rp_fail(r->err, RP_INVALID, "permute: axes must name each axis of %s once", TYPE(r, 0));
}

/* Blocks lie along the last axis, so a cut of it must fall between two of them. */
static rp_status check_cut(const rule *r, int64_t axis, ir_dim start) {
    int64_t block = (int64_t)rp_dtype_block(r->dtype);
    if (block == 1 || axis + 1 != r->a->shape.rank) return RP_OK;
    if (ir_dim_divisible(r->dims, start, block) == IR_TRUE) return RP_OK;
    return rp_fail(r->err, RP_INVALID, "slice: start %s of %s is not a multiple of %lld",
                   ir_dim_text(r->g, start).s, TYPE(r, 0), (long long)block);
}

static rp_status infer_slice(rule *r) {
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0);
    ir_dim start = ir_attr_get(r->n, IR_ATTR_START)->u.dim;
    ir_dim stop = ir_attr_get(r->n, IR_ATTR_STOP)->u.dim;
    r->dtype = r->a->dtype;
    r->shape = r->a->shape;
    if (ir_dim_le(r->dims, ir_dim_const(r->dims, 0), start) != IR_TRUE ||
        ir_dim_le(r->dims, start, stop) != IR_TRUE ||
        ir_dim_le(r->dims, stop, r->shape.dim[axis]) != IR_TRUE)
        return rp_fail(
            r->err, RP_INVALID, "slice: [%s, %s) is not known to lie within axis %lld of %s",
            ir_dim_text(r->g, start).s, ir_dim_text(r->g, stop).s, (long long)axis, TYPE(r, 0));
    r->shape.dim[axis] = ir_dim_sub(r->dims, stop, start);
    return check_cut(r, axis, start);
}

static rp_status infer_broadcast(rule *r) {
    ir_shape to = {0};
    RP_TRY(want_plain(r, 0));
    r->dtype = r->a->dtype;
    attr_shape(r, &to);
    RP_TRY(ir_check_shape(r->g, r->op, r->dtype, &to, r->err));
    r->shape = r->a->shape;
    bool ok = broadcast_into(r, &r->shape, &to) && r->shape.rank == to.rank;
    for (uint32_t i = 0; ok && i < to.rank; i++) ok = same(r, r->shape.dim[i], to.dim[i]);
    if (!ok)
        return rp_fail(r->err, RP_INVALID, "broadcast: %s does not stretch to %s", TYPE(r, 0),
                       ir_shape_text(r->g, r->dtype, &to).s);
    r->shape = to;
    return RP_OK;
}

static rp_status infer_concat(rule *r) {
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0);
    if (r->n->n_in == 0) return rp_fail(r->err, RP_INVALID, "concat: no operands");
    r->dtype = r->a->dtype;
    r->shape = r->a->shape;
    for (uint32_t i = 1; i < r->n->n_in; i++) {
        const ir_node *x = ir_node_at(r->g, r->n->in[i]);
        RP_TRY(same_type(r, 0, i));
        bool ok = x->shape.rank == r->shape.rank;
        for (uint32_t j = 0; ok && j < r->shape.rank; j++)
            ok = j == axis || same(r, r->shape.dim[j], x->shape.dim[j]);
        if (!ok)
            return rp_fail(r->err, RP_INVALID, "concat: %s and %s differ beside axis %lld",
                           TYPE(r, 0), TYPE(r, i), (long long)axis);
        r->shape.dim[axis] = ir_dim_add(r->dims, r->shape.dim[axis], x->shape.dim[axis]);
    }
    return RP_OK;
}

static rp_status infer_gather(rule *r) {
    int64_t lo, hi;
    const ir_shape *t = &r->a->shape, *x = &r->b->shape;
    r->dtype = r->a->dtype;
    if (!is_int(r->b->dtype))
        return rp_fail(r->err, RP_INVALID, "gather: index must be i32 or i64, not %s; cast it",
                       TYPE(r, 1));
    if (t->rank == 0 || (rp_dtype_is_quant(r->dtype) && t->rank < 2))
        return rp_fail(r->err, RP_INVALID, "gather: table %s has no rows", TYPE(r, 0));
    ir_dim_bounds(r->dims, t->dim[0], &lo, &hi);
    if (lo < 1) return rp_fail(r->err, RP_INVALID, "gather: table %s may be empty", TYPE(r, 0));
    if (x->rank + t->rank - 1 > IR_MAX_RANK)
        return rp_fail(r->err, RP_INVALID, "gather: result of %s by %s has more than %d axes",
                       TYPE(r, 0), TYPE(r, 1), IR_MAX_RANK);
    r->shape = *x;
    for (uint32_t i = 1; i < t->rank; i++) r->shape.dim[r->shape.rank++] = t->dim[i];
    return RP_OK;
}

static rp_status infer_matmul(rule *r) {
    const ir_shape *a = &r->a->shape, *b = &r->b->shape;
    int64_t trans = ir_attr_int(r->n, IR_ATTR_TRANS_B, 0);
    RP_TRY(want_float(r, 0));
    RP_TRY(want_float(r, 1));
    if (a->rank < 2 || b->rank < 2)
        return rp_fail(r->err, RP_INVALID, "matmul: %s and %s need two axes each; reshape",
                       TYPE(r, 0), TYPE(r, 1));
    ir_dim k = b->dim[trans ? b->rank - 1 : b->rank - 2];
    if (!same(r, a->dim[a->rank - 1], k))
        return rp_fail(r->err, RP_INVALID, "matmul: k of %s and %s%s differ", TYPE(r, 0),
                       TYPE(r, 1), trans ? " (transposed)" : "");
    ir_shape batch = *a, other = *b;
    batch.rank -= 2;
    other.rank -= 2;
    if (!broadcast_into(r, &batch, &other)) return no_broadcast(r, 0, 1);
    r->dtype = RP_DTYPE_F32;
    r->shape = batch;
    r->shape.dim[r->shape.rank++] = a->dim[a->rank - 2];
    r->shape.dim[r->shape.rank++] = b->dim[trans ? b->rank - 2 : b->rank - 1];
    return RP_OK;
}

static rp_status infer_quant(rule *r) {
    r->shape = r->a->shape;
    if (r->n->op == IR_dequant) {
        r->dtype = RP_DTYPE_F32;
        if (rp_dtype_is_quant(r->a->dtype)) return RP_OK;
        return rp_fail(r->err, RP_INVALID, "dequant: %s is not of a block format", TYPE(r, 0));
    }
    r->dtype = (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
    if (r->dtype != RP_DTYPE_I16B32)
        return rp_fail(r->err, RP_INVALID,
                       "quantize: to %s; activations are quantised to i16b32 only",
                       rp_dtype_name(r->dtype));
    if (r->a->dtype != RP_DTYPE_F32)
        return rp_fail(r->err, RP_INVALID, "quantize: wants f32, not %s; cast it", TYPE(r, 0));
    return RP_OK;
}

/* An i32 must hold it, whatever the symbols are. */
static rp_status check_size(const rule *r) {
    ir_dim d = ir_attr_get(r->n, IR_ATTR_SIZE)->u.dim;
    int64_t lo, hi;
    ir_dim_bounds(r->dims, d, &lo, &hi);
    if (r->dtype != RP_DTYPE_I32 || (lo >= INT32_MIN && hi <= INT32_MAX)) return RP_OK;
    return rp_fail(r->err, RP_INVALID,
                   "size: %s may be more than an i32 holds; bound its symbols, or take i64",
                   ir_dim_text(r->g, d).s);
}

static rp_status infer_leaf(rule *r) {
    r->dtype = (rp_dtype)ir_attr_int(r->n, IR_ATTR_DTYPE, 0);
    if (r->n->op == IR_const) return RP_OK;
    if (r->n->op != IR_size) attr_shape(r, &r->shape);
    if (r->n->op == IR_empty) return RP_OK;
    if (r->dtype != RP_DTYPE_F32 && r->dtype != RP_DTYPE_F64 && !is_int(r->dtype))
        return rp_fail(r->err, RP_INVALID, "%s: of %s; f32, f64, i32 and i64 are supported", r->op,
                       rp_dtype_name(r->dtype));
    return r->n->op == IR_size ? check_size(r) : RP_OK;
}

static rp_status infer_effect(rule *r) {
    ir_type all[IR_MAX_RESULTS];
    uint32_t n = 0;
    RP_TRY(ir_infer_effect(r->g, r->n, all, &n, r->err));
    r->dtype = all[0].dtype;
    r->shape = all[0].shape;
    for (uint32_t i = 1; i < n; i++) r->more[r->n_more++] = all[i];
    return RP_OK;
}

static rp_status infer_result(rule *r) {
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

static rp_status infer_view(rule *r) {
    switch (r->n->op) {
    case IR_reshape: return infer_reshape(r);
    case IR_permute: return infer_permute(r);
    case IR_slice: return infer_slice(r);
    case IR_written: return infer_effect(r);
    case IR_result: return infer_result(r);
    default: return infer_broadcast(r);
    }
}

static rp_status infer_move(rule *r) {
    if (r->n->op == IR_concat) return infer_concat(r);
    if (r->n->op == IR_gather) return infer_gather(r);
    r->dtype = r->a->dtype;
    r->shape = r->a->shape;
    return want_plain(r, 0);
}

static rp_status infer_kind(rule *r) {
    switch (ir_op_table(r->n->op)->kind) {
    case IR_KIND_LEAF: return infer_leaf(r);
    case IR_KIND_VIEW: return infer_view(r);
    case IR_KIND_ELEMENTWISE: return infer_elementwise(r);
    case IR_KIND_REDUCE: return infer_reduce(r);
    case IR_KIND_SCAN: return infer_scan(r);
    case IR_KIND_SCATTER: return infer_scatter(r);
    case IR_KIND_MOVE: return infer_move(r);
    case IR_KIND_CONTRACT: return infer_matmul(r);
    case IR_KIND_QUANT: return infer_quant(r);
    case IR_KIND_EFFECT: break;
    }
    return infer_effect(r);
}

rp_status ir_infer(const ir_graph *g, const ir_node *n, ir_type out[IR_MAX_RESULTS],
                   uint32_t *n_out, rp_error *err) {
    static const ir_node none; /* so that rules may look at what is not there */
    rule r = {.g = g, .dims = ir_graph_dims(g), .n = n, .op = ir_op_table(n->op)->name, .err = err};
    r.a = r.b = r.c = &none;
    if (n->n_in > 0) r.a = ir_node_at(g, n->in[0]);
    if (n->n_in > 1) r.b = ir_node_at(g, n->in[1]);
    if (n->n_in > 2) r.c = ir_node_at(g, n->in[2]);
    RP_TRY(infer_kind(&r));
    assert(r.n_more < IR_MAX_RESULTS);
    *n_out = r.n_more + 1;
    for (uint32_t i = 0; i < *n_out; i++) {
        out[i] = i ? r.more[i - 1] : (ir_type){r.dtype, r.shape};
        RP_TRY(ir_check_shape(g, r.op, out[i].dtype, &out[i].shape, err));
        assert(out[i].shape.rank <= IR_MAX_RANK);
        for (uint32_t d = out[i].shape.rank; d < IR_MAX_RANK; d++) out[i].shape.dim[d] = 0;
    }
    return RP_OK;
}
