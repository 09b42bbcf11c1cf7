/* Language models, one layer or head each. Weights are [in, out] where the original has them so (GPT-2), else [out, in]. */
#include <math.h>

#include "support/nets.h"

/* [B,T,D] as [B,H,T,D/H] */
static rp_tensor split(rp_tensor x, int64_t heads) {
    int64_t d = 0;
    (void)rp_dim_is_const(rp_tensor_dim(x, 2), &d);
    rp_shape s = rp_tensor_shape(x);
    return rp_transpose(rp_reshape(x, RP_SHAPE(s.dim[0], s.dim[1], heads, d / heads)), 1, 2);
}

static rp_tensor merge(rp_tensor x) {
    return rp_flatten(rp_transpose(x, 1, 2), 2, 3);
}

/* x W + b, W [in, out] */
static rp_tensor conv1d_of_gpt2(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    rp_tensor w = net_weight(n, net_join(name, "w"), RP_SHAPE(in, out), 0.2);
    rp_tensor b = net_weight(n, net_join(name, "b"), RP_SHAPE(out), 0.1);
    return rp_add(rp_matmul(x, w, false), b);
}

/* x W^T + b, W [out, in] */
static rp_tensor dense(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    rp_tensor w = net_weight(n, net_join(name, "w"), RP_SHAPE(out, in), 0.2);
    rp_tensor b = net_weight(n, net_join(name, "b"), RP_SHAPE(out), 0.1);
    return rp_add(rp_linear(x, w), b);
}

static rp_tensor plain(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    return rp_linear(x, net_weight(n, name, RP_SHAPE(out, in), 0.2));
}

static rp_tensor layer_norm(net *n, rp_tensor x, const char *name, int64_t d, double eps) {
    rp_tensor w = net_around(n, net_join(name, "w"), RP_SHAPE(d), 1, 0.2);
    rp_tensor b = net_weight(n, net_join(name, "b"), RP_SHAPE(d), 0.1);
    return rp_layer_norm(x, w, b, eps);
}

static rp_tensor attend(rp_tensor q, rp_tensor k, rp_tensor v, bool causal) {
    rp_sdpa_args a = {.q = q, .k = k, .v = v, .causal = causal};
    return rp_scaled_dot_product_attention(&a);
}

static void gpt2(net *n) {
    int64_t d = 32 * n->k, vocab = 61;
    rp_tensor ids = net_ids(n, "ids", RP_SHAPE(2, n->T), (uint32_t)vocab);
    rp_tensor wte = net_weight(n, "wte", RP_SHAPE(vocab, d), 1);
    rp_tensor wpe = net_weight(n, "wpe", RP_SHAPE(64, d), 0.5);
    rp_tensor x = rp_add(rp_gather(wte, ids), rp_slice(wpe, 0, 0, n->T));
    rp_tensor h = layer_norm(n, x, "ln_1", d, 1e-5);
    rp_tensor qkv = conv1d_of_gpt2(n, h, "c_attn", d, 3 * d);
    rp_tensor q = split(rp_slice(qkv, -1, 0, d), 4), k = split(rp_slice(qkv, -1, d, 2 * d), 4);
    rp_tensor v = split(rp_slice(qkv, -1, 2 * d, 3 * d), 4);
    /* as in the paper's code: scores, mask, softmax */
    rp_tensor s = rp_mul_scalar(rp_matmul(q, rp_transpose(k, -1, -2), false), 1 / sqrt(d / 4.0));
    rp_tensor seen = rp_tril_mask(n->g, n->T, n->T, 0);
    s = rp_where(seen, s, rp_const(n->g, RP_DTYPE_F32, -HUGE_VAL));
    rp_tensor y = merge(rp_matmul(rp_softmax(s, -1), v, false));
    x = rp_add(x, conv1d_of_gpt2(n, y, "c_proj", d, d));
    h = conv1d_of_gpt2(n, layer_norm(n, x, "ln_2", d, 1e-5), "c_fc", d, 4 * d);
    x = rp_add(x, conv1d_of_gpt2(n, rp_gelu_tanh(h), "mlp_proj", 4 * d, d));
    net_output(n, x);
    net_output(n, rp_matmul(layer_norm(n, x, "ln_f", d, 1e-5), wte, true));
}

