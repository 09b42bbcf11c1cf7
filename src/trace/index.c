/* Values by their index: rows of tables, comparisons, scatters. */
#include "trace/record.h"

rp_tensor rp_index_select(rp_tensor a, int axis, rp_tensor idx) {
    uint32_t at, rank = rp_tensor_shape(a).rank;
    int there[RP_MAX_RANK], back[RP_MAX_RANK];
    if (!trace_axis("index_select", a, axis, false, &at)) return trace_bad(a.graph);
    if (at == 0) return rp_gather(a, idx);
    for (uint32_t i = 0; i < rank; i++) there[i] = (int)(i == 0 ? at : i <= at ? i - 1 : i);
    for (uint32_t i = 0; i < rank; i++) back[there[i]] = (int)i;
    return rp_permute(rp_gather(rp_permute(a, there, rank), idx), back, rank);
}

/* Of i32 or i64. */
static rp_tensor whole(rp_tensor idx) {
    return ir_dtype_is_small(rp_tensor_dtype(idx)) ? rp_cast(idx, RP_DTYPE_I32) : idx;
}

/* In the wider of both types, as a cast to the narrower keeps low bits alone. */
rp_tensor trace_clamped(rp_tensor idx, rp_dim n, rp_dtype t) {
    rp_graph *g = idx.graph;
    idx = t == RP_DTYPE_I32 ? whole(idx) : rp_cast(idx, t);
    const rp_dtype own = rp_tensor_dtype(idx);
    rp_tensor last = rp_dim_value(g, rp_dim_sub(n, 1), own);
    return rp_cast(rp_max(rp_min(idx, last), rp_const(g, own, 0)), t);
}

static rp_tensor times(rp_tensor x, rp_dim n) {
    return rp_mul(x, rp_dim_value(x.graph, n, rp_tensor_dtype(x)));
}

rp_dim trace_extent(const rp_shape *s, uint32_t from, uint32_t to) {
    rp_dim all = rp_dim_const(1);
    for (uint32_t i = from; i < to && i < RP_MAX_RANK; i++) all = rp_dim_mul(all, s->dim[i]);
    return all;
}

rp_dtype trace_place_type(rp_dim n) {
    int64_t least, most;
    rp_dim_bounds(n, &least, &most);
    return most <= INT32_MAX ? RP_DTYPE_I32 : RP_DTYPE_I64;
}

/* The type that holds the place of every element of shape s; and whether idx fits along axis `at`. */
static bool places_of(rp_tensor a, uint32_t at, rp_tensor idx, rp_dtype *out) {
    rp_shape s = rp_tensor_shape(a), x = rp_tensor_shape(idx);
    bool ok = trace_ready(a.graph) && s.rank == x.rank;
    for (uint32_t i = 0; ok && i < s.rank; i++)
        ok = i == at || trace_equal(a.graph, s.dim[i], x.dim[i]);
    int64_t n;
    bool none = ok && rp_dim_is_const(x.dim[at], &n) && n == 0; /* no index needs an element */
    if (ok && (none || trace_at_least(a.graph, s.dim[at], 1))) {
        *out = trace_place_type(trace_extent(&s, 0, s.rank));
        return true;
    }
    if (trace_ready(a.graph))
        (void)rp_fail(&a.graph->err, RP_INVALID,
                      "take_along: wants indices of the shape of %s but along axis %u, which is "
                      "not empty; not %s",
                      trace_type_text(a.graph, a).s, at, trace_type_text(a.graph, idx).s);
    return false;
}

/* Each element by its place in all of a, row-major. */
rp_tensor rp_take_along(rp_tensor a, int axis, rp_tensor idx) {
    uint32_t at;
    rp_dtype t;
    rp_graph *g = a.graph;
    if (!trace_axis("take_along", a, axis, false, &at) || !places_of(a, at, idx, &t))
        return trace_bad(g);
    rp_shape s = rp_tensor_shape(a), x = rp_tensor_shape(idx);
    rp_dim inner = trace_extent(&s, at + 1, s.rank), rows = trace_extent(&s, 0, at);
    rp_tensor place = times(trace_clamped(idx, s.dim[at], t), inner);
    for (uint32_t i = s.rank; i-- > at + 1;)
        place = rp_add(place, times(rp_iota(g, t, x, (int)i), trace_extent(&s, i + 1, s.rank)));
    rp_shape three = RP_SHAPE(rows, x.dim[at], inner);
    rp_tensor row = times(rp_iota(g, t, three, 0), rp_dim_mul(s.dim[at], inner));
    place = rp_add(rp_reshape(place, three), row);
    rp_dim all = trace_extent(&s, 0, s.rank);
    return rp_gather(rp_reshape(a, RP_SHAPE(all)), rp_reshape(place, x));
}

