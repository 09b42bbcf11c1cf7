/* Values by what they are: buckets, counts, the places of a mask and of what is not 0. */
#include "trace/record.h"

static rp_tensor flat(rp_tensor x) {
    const rp_shape s = rp_tensor_shape(x);
    return rp_reshape(x, RP_SHAPE(trace_extent(&s, 0, s.rank)));
}

enum { FEW = 64 }; /* bounds, which are compared all with each value */

/* Whether bound is below x, or not above it where `right`. NaN is behind all, as in torch. */
static rp_tensor is_below(rp_tensor bound, rp_tensor x, bool right) {
    return rp_or(right ? rp_le(bound, x) : rp_lt(bound, x), rp_ne(x, x));
}

/* How many of bounds[B,N] are below each of x[B,M]. */
static rp_tensor count_below(rp_tensor bounds, rp_tensor x, bool right) {
    rp_tensor below = is_below(rp_unsqueeze(bounds, 1), rp_unsqueeze(x, 2), right);
    return rp_sum(rp_cast(below, RP_DTYPE_I32), -1, false);
}

/* The same of n bounds by halves, without a branch: what is known to be below grows by powers of two. */
static rp_tensor search_below(rp_tensor bounds, rp_tensor x, int64_t n, bool right) {
    rp_graph *g = x.graph;
    const rp_shape of_x = rp_tensor_shape(x), of_bounds = rp_tensor_shape(bounds);
    const rp_dtype t = trace_place_type(trace_extent(&of_bounds, 0, 2));
    rp_tensor all = flat(bounds), row = rp_mul_int(rp_iota(g, t, of_x, 0), n);
    rp_tensor lo = rp_broadcast(rp_const_int(g, t, 0), of_x), end = rp_const_int(g, t, n);
    int64_t step = 1;
    while (step <= n / 2) step *= 2;
    for (; step > 0; step /= 2) {
        rp_tensor next = rp_add_int(lo, step), last = rp_add_int(rp_min(next, end), -1);
        rp_tensor below = is_below(rp_gather(all, rp_add(row, last)), x, right);
        lo = rp_where(rp_and(rp_le(next, end), below), next, lo);
    }
    return rp_cast(lo, RP_DTYPE_I32);
}

/* What may have no rows has no element for the search to begin at. */
static rp_tensor below_of(rp_tensor bounds, rp_tensor x, bool right) {
    int64_t n = 0;
    const bool many = rp_dim_is_const(rp_tensor_dim(bounds, 1), &n) && n > FEW &&
                      trace_at_least(x.graph, rp_tensor_dim(bounds, 0), 1);
    return many ? search_below(bounds, x, n, right) : count_below(bounds, x, right);
}

rp_tensor rp_bucketize(rp_tensor x, rp_tensor bounds, bool right) {
    rp_graph *g = x.graph;
    if (!trace_ready(g)) return trace_bad(g);
    if (rp_tensor_shape(bounds).rank != 1) {
        (void)rp_fail(&g->err, RP_INVALID, "bucketize: wants bounds of one axis, not %s",
                      trace_type_text(g, bounds).s);
        return trace_bad(g);
    }
    rp_tensor y = below_of(rp_unsqueeze(bounds, 0), rp_unsqueeze(flat(x), 0), right);
    return rp_reshape(y, rp_tensor_shape(x));
}

/* Axes before the last as one. */
static rp_tensor rows_of(rp_tensor x) {
    const rp_shape s = rp_tensor_shape(x);
    return rp_reshape(x, RP_SHAPE(trace_extent(&s, 0, s.rank - 1), s.dim[s.rank - 1]));
}

rp_tensor rp_searchsorted(rp_tensor sorted, rp_tensor values, bool right) {
    rp_graph *g = sorted.graph;
    const rp_shape s = rp_tensor_shape(sorted), v = rp_tensor_shape(values);
    if (!trace_ready(g)) return trace_bad(g);
    if (s.rank == 1) return rp_bucketize(values, sorted, right);
    bool ok = s.rank > 0 && s.rank == v.rank &&
              rp_tensor_dtype(sorted) == rp_tensor_dtype(values) && values.graph == g;
    for (uint32_t i = 0; ok && i + 1 < s.rank; i++) ok = trace_equal(g, s.dim[i], v.dim[i]);
    if (!ok) {
        if (trace_ready(g))
            (void)rp_fail(&g->err, RP_INVALID,
                          "searchsorted: wants sorted [N], or [...,N] and values [...,M] of the "
                          "same type and axes before, not %s and %s",
                          trace_type_text(g, sorted).s, trace_type_text(g, values).s);
        return trace_bad(g);
    }
    return rp_reshape(below_of(rows_of(sorted), rows_of(values), right), v);
}