/* Post-norm encoder layer over padded sequences, then the masked mean that sentence embeddings take. */
static void bert(net *n) {
    int64_t d = 24 * n->k, vocab = 53;
    rp_tensor ids = net_ids(n, "ids", RP_SHAPE(3, n->T), (uint32_t)vocab);
    rp_tensor types = net_ids(n, "types", RP_SHAPE(3, n->T), 2);
    rp_tensor lengths = net_ids(n, "lengths", RP_SHAPE(3), 5);
    rp_tensor e = rp_gather(net_weight(n, "word", RP_SHAPE(vocab, d), 1), ids);
    e = rp_add(e, rp_gather(net_weight(n, "type", RP_SHAPE(2, d), 1), types));
    e = rp_add(e, rp_slice(net_weight(n, "position", RP_SHAPE(64, d), 1), 0, 0, n->T));
    rp_tensor x = layer_norm(n, e, "embed_ln", d, 1e-12);
    rp_tensor column = rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(n->T), 0);
    rp_tensor mask = rp_le(column, rp_unsqueeze(lengths, 1)); /* [3,T], column 0 at least */
    rp_sdpa_args a = {.q = split(dense(n, x, "q", d, d), 3),
                      .k = split(dense(n, x, "k", d, d), 3),
                      .v = split(dense(n, x, "v", d, d), 3),
                      .mask = rp_reshape(mask, RP_SHAPE(3, 1, 1, n->T))};
    rp_tensor y = dense(n, merge(rp_scaled_dot_product_attention(&a)), "o", d, d);
    x = layer_norm(n, rp_add(x, y), "ln_1", d, 1e-12);
    y = dense(n, rp_gelu_erf(dense(n, x, "up", d, 4 * d)), "down", 4 * d, d);
    x = layer_norm(n, rp_add(x, y), "ln_2", d, 1e-12);
    net_output(n, x);
    rp_tensor m = rp_unsqueeze(rp_cast(mask, RP_DTYPE_F32), -1);
    rp_tensor sum = rp_sum(rp_mul(x, m), 1, false);
    rp_tensor mean = rp_div(sum, rp_clamp(rp_sum(m, 1, false), 1e-9, HUGE_VAL));
    net_output(n, rp_l2_normalize(mean, -1, 1e-12));
}

/* cos and sin of positions 0 to T - 1 at base^(-2i/D): [T, D/2] each. */
static void rope_tables(net *n, int64_t d, double base, rp_tensor *cos, rp_tensor *sin) {
    rp_tensor i = rp_iota(n->g, RP_DTYPE_F32, RP_SHAPE(d / 2), 0);
    rp_tensor freq = rp_exp(rp_mul_scalar(i, -2.0 / (double)d * log(base)));
    rp_tensor at = rp_iota(n->g, RP_DTYPE_F32, RP_SHAPE(n->T, 1), 0);
    rp_tensor angle = rp_mul(at, freq);
    *cos = rp_cos(angle);
    *sin = rp_sin(angle);
}

static rp_tensor gemma_norm(net *n, rp_tensor x, const char *name, int64_t d) {
    return rp_rms_norm(x, rp_add_scalar(net_weight(n, name, RP_SHAPE(d), 0.3), 1), 1e-6);
}

