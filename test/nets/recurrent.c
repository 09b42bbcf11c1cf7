/* Recurrences, unrolled: each step is recorded, so the number of steps is a number, and T is the batch. */
#include "support/nets.h"

enum { STEPS = 8 };

/* Step t of x [B,STEPS,...] */
static rp_tensor step(rp_tensor x, int64_t t) {
    return rp_squeeze(rp_slice(x, 1, t, t + 1), 1);
}

static rp_tensor plain(net *n, rp_tensor x, const char *name, int64_t in, int64_t out) {
    return rp_linear(x, net_weight(n, name, RP_SHAPE(out, in), 0.3));
}

/* Mamba: a causal depthwise convolution, a selective scan, a gate. */
static void mamba(net *n) {
    int64_t d = 16 * n->k, inner = 2 * d, state = 4, rank = 3;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, STEPS, d), 1);
    rp_tensor xz = plain(n, x, "in_proj", d, 2 * inner);
    rp_tensor z = rp_slice(xz, -1, inner, 2 * inner);
    rp_tensor u = rp_pad(rp_transpose(rp_slice(xz, -1, 0, inner), 1, 2), -1, 3, 0, 0);
    u = rp_conv1d(u, net_weight(n, "conv", RP_SHAPE(inner, 1, 4), 0.5),
                  net_weight(n, "conv.b", RP_SHAPE(inner), 0.1),
                  &(rp_conv_args){.groups = (uint32_t)inner});
    u = rp_silu(rp_transpose(u, 1, 2)); /* [B,STEPS,I] */
    rp_tensor dbc = plain(n, u, "x_proj", inner, rank + 2 * state);
    rp_tensor dt = plain(n, rp_slice(dbc, -1, 0, rank), "dt_proj", rank, inner);
    dt = rp_softplus(rp_add(dt, net_around(n, "dt.b", RP_SHAPE(inner), -3, 1)));
    rp_tensor b = rp_slice(dbc, -1, rank, rank + state);
    rp_tensor c = rp_slice(dbc, -1, rank + state, rank + 2 * state);
    rp_tensor a = rp_neg(rp_exp(net_weight(n, "a_log", RP_SHAPE(inner, state), 1)));
    rp_tensor skip = net_around(n, "d", RP_SHAPE(inner), 1, 0.2), y[STEPS];
    rp_tensor h = rp_broadcast(rp_const(n->g, RP_DTYPE_F32, 0), RP_SHAPE(n->T, inner, state));
    for (int64_t t = 0; t < STEPS; t++) {
        rp_tensor dt_t = rp_unsqueeze(step(dt, t), -1), u_t = step(u, t);
        rp_tensor fed = rp_mul(rp_mul(dt_t, rp_unsqueeze(step(b, t), 1)), rp_unsqueeze(u_t, -1));
        h = rp_add(rp_mul(rp_exp(rp_mul(dt_t, a)), h), fed);
        y[t] = rp_sum(rp_mul(h, rp_unsqueeze(step(c, t), 1)), -1, false);
        y[t] = rp_add(y[t], rp_mul(skip, u_t));
    }
    rp_tensor out = rp_mul(rp_stack(y, STEPS, 1), rp_silu(z));
    net_output(n, plain(n, out, "out_proj", inner, d));
    net_output(n, h);
}

static rp_tensor gates(net *n, rp_tensor x, rp_tensor h, const char *name, int64_t d, int64_t m) {
    rp_tensor a = rp_linear(x, net_weight(n, net_join(name, "ih"), RP_SHAPE(m * d, d), 0.4));
    a = rp_add(a, net_weight(n, net_join(name, "bih"), RP_SHAPE(m * d), 0.2));
    rp_tensor b = rp_linear(h, net_weight(n, net_join(name, "hh"), RP_SHAPE(m * d, d), 0.4));
    b = rp_add(b, net_weight(n, net_join(name, "bhh"), RP_SHAPE(m * d), 0.2));
    return rp_concat((rp_tensor[]){a, b}, 2, -1);
}

static void lstm(net *n) {
    int64_t d = 12 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, STEPS, d), 1), all[STEPS];
    rp_tensor h = net_input(n, "h", RP_SHAPE(n->T, d), 1),
              c = net_input(n, "c", RP_SHAPE(n->T, d), 1);
    for (int64_t t = 0; t < STEPS; t++) {
        rp_tensor ab = gates(n, step(x, t), h, "lstm", d, 4);
        rp_tensor g = rp_add(rp_slice(ab, 1, 0, 4 * d), rp_slice(ab, 1, 4 * d, 8 * d));
        rp_tensor i = rp_sigmoid(rp_slice(g, 1, 0, d)), f = rp_sigmoid(rp_slice(g, 1, d, 2 * d));
        rp_tensor o = rp_sigmoid(rp_slice(g, 1, 3 * d, 4 * d));
        c = rp_add(rp_mul(f, c), rp_mul(i, rp_tanh(rp_slice(g, 1, 2 * d, 3 * d))));
        all[t] = h = rp_mul(o, rp_tanh(c));
    }
    net_output(n, rp_stack(all, STEPS, 1));
    net_output(n, c);
}

