/* Recurrences over any number of steps: T is the time, and a loop (rp_scan) carries the state. */
#include "support/nets.h"

enum { BATCH = 2 };

static rp_tensor plain(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    return rp_linear(x, net_weight(n, name, RP_SHAPE(out, in), 0.3));
}

static rp_tensor zeros(rp_graph *g, rp_shape s) {
    return rp_broadcast(rp_const(g, RP_DTYPE_F32, 0), s);
}

/* x [B,T,D] one step later, with zeros in front. */
static rp_tensor shifted(rp_tensor x) {
    return rp_slice(rp_pad(x, 1, 1, 0, 0), 1, 0, rp_tensor_dim(x, 1));
}

/* Between each step and the one before, by a weight for each channel. */
static rp_tensor mixed(net *n, rp_tensor x, const char *name, int64_t d) {
    rp_tensor mu = net_around(n, net_join("mu", name), RP_SHAPE(d), 0.5, 0.5);
    return rp_add(x, rp_mul(rp_sub(shifted(x), x), mu));
}

static rp_tensor channel_mix(net *n, rp_tensor x, int64_t d) {
    rp_tensor r = rp_sigmoid(plain(n, mixed(n, x, "cr", d), "cr", d, d));
    rp_tensor k = rp_relu(plain(n, mixed(n, x, "ck", d), "ck", d, 3 * d));
    return rp_mul(r, plain(n, rp_mul(k, k), "cv", 3 * d, d));
}

/* num, den, top; k, v; w, u. The sums of e^k v and e^k so far are kept over e^top. */
static void wkv_step(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                     uint32_t n_out, void *user) {
    rp_tensor num = in[0], den = in[1], top = in[2], k = in[3], v = in[4];
    (void)g, (void)n_in, (void)n_out, (void)user;
    rp_tensor now = rp_add(k, in[6]), most = rp_max(top, now);
    rp_tensor a = rp_exp(rp_sub(top, most)), b = rp_exp(rp_sub(now, most));
    out[3] = rp_div(rp_add(rp_mul(a, num), rp_mul(b, v)), rp_add(rp_mul(a, den), b));
    rp_tensor later = rp_add(top, in[5]);
    most = rp_max(later, k);
    a = rp_exp(rp_sub(later, most));
    b = rp_exp(rp_sub(k, most));
    out[0] = rp_add(rp_mul(a, num), rp_mul(b, v));
    out[1] = rp_add(rp_mul(a, den), b);
    out[2] = most;
}

/* RWKV-4: attention without queries, whose weights decay with the distance. */
static void rwkv4(net *n) {
    int64_t d = 16 * n->k;
    rp_shape state = RP_SHAPE(BATCH, d);
    rp_tensor x = net_input(n, "x", RP_SHAPE(BATCH, n->T, d), 1), out[4];
    rp_tensor h = rp_layer_norm(x, rp_none(), rp_none(), 1e-5);
    rp_tensor r = rp_sigmoid(plain(n, mixed(n, h, "r", d), "r", d, d));
    rp_tensor kv[2] = {plain(n, mixed(n, h, "k", d), "k", d, d),
                       plain(n, mixed(n, h, "v", d), "v", d, d)};
    rp_tensor first[3] = {zeros(n->g, state), zeros(n->g, state),
                          rp_broadcast(rp_const(n->g, RP_DTYPE_F32, -1e30), state)};
    rp_tensor wu[2] = {rp_neg(rp_exp(net_weight(n, "w", RP_SHAPE(d), 1))),
                       net_weight(n, "u", RP_SHAPE(d), 1)};
    rp_scan_args a = {.carried = first,
                      .sliced = kv,
                      .constants = wu,
                      .n_carried = 3,
                      .n_sliced = 2,
                      .n_constants = 2,
                      .axis = 1};
    rp_scan(n->g, wkv_step, NULL, &a, out, 4);
    x = rp_add(x, plain(n, rp_mul(r, out[3]), "o", d, d));
    x = rp_add(x, channel_mix(n, rp_layer_norm(x, rp_none(), rp_none(), 1e-5), d));
    net_output(n, x);
    net_output(n, rp_div(out[0], out[1]));
}

/* s [B,H,D,D]; r, k, v, w [B,H,D]; u [H,D] */
static void matrix_step(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                        uint32_t n_out, void *user) {
    rp_tensor s = in[0], kv = rp_mul(rp_unsqueeze(in[2], -1), rp_unsqueeze(in[3], -2));
    (void)g, (void)n_in, (void)n_out, (void)user;
    rp_tensor seen = rp_add(s, rp_mul(rp_unsqueeze(in[5], -1), kv));
    out[1] = rp_squeeze(rp_matmul(rp_unsqueeze(in[1], -2), seen, false), -2);
    out[0] = rp_add(rp_mul(s, rp_unsqueeze(in[4], -1)), kv);
}