rp_tensor rp_one_hot(rp_tensor idx, int64_t n, rp_dtype dtype) {
    uint32_t at;
    if (!trace_axis("one_hot", idx, -1, true, &at)) return trace_bad(idx.graph);
    idx = whole(idx);
    rp_tensor i = rp_iota(idx.graph, rp_tensor_dtype(idx), RP_SHAPE(n), 0);
    return rp_cast(rp_eq(rp_unsqueeze(idx, -1), i), dtype);
}

/* --- writes by index ---------------------------------------------------------------- */

/* f16 and bf16 are joined in f32 and rounded once. */
static rp_tensor scatter(ir_op op, rp_tensor a, int axis, rp_tensor idx, rp_tensor src) {
    ir_attr attr = {.key = IR_ATTR_AXIS, .u.i = axis};
    rp_tensor in[] = {a, idx, src};
    if (op == IR_scatter) return trace_op(a.graph, op, in, 3, &attr, 1);
    in[0] = trace_core(a);
    in[2] = trace_core(src);
    return trace_like(trace_op(a.graph, op, in, 3, &attr, 1), a);
}

#define SCATTER(fn, op)                                                 \
    rp_tensor fn(rp_tensor a, int axis, rp_tensor idx, rp_tensor src) { \
        return scatter(op, a, axis, idx, src);                          \
    }
SCATTER(rp_scatter, IR_scatter)
SCATTER(rp_scatter_add, IR_scatter_add)
SCATTER(rp_scatter_prod, IR_scatter_prod)
SCATTER(rp_scatter_amax, IR_scatter_amax)
SCATTER(rp_scatter_amin, IR_scatter_amin)

/* One index for a whole row. */
static rp_tensor scatter_rows(const char *name, ir_op op, rp_tensor a, int axis, rp_tensor idx,
                              rp_tensor src) {
    uint32_t at;
    rp_shape x = rp_tensor_shape(idx), rows = {.rank = rp_tensor_shape(a).rank};
    if (!trace_axis(name, a, axis, false, &at)) return trace_bad(a.graph);
    if (x.rank != 1) {
        (void)rp_fail(&a.graph->err, RP_INVALID, "%s: wants an index of one axis, not %s", name,
                      trace_type_text(a.graph, idx).s);
        return trace_bad(a.graph);
    }
    for (uint32_t i = 0; i < rows.rank; i++) rows.dim[i] = i == at ? x.dim[0] : rp_dim_const(1);
    return scatter(op, a, axis, rp_reshape(idx, rows), src);
}

rp_tensor rp_index_add(rp_tensor a, int axis, rp_tensor idx, rp_tensor src) {
    return scatter_rows("index_add", IR_scatter_add, a, axis, idx, src);
}

rp_tensor rp_index_copy(rp_tensor a, int axis, rp_tensor idx, rp_tensor src) {
    return scatter_rows("index_copy", IR_scatter, a, axis, idx, src);
}

/* Rows of a that its first n axes count, by their place among them. */
rp_tensor rp_index_put(rp_tensor a, const rp_tensor *idx, uint32_t n, rp_tensor values,
                       bool accumulate) {
    if (n && !idx) return trace_null(a.graph, "index_put: the list of indices");
    rp_shape s = rp_tensor_shape(a), x = n ? rp_tensor_shape(idx[0]) : (rp_shape){0};
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    if (n == 0 || n > s.rank || x.rank + s.rank - n > RP_MAX_RANK) {
        (void)rp_fail(&a.graph->err, RP_INVALID, "index_put: %u indices of %u axes into %s", n,
                      x.rank, trace_type_text(a.graph, a).s);
        return trace_bad(a.graph);
    }
    rp_tensor place = trace_clamped(idx[0], s.dim[0], RP_DTYPE_I64);
    for (uint32_t i = 1; i < n; i++)
        place = rp_add(times(place, s.dim[i]), trace_clamped(idx[i], s.dim[i], RP_DTYPE_I64));
    rp_dim rows = trace_extent(&s, 0, n), inner = trace_extent(&s, n, s.rank),
           many = trace_extent(&x, 0, x.rank);
    rp_shape all = x;
    for (uint32_t i = n; i < s.rank; i++) all.dim[all.rank++] = s.dim[i];
    values = rp_reshape(rp_broadcast(values, all), RP_SHAPE(many, inner));
    rp_tensor y = scatter(accumulate ? IR_scatter_add : IR_scatter,
                          rp_reshape(a, RP_SHAPE(rows, inner)), 0,
                          rp_reshape(place, RP_SHAPE(many, 1)), values);
    return rp_reshape(y, s);
}

rp_tensor(rp_tril_mask)(rp_graph *g, rp_dim rows, rp_dim cols, int64_t offset) {
    rp_tensor row = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(rows, cols), 0);
    rp_tensor col = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(rows, cols), 1);
    return rp_le(col, offset ? rp_add_int(row, offset) : row);
}

rp_tensor rp_masked_fill(rp_tensor a, rp_tensor mask, double s) {
    return rp_where(mask, rp_const(a.graph, rp_tensor_dtype(a), s), a);
}
