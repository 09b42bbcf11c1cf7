/* Views as strides. Dims that are 1 may have any stride; a size that the engine cannot multiply gives no view. */
#include "lower/view.h"

static void dense_strides(ir_dims *t, const ir_shape *s, ir_dim *stride) {
    ir_dim d = ir_dim_const(t, 1);
    for (uint32_t i = s->rank; i-- > 0; d = ir_dim_mul(t, d, s->dim[i])) stride[i] = d;
}

void lower_view_dense(ir_dims *t, lower_ref at, const ir_node *n, lower_view *out) {
    *out = (lower_view){.at = at, .dtype = n->dtype, .offset = ir_dim_const(t, 0)};
    if (n->shape.rank) (void)ir_dim_is_const(t, n->shape.dim[n->shape.rank - 1], &out->row);
    dense_strides(t, &n->shape, out->stride);
}

bool lower_view_is_dense(ir_dims *t, const lower_view *v, const ir_shape *s) {
    ir_dim want[IR_MAX_RANK];
    if (!ir_dim_is(t, v->offset, 0)) return false;
    dense_strides(t, s, want);
    for (uint32_t i = 0; i < s->rank; i++)
        if (!ir_dim_is(t, s->dim[i], 1) && !ir_dim_same(t, v->stride[i], want[i])) return false;
    return true;
}

void lower_view_broadcast(ir_dims *t, const lower_view *v, const ir_shape *own, const ir_shape *s,
                          lower_view *out) {
    uint32_t lead = s->rank - own->rank;
    *out = *v;
    for (uint32_t i = 0; i < s->rank; i++)
        out->stride[i] = i < lead || ir_dim_is(t, own->dim[i - lead], 1) ? ir_dim_const(t, 0)
                                                                         : v->stride[i - lead];
}

/* --- reshape ------------------------------------------------------------------ */

/* Dims [from, to) of s walk memory as one; *step gets the stride of the innermost. */
static bool walks_as_one(ir_dims *t, const lower_view *v, const ir_shape *s, uint32_t from,
                         uint32_t to, ir_dim *step) {
    ir_dim next = IR_DIM_BAD;
    for (uint32_t i = to; i-- > from;) {
        if (ir_dim_is(t, s->dim[i], 1)) continue;
        if (next == IR_DIM_BAD)
            *step = v->stride[i];
        else if (!ir_dim_same(t, v->stride[i], next))
            return false;
        next = ir_dim_mul(t, v->stride[i], s->dim[i]);
        if (next == IR_DIM_BAD) return false;
    }
    return true;
}

/* Equal dims at both ends keep their strides; what is between must walk as one. */
static bool reshape_strides(ir_dims *t, const lower_view *v, const ir_shape *from,
                            const ir_shape *to, ir_dim *stride) {
    uint32_t a = 0, fa = from->rank, ta = to->rank;
    while (a < fa && a < ta && ir_dim_same(t, from->dim[a], to->dim[a])) {
        stride[a] = v->stride[a];
        a++;
    }
    while (fa > a && ta > a && ir_dim_same(t, from->dim[fa - 1], to->dim[ta - 1])) {
        fa--;
        ta--;
        stride[ta] = v->stride[fa];
    }
    ir_dim step = ir_dim_const(t, 1);
    if (!walks_as_one(t, v, from, a, fa, &step)) return false;
    for (uint32_t i = ta; i-- > a; step = ir_dim_mul(t, step, to->dim[i])) {
        if (step == IR_DIM_BAD) return false;
        stride[i] = step;
    }
    return true;
}

bool lower_view_of(ir_dims *t, const ir_node *n, const ir_shape *own, const lower_view *v,
                   lower_view *out) {
    lower_view r = *v;
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
    switch (n->op) {
    case IR_dequant: break;
    case IR_reshape:
        if (!reshape_strides(t, v, own, &n->shape, r.stride)) return false;
        break;
    case IR_permute:
        for (uint32_t i = 0; i < n->shape.rank; i++)
            r.stride[i] = v->stride[ir_attr_get(n, IR_ATTR_AXES)->u.ints[i]];
        break;
    case IR_slice: {
        ir_dim skip = ir_dim_mul(t, v->stride[axis], ir_attr_get(n, IR_ATTR_START)->u.dim);
        r.offset = ir_dim_add(t, v->offset, skip);
        if (r.offset == IR_DIM_BAD) return false;
        break;
    }
    default: lower_view_broadcast(t, v, own, &n->shape, &r); break;
    }
    *out = r;
    return true;
}
