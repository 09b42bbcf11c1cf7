/* Built layer by layer; nothing here looks inside the library. */
#include "support/parallel_model.h"

#include <stdio.h>

typedef struct model {
    rp_graph *g;
    const parallel_model_options *opt;
    rp_dim t;
    int layer; /* -1 outside of layers */
    rp_tensor cos, sin, positions, slots, seqs, tables;
} model;

static rp_tensor named(const model *m, const char *what, rp_dtype t, rp_shape shape, bool state) {
    char name[48];
    if (m->layer < 0)
        (void)snprintf(name, sizeof name, "%s", what);
    else
        (void)snprintf(name, sizeof name, "layer.%d.%s", m->layer, what);
    return state ? rp_state(m->g, name, t, shape) : rp_param(m->g, name, t, shape);
}

static rp_tensor vector(const model *m, const char *what, int64_t n) {
    return named(m, what, RP_DTYPE_F32, RP_SHAPE(n), false);
}

static rp_tensor norm(const model *m, rp_tensor x) {
    return rp_layer_norm(x, vector(m, "norm.weight", PM_WIDTH), vector(m, "norm.bias", PM_WIDTH),
                         1e-5);
}

static rp_tensor project(const model *m, rp_tensor x, const char *what, int64_t n, int64_t k) {
    char bias[24];
    (void)snprintf(bias, sizeof bias, "%s.bias", what);
    rp_tensor y = rp_linear(x, named(m, what, m->opt->weights, RP_SHAPE(n, k), false));
    return rp_add(y, vector(m, bias, n));
}

/* The first PM_ROPE_DIM elements of a head are turned, the rest pass. */
static rp_tensor rotate(const model *m, rp_tensor x, int64_t heads) {
    rp_tensor h = rp_reshape(x, RP_SHAPE(m->t, heads, PM_HEAD_DIM));
    rp_tensor turned = rp_rope(rp_slice(h, 2, 0, PM_ROPE_DIM), m->cos, m->sin);
    rp_tensor parts[2] = {turned, rp_slice(h, 2, PM_ROPE_DIM, PM_HEAD_DIM)};
    return rp_reshape(rp_concat(parts, 2, 2), RP_SHAPE(m->t, heads * PM_HEAD_DIM));
}

static rp_tensor attend(const model *m, rp_tensor h) {
    rp_shape cache = RP_SHAPE(PM_BLOCKS, 1, PM_BLOCK, PM_HEAD_DIM);
    rp_tensor q = project(m, h, "q", PM_HEADS * PM_HEAD_DIM, PM_WIDTH);
    rp_tensor k = project(m, h, "k", PM_HEAD_DIM, PM_WIDTH);
    rp_tensor v = project(m, h, "v", PM_HEAD_DIM, PM_WIDTH);
    rp_tensor kc = named(m, "cache.k", m->opt->kv, cache, true);
    rp_tensor vc = named(m, "cache.v", m->opt->kv, cache, true);
    k = rotate(m, k, 1);
    kc = rp_kv_store(kc, k, m->slots);
    vc = rp_kv_store(vc, v, m->slots);
    rp_attention_args a = {.q = rotate(m, q, PM_HEADS),
                           .k = kc,
                           .v = vc,
                           .seqs = m->seqs,
                           .positions = m->positions,
                           .block_tables = m->tables,
                           .heads = PM_HEADS,
                           .kv_heads = 1,
                           .head_dim = PM_HEAD_DIM,
                           .scale = 0.20412414523193154};
    return project(m, rp_attention(&a), "o", PM_WIDTH, PM_HEADS * PM_HEAD_DIM);
}

/* Both forms of GELU, layer by layer. */
static rp_tensor feed_forward(const model *m, rp_tensor h) {
    rp_tensor up = project(m, h, "up", PM_FFN, PM_WIDTH);
    up = m->layer % 2 ? rp_gelu_erf(up) : rp_gelu_tanh(up);
    return project(m, up, "down", PM_WIDTH, PM_FFN);
}

static rp_tensor embed(const model *m, rp_tensor tokens) {
    rp_tensor words = named(m, "words", RP_DTYPE_F32, RP_SHAPE(PM_VOCAB, PM_WIDTH), false);
    rp_tensor places = named(m, "places", RP_DTYPE_F32, RP_SHAPE(PM_POSITIONS, PM_WIDTH), false);
    return rp_add(rp_gather(words, tokens), rp_gather(places, m->positions));
}

static rp_tensor table(const model *m, const char *what) {
    rp_shape s = RP_SHAPE(PM_POSITIONS, PM_ROPE_DIM / 2);
    return rp_gather(named(m, what, RP_DTYPE_F32, s, false), m->positions);
}

rp_status parallel_model_new(const parallel_model_options *opt, rp_graph **out, rp_error *err) {
    model m = {.g = rp_graph_new("parallel"), .opt = opt, .layer = -1};
    if (!m.g) return RP_NOMEM;
    rp_graph_set_numerics(m.g, opt->numerics);
    m.t = rp_symbol(m.g, "T", 1, PM_MAX_TOKENS);
    rp_tensor tokens = rp_input(m.g, "tokens", RP_DTYPE_I32, RP_SHAPE(m.t));
    m.positions = rp_input(m.g, "positions", RP_DTYPE_I32, RP_SHAPE(m.t));
    m.slots = rp_input(m.g, "slots", RP_DTYPE_I32, RP_SHAPE(m.t));
    m.seqs = rp_input(m.g, "seqs", RP_DTYPE_I32, RP_SHAPE(m.t));
    m.tables = rp_input(m.g, "block_tables", RP_DTYPE_I32,
                        RP_SHAPE(rp_symbol(m.g, "S", 1, PM_MAX_SEQS), PM_TABLE));
    rp_tensor rows =
        rp_input(m.g, "rows", RP_DTYPE_I32, RP_SHAPE(rp_symbol(m.g, "R", 1, PM_MAX_TOKENS)));
    m.cos = table(&m, "cos");
    m.sin = table(&m, "sin");
    rp_tensor x = embed(&m, tokens);
    for (m.layer = 0; m.layer < PM_LAYERS; m.layer++) {
        rp_tensor h = norm(&m, x);
        x = rp_add(x, rp_add(attend(&m, h), feed_forward(&m, h)));
    }
    m.layer = -1;
    rp_tensor last = rp_gather(norm(&m, x), rows);
    rp_shape head = RP_SHAPE(PM_VOCAB, PM_WIDTH);
    rp_tensor logits = rp_linear(last, named(&m, "head", opt->weights, head, false));
    rp_status st = rp_graph_finish(m.g, &logits, 1, err);
    if (st == RP_OK)
        *out = m.g;
    else
        rp_graph_free(m.g);
    return st;
}
