/* Networks over sound, [N,C,T]: convolutions over time before and inside of transformers. */
#include "support/nets.h"

static rp_tensor dense(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    rp_tensor w = net_weight(n, net_join(name, "w"), RP_SHAPE(out, in), 0.2);
    return rp_add(rp_linear(x, w), net_weight(n, net_join(name, "b"), RP_SHAPE(out), 0.1));
}

static rp_tensor layer_norm(net *n, rp_tensor x, const char *name, int64_t d) {
    rp_tensor w = net_around(n, net_join(name, "w"), RP_SHAPE(d), 1, 0.2);
    return rp_layer_norm(x, w, net_weight(n, net_join(name, "b"), RP_SHAPE(d), 0.1), 1e-5);
}

/* [N,T,D] as [N,H,T,D/H], and back */
static rp_tensor split(rp_tensor x, int64_t heads, int64_t d) {
    rp_shape s = rp_tensor_shape(x);
    return rp_transpose(rp_reshape(x, RP_SHAPE(s.dim[0], s.dim[1], heads, d / heads)), 1, 2);
}

static rp_tensor merge(rp_tensor x) {
    return rp_flatten(rp_transpose(x, 1, 2), 2, 3);
}

static rp_tensor conv(net *n, rp_tensor x, const char *name, int64_t in, int64_t out, int64_t size,
                      int64_t stride, int64_t padding, int64_t groups) {
    rp_tensor w = net_weight(n, net_join(name, "w"), RP_SHAPE(out, in / groups, size), 0.3);
    rp_tensor b = net_weight(n, net_join(name, "b"), RP_SHAPE(out), 0.1);
    return rp_conv1d(x, w, b,
                     &(rp_conv_args){.stride = {0, stride},
                                     .padding = {0, padding},
                                     .groups = (uint32_t)groups});
}

/* Whisper's encoder: two convolutions over the spectrum, the second of stride 2, sines as positions, a block whose keys have
 * no bias. */
static void whisper(net *n) {
    int64_t d = 24 * n->k, heads = 3, mels = 10;
    rp_tensor x = net_input(n, "x", RP_SHAPE(2, mels, rp_dim_mul(n->T, 2)), 1);
    x = rp_gelu_erf(conv(n, x, "conv1", mels, d, 3, 1, 1, 1));
    x = rp_transpose(rp_gelu_erf(conv(n, x, "conv2", d, d, 3, 2, 1, 1)), 1, 2);
    rp_tensor at = rp_iota(n->g, RP_DTYPE_F32, RP_SHAPE(n->T, d / 2), 0);
    rp_tensor channel = rp_iota(n->g, RP_DTYPE_F32, RP_SHAPE(n->T, d / 2), 1);
    double step = -9.210340371976184 / ((double)d / 2 - 1); /* log 10000 */
    rp_tensor angle = rp_mul(at, rp_exp(rp_mul_scalar(channel, step)));
    x = rp_add(x, rp_concat((rp_tensor[]){rp_sin(angle), rp_cos(angle)}, 2, -1));
    rp_tensor h = layer_norm(n, x, "attn_ln", d);
    rp_tensor key = rp_linear(h, net_weight(n, "k", RP_SHAPE(d, d), 0.2));
    rp_sdpa_args a = {.q = split(dense(n, h, "q", d, d), heads, d),
                      .k = split(key, heads, d),
                      .v = split(dense(n, h, "v", d, d), heads, d)};
    x = rp_add(x, dense(n, merge(rp_scaled_dot_product_attention(&a)), "o", d, d));
    h = rp_gelu_erf(dense(n, layer_norm(n, x, "mlp_ln", d), "up", d, 4 * d));
    x = rp_add(x, dense(n, h, "down", 4 * d, d));
    net_output(n, x);
    net_output(n, layer_norm(n, x, "ln_post", d));
}

static rp_tensor half_step(net *n, rp_tensor x, const char *name, int64_t d) {
    char up[32], down[32];
    (void)snprintf(up, sizeof up, "%s.up", name);
    (void)snprintf(down, sizeof down, "%s.down", name);
    rp_tensor h = rp_silu(dense(n, layer_norm(n, x, name, d), up, d, 4 * d));
    return rp_add(x, rp_mul_scalar(dense(n, h, down, 4 * d, d), 0.5));
}

/* A conformer block: half a feed-forward network, attention, gated depthwise convolution, the other half. */
static void conformer(net *n) {
    int64_t d = 16 * n->k, heads = 2;
    rp_tensor x = half_step(n, net_input(n, "x", RP_SHAPE(2, n->T, d), 1), "first", d);
    rp_tensor seen = rp_lt(
        rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(n->T), 0),
        rp_reshape(rp_add_scalar(net_ids(n, "lengths", RP_SHAPE(2), 8), 1), RP_SHAPE(2, 1, 1, 1)));
    rp_tensor h = layer_norm(n, x, "attn", d);
    rp_sdpa_args a = {.q = split(dense(n, h, "q", d, d), heads, d),
                      .k = split(dense(n, h, "k", d, d), heads, d),
                      .v = split(dense(n, h, "v", d, d), heads, d),
                      .mask = seen};
    x = rp_add(x, dense(n, merge(rp_scaled_dot_product_attention(&a)), "o", d, d));
    h = rp_transpose(layer_norm(n, x, "conv", d), 1, 2);
    h = conv(n, h, "point", d, 2 * d, 1, 1, 0, 1);
    h = rp_mul(rp_slice(h, 1, 0, d), rp_sigmoid(rp_slice(h, 1, d, 2 * d)));
    h = conv(n, h, "depth", d, d, 7, 1, 3, d);
    rp_tensor mean = net_weight(n, "mean", RP_SHAPE(d), 0.5);
    rp_tensor var = net_around(n, "var", RP_SHAPE(d), 1, 0.5);
    h = rp_silu(rp_batch_norm(h, mean, var, rp_none(), rp_none(), 1e-5));
    x = rp_add(x, rp_transpose(conv(n, h, "point2", d, d, 1, 1, 0, 1), 1, 2));
    net_output(n, layer_norm(n, half_step(n, x, "second", d), "ln", d));
}

/* wav2vec 2.0's front: samples through strided convolutions, the first normed by channel over time, and a grouped convolution as
 * positions. */
static void wav2vec(net *n) {
    int64_t d = 16 * n->k;
    rp_dim samples = rp_dim_add(rp_dim_mul(n->T, 4), 9);
    rp_tensor x = conv(n, net_input(n, "x", RP_SHAPE(2, 1, samples), 1), "c0", 1, d, 5, 2, 0, 1);
    rp_tensor w = net_around(n, "gn.w", RP_SHAPE(d), 1, 0.2);
    x = rp_group_norm(x, (uint32_t)d, w, net_weight(n, "gn.b", RP_SHAPE(d), 0.1), 1e-5);
    x = rp_gelu_erf(conv(n, rp_gelu_erf(x), "c1", d, d, 3, 2, 0, 1));
    x = layer_norm(n, rp_transpose(x, 1, 2), "ln", d);
    rp_tensor at = conv(n, rp_transpose(x, 1, 2), "pos", d, d, 4, 1, 2, 4);
    at = rp_slice(at, 2, 0, rp_dim_sub(rp_tensor_dim(at, 2), 1));
    net_output(n, rp_add(x, rp_transpose(rp_gelu_erf(at), 1, 2)));
}

static const net_case cases[] = {
    {"whisper", whisper, {11, 1, 30}},
    {"conformer", conformer, {9, 1, 23}},
    {"wav2vec", wav2vec, {6, 1, 21}},
};

int main(int argc, char **argv) {
    return net_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
