/* Products and extremes of all elements up to each one, as loops of the graph: one element after the other, as they are defined. */
#include "trace/record.h"

#include "reprise/control.h"

typedef rp_tensor (*join_fn)(rp_tensor a, rp_tensor b);

static void step(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out, uint32_t n_out,
                 void *user) {
    (void)g, (void)n_in, (void)n_out;
    out[0] = out[1] = (*(const join_fn *)user)(in[0], in[1]);
}

/* What the loop begins with: ones, or the first element, which changes no extreme. */
static rp_tensor begin(rp_tensor x, uint32_t at, bool by_ones) {
    rp_shape s = rp_tensor_shape(x), one = {.rank = s.rank - 1};
    if (!by_ones) return rp_squeeze(rp_slice(x, (int)at, 0, 1), (int)at);
    for (uint32_t i = 0, k = 0; i < s.rank; i++)
        if (i != at) one.dim[k++] = s.dim[i];
    return rp_broadcast(rp_const(x.graph, rp_tensor_dtype(x), 1), one);
}

static rp_tensor running(const char *name, rp_tensor a, int axis, join_fn join, bool by_ones) {
    uint32_t at;
    if (!trace_axis(name, a, axis, false, &at)) return trace_bad(a.graph);
    rp_tensor x = trace_core(by_ones ? trace_summed(a) : a), out[2], from = begin(x, at, by_ones);
    const rp_scan_args args = {
        .carried = &from, .n_carried = 1, .sliced = &x, .n_sliced = 1, .axis = (int)at};
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    (void)(rp_scan)(a.graph, step, &join, &args, out, 2);
    return trace_like(out[1], a);
}

static rp_tensor times(rp_tensor a, rp_tensor b) {
    return rp_mul(a, b);
}

static rp_tensor greater(rp_tensor a, rp_tensor b) {
    return rp_max(a, b);
}

static rp_tensor less(rp_tensor a, rp_tensor b) {
    return rp_min(a, b);
}

rp_tensor rp_cumprod(rp_tensor a, int axis) {
    return running("cumprod", a, axis, times, true);
}

rp_tensor rp_cummax(rp_tensor a, int axis) {
    return running("cummax", a, axis, greater, false);
}

rp_tensor rp_cummin(rp_tensor a, int axis) {
    return running("cummin", a, axis, less, false);
}
