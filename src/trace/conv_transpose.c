/* Transposed convolutions: what a convolution of stride 1 with the kernel turned around makes of x spread out. */
#include "trace/taps.h"

/* `stride` - 1 zeros behind each element of x along axis but the last, then as many before and behind as the kernel reaches over
 * the edge. */
static rp_tensor spread(rp_tensor x, int axis, int64_t stride, int64_t before, int64_t after) {
    rp_dim n = rp_tensor_dim(x, axis);
    if (stride > 1) {
        x = rp_pad(rp_unsqueeze(x, axis + 1), axis + 1, 0, stride - 1, 0);
        x = rp_flatten(x, axis, axis + 1);
        x = rp_slice(x, axis, 0, rp_dim_add(rp_dim_mul(rp_dim_sub(n, 1), stride), 1));
    }
    if (before < 0) x = rp_slice(x, axis, -before, rp_tensor_dim(x, axis));
    if (after < 0) x = rp_slice(x, axis, 0, rp_dim_add(rp_tensor_dim(x, axis), after));
    return rp_pad(x, axis, before > 0 ? before : 0, after > 0 ? after : 0, 0);
}

/* [C,O/groups,...] turned around, as [O,C/groups,...]. */
static rp_tensor turned(rp_tensor w, uint32_t axes, int64_t channels, int64_t groups) {
    for (uint32_t i = 0; i < axes; i++) w = rp_flip(w, (int)(2 + i));
    if (groups == 1) return rp_transpose(w, 0, 1);
    rp_dim each[2] = {rp_dim_const(groups), rp_dim_const(channels / groups)};
    return rp_flatten(rp_transpose(trace_regroup(w, 0, 1, each, 2), 1, 2), 0, 1);
}

/* Windows over `axes` axes, whose sizes are the last of `a`. */
static rp_tensor transposed(rp_tensor x, rp_tensor weight, rp_tensor bias, uint32_t axes,
                            const rp_conv3d_args *a, int64_t extra) {
    rp_conv3d_args one = {.groups = a->groups};
    rp_graph *g = x.graph;
    rp_shape s = rp_tensor_shape(x), w = rp_tensor_shape(weight);
    int64_t c = 0, of_w = 0, least = INT64_MAX, k[3] = {0}, stride[3] = {0};
    const int64_t groups = a->groups ? a->groups : 1;
    if (!trace_ready(g)) return trace_bad(g);
    bool ok = s.rank == 2 + axes && w.rank == 2 + axes && extra >= 0;
    if (ok && groups > 1)
        ok = trace_number(g, s.dim[1], &c) && trace_number(g, w.dim[0], &of_w) && of_w == c &&
             c % groups == 0;
    for (uint32_t i = 3 - axes; ok && i < 3; i++) {
        ok = trace_number(g, w.dim[i + axes - 1], &k[i]);
        stride[i] = a->stride[i] ? a->stride[i] : 1;
        one.dilation[i] = a->dilation[i] ? a->dilation[i] : 1;
        ok = ok && stride[i] > 0 && one.dilation[i] > 0 && k[i] > 0 && trace_is_small(k[i]);
        ok = ok && trace_is_small(stride[i]) && trace_is_small(one.dilation[i]) &&
             trace_is_small(a->padding[i]);
        if (stride[i] < least) least = stride[i];
    }
    if (!ok || (extra > 0 && extra >= least)) {
        if (trace_ready(g))
            (void)rp_fail(
                &g->err, RP_INVALID,
                "conv_transpose: x %s and weight %s: wants [N,C,%s] and "
                "[C,O/groups,...] with as many axes, of known size, groups that divide C, "
                "and extra %lld below the strides",
                trace_type_text(g, x).s, trace_type_text(g, weight).s,
                axes == 1   ? "L"
                : axes == 2 ? "H,W"
                            : "D,H,W",
                (long long)extra);
        return trace_bad(g);
    }
    for (uint32_t i = 3 - axes; i < 3; i++) {
        const int64_t reach = one.dilation[i] * (k[i] - 1) - a->padding[i];
        x = spread(x, (int)(i + axes - 1), stride[i], reach, reach + extra);
    }
    weight = turned(weight, axes, c, groups);
    if (axes == 3) return rp_conv3d(x, weight, bias, &one);
    const rp_conv_args flat = {.dilation = {one.dilation[1], one.dilation[2]}, .groups = a->groups};
    return axes == 2 ? rp_conv2d(x, weight, bias, &flat) : rp_conv1d(x, weight, bias, &flat);
}

/* Without a depth. */
static rp_conv3d_args deep(const rp_conv_args *args) {
    rp_conv3d_args a = {{0}, {0}, {0}, 0};
    if (!args) return a;
    for (int i = 0; i < 2; i++) {
        a.stride[1 + i] = args->stride[i];
        a.padding[1 + i] = args->padding[i];
        a.dilation[1 + i] = args->dilation[i];
    }
    a.groups = args->groups;
    return a;
}

rp_tensor rp_conv_transpose1d(rp_tensor x, rp_tensor weight, rp_tensor bias,
                              const rp_conv_args *args, int64_t extra) {
    const rp_conv3d_args a = deep(args);
    return transposed(x, weight, bias, 1, &a, extra);
}

rp_tensor rp_conv_transpose2d(rp_tensor x, rp_tensor weight, rp_tensor bias,
                              const rp_conv_args *args, int64_t extra) {
    const rp_conv3d_args a = deep(args);
    return transposed(x, weight, bias, 2, &a, extra);
}

rp_tensor rp_conv_transpose3d(rp_tensor x, rp_tensor weight, rp_tensor bias,
                              const rp_conv3d_args *args, int64_t extra) {
    static const rp_conv3d_args none = {{0}, {0}, {0}, 0};
    return transposed(x, weight, bias, 3, args ? args : &none, extra);
}
