/* What a stranger tries next: windows of pixels, a cache of keys that is written at a symbol, routing by groups of experts,
 * int8 weights, nucleus sampling, up-sampling in other ways. */
#include <math.h>

#include "support/nets.h"

static rp_tensor plain(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    return rp_linear(x, net_weight(n, name, RP_SHAPE(out, in), 0.3));
}

/* Swin: attention in windows of 4 x 4 of a shifted image, a bias for each distance, then 2 x 2 pixels as one. */
static void swin(net *n) {
    int64_t c = 16 * n->k, heads = 2, m = 4, h = 8, w = 12;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, h, w, c), 1);
    /* rolled by 2 along both */
    rp_tensor y = rp_concat((rp_tensor[]){rp_slice(x, 1, 2, h), rp_slice(x, 1, 0, 2)}, 2, 1);
    y = rp_concat((rp_tensor[]){rp_slice(y, 2, 2, w), rp_slice(y, 2, 0, 2)}, 2, 2);
    y = rp_permute(rp_reshape(y, RP_SHAPE(n->T, h / m, m, w / m, m, c)), (int[]){0, 1, 3, 2, 4, 5},
                   6);
    rp_dim windows = rp_dim_mul(n->T, h / m * (w / m));
    y = rp_reshape(y, RP_SHAPE(windows, m * m, c));
    rp_tensor qkv =
        rp_reshape(plain(n, y, "qkv", c, 3 * c), RP_SHAPE(windows, m * m, 3, heads, c / heads));
    qkv = rp_permute(qkv, (int[]){2, 0, 3, 1, 4}, 5);
    /* the place of j seen from i: (yi - yj + 3) * 7 + xi - xj + 3 */
    rp_tensor i = rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(m, m, m, m), 0);
    rp_tensor far = rp_sub(i, rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(m, m, m, m), 2));
    rp_tensor col = rp_sub(rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(m, m, m, m), 1),
                           rp_iota(n->g, RP_DTYPE_I32, RP_SHAPE(m, m, m, m), 3));
    rp_tensor at = rp_add(rp_mul_scalar(rp_add_scalar(far, 3), 7), rp_add_scalar(col, 3));
    rp_tensor bias = rp_gather(net_weight(n, "bias", RP_SHAPE(49, heads), 1),
                               rp_reshape(at, RP_SHAPE(m * m, m * m)));
    rp_sdpa_args a = {.q = rp_squeeze(rp_slice(qkv, 0, 0, 1), 0),
                      .k = rp_squeeze(rp_slice(qkv, 0, 1, 2), 0),
                      .v = rp_squeeze(rp_slice(qkv, 0, 2, 3), 0),
                      .bias = rp_permute(bias, (int[]){2, 0, 1}, 3)};
    y = rp_flatten(rp_transpose(rp_scaled_dot_product_attention(&a), 1, 2), 2, 3);
    y = rp_reshape(plain(n, y, "o", c, c), RP_SHAPE(n->T, h / m, w / m, m, m, c));
    y = rp_reshape(rp_permute(y, (int[]){0, 1, 3, 2, 4, 5}, 6), RP_SHAPE(n->T, h, w, c));
    y = rp_concat((rp_tensor[]){rp_slice(y, 1, h - 2, h), rp_slice(y, 1, 0, h - 2)}, 2, 1);
    y = rp_concat((rp_tensor[]){rp_slice(y, 2, w - 2, w), rp_slice(y, 2, 0, w - 2)}, 2, 2);
    x = rp_add(x, y);
    net_output(n, x);
    rp_tensor part[4];
    for (int k = 0; k < 4; k++)
        part[k] = rp_slice_step(rp_slice_step(x, 1, k % 2, h, 2), 2, k / 2, w, 2);
    x = rp_layer_norm(rp_concat(part, 4, -1), rp_none(), rp_none(), 1e-5);
    net_output(n, plain(n, x, "reduction", 4 * c, 2 * c));
}

/* One step of decoding with a dense cache: what was seen before is T - 1 positions, the new one is written behind. */
static void decode(net *n) {
    int64_t heads = 2, kv = 1, d = 8 * n->k, room = 64;
    rp_tensor x = net_input(n, "x", RP_SHAPE(1, heads * d), 1);
    rp_tensor keys = net_state(n, "keys", RP_SHAPE(kv, room, d), 1);
    rp_tensor values = net_state(n, "values", RP_SHAPE(kv, room, d), 1);
    rp_dim at = rp_dim_sub(n->T, 1);
    rp_tensor length = net_input(n, "length", RP_SHAPE(n->T), 1); /* its size says T */
    rp_tensor k = rp_reshape(plain(n, x, "k", heads * d, d), RP_SHAPE(kv, 1, d));
    rp_tensor v = rp_reshape(plain(n, x, "v", heads * d, d), RP_SHAPE(kv, 1, d));
    keys = rp_update_at(keys, k, RP_SHAPE(0, at, 0));
    values = rp_update_at(values, v, RP_SHAPE(0, at, 0));
    rp_sdpa_args a = {
        .q = rp_reshape(plain(n, x, "q", heads * d, heads * d), RP_SHAPE(heads, 1, d)),
        .k = rp_slice(keys, 1, 0, n->T),
        .v = rp_slice(values, 1, 0, n->T)};
    rp_tensor y = rp_reshape(rp_scaled_dot_product_attention(&a), RP_SHAPE(1, heads * d));
    net_output(n, rp_add(y, rp_mul_scalar(rp_sum(length, 0, false), 0)));
    net_output(n, keys);
}