/* RWKV-6: a matrix of state for each head, with a decay that depends on the step. */
static void rwkv6(net *n) {
    int64_t heads = 2, d = 8 * n->k, all = heads * d;
    static const char *const names[] = {"r", "k", "v"};
    rp_tensor x = net_input(n, "x", RP_SHAPE(BATCH, n->T, all), 1), rkvw[4], out[2];
    rp_shape split = RP_SHAPE(BATCH, n->T, heads, d);
    for (int i = 0; i < 3; i++)
        rkvw[i] = rp_reshape(plain(n, mixed(n, x, names[i], all), names[i], all, all), split);
    rp_tensor low = rp_tanh(plain(n, mixed(n, x, "w", all), "w1", all, 5));
    rp_tensor decay =
        rp_add(plain(n, low, "w2", 5, all), net_around(n, "w0", RP_SHAPE(all), -1, 1));
    rkvw[3] = rp_reshape(rp_exp(rp_neg(rp_exp(decay))), split);
    rp_tensor first = zeros(n->g, RP_SHAPE(BATCH, heads, d, d));
    rp_tensor u = net_weight(n, "u", RP_SHAPE(heads, d), 1);
    rp_scan_args a = {.carried = &first,
                      .sliced = rkvw,
                      .constants = &u,
                      .n_carried = 1,
                      .n_sliced = 4,
                      .n_constants = 1,
                      .axis = 1};
    rp_scan(n->g, matrix_step, NULL, &a, out, 2);
    rp_tensor y = rp_reshape(out[1], RP_SHAPE(rp_dim_mul(n->T, BATCH), all));
    y = rp_reshape(rp_group_norm(y, (uint32_t)heads, rp_none(), rp_none(), 1e-5),
                   RP_SHAPE(BATCH, n->T, all));
    y = rp_mul(y, rp_silu(plain(n, mixed(n, x, "g", all), "g", all, all)));
    net_output(n, rp_add(x, plain(n, y, "o", all, all)));
    net_output(n, out[0]);
}

/* s [B,H,D,D]; q, k, v [B,H,D], beta [B,H,1] */
static void delta_step(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                       uint32_t n_out, void *user) {
    rp_tensor s = in[0], k = rp_unsqueeze(in[2], -2);
    (void)g, (void)n_in, (void)n_out, (void)user;
    rp_tensor wrong = rp_sub(rp_unsqueeze(in[3], -2), rp_matmul(k, s, false));
    rp_tensor fix = rp_mul(rp_unsqueeze(in[4], -1), wrong);
    out[0] = rp_add(s, rp_mul(rp_transpose(k, -1, -2), fix));
    out[1] = rp_squeeze(rp_matmul(rp_unsqueeze(in[1], -2), out[0], false), -2);
}

/* DeltaNet: what the state answers to a key is corrected by a step towards the value. */
static void deltanet(net *n) {
    int64_t heads = 3, d = 4 * n->k, all = heads * d;
    static const char *const names[] = {"q", "k", "v"};
    rp_tensor x = net_input(n, "x", RP_SHAPE(BATCH, n->T, all), 1), part[4], out[2];
    for (int i = 0; i < 3; i++)
        part[i] =
            rp_reshape(rp_silu(plain(n, x, names[i], all, all)), RP_SHAPE(BATCH, n->T, heads, d));
    for (int i = 0; i < 2; i++) part[i] = rp_l2_normalize(part[i], -1, 1e-6);
    part[3] = rp_unsqueeze(rp_sigmoid(plain(n, x, "beta", all, heads)), -1);
    rp_tensor first = zeros(n->g, RP_SHAPE(BATCH, heads, d, d));
    rp_scan_args a = {.carried = &first, .sliced = part, .n_carried = 1, .n_sliced = 4, .axis = 1};
    rp_scan(n->g, delta_step, NULL, &a, out, 2);
    rp_tensor w = net_around(n, "norm", RP_SHAPE(d), 1, 0.2);
    rp_tensor y = rp_flatten(rp_rms_norm(out[1], w, 1e-5), 2, 3);
    net_output(n, plain(n, y, "o", all, all));
    net_output(n, out[0]);
}

static void gated_step(rp_graph *g, const rp_tensor *in, uint32_t n_in, rp_tensor *out,
                       uint32_t n_out, void *user) {
    (void)g, (void)n_in, (void)n_out, (void)user;
    out[0] = out[1] = rp_add(rp_mul(in[1], in[0]), in[2]);
}

/* Griffin's recurrent block: a causal convolution over time, then a linear recurrence with gates. */
static void griffin(net *n) {
    int64_t d = 12 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(BATCH, n->T, d), 1), out[2];
    rp_tensor u = rp_pad(rp_transpose(plain(n, x, "in", d, d), 1, 2), -1, 3, 0, 0);
    u = rp_conv1d(u, net_weight(n, "conv", RP_SHAPE(d, 1, 4), 0.5),
                  net_weight(n, "conv.b", RP_SHAPE(d), 0.1),
                  &(rp_conv_args){.groups = (uint32_t)d});
    u = rp_transpose(u, 1, 2);
    rp_tensor r = rp_sigmoid(plain(n, u, "ra", d, d)), i = rp_sigmoid(plain(n, u, "ri", d, d));
    rp_tensor lambda = rp_softplus(net_around(n, "lambda", RP_SHAPE(d), 1, 0.5));
    rp_tensor log_a = rp_mul_scalar(rp_mul(r, lambda), -8);
    rp_tensor kept = rp_sqrt(rp_neg(rp_expm1(rp_mul_scalar(log_a, 2))));
    rp_tensor fed[2] = {rp_exp(log_a), rp_mul(kept, rp_mul(i, u))};
    rp_tensor first = zeros(n->g, RP_SHAPE(BATCH, d));
    rp_scan_args a = {.carried = &first, .sliced = fed, .n_carried = 1, .n_sliced = 2, .axis = 1};
    rp_scan(n->g, gated_step, NULL, &a, out, 2);
    net_output(n, plain(n, rp_mul(out[1], rp_gelu_tanh(plain(n, x, "gate", d, d))), "out", d, d));
    net_output(n, out[0]);
}

static const net_case cases[] = {
    {"rwkv4", rwkv4, {6, 1, 17}},
    {"rwkv6", rwkv6, {5, 1, 19}},
    {"deltanet", deltanet, {7, 1, 16}},
    {"griffin", griffin, {5, 1, 33}},
};

int main(int argc, char **argv) {
    return net_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
