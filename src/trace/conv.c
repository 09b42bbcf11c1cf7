/* Convolutions and pooling: windows as views of the padded input.
 *
 * A convolution is the product of [N,H',W', KH*KW*C] (the elements under each window) and the weights; where windows lie side
 * by side that is a view of x. One of a channel alone (depthwise) is a sum over the taps. */
#include <math.h>

#include "trace/taps.h"

enum {
    MOST_TAPS = 1024, /* one by one */
    FEW_TAPS =
        64 /* of pooling in both directions at once, and of a convolution that asks no more of sizes than it must */
};

typedef struct conv {
    rp_shape x, w;
    int64_t channels, of_group, out, groups;
    trace_taps high, wide;
} conv;

static bool conv_sizes(rp_tensor x, rp_tensor w, const rp_conv_args *a, conv *c) {
    int64_t kh = 0, kw = 0, groups = a->groups ? a->groups : 1;
    rp_graph *g = x.graph;
    *c = (conv){.x = rp_tensor_shape(x), .w = rp_tensor_shape(w), .groups = groups};
    return c->x.rank == 4 && c->w.rank == 4 && trace_number(g, c->x.dim[1], &c->channels) &&
           trace_number(g, c->w.dim[0], &c->out) && trace_number(g, c->w.dim[1], &c->of_group) &&
           trace_number(g, c->w.dim[2], &kh) && trace_number(g, c->w.dim[3], &kw) &&
           c->of_group * groups == c->channels && c->out % groups == 0 &&
           trace_taps_of(g, c->x.dim[2], kh, a->stride[0] ? a->stride[0] : 1, a->padding[0],
                         a->dilation[0] ? a->dilation[0] : 1, &c->high) &&
           trace_taps_of(g, c->x.dim[3], kw, a->stride[1] ? a->stride[1] : 1, a->padding[1],
                         a->dilation[1] ? a->dilation[1] : 1, &c->wide);
}

/* Whether the windows lie side by side and cover x, which is asked of the trace where they are many: else each tap is a view. */
static bool is_tiled(const conv *c, rp_graph *g) {
    rp_dim h = rp_dim_mul(c->high.out, c->high.n), v = rp_dim_mul(c->wide.out, c->wide.n);
    bool many = c->high.n * c->wide.n > FEW_TAPS;
    return c->high.padding == 0 && c->wide.padding == 0 && c->high.stride == c->high.n &&
           c->wide.stride == c->wide.n && (c->high.dilation == 1 || c->high.n == 1) &&
           (c->wide.dilation == 1 || c->wide.n == 1) &&
           (many ? trace_equal(g, h, c->x.dim[2]) && trace_equal(g, v, c->x.dim[3])
                 : rp_dim_compare(h, RP_DIM_EQ, c->x.dim[2]) == RP_YES &&
                       rp_dim_compare(v, RP_DIM_EQ, c->x.dim[3]) == RP_YES);
}

/* x as [N,H',W',KH*KW,C]. */
static rp_tensor windows(rp_tensor x, const conv *c) {
    rp_dim n = c->x.dim[0], k = rp_dim_const(c->high.n * c->wide.n);
    if (is_tiled(c, x.graph)) {
        rp_shape cut = RP_SHAPE(n, c->channels, c->high.out, c->high.n, c->wide.out, c->wide.n);
        x = rp_permute(rp_reshape(x, cut), (int[]){0, 2, 4, 3, 5, 1}, 6);
        return rp_reshape(x, RP_SHAPE(n, c->high.out, c->wide.out, k, c->channels));
    }
    rp_tensor part[MOST_TAPS];
    uint32_t at = 0;
    x = trace_taps_pad(trace_taps_pad(x, 2, &c->high, 0), 3, &c->wide, 0);
    x = rp_permute(x, (int[]){0, 2, 3, 1}, 4);
    for (int64_t i = 0; i < c->high.n; i++)
        for (int64_t j = 0; j < c->wide.n; j++)
            part[at++] = rp_unsqueeze(trace_tap(trace_tap(x, 1, &c->high, i), 2, &c->wide, j), 3);
    return at == 1 ? part[0] : rp_concat(part, at, 3);
}

/* y[N,O,H',W'] of a channel and its own taps each. */
static rp_tensor depthwise(rp_tensor x, rp_tensor w, const conv *c) {
    rp_tensor sum = rp_none();
    x = trace_taps_pad(trace_taps_pad(x, 2, &c->high, 0), 3, &c->wide, 0);
    for (int64_t i = 0; i < c->high.n; i++)
        for (int64_t j = 0; j < c->wide.n; j++) {
            rp_tensor weight = rp_slice(rp_slice(w, 2, i, i + 1), 3, j, j + 1);
            weight = rp_reshape(weight, RP_SHAPE(c->channels, 1, 1));
            rp_tensor term =
                rp_mul(trace_tap(trace_tap(x, 2, &c->high, i), 3, &c->wide, j), weight);
            sum = trace_given(sum) ? rp_add(sum, term) : term;
        }
    return sum;
}