/* Gemma 2: 1 + w, norms before and after, GeGLU, soft caps, a window, shared heads, a scaled embedding. */
static void gemma(net *n) {
    int64_t d = 48 * n->k, heads = 4, kv = 2, hd = 16, vocab = 67;
    rp_tensor ids = net_ids(n, "ids", RP_SHAPE(2, n->T), (uint32_t)vocab), cos, sin;
    rp_tensor table = net_weight(n, "embed", RP_SHAPE(vocab, d), 0.4);
    rp_tensor x = rp_mul_scalar(rp_gather(table, ids), sqrt((double)d));
    rope_tables(n, hd, 10000, &cos, &sin);
    rp_tensor h = gemma_norm(n, x, "input_norm", d);
    rp_tensor q = rp_rope(split(plain(n, h, "q", d, heads * hd), heads), cos, sin);
    rp_tensor k = rp_rope(split(plain(n, h, "k", d, kv * hd), kv), cos, sin);
    rp_tensor v = split(plain(n, h, "v", d, kv * hd), kv);
    rp_sdpa_args a = {.q = q,
                      .k = k,
                      .v = v,
                      .scale = 1 / sqrt(24.0),
                      .softcap = 50,
                      .causal = true,
                      .window = 4};
    rp_tensor y = plain(n, merge(rp_scaled_dot_product_attention(&a)), "o", heads * hd, d);
    x = rp_add(x, gemma_norm(n, y, "post_attention", d));
    h = gemma_norm(n, x, "pre_ffn", d);
    rp_tensor gate = rp_gelu_tanh(plain(n, h, "gate", d, 3 * d));
    y = plain(n, rp_mul(gate, plain(n, h, "up", d, 3 * d)), "down", 3 * d, d);
    x = rp_add(x, gemma_norm(n, y, "post_ffn", d));
    net_output(n, x);
    net_output(n, rp_softcap(rp_linear(gemma_norm(n, x, "final", d), table), 30));
}

/* Experts as [E,...] weights, all of them computed, weighted by what the router chose (Mixtral's numbers). */
static void moe_dense(net *n) {
    int64_t d = 16 * n->k, ff = 24 * n->k, experts = 8, top = 2;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, d), 1), weight, which;
    rp_tensor logits = rp_linear(x, net_weight(n, "router", RP_SHAPE(experts, d), 0.5));
    rp_topk(logits, top, &weight, &which);
    weight = rp_softmax(weight, -1);
    rp_tensor zeros = rp_broadcast(rp_const(n->g, RP_DTYPE_F32, 0), RP_SHAPE(n->T, experts));
    rp_tensor share = rp_scatter_add(zeros, -1, which, weight); /* [T,E] */
    rp_tensor gate = net_weight(n, "gate", RP_SHAPE(experts, ff, d), 0.3);
    rp_tensor up = net_weight(n, "up", RP_SHAPE(experts, ff, d), 0.3);
    rp_tensor down = net_weight(n, "down", RP_SHAPE(experts, d, ff), 0.3);
    rp_tensor h = rp_mul(rp_silu(rp_matmul(x, gate, true)), rp_matmul(x, up, true)); /* [E,T,FF] */
    rp_tensor y = rp_matmul(h, down, true);                                          /* [E,T,D] */
    rp_tensor s = rp_unsqueeze(rp_transpose(share, 0, 1), -1);
    net_output(n, rp_sum(rp_mul(y, s), 0, false));
    net_output(n, which);
}

/* The weights of the chosen experts gathered for each token (DeepSeek: softmax before, shared expert, renormalised). */
static void moe_gather(net *n) {
    int64_t d = 16 * n->k, ff = 12 * n->k, experts = 16, top = 3;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, d), 1), which;
    rp_tensor scores = rp_softmax(plain(n, x, "router", d, experts), -1);
    rp_topk(scores, top, NULL, &which);
    rp_tensor weight = rp_take_along(scores, -1, which);
    weight = rp_div(weight, rp_sum(weight, -1, true));
    rp_tensor up = rp_gather(net_weight(n, "up", RP_SHAPE(experts, ff, d), 0.3), which);
    rp_tensor down = rp_gather(net_weight(n, "down", RP_SHAPE(experts, d, ff), 0.3), which);
    rp_tensor row = rp_reshape(x, RP_SHAPE(n->T, 1, d, 1));
    rp_tensor h = rp_relu(rp_matmul(up, row, false)); /* [T,K,FF,1] */
    rp_tensor y = rp_squeeze(rp_matmul(down, h, false), -1);
    y = rp_sum(rp_mul(y, rp_unsqueeze(weight, -1)), 1, false);
    rp_tensor shared = plain(n, rp_silu(plain(n, x, "shared_up", d, ff)), "shared_down", ff, d);
    net_output(n, rp_add(y, shared));
}

