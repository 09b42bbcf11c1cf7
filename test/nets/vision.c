/* Networks over images, [N,C,H,W]: patches and windows as products, norms by channel, pooling, up and down. */
#include "support/nets.h"

static rp_tensor conv(net *n, rp_tensor x, const char *name, int64_t in, int64_t out, int64_t size,
                      const rp_conv_args *args) {
    rp_tensor w = net_weight(n, net_join(name, "w"), RP_SHAPE(out, in, size, size), 0.2);
    rp_tensor b = net_weight(n, net_join(name, "b"), RP_SHAPE(out), 0.1);
    return rp_conv2d(x, w, b, args);
}

static rp_tensor batch_norm(net *n, rp_tensor x, const char *name, int64_t c) {
    rp_tensor mean = net_weight(n, net_join(name, "mean"), RP_SHAPE(c), 0.5);
    rp_tensor var = net_around(n, net_join(name, "var"), RP_SHAPE(c), 1, 0.5);
    rp_tensor w = net_around(n, net_join(name, "w"), RP_SHAPE(c), 1, 0.2);
    return rp_batch_norm(x, mean, var, w, net_weight(n, net_join(name, "b"), RP_SHAPE(c), 0.1),
                         1e-5);
}

static rp_tensor dense(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    rp_tensor w = net_weight(n, net_join(name, "w"), RP_SHAPE(out, in), 0.2);
    return rp_add(rp_linear(x, w), net_weight(n, net_join(name, "b"), RP_SHAPE(out), 0.1));
}

static rp_tensor layer_norm(net *n, rp_tensor x, const char *name, int64_t d) {
    rp_tensor w = net_around(n, net_join(name, "w"), RP_SHAPE(d), 1, 0.2);
    return rp_layer_norm(x, w, net_weight(n, net_join(name, "b"), RP_SHAPE(d), 0.1), 1e-6);
}

/* [N,T,D] as [N,H,T,D/H] */
static rp_tensor split(rp_tensor x, int64_t heads, int64_t d) {
    rp_shape s = rp_tensor_shape(x);
    return rp_transpose(rp_reshape(x, RP_SHAPE(s.dim[0], s.dim[1], heads, d / heads)), 1, 2);
}

/* T images of 8 x 12, patches of 4: 6 and a class token. */
static void vit(net *n) {
    int64_t d = 32 * n->k, heads = 4;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, 3, 8, 12), 1);
    rp_tensor p = conv(n, x, "patch", 3, d, 4, &(rp_conv_args){.stride = {4, 4}});
    p = rp_transpose(rp_flatten(p, 2, 3), 1, 2);
    rp_tensor cls = rp_broadcast(net_weight(n, "cls", RP_SHAPE(1, 1, d), 1), RP_SHAPE(n->T, 1, d));
    p = rp_concat((rp_tensor[]){cls, p}, 2, 1);
    p = rp_add(p, net_weight(n, "pos", RP_SHAPE(1, 7, d), 0.5));
    rp_tensor h = layer_norm(n, p, "ln_1", d);
    rp_tensor qkv =
        rp_reshape(dense(n, h, "qkv", d, 3 * d), RP_SHAPE(n->T, 7, 3, heads, d / heads));
    qkv = rp_permute(qkv, (int[]){2, 0, 3, 1, 4}, 5);
    rp_sdpa_args a = {.q = rp_squeeze(rp_slice(qkv, 0, 0, 1), 0),
                      .k = rp_squeeze(rp_slice(qkv, 0, 1, 2), 0),
                      .v = rp_squeeze(rp_slice(qkv, 0, 2, 3), 0)};
    rp_tensor y = rp_flatten(rp_transpose(rp_scaled_dot_product_attention(&a), 1, 2), 2, 3);
    p = rp_add(p, dense(n, y, "o", d, d));
    h = rp_gelu_erf(dense(n, layer_norm(n, p, "ln_2", d), "up", d, 4 * d));
    p = rp_add(p, dense(n, h, "down", 4 * d, d));
    net_output(n, p);
    rp_tensor first = rp_squeeze(rp_slice(layer_norm(n, p, "ln", d), 1, 0, 1), 1);
    net_output(n, dense(n, first, "head", d, 10));
}

/* A residual block with strides, and the stem before it: convolution 5 of stride 2, max pool 3 of stride 2. */
static void resnet(net *n) {
    int64_t c = 8 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, 3, 19, 22), 1);
    x = conv(n, x, "stem", 3, c, 5, &(rp_conv_args){.stride = {2, 2}, .padding = {2, 2}});
    x = rp_max_pool2d(rp_relu(batch_norm(n, x, "bn", c)), 3, 2, 1);
    rp_tensor y =
        conv(n, x, "a", c, 2 * c, 3, &(rp_conv_args){.stride = {2, 2}, .padding = {1, 1}});
    y = rp_relu(batch_norm(n, y, "bn_a", 2 * c));
    y = conv(n, y, "b", 2 * c, 2 * c, 3, &(rp_conv_args){.padding = {1, 1}});
    y = batch_norm(n, y, "bn_b", 2 * c);
    rp_tensor skip = conv(n, x, "skip", c, 2 * c, 1, &(rp_conv_args){.stride = {2, 2}});
    y = rp_relu(rp_add(y, batch_norm(n, skip, "bn_skip", 2 * c)));
    net_output(n, y);
    rp_tensor pooled = rp_mean(rp_flatten(y, 2, 3), -1, false);
    net_output(n, dense(n, pooled, "fc", 2 * c, 7));
}