/* [N,H',W',K,C] and w [O,C/g,KH,KW]: a product for each group. */
static rp_tensor product(rp_tensor cols, rp_tensor w, const conv *c) {
    int64_t k = c->high.n * c->wide.n, size = k * c->of_group, of_out = c->out / c->groups;
    rp_dim n = c->x.dim[0], oh = c->high.out, ow = c->wide.out;
    w = rp_permute(rp_reshape(w, RP_SHAPE(c->out, c->of_group, k)), (int[]){0, 2, 1}, 3);
    if (c->groups == 1) {
        rp_tensor y = rp_matmul(rp_reshape(cols, RP_SHAPE(n, oh, ow, size)),
                                rp_reshape(w, RP_SHAPE(c->out, size)), true);
        return rp_permute(y, (int[]){0, 3, 1, 2}, 4);
    }
    rp_dim rows = rp_dim_mul(rp_dim_mul(n, oh), ow);
    cols = rp_reshape(cols, RP_SHAPE(rows, k, c->groups, c->of_group));
    cols = rp_permute(cols, (int[]){2, 0, 1, 3}, 4);
    rp_tensor y = rp_matmul(rp_reshape(cols, RP_SHAPE(c->groups, rows, size)),
                            rp_reshape(w, RP_SHAPE(c->groups, of_out, size)), true);
    y = rp_reshape(y, RP_SHAPE(c->groups, n, oh, ow, of_out));
    y = rp_permute(y, (int[]){1, 0, 4, 2, 3}, 5);
    return rp_reshape(y, RP_SHAPE(n, c->out, oh, ow));
}

static bool is_depthwise(const conv *c) {
    return c->of_group == 1 && c->out == c->channels && c->groups > 1;
}

/* Whether there are as many taps as the product or the sum can take, each of which is a view of its own, or none is needed. */
static bool taps_fit(const conv *c, rp_tensor x, rp_tensor weight) {
    const int64_t n = c->high.n * c->wide.n;
    if (n <= MOST_TAPS || (!is_depthwise(c) && is_tiled(c, x.graph))) return true;
    (void)rp_fail(&x.graph->err, RP_UNSUPPORTED,
                  "conv: x %s and weight %s: windows of %lld elements of a channel; %d are the "
                  "most, unless windows lie side by side and cover x",
                  trace_type_text(x.graph, x).s, trace_type_text(x.graph, weight).s, (long long)n,
                  MOST_TAPS);
    return false;
}

rp_tensor rp_conv2d(rp_tensor x, rp_tensor weight, rp_tensor bias, const rp_conv_args *args) {
    static const rp_conv_args none = {{0}, {0}, {0}, 0};
    conv c;
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    if (!conv_sizes(x, weight, args ? args : &none, &c)) {
        if (trace_ready(x.graph))
            (void)rp_fail(
                &x.graph->err, RP_INVALID,
                "conv: x %s and weight %s: wants [N,C,H,W] and [O,C/groups,KH,KW], C and the "
                "weight's "
                "sizes known, groups that divide C and O, and windows that lie within the padded x",
                trace_type_text(x.graph, x).s, trace_type_text(x.graph, weight).s);
        return trace_bad(x.graph);
    }
    if (!taps_fit(&c, x, weight)) return trace_bad(x.graph);
    rp_tensor y, in = trace_core(x), w = trace_core(weight);
    if (is_depthwise(&c))
        y = depthwise(in, w, &c);
    else
        y = product(windows(in, &c), w, &c);
    if (trace_given(bias)) y = rp_add(y, rp_reshape(trace_core(bias), RP_SHAPE(c.out, 1, 1)));
    return trace_like(y, x);
}

rp_tensor rp_conv1d(rp_tensor x, rp_tensor weight, rp_tensor bias, const rp_conv_args *args) {
    rp_conv_args a = {{0}, {0}, {0}, 0};
    if (args) a = *args;
    a.stride[0] = a.padding[0] = a.dilation[0] = 0;
    return rp_squeeze(rp_conv2d(rp_unsqueeze(x, 2), rp_unsqueeze(weight, 2), bias, &a), 2);
}

/* --- pooling --- */

typedef struct pooling {
    rp_tensor (*join)(rp_tensor a, rp_tensor b);
    rp_tensor (*reduce)(rp_tensor a, int axis, bool keep);
    double outside; /* what padding holds */
} pooling;

/* Windows along axis alone, tap by tap. */
static rp_tensor pool_axis(rp_tensor x, int axis, const trace_taps *t, const pooling *p) {
    rp_tensor y = rp_none();
    for (int64_t i = 0; i < t->n; i++) {
        rp_tensor part = trace_tap(x, axis, t, i);
        y = trace_given(y) ? p->join(y, part) : part;
    }
    return y;
}

