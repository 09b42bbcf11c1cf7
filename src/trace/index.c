/* Values by their index, made of rows of tables and comparisons. */
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

/* What an i32 cannot hold is outside of everything, and saturates. */
static rp_tensor narrow(rp_tensor idx) {
    return rp_tensor_dtype(idx) == RP_DTYPE_I64 ? rp_cast(idx, RP_DTYPE_I32) : idx;
}

/* Clamped into [0, n). */
static rp_tensor clamped(rp_tensor idx, int64_t n) {
    rp_graph *g = idx.graph;
    rp_tensor last = rp_const(g, RP_DTYPE_I32, (double)(n - 1));
    return rp_max(rp_min(idx, last), rp_const(g, RP_DTYPE_I32, 0));
}

/* Whether places in all of a are i32, and how many elements a step along axis `at` is: *inner, of *n. */
static bool places_of(rp_tensor a, uint32_t at, rp_tensor idx, int64_t *n, int64_t *inner) {
    rp_shape s = rp_tensor_shape(a), x = rp_tensor_shape(idx);
    rp_dim all = rp_dim_const(1);
    int64_t size, least, most;
    bool ok = s.rank == x.rank && rp_dim_is_const(s.dim[at], n) && *n > 0;
    *inner = 1;
    for (uint32_t i = 0; ok && i < s.rank; i++) {
        all = rp_dim_mul(all, s.dim[i]);
        if (i != at) ok = rp_dim_compare(s.dim[i], RP_DIM_EQ, x.dim[i]) == RP_YES;
        if (i <= at) continue;
        ok = ok && rp_dim_is_const(s.dim[i], &size);
        if (ok) *inner *= size;
    }
    if (ok) rp_dim_bounds(all, &least, &most);
    if (ok && most <= INT32_MAX) return true;
    if (trace_ready(a.graph))
        (void)rp_fail(&a.graph->err, RP_INVALID,
                      "take_along: wants indices of the shape of %s but along axis %u, whose size "
                      "and those behind it are known, and fewer than 2^31 elements; not %s",
                      ir_type_of(a.graph->ir, a.ref).s, at, ir_type_of(a.graph->ir, idx.ref).s);
    return false;
}

/* Each element by its place in all of a, row-major. */
rp_tensor rp_take_along(rp_tensor a, int axis, rp_tensor idx) {
    uint32_t at;
    int64_t n, inner, step = 1;
    rp_graph *g = a.graph;
    rp_dim all = rp_dim_const(1);
    if (!trace_axis("take_along", a, axis, false, &at) || !places_of(a, at, idx, &n, &inner))
        return trace_bad(g);
    rp_shape s = rp_tensor_shape(a), x = rp_tensor_shape(idx);
    rp_tensor place = rp_mul_scalar(clamped(narrow(idx), n), (double)inner);
    rp_dim rows = rp_dim_const(1); /* as one axis */
    for (uint32_t i = 0; i < at; i++) rows = rp_dim_mul(rows, s.dim[i]);
    for (uint32_t i = s.rank; i-- > at + 1;) {
        int64_t size = 1;
        rp_tensor one = rp_iota(g, RP_DTYPE_I32, x, (int)i);
        place = rp_add(place, rp_mul_scalar(one, (double)step));
        (void)rp_dim_is_const(s.dim[i], &size);
        step *= size;
    }
    rp_dim shape[3] = {rows, x.dim[at], rp_dim_const(inner)};
    rp_tensor row = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(shape[0], shape[1], shape[2]), 0);
    place = rp_reshape(place, RP_SHAPE(shape[0], shape[1], shape[2]));
    place = rp_add(place, rp_mul_scalar(row, (double)(n * inner)));
    for (uint32_t i = 0; i < s.rank; i++) all = rp_dim_mul(all, s.dim[i]);
    return rp_gather(rp_reshape(a, RP_SHAPE(all)), rp_reshape(place, x));
}

/* Whether idx is the place along a new last axis of n. */
static rp_tensor is_at(rp_tensor idx, rp_dim n) {
    rp_tensor i = rp_iota(idx.graph, RP_DTYPE_I32, RP_SHAPE(n), 0);
    return rp_eq(rp_unsqueeze(narrow(idx), -1), i);
}

rp_tensor rp_one_hot(rp_tensor idx, int64_t n, rp_dtype dtype) {
    if (!trace_ready(idx.graph)) return trace_bad(idx.graph);
    return rp_cast(is_at(idx, rp_dim_const(n)), dtype);
}

rp_tensor rp_scatter_add(rp_tensor a, rp_tensor idx, rp_tensor src) {
    rp_shape s = rp_tensor_shape(a), x = rp_tensor_shape(idx);
    int64_t k = 0;
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    if (s.rank == 0 || s.rank != x.rank || !rp_dim_is_const(x.dim[x.rank - 1], &k)) {
        (void)rp_fail(&a.graph->err, RP_INVALID,
                      "scatter_add: into %s at %s; wants indices [...,K] of as many axes, K known",
                      ir_type_of(a.graph->ir, a.ref).s, ir_type_of(a.graph->ir, idx.ref).s);
        return trace_bad(a.graph);
    }
    rp_tensor zero = rp_const(a.graph, rp_tensor_dtype(a), 0);
    for (int64_t i = 0; i < k; i++) {
        rp_tensor at = rp_squeeze(rp_slice(idx, -1, i, i + 1), -1);
        rp_tensor is = is_at(at, s.dim[s.rank - 1]);
        a = rp_add(a, rp_where(is, rp_slice(src, -1, i, i + 1), zero));
    }
    return a;
}

rp_tensor(rp_tril_mask)(rp_graph *g, rp_dim rows, rp_dim cols, int64_t offset) {
    rp_tensor row = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(rows, cols), 0);
    rp_tensor col = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(rows, cols), 1);
    return rp_le(col, offset ? rp_add_scalar(row, (double)offset) : row);
}

rp_tensor rp_masked_fill(rp_tensor a, rp_tensor mask, double s) {
    return rp_where(mask, rp_const(a.graph, rp_tensor_dtype(a), s), a);
}