/* T5: a bias for the bucket of each distance, no scale, RMSNorm, and an encoder that the decoder reads. */
static void t5(net *n) {
    int64_t d = 32 * n->k, heads = 4, buckets = 8;
    rp_tensor x = net_input(n, "x", RP_SHAPE(2, n->T, d), 1);
    rp_tensor memory = net_input(n, "memory", RP_SHAPE(2, 5, d), 1);
    rp_tensor i = rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(n->T, n->T), 0);
    rp_tensor j = rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(n->T, n->T), 1);
    rp_tensor far = rp_max(rp_sub(i, j), rp_const(n->g, RP_DTYPE_I32, 0));
    rp_tensor ratio = rp_mul_scalar(rp_cast(far, RP_DTYPE_F32), 1 / 4.0);
    rp_tensor log4 = rp_log(rp_max(ratio, rp_const(n->g, RP_DTYPE_F32, 1e-6)));
    rp_tensor large = rp_cast(rp_mul_scalar(log4, 4 / log(16 / 4.0)), RP_DTYPE_I32);
    large = rp_min(rp_add_scalar(large, 4), rp_const(n->g, RP_DTYPE_I32, (double)buckets - 1));
    rp_tensor bucket = rp_where(rp_lt(far, rp_const(n->g, RP_DTYPE_I32, 4)), far, large);
    rp_tensor bias = rp_gather(net_weight(n, "bias", RP_SHAPE(buckets, heads), 1), bucket);
    bias = rp_permute(bias, (int[]){2, 0, 1}, 3); /* [H,T,T] */
    rp_tensor h = rp_rms_norm(x, net_around(n, "ln_1", RP_SHAPE(d), 1, 0.2), 1e-6);
    rp_sdpa_args self = {.q = split(plain(n, h, "q", d, d), heads),
                         .k = split(plain(n, h, "k", d, d), heads),
                         .v = split(plain(n, h, "v", d, d), heads),
                         .bias = bias,
                         .scale = 1,
                         .causal = true};
    x = rp_add(x, plain(n, merge(rp_scaled_dot_product_attention(&self)), "o", d, d));
    h = rp_rms_norm(x, net_around(n, "ln_2", RP_SHAPE(d), 1, 0.2), 1e-6);
    rp_sdpa_args cross = {.q = split(plain(n, h, "cross_q", d, d), heads),
                          .k = split(plain(n, memory, "cross_k", d, d), heads),
                          .v = split(plain(n, memory, "cross_v", d, d), heads),
                          .scale = 1};
    x = rp_add(x, plain(n, merge(rp_scaled_dot_product_attention(&cross)), "cross_o", d, d));
    h = rp_rms_norm(x, net_around(n, "ln_3", RP_SHAPE(d), 1, 0.2), 1e-6);
    x = rp_add(x, plain(n, rp_relu(plain(n, h, "wi", d, 2 * d)), "wo", 2 * d, d));
    net_output(n, x);
}