static rp_tensor pool_both(rp_tensor x, const trace_taps *high, const trace_taps *wide,
                           const pooling *p) {
    rp_tensor y = rp_none();
    for (int64_t i = 0; i < high->n; i++)
        for (int64_t j = 0; j < wide->n; j++) {
            rp_tensor part = trace_tap(trace_tap(x, 2, high, i), 3, wide, j);
            y = trace_given(y) ? p->join(y, part) : part;
        }
    return y;
}

/* Windows side by side along axis as [windows, elements]. */
static rp_tensor cut(rp_tensor x, int axis, const trace_taps *t) {
    rp_dim sizes[2] = {t->out, rp_dim_const(t->n)};
    x = rp_slice(trace_taps_pad(x, axis, t, 0), axis, 0, rp_dim_mul(t->out, t->n));
    return trace_ready(x.graph) ? trace_regroup(x, (uint32_t)axis, 1, sizes, 2) : x;
}

/* Large windows: as axes of their own where they are side by side, else along one axis and then along the other. What is not
 * known of sizes decides nothing, so that numbers and symbols give the same bits. */
static rp_tensor pool_large(rp_tensor x, const trace_taps *high, const trace_taps *wide,
                            const pooling *p) {
    if (high->padding == 0 && high->stride == high->n) {
        x = p->reduce(cut(x, 3, wide), 4, false);
        return p->reduce(cut(x, 2, high), 3, false);
    }
    if (high->n <= MOST_TAPS)
        return pool_axis(
            trace_taps_pad(pool_axis(trace_taps_pad(x, 3, wide, p->outside), 3, wide, p), 2, high,
                           p->outside),
            2, high, p);
    (void)rp_fail(&x.graph->err, RP_UNSUPPORTED,
                  "pool: windows of %lld over %s; %d are the most, unless they lie side by side "
                  "and cover it",
                  (long long)high->n, trace_type_text(x.graph, x).s, MOST_TAPS);
    return trace_bad(x.graph);
}

static rp_tensor pool(rp_tensor x, int64_t size, int64_t stride, int64_t padding,
                      const pooling *p) {
    rp_shape s = rp_tensor_shape(x);
    trace_taps high, wide;
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    if (stride == 0) stride = size;
    if (size > 0 && padding > size / 2) { /* a window may be of padding alone */
        (void)rp_fail(&x.graph->err, RP_INVALID,
                      "pool: a padding of %lld is more than half of a window of %lld, of %s",
                      (long long)padding, (long long)size, trace_type_text(x.graph, x).s);
        return trace_bad(x.graph);
    }
    if (s.rank != 4 || !trace_taps_of(x.graph, s.dim[2], size, stride, padding, 1, &high) ||
        !trace_taps_of(x.graph, s.dim[3], size, stride, padding, 1, &wide)) {
        if (trace_ready(x.graph))
            (void)rp_fail(&x.graph->err, RP_INVALID,
                          "pool: windows of %lld every %lld do not lie within %s padded by %lld",
                          (long long)size, (long long)stride, trace_type_text(x.graph, x).s,
                          (long long)padding);
        return trace_bad(x.graph);
    }
    if (size * size > FEW_TAPS) return pool_large(x, &high, &wide, p);
    x = trace_taps_pad(trace_taps_pad(x, 2, &high, p->outside), 3, &wide, p->outside);
    return pool_both(x, &high, &wide, p);
}

rp_tensor rp_max_pool2d(rp_tensor x, int64_t size, int64_t stride, int64_t padding) {
    static const pooling largest = {rp_max, rp_amax, -HUGE_VAL};
    return pool(x, size, stride, padding, &largest);
}

rp_tensor rp_avg_pool2d(rp_tensor x, int64_t size, int64_t stride, int64_t padding) {
    static const pooling sums = {rp_add, rp_sum, 0};
    rp_tensor y = pool(trace_core(x), size, stride, padding, &sums);
    return trace_like(rp_mul_scalar(y, 1.0 / ((double)size * (double)size)), x);
}

rp_tensor rp_upsample_nearest2d(rp_tensor x, int64_t times) {
    rp_shape s = rp_tensor_shape(x);
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    if (s.rank != 4 || times < 1) {
        (void)rp_fail(&x.graph->err, RP_INVALID,
                      "upsample: wants [N,C,H,W] and a positive number of times, not %s and %lld",
                      trace_type_text(x.graph, x).s, (long long)times);
        return trace_bad(x.graph);
    }
    rp_tensor y = rp_reshape(x, RP_SHAPE(s.dim[0], s.dim[1], s.dim[2], 1, s.dim[3], 1));
    y = rp_broadcast(y, RP_SHAPE(s.dim[0], s.dim[1], s.dim[2], times, s.dim[3], times));
    return rp_reshape(
        y, RP_SHAPE(s.dim[0], s.dim[1], rp_dim_mul(s.dim[2], times), rp_dim_mul(s.dim[3], times)));
}