static void gru(net *n) {
    int64_t d = 12 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, STEPS, d), 1);
    rp_tensor h = net_input(n, "h", RP_SHAPE(n->T, d), 1);
    for (int64_t t = 0; t < STEPS; t++) {
        rp_tensor ab = gates(n, step(x, t), h, "gru", d, 3);
        rp_tensor a = rp_slice(ab, 1, 0, 3 * d), b = rp_slice(ab, 1, 3 * d, 6 * d);
        rp_tensor rz = rp_sigmoid(rp_add(rp_slice(a, 1, 0, 2 * d), rp_slice(b, 1, 0, 2 * d)));
        rp_tensor r = rp_slice(rz, 1, 0, d), z = rp_slice(rz, 1, d, 2 * d);
        rp_tensor new =
            rp_tanh(rp_add(rp_slice(a, 1, 2 * d, 3 * d), rp_mul(r, rp_slice(b, 1, 2 * d, 3 * d))));
        h = rp_add(new, rp_mul(z, rp_sub(h, new)));
    }
    net_output(n, h);
}

/* Linear attention with decay: a matrix of state, read by the query (RetNet, RWKV). */
static void retnet(net *n) {
    int64_t d = 8 * n->k, heads = 2;
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, STEPS, heads * d), 1), y[STEPS], part[3];
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++)
        part[i] = rp_reshape(plain(n, x, names[i], heads * d, heads * d),
                             RP_SHAPE(n->T, STEPS, heads, d));
    rp_tensor decay = rp_sigmoid(net_around(n, "decay", RP_SHAPE(heads, 1, 1), 2, 0.5));
    rp_tensor s = rp_none();
    for (int64_t t = 0; t < STEPS; t++) {
        rp_tensor k = rp_unsqueeze(step(part[1], t), -1), v = rp_unsqueeze(step(part[2], t), -2);
        rp_tensor kv = rp_mul(k, v); /* [B,H,D,D] */
        s = t ? rp_add(rp_mul(s, decay), kv) : kv;
        y[t] = rp_squeeze(rp_matmul(rp_unsqueeze(step(part[0], t), -2), s, false), -2);
    }
    rp_tensor out = rp_flatten(rp_stack(y, STEPS, 1), 2, 3);
    rp_shape rows = RP_SHAPE(rp_dim_mul(n->T, STEPS), heads * d);
    out = rp_group_norm(rp_reshape(out, rows), 2, rp_none(), rp_none(), 1e-5);
    net_output(n, out);
}

/* Statistics over a size that is not known: the mean, the variance and the softmax along T. */
static void over_time(net *n) {
    int64_t d = 6 * n->k;
    rp_tensor x = net_input(n, "x", RP_SHAPE(rp_dim_add(n->T, 1), d), 2);
    net_output(n, rp_mean(x, 0, false));
    net_output(n, rp_concat((rp_tensor[]){rp_var(x, 0, true, 1), rp_logsumexp(x, 0, true),
                                          rp_prod(rp_mul_scalar(x, 0.7), 0, true)},
                            3, 0));
    rp_tensor score = rp_softmax(plain(n, x, "pool", d, 1), 0);
    rp_tensor scaled = rp_layer_norm(rp_transpose(x, 0, 1), rp_none(), rp_none(), 1e-5);
    net_output(n, rp_matmul(scaled, score, false));
    rp_tensor big = rp_gt(x, rp_const(n->g, RP_DTYPE_F32, 1.5));
    rp_tensor found[3] = {rp_cast(rp_any(big, 0, false), RP_DTYPE_I32), rp_argmin(x, 0, false),
                          rp_cast(rp_all(rp_not(big), 0, false), RP_DTYPE_I32)};
    net_output(n, rp_stack(found, 3, 1));
}

/* Small calls that fit nowhere else. */
static void pieces(net *n) {
    rp_tensor x = net_input(n, "x", RP_SHAPE(n->T, 5, 8), 3);
    rp_tensor idx = net_ids(n, "idx", RP_SHAPE(n->T, 5, 3), 8);
    rp_tensor pick = net_ids(n, "pick", RP_SHAPE(4), 5);
    rp_tensor part[6];
    part[0] = rp_flip(x, 1);
    part[1] = rp_concat((rp_tensor[]){rp_slice_step(x, 2, 1, 8, 3), rp_slice_step(x, 2, 0, 8, 2),
                                      rp_slice(x, 2, 7, 8)},
                        3, 2);
    part[2] =
        rp_pad(rp_slice(rp_take_along(x, 2, rp_cast(idx, RP_DTYPE_I64)), 2, 0, 2), 2, 2, 4, -1);
    part[3] = rp_pad(rp_index_select(x, 1, pick), 1, 0, 1, 9);
    part[4] = rp_scatter_add(x, 2, idx, rp_slice(rp_mul(x, x), 2, 0, 3));
    part[5] = rp_elu(rp_clamp(x, -2, 1.5), 0.8);
    net_output(n, rp_stack(part, 6, 0));
    rp_tensor small = rp_mul_scalar(x, 1e-4);
    rp_tensor near = rp_mul_scalar(rp_add(rp_log1p(small), rp_expm1(small)), 1e4);
    rp_tensor cast[2] = {rp_add(near, rp_softplus(rp_mul_scalar(x, 8))),
                         rp_add(rp_round(x), rp_mul(rp_floor(x), rp_ceil(x)))};
    net_output(n, rp_stack(cast, 2, 0));
    net_output(n, rp_one_hot(idx, 8, RP_DTYPE_F32));
    net_output(n, rp_take_along(x, 1, net_ids(n, "inner", RP_SHAPE(n->T, 2, 8), 5)));
}

static const net_case cases[] = {
    {"mamba", mamba, {3, 1, 7}},
    {"lstm", lstm, {3, 1, 9}},
    {"gru", gru, {5, 1, 2}},
    {"retnet", retnet, {3, 1, 5}},
    {"over_time", over_time, {8, 1, 32}},
    {"pieces", pieces, {3, 1, 4}},
};

int main(int argc, char **argv) {
    return net_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
