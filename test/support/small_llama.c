/* Two heads of 32, one KV head, width 64: every shape that fusion tells apart is there. */
#include "support/small_llama.h"

#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 64,
    HEADS = 2,
    KV_HEADS = 1,
    HEAD_DIM = 32,
    FFN = 96,
    VOCAB = 64,
    BLOCK = 16,
    BLOCKS = 8
};

typedef struct step {
    rp_graph *g;
    rp_dtype weights;
    rp_dim t;
    uint32_t layer;
    rp_tensor cos, sin, slots, seqs, positions, tables;
} step;

static rp_tensor param(const step *s, const char *what, rp_dtype t, rp_shape shape) {
    char name[40];
    snprintf(name, sizeof name, "l%u.%s", s->layer, what);
    return rp_param(s->g, name, t, shape);
}

static rp_tensor project(const step *s, rp_tensor x, const char *what, int64_t n, int64_t k) {
    return rp_linear(x, param(s, what, s->weights, RP_SHAPE(n, k)));
}

static rp_tensor rotate(const step *s, rp_tensor x, int64_t heads) {
    rp_tensor y = rp_rope(rp_reshape(x, RP_SHAPE(s->t, heads, HEAD_DIM)), s->cos, s->sin);
    return rp_reshape(y, RP_SHAPE(s->t, heads * HEAD_DIM));
}

static rp_tensor attend(const step *s, rp_tensor h) {
    char name[40];
    rp_tensor q = rotate(s, project(s, h, "q", HEADS * HEAD_DIM, WIDTH), HEADS);
    rp_tensor k = rotate(s, project(s, h, "k", KV_HEADS * HEAD_DIM, WIDTH), KV_HEADS);
    rp_tensor v = project(s, h, "v", KV_HEADS * HEAD_DIM, WIDTH);
    rp_shape cache = RP_SHAPE(BLOCKS, KV_HEADS, BLOCK, HEAD_DIM);
    snprintf(name, sizeof name, "l%u.kcache", s->layer);
    rp_tensor kc = rp_kv_store(rp_state(s->g, name, RP_DTYPE_F16, cache), k, s->slots);
    snprintf(name, sizeof name, "l%u.vcache", s->layer);
    rp_tensor vc = rp_kv_store(rp_state(s->g, name, RP_DTYPE_F16, cache), v, s->slots);
    rp_attention_args a = {.q = q,
                           .k = kc,
                           .v = vc,
                           .seqs = s->seqs,
                           .positions = s->positions,
                           .block_tables = s->tables,
                           .heads = HEADS,
                           .kv_heads = KV_HEADS,
                           .head_dim = HEAD_DIM,
                           .scale = 0.17677669529663687};
    return project(s, rp_attention(&a), "o", WIDTH, HEADS * HEAD_DIM);
}

static rp_tensor layer(const step *s, rp_tensor x) {
    rp_tensor h = rp_rms_norm(x, param(s, "norm1", RP_DTYPE_F32, RP_SHAPE(WIDTH)), 1e-5);
    x = rp_add(x, attend(s, h));
    h = rp_rms_norm(x, param(s, "norm2", RP_DTYPE_F32, RP_SHAPE(WIDTH)), 1e-5);
    rp_tensor gate = project(s, h, "gate", FFN, WIDTH), up = project(s, h, "up", FFN, WIDTH);
    return rp_add(x, project(s, rp_mul(rp_silu(gate), up), "down", WIDTH, FFN));
}

rp_status small_llama_new(const small_llama_options *opt, rp_graph **out, rp_error *err) {
    rp_graph *g = rp_graph_new("small");
    if (!g) return RP_NOMEM;
    rp_graph_set_numerics(g, opt->numerics);
    step s = {.g = g, .weights = opt->weights, .t = rp_symbol(g, "T", 1, 64)};
    rp_tensor tokens = rp_input(g, "tokens", RP_DTYPE_I32, RP_SHAPE(s.t));
    s.positions = rp_input(g, "positions", RP_DTYPE_I32, RP_SHAPE(s.t));
    s.slots = rp_input(g, "slots", RP_DTYPE_I32, RP_SHAPE(s.t));
    s.seqs = rp_input(g, "seqs", RP_DTYPE_I32, RP_SHAPE(s.t));
    s.tables = rp_input(g, "block_tables", RP_DTYPE_I32, RP_SHAPE(4, 2));
    s.cos = rp_gather(rp_param(g, "cos", RP_DTYPE_F32, RP_SHAPE(32, HEAD_DIM / 2)), s.positions);
    s.sin = rp_gather(rp_param(g, "sin", RP_DTYPE_F32, RP_SHAPE(32, HEAD_DIM / 2)), s.positions);
    rp_tensor x = rp_gather(rp_param(g, "embed", RP_DTYPE_F32, RP_SHAPE(VOCAB, WIDTH)), tokens);
    for (s.layer = 0; s.layer < opt->layers; s.layer++) x = layer(&s, x);
    x = rp_rms_norm(x, rp_param(g, "norm", RP_DTYPE_F32, RP_SHAPE(WIDTH)), 1e-5);
    rp_status st = rp_graph_finish(g, &x, 1, err);
    if (st == RP_OK)
        *out = g;
    else
        rp_graph_free(g);
    return st;
}

void small_llama_tame(const ir_graph *g, random_leaves *v) {
    static const struct {
        const char *name;
        int64_t limit;
    } inputs[] = {
        {"seqs", 4}, {"positions", 2 * BLOCK}, {"slots", BLOCKS * BLOCK}, {"block_tables", BLOCKS}};
    for (uint32_t i = 0; i < v->n[IR_LEAF_INPUT]; i++)
        for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++) {
            ir_value *x = &v->leaf[IR_LEAF_INPUT][i];
            if (strcmp(ir_node_at(g, ir_leaf_at(g, IR_LEAF_INPUT, i))->name, inputs[k].name) != 0)
                continue;
            for (int64_t j = 0; j < x->n; j++)
                x->data[j] = (double)((int64_t)x->data[j] % inputs[k].limit);
        }
}