/* DeepSeek V3: sigmoid scores with a correction, the two best groups of four, then the four best experts of them. */
static void routing(net *n) {
    int64_t experts = 16, groups = 4, d = 12 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, d), 1), two, chosen, which;
    rp_tensor score = rp_sigmoid(plain(n, x, "router", d, experts));
    rp_tensor corrected = rp_add(score, net_weight(n, "correction", RP_SHAPE(experts), 0.2));
    rp_tensor grouped = rp_reshape(corrected, RP_SHAPE(n->T, groups, experts / groups));
    rp_topk(grouped, 2, &two, NULL);
    rp_topk(rp_sum(two, -1, false), 2, NULL, &chosen);
    rp_tensor open = rp_sum(rp_one_hot(chosen, groups, RP_DTYPE_F32), 1, false);
    rp_tensor closed = rp_eq(rp_unsqueeze(open, -1), rp_const(n->g, RP_DTYPE_F32, 0));
    grouped = rp_masked_fill(grouped, closed, -HUGE_VAL);
    rp_topk(rp_reshape(grouped, RP_SHAPE(n->T, experts)), 4, NULL, &which);
    rp_tensor weight = rp_take_along(score, -1, which);
    weight = rp_mul_scalar(rp_div(weight, rp_sum(weight, -1, true)), 2.5);
    net_output(n, which);
    net_output(n, weight);
}

/* int8 weights with a scale a row, activations as they are; a low-rank addition (LoRA). */
static void int8(net *n) {
    int64_t d = 24 * n->k, out = 20 * n->k, rank = 4;
    rp_tensor x = net_input(n, "x", RP_SHAPE(2, n->T, d), 1);
    rp_tensor w = rp_sub(rp_cast(net_ids(n, "w", RP_SHAPE(out, d), 255), RP_DTYPE_F32),
                         rp_const(n->g, RP_DTYPE_F32, 127));
    w = rp_cast(w, RP_DTYPE_I8);
    rp_tensor scale = net_around(n, "scale", RP_SHAPE(out, 1), 0.01, 0.002);
    rp_tensor y = rp_linear(x, rp_mul(rp_cast(w, RP_DTYPE_F32), scale));
    rp_tensor low = plain(n, plain(n, x, "a", d, rank), "b", rank, out);
    net_output(n, rp_add(y, rp_mul_scalar(low, 2)));
}

/* Nucleus sampling: everything sorted, summed, cut, and put back where it came from. */
static void nucleus(net *n) {
    int64_t vocab = 40 * n->k;
    rp_tensor x = net_input(n, "logits", RP_SHAPE(n->T, vocab), 3), sorted, order;
    rp_tensor p = rp_softmax(x, -1);
    rp_sort(p, -1, true, &sorted, &order);
    rp_tensor before = rp_sub(rp_cumsum(sorted, -1), sorted);
    rp_tensor kept = rp_lt(before, rp_const(n->g, RP_DTYPE_F32, 0.8));
    p = rp_scatter(rp_mul_scalar(p, 0), -1, order, rp_masked_fill(sorted, rp_not(kept), 0));
    net_output(n, rp_div(p, rp_sum(p, -1, true)));
    net_output(n, rp_slice(order, -1, 0, 5));
    /* The token where the cumulative share passes 0.5. */
    rp_tensor below =
        rp_le(rp_cumsum(rp_div(p, rp_sum(p, -1, true)), -1), rp_const(n->g, RP_DTYPE_F32, 0.5));
    net_output(n, rp_sum(rp_cast(below, RP_DTYPE_I32), -1, false));
}