static rp_tensor res_block(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    const rp_conv_args same = {.padding = {1, 1}};
    char conv_name[32];
    (void)snprintf(conv_name, sizeof conv_name, "%s.conv", name);
    rp_tensor w = net_around(n, net_join(name, "gn.w"), RP_SHAPE(in), 1, 0.2);
    rp_tensor b = net_weight(n, net_join(name, "gn.b"), RP_SHAPE(in), 0.1);
    return conv(n, rp_silu(rp_group_norm(x, 4, w, b, 1e-5)), conv_name, in, out, 3, &same);
}

/* Down, through the middle with attention over pixels, and up beside what came down. T is the height. */
static void unet(net *n) {
    int64_t c = 8 * n->k;
    const rp_conv_args same = {.padding = {1, 1}};
    rp_dim high = rp_dim_mul(n->T, 2);
    rp_tensor x = net_input(n, "x", RP_SHAPE(1, 3, high, 6), 1);
    rp_tensor t = net_input(n, "t", RP_SHAPE(1, 2 * c), 1);
    rp_tensor a = conv(n, x, "in", 3, c, 3, &same);
    a = rp_add(a, res_block(n, a, "r1", c, c));
    rp_tensor m = res_block(n, rp_avg_pool2d(a, 2, 0, 0), "r2", c, 2 * c); /* [1,2C,T,3] */
    rp_tensor time = dense(n, rp_silu(t), "time", 2 * c, 2 * c);
    m = rp_add(m, rp_unsqueeze(rp_unsqueeze(time, -1), -1));
    rp_tensor pixels = rp_transpose(rp_flatten(m, 2, 3), 1, 2); /* [1,3T,2C] */
    rp_sdpa_args at = {.q = split(dense(n, pixels, "q", 2 * c, 2 * c), 2, 2 * c),
                       .k = split(dense(n, pixels, "k", 2 * c, 2 * c), 2, 2 * c),
                       .v = split(dense(n, pixels, "v", 2 * c, 2 * c), 2, 2 * c)};
    rp_tensor y = rp_flatten(rp_transpose(rp_scaled_dot_product_attention(&at), 1, 2), 2, 3);
    m = rp_add(m, rp_reshape(rp_transpose(y, 1, 2), rp_tensor_shape(m)));
    rp_tensor up = rp_upsample_nearest2d(m, 2);
    up = rp_concat((rp_tensor[]){up, a}, 2, 1);
    net_output(n, conv(n, res_block(n, up, "r3", 3 * c, c), "out", c, 3, 3, &same));
}

/* ConvNeXt and MobileNet: a depthwise convolution, dilation, groups, channels last. */
static void convnext(net *n) {
    int64_t c = 8 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, c, 9, 7), 1);
    rp_tensor w = net_weight(n, "dw", RP_SHAPE(c, 1, 5, 5), 0.3);
    rp_tensor y = rp_conv2d(x, w, net_weight(n, "dw.b", RP_SHAPE(c), 0.1),
                            &(rp_conv_args){.padding = {2, 2}, .groups = (uint32_t)c});
    y = layer_norm(n, rp_permute(y, (int[]){0, 2, 3, 1}, 4), "ln", c);
    y = dense(n, rp_gelu_erf(dense(n, y, "up", c, 4 * c)), "down", 4 * c, c);
    y = rp_mul(y, net_weight(n, "gamma", RP_SHAPE(c), 1));
    x = rp_add(x, rp_permute(y, (int[]){0, 3, 1, 2}, 4));
    net_output(n, x);
    w = net_weight(n, "grouped", RP_SHAPE(2 * c, c / 4, 3, 3), 0.3);
    rp_conv_args g = {.stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 1}, .groups = 4};
    y = rp_conv2d(x, w, rp_none(), &g);
    net_output(n, y);
    net_output(n, rp_avg_pool2d(rp_leaky_relu(y, 0.1), 3, 2, 1));
}

/* Whisper's front: two convolutions over time, the second of stride 2; and a causal one that sees no future. */
static void conv_time(net *n) {
    int64_t c = 12 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(2, 5, rp_dim_mul(n->T, 2)), 1);
    rp_conv_args one = {.padding = {0, 1}}, two = {.stride = {0, 2}, .padding = {0, 1}};
    rp_tensor w = net_weight(n, "w1", RP_SHAPE(c, 5, 3), 0.4);
    x = rp_gelu_erf(rp_conv1d(x, w, net_weight(n, "b1", RP_SHAPE(c), 0.1), &one));
    w = net_weight(n, "w2", RP_SHAPE(c, c, 3), 0.3);
    x = rp_gelu_erf(rp_conv1d(x, w, net_weight(n, "b2", RP_SHAPE(c), 0.1), &two));
    net_output(n, x);
    w = net_weight(n, "w3", RP_SHAPE(c, c, 2), 0.3);
    x = rp_pad(x, -1, 4, 0, 0);
    net_output(n, rp_conv1d(x, w, rp_none(), &(rp_conv_args){.dilation = {0, 4}}));
}

static const net_case cases[] = {
    {"vit", vit, {2, 1, 5}},
    {"resnet", resnet, {2, 1, 3}},
    {"unet", unet, {3, 1, 7}},
    {"convnext", convnext, {1, 2, 3}},
    {"conv_time", conv_time, {9, 1, 16}},
};

int main(int argc, char **argv) {
    return net_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