rp_tensor rp_bincount(rp_tensor x, int64_t n) {
    rp_graph *g = x.graph;
    if (!trace_ready(g)) return trace_bad(g);
    if (n < 1) {
        (void)rp_fail(&g->err, RP_INVALID, "bincount: %lld counts; at least 1", (long long)n);
        return trace_bad(g);
    }
    if (ir_dtype_is_small(rp_tensor_dtype(x))) x = rp_cast(x, RP_DTYPE_I32); /* which has every n */
    const rp_dtype t = rp_tensor_dtype(x);
    rp_tensor at = flat(x), zero = rp_const(g, t, 0);
    rp_tensor end = rp_dim_value(g, rp_dim_const(n), t);
    rp_tensor inside = rp_and(rp_ge(at, zero), rp_lt(at, end));
    rp_tensor none = rp_broadcast(rp_const(g, RP_DTYPE_I32, 0), RP_SHAPE(n));
    return rp_scatter_add(none, 0, at, rp_cast(inside, RP_DTYPE_I32));
}

rp_tensor rp_masked_scatter(rp_tensor x, rp_tensor mask, rp_tensor source) {
    rp_graph *g = x.graph;
    if (!trace_ready(g)) return trace_bad(g);
    const rp_shape s = rp_tensor_shape(x);
    rp_tensor m = flat(rp_broadcast(mask, s)), from = flat(source);
    rp_tensor at = rp_add_scalar(rp_cumsum(rp_cast(m, RP_DTYPE_I32), 0), -1);
    return rp_reshape(rp_where(m, rp_gather(from, at), flat(x)), s);
}

/* Place `at` of all of shape s, row-major, as one index along axis i. */
static rp_tensor index_along(rp_tensor at, const rp_shape *s, uint32_t i) {
    const rp_dtype t = rp_tensor_dtype(at);
    rp_dim inner = trace_extent(s, i + 1, s->rank);
    at = trace_floor_divide(at, rp_dim_value(at.graph, inner, t));
    return i ? trace_remainder(at, rp_dim_value(at.graph, s->dim[i], t)) : at;
}

/* The k-th that is not 0 goes to place k of a list with one place more, where all go that have none of their own. */
rp_tensor rp_nonzero(rp_tensor x, int64_t n, int64_t fill) {
    rp_graph *g = x.graph;
    const rp_shape s = rp_tensor_shape(x);
    rp_tensor column[RP_MAX_RANK];
    if (!trace_ready(g)) return trace_bad(g);
    if (n < 0 || n > INT32_MAX - 1 || fill < INT32_MIN || fill > INT32_MAX || s.rank == 0) {
        (void)rp_fail(&g->err, RP_INVALID,
                      "nonzero: %lld places of %s, filled with %lld; wants a tensor with axes, and "
                      "numbers that i32 holds",
                      (long long)n, trace_type_text(g, x).s, (long long)fill);
        return trace_bad(g);
    }
    const rp_dtype t = trace_place_type(trace_extent(&s, 0, s.rank)), i32 = RP_DTYPE_I32;
    rp_tensor is = flat(rp_ne(x, rp_cast(rp_const(g, i32, 0), rp_tensor_dtype(x))));
    rp_tensor count = rp_cumsum(rp_cast(is, t), 0), last = rp_const_int(g, t, n);
    rp_tensor place = rp_where(is, rp_add_int(count, -1), last); /* clamps */
    rp_tensor found = rp_broadcast(rp_const_int(g, t, -1), RP_SHAPE(n + 1));
    found = rp_scatter(found, 0, place, rp_iota(g, t, rp_tensor_shape(is), 0));
    found = rp_slice(found, 0, 0, n);
    rp_tensor missing = rp_lt(found, rp_const_int(g, t, 0)), none = rp_const_int(g, t, fill);
    for (uint32_t i = 0; i < s.rank; i++)
        column[i] = rp_where(missing, none, index_along(found, &s, i));
    return rp_cast(rp_stack(column, s.rank, 1), i32);
}

void(rp_topk_along)(rp_tensor a, int64_t k, int axis, rp_tensor *values, rp_tensor *indices) {
    uint32_t at;
    if (!trace_axis("topk_along", a, axis, false, &at)) {
        if (values) *values = trace_bad(a.graph);
        if (indices) *indices = trace_bad(a.graph);
        return;
    }
    (rp_topk)(rp_transpose(a, (int)at, -1), k, values, indices);
    if (values) *values = rp_transpose(*values, (int)at, -1);
    if (indices) *indices = rp_transpose(*indices, (int)at, -1);
}