/* ALiBi: -slope * distance, slopes 2^-(8i/H). */
static void alibi(net *n) {
    int64_t d = 32 * n->k, heads = 8;
    rp_tensor x = net_input(n, "x", RP_SHAPE(1, n->T, d), 1);
    rp_tensor slope = rp_exp(rp_mul_scalar(
        rp_add_scalar(rp_iota(n->g, RP_DTYPE_F32, RP_SHAPE(heads, 1, 1), 0), 1), -log(2.0)));
    rp_tensor column = rp_iota(n->g, RP_DTYPE_F32, RP_SHAPE(1, 1, n->T), 2);
    rp_sdpa_args a = {.q = split(dense(n, x, "q", d, d), heads),
                      .k = split(dense(n, x, "k", d, d), heads),
                      .v = split(dense(n, x, "v", d, d), heads),
                      .bias = rp_mul(slope, column),
                      .causal = true};
    net_output(n, merge(rp_scaled_dot_product_attention(&a)));
}

/* Multi-head latent attention: keys and values come from a latent, positions from a slice that all heads share. */
static void mla(net *n) {
    int64_t d = 32 * n->k, heads = 4, nope = 8, pe = 4, latent = 12, hd = 8;
    rp_tensor x = net_input(n, "x", RP_SHAPE(2, n->T, d), 1), cos, sin;
    rope_tables(n, pe, 10000, &cos, &sin);
    rp_tensor q = plain(n, x, "q_a", d, 20);
    q = rp_rms_norm(q, net_around(n, "q_norm", RP_SHAPE(20), 1, 0.2), 1e-6);
    q = split(plain(n, q, "q_b", 20, heads * (nope + pe)), heads);
    rp_tensor q_pe = rp_rope_interleaved(rp_slice(q, -1, nope, nope + pe), cos, sin);
    q = rp_concat((rp_tensor[]){rp_slice(q, -1, 0, nope), q_pe}, 2, -1);
    rp_tensor kv = plain(n, x, "kv_a", d, latent + pe);
    rp_tensor k_pe = rp_unsqueeze(rp_slice(kv, -1, latent, latent + pe), 1);
    k_pe = rp_rope_interleaved(k_pe, cos, sin);
    kv = rp_rms_norm(rp_slice(kv, -1, 0, latent),
                     net_around(n, "kv_norm", RP_SHAPE(latent), 1, 0.2), 1e-6);
    kv = split(plain(n, kv, "kv_b", latent, heads * (nope + hd)), heads);
    k_pe = rp_broadcast(k_pe, RP_SHAPE(2, heads, n->T, pe));
    rp_tensor k = rp_concat((rp_tensor[]){rp_slice(kv, -1, 0, nope), k_pe}, 2, -1);
    rp_tensor y = merge(attend(q, k, rp_slice(kv, -1, nope, nope + hd), true));
    net_output(n, plain(n, y, "o", heads * hd, d));
}

/* GPT-NeoX and Phi: rope turns a part of each head (NTK: a larger base), attention and MLP beside each other. */
static void neox(net *n) {
    int64_t d = 32 * n->k, heads = 2, hd = d / heads, turned = hd / 2;
    rp_tensor x = net_input(n, "x", RP_SHAPE(1, n->T, d), 1), cos, sin;
    rope_tables(n, turned, 10000 * pow(4, (double)turned / (double)(turned - 2)), &cos, &sin);
    rp_tensor h = layer_norm(n, x, "ln_1", d, 1e-5), part[2][2];
    rp_tensor qkv = rp_reshape(dense(n, h, "qkv", d, 3 * d), RP_SHAPE(1, n->T, heads, 3, hd));
    rp_tensor v = rp_transpose(rp_squeeze(rp_slice(qkv, 3, 2, 3), 3), 1, 2);
    for (int i = 0; i < 2; i++) {
        rp_tensor t = rp_transpose(rp_squeeze(rp_slice(qkv, 3, i, i + 1), 3), 1, 2);
        part[i][0] = rp_rope(rp_slice(t, -1, 0, turned), cos, sin);
        part[i][1] = rp_slice(t, -1, turned, hd);
    }
    rp_tensor y = attend(rp_concat(part[0], 2, -1), rp_concat(part[1], 2, -1), v, true);
    y = dense(n, merge(y), "o", d, d);
    rp_tensor m = layer_norm(n, x, "ln_2", d, 1e-5);
    m = dense(n, rp_gelu_erf(dense(n, m, "up", d, 4 * d)), "down", 4 * d, d);
    net_output(n, rp_add(rp_add(x, y), m));
}