/* Larger images: pixels from channels, means of neighbours, a transposed convolution. */
static void larger(net *n) {
    int64_t c = 8 * n->k, h = 5, w = 6;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, c, h, w), 1);
    rp_tensor y = rp_reshape(x, RP_SHAPE(n->T, c / 4, 2, 2, h, w)); /* pixel_shuffle(2) */
    y = rp_permute(y, (int[]){0, 1, 4, 2, 5, 3}, 6);
    net_output(n, rp_reshape(y, RP_SHAPE(n->T, c / 4, 2 * h, 2 * w)));
    /* bilinear x 2 of rows, corners not aligned: 1/4 and 3/4 of neighbours, edges repeated */
    rp_tensor up = rp_concat((rp_tensor[]){rp_slice(x, 2, 0, 1), rp_slice(x, 2, 0, h - 1)}, 2, 2);
    rp_tensor down = rp_concat((rp_tensor[]){rp_slice(x, 2, 1, h), rp_slice(x, 2, h - 1, h)}, 2, 2);
    rp_tensor even = rp_add(rp_mul_scalar(x, 0.75), rp_mul_scalar(up, 0.25));
    rp_tensor odd = rp_add(rp_mul_scalar(x, 0.75), rp_mul_scalar(down, 0.25));
    net_output(n, rp_flatten(rp_stack((rp_tensor[]){even, odd}, 2, 3), 2, 3));
    rp_tensor kernel = net_weight(n, "kernel", RP_SHAPE(c, 6, 3, 3), 0.3);
    rp_conv_args a = {.stride = {2, 2}, .padding = {1, 1}};
    net_output(n, rp_conv_transpose2d(x, kernel, net_weight(n, "b", RP_SHAPE(6), 0.1), &a, 1));
}

/* Sorting along every axis, with many equals; the places of all. */
static void ordering(net *n) {
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, 5, 6), 1), value[3], place[3];
    x = rp_mul_scalar(rp_round(rp_mul_scalar(x, 2)), 0.5);
    for (int axis = 0; axis < 3; axis++) rp_sort(x, axis, axis == 1, &value[axis], &place[axis]);
    net_output(n, rp_stack(value, 3, 0));
    net_output(n, rp_stack(place, 3, 0));
    rp_tensor ids = net_ids(n, "ids", RP_SHAPE(n->T, 70), 9), wide = rp_cast(ids, RP_DTYPE_I64);
    wide = rp_sub(rp_mul(wide, rp_const(n->g, RP_DTYPE_I64, 1 << 30)),
                  rp_const(n->g, RP_DTYPE_I64, 3.0 * (1 << 30)));
    rp_sort(wide, -1, false, &wide, NULL);
    net_output(n, rp_cast(wide, RP_DTYPE_F32));
    rp_tensor both[2] = {rp_argsort(ids, -1, true),
                         rp_argsort(rp_cast(ids, RP_DTYPE_F16), -1, false)};
    net_output(n, rp_concat(both, 2, 0));
}

/* Values by index, to and from every axis; indices that are equal. */
static void scattering(net *n) {
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, 4, 6), 1);
    rp_tensor at = net_ids(n, "at", RP_SHAPE(n->T, 9, 6), 4);
    rp_tensor src = net_input(n, "src", RP_SHAPE(n->T, 9, 6), 1), part[5];
    part[0] = rp_scatter_add(x, 1, at, src);
    part[1] = rp_scatter_prod(x, 1, rp_cast(at, RP_DTYPE_I64), src);
    part[2] = rp_scatter_amax(x, 1, at, src);
    part[3] = rp_scatter_amin(x, 1, at, src);
    part[4] = rp_index_copy(x, 2, net_ids(n, "column", RP_SHAPE(1), 6), rp_slice(x, 2, 5, 6));
    net_output(n, rp_stack(part, 5, 0));
    rp_tensor base = net_weight(n, "base", RP_SHAPE(5, 6), 1);
    rp_tensor first = rp_squeeze(rp_slice(x, 1, 0, 1), 1);
    net_output(n, rp_index_add(base, 0, net_ids(n, "row", RP_SHAPE(n->T), 5), first));
    rp_tensor table = net_weight(n, "table", RP_SHAPE(5, 3, 4), 1), ids[2];
    ids[0] = net_ids(n, "i", RP_SHAPE(n->T, 2), 5);
    ids[1] = net_ids(n, "j", RP_SHAPE(n->T, 2), 3);
    rp_tensor values = net_input(n, "values", RP_SHAPE(n->T, 1, 4), 1);
    rp_tensor put[2] = {rp_index_put(table, ids, 2, values, true),
                        rp_index_put(table, ids, 1, rp_const(n->g, RP_DTYPE_F32, 7), false)};
    net_output(n, rp_stack(put, 2, 0));
    net_output(n, rp_take_along(x, 0, net_ids(n, "from", RP_SHAPE(2, 4, 6), 3)));
}

static const net_case cases[] = {
    {"swin", swin, {2, 1, 3}},         {"decode", decode, {9, 1, 64}},
    {"routing", routing, {5, 1, 9}},   {"int8", int8, {7, 1, 3}},
    {"nucleus", nucleus, {3, 1, 7}},   {"larger", larger, {2, 1, 3}},
    {"ordering", ordering, {3, 1, 9}}, {"scattering", scattering, {3, 1, 7}},
};

int main(int argc, char **argv) {
    return net_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
