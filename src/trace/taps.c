/* Windows along one axis. */
#include "trace/taps.h"

bool trace_taps_of(rp_graph *g, rp_dim size, int64_t n, int64_t stride, int64_t padding,
                   int64_t dilation, trace_taps *out) {
    *out = (trace_taps){.n = n, .stride = stride, .padding = padding, .dilation = dilation};
    if (n < 1 || stride < 1 || dilation < 1) return false;
    if (!trace_is_small(n) || !trace_is_small(stride) || !trace_is_small(padding) ||
        !trace_is_small(dilation))
        return false;
    rp_dim padded = rp_dim_add(size, 2 * padding), reach = rp_dim_const((n - 1) * dilation + 1);
    if (!trace_le(g, reach, padded)) return false;
    out->out = rp_dim_add(rp_dim_floordiv(rp_dim_sub(padded, reach), stride), 1);
    /* The last tap's views end at (n - 1) * dilation + out * stride. */
    rp_dim end = rp_dim_add(rp_dim_mul(out->out, stride), (n - 1) * dilation);
    out->missing = rp_dim_const(0);
    if (stride > 1 && rp_dim_compare(end, RP_DIM_LE, padded) != RP_YES)
        out->missing = rp_dim_const(stride - 1);
    return true;
}

rp_tensor trace_taps_pad(rp_tensor x, int axis, const trace_taps *t, double value) {
    return rp_pad(x, axis, t->padding, rp_dim_add(t->missing, t->padding), value);
}

rp_tensor trace_tap(rp_tensor x, int axis, const trace_taps *t, int64_t i) {
    rp_dim start = rp_dim_const(i * t->dilation);
    rp_dim stop = rp_dim_add(start, rp_dim_mul(t->out, t->stride));
    return rp_slice_step(x, axis, start, stop, t->stride);
}
