/* Convolutions of volumes: taps along the depth become channels of a convolution of images, one for each window of the depth. */
#include "trace/taps.h"

typedef struct conv3 {
    rp_shape x, w;
    int64_t channels, of_group, out, groups;
    trace_taps deep;
} conv3;

static bool sizes_of(rp_tensor x, rp_tensor w, const rp_conv3d_args *a, conv3 *c) {
    rp_graph *g = x.graph;
    int64_t depth = 0;
    *c = (conv3){.x = rp_tensor_shape(x), .w = rp_tensor_shape(w), .groups = a->groups};
    if (c->groups == 0) c->groups = 1;
    return c->x.rank == 5 && c->w.rank == 5 && trace_number(g, c->x.dim[1], &c->channels) &&
           trace_number(g, c->w.dim[0], &c->out) && trace_number(g, c->w.dim[1], &c->of_group) &&
           trace_number(g, c->w.dim[2], &depth) && c->of_group > 0 &&
           c->of_group * c->groups == c->channels && c->out % c->groups == 0 &&
           trace_taps_of(g, c->x.dim[2], depth, a->stride[0] ? a->stride[0] : 1, a->padding[0],
                         a->dilation[0] ? a->dilation[0] : 1, &c->deep);
}

enum { MOST_DEEP = 256 };

/* [N,C,D,H,W] as [N*D',groups*KD*C/groups,H,W]: what is under each window of the depth. */
static rp_tensor slabs(rp_tensor x, const conv3 *c) {
    rp_tensor part[MOST_DEEP];
    rp_dim images = rp_dim_mul(c->x.dim[0], c->deep.out), h = c->x.dim[3], w = c->x.dim[4];
    x = trace_taps_pad(x, 2, &c->deep, 0);
    for (int64_t i = 0; i < c->deep.n; i++) {
        rp_tensor y = rp_permute(trace_tap(x, 2, &c->deep, i), (int[]){0, 2, 1, 3, 4}, 5);
        part[i] = rp_reshape(y, RP_SHAPE(images, c->groups, 1, c->of_group, h, w));
    }
    x = c->deep.n == 1 ? part[0] : rp_concat(part, (uint32_t)c->deep.n, 2);
    return rp_reshape(x, RP_SHAPE(images, c->channels * c->deep.n, h, w));
}

rp_tensor rp_conv3d(rp_tensor x, rp_tensor weight, rp_tensor bias, const rp_conv3d_args *args) {
    static const rp_conv3d_args none = {{0}, {0}, {0}, 0};
    const rp_conv3d_args *a = args ? args : &none;
    conv3 c;
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    if (!sizes_of(x, weight, a, &c) || c.deep.n > MOST_DEEP) {
        if (trace_ready(x.graph))
            (void)rp_fail(
                &x.graph->err, RP_INVALID,
                "conv3d: x %s and weight %s: wants [N,C,D,H,W] and [O,C/groups,KD,KH,KW], C and "
                "the weight's sizes known, KD up to %d, groups that divide C and O, and windows "
                "that lie within the padded x",
                trace_type_text(x.graph, x).s, trace_type_text(x.graph, weight).s, MOST_DEEP);
        return trace_bad(x.graph);
    }
    const rp_conv_args flat = {.stride = {a->stride[1], a->stride[2]},
                               .padding = {a->padding[1], a->padding[2]},
                               .dilation = {a->dilation[1], a->dilation[2]},
                               .groups = a->groups};
    rp_tensor w = rp_reshape(rp_transpose(weight, 1, 2),
                             RP_SHAPE(c.out, c.of_group * c.deep.n, c.w.dim[3], c.w.dim[4]));
    rp_tensor y = rp_conv2d(slabs(x, &c), w, bias, &flat);
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    rp_shape s = rp_tensor_shape(y);
    y = rp_reshape(y, RP_SHAPE(c.x.dim[0], c.deep.out, c.out, s.dim[2], s.dim[3]));
    return rp_permute(y, (int[]){0, 2, 1, 3, 4}, 5);
}