/* What is sampled from the last position: temperature, top-k, the cumulative share, noise of Gumbel, the loss. */
static void sampling(net *n) {
    int64_t vocab = 50 * n->k;
    rp_tensor x = net_input(n, "logits", RP_SHAPE(n->T, vocab), 4), top, which;
    rp_tensor u = net_around(n, "u", RP_SHAPE(vocab), 0.5, 0.4);
    rp_tensor target = net_ids(n, "target", RP_SHAPE(n->T), (uint32_t)vocab);
    rp_tensor y = rp_log_softmax(rp_mul_scalar(x, 1 / 0.7), -1);
    net_output(n, rp_argmax(rp_sub(y, rp_log(rp_neg(rp_log(u)))), -1, false));
    rp_topk(y, 5, &top, &which);
    rp_tensor cut = rp_slice(top, -1, 4, 5); /* what is less is left out */
    y = rp_masked_fill(y, rp_lt(y, cut), -HUGE_VAL);
    rp_tensor before = rp_sub(rp_cumsum(rp_softmax(y, -1), -1), rp_softmax(y, -1));
    rp_tensor kept = rp_and(rp_lt(before, rp_const(n->g, RP_DTYPE_F32, 0.9)), rp_ge(y, cut));
    net_output(n, rp_masked_fill(y, rp_not(kept), -1e4));
    net_output(n, rp_sum(rp_cast(kept, RP_DTYPE_I32), -1, false));
    net_output(n, rp_mean(rp_cross_entropy(x, target), 0, false));
}

/* Both directions of the contrastive loss over a batch of T pairs. */
static void clip(net *n) {
    int64_t d = 24 * n->k;
    rp_tensor image = net_input(n, "image", RP_SHAPE(n->T, d), 1);
    rp_tensor text = net_input(n, "text", RP_SHAPE(n->T, d), 1);
    rp_tensor scale = net_around(n, "logit_scale", RP_SHAPE(1), 2.6, 0.1);
    image = rp_l2_normalize(plain(n, image, "image_proj", d, d), -1, 1e-12);
    text = rp_l2_normalize(plain(n, rp_quick_gelu(text), "text_proj", d, d), -1, 1e-12);
    rp_tensor s = rp_mul(rp_matmul(image, text, true), rp_exp(scale));
    net_output(n, s);
    rp_tensor same = rp_eq(rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(n->T, n->T), 0),
                           rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(n->T, n->T), 1));
    rp_tensor zero = rp_const(n->g, RP_DTYPE_F32, 0);
    rp_tensor a = rp_sum(rp_where(same, rp_log_softmax(s, 1), zero), 1, false);
    rp_tensor b = rp_sum(rp_where(same, rp_log_softmax(s, 0), zero), 0, false);
    net_output(n, rp_mul_scalar(rp_add(rp_mean(a, 0, false), rp_mean(b, 0, false)), -0.5));
}

static const net_case cases[] = {
    {"gpt2", gpt2, {7, 1, 33}},
    {"bert", bert, {9, 1, 17}},
    {"gemma", gemma, {7, 1, 19}},
    {"moe_dense", moe_dense, {5, 1, 17}},
    {"moe_gather", moe_gather, {5, 1, 17}},
    {"t5", t5, {9, 1, 23}},
    {"alibi", alibi, {11, 1, 37}},
    {"mla", mla, {7, 1, 21}},
    {"neox", neox, {5, 1, 19}},
    {"sampling", sampling, {3, 1, 13}},
    {"clip", clip, {5, 1, 15}},
};

int main(int argc, char **argv) {
    return net_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
