/* Values by what they are: buckets, counts, the places of a mask. */
#include "trace/record.h"

static rp_tensor flat(rp_tensor x) {
    const rp_shape s = rp_tensor_shape(x);
    return rp_reshape(x, RP_SHAPE(trace_extent(&s, 0, s.rank)));
}

/* Bounds are compared all with each value: as many comparisons as there are of both, and no loop that a device would run alone. */
rp_tensor rp_bucketize(rp_tensor x, rp_tensor bounds, bool right) {
    rp_graph *g = x.graph;
    if (!trace_ready(g)) return trace_bad(g);
    if (rp_tensor_shape(bounds).rank != 1) {
        (void)rp_fail(&g->err, RP_INVALID, "bucketize: wants bounds of one axis, not %s",
                      trace_type_text(g, bounds).s);
        return trace_bad(g);
    }
    rp_tensor each = rp_unsqueeze(x, -1);
    rp_tensor below = right ? rp_le(bounds, each) : rp_lt(bounds, each);
    below = rp_or(below, rp_ne(each, each)); /* NaN is behind all, as in torch */
    return rp_sum(rp_cast(below, RP_DTYPE_I32), -1, false);
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
