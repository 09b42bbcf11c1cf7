/* Llama in the tensor API. Weights keep the order of GGUF, whose q and k rows are permuted so that rope
 * turns neighbours. */
/* Lines of the library say nothing to its users. */
#define RP_NO_SITES
#include "model/llama.h"

#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const model_output_names[MODEL_N_RESULTS + 1] = {
    [MODEL_LAST] = "last", [MODEL_HEADS] = "heads"};

static const rp_arg_dim dims[] = {{"token_ids", 0}, {"positions", 0},    {"slots", 0},
                                  {"seqs", 0},      {"block_tables", 0}, {"block_tables", 1}};
static const char *const caches[] = {"k", "v"};
const rp_support model_llama_support = {.size = sizeof model_llama_support,
                                        .dynamic_arg_dims = dims,
                                        .n_dynamic_arg_dims = sizeof dims / sizeof *dims,
                                        .mutates = caches,
                                        .n_mutates = sizeof caches / sizeof *caches};

typedef struct llama {
    const model_source *src;
    const model_hparams *hp;
    rp_graph *g;
    rp_tensor positions, slots, seqs, tables, cos, sin;
    rp_dim T, NB;
    rp_dtype kv;
    rp_error *err;
    rp_status st; /* first failure outside the graph */
} llama;

/* A tensor of the file as a parameter: [rows, columns], or [n]. */
static rp_tensor weight(llama *m, const char *name) {
    model_tensor t;
    rp_tensor none = {m->g, UINT32_MAX, 0};
    if (m->st != RP_OK) return none;
    m->st = model_source_tensor(m->src, name, &t, m->err);
    if (m->st != RP_OK) return none;
    rp_shape s = t.n_dims == 1 ? RP_SHAPE(t.dims[0]) : RP_SHAPE(t.dims[1], t.dims[0]);
    return rp_param(m->g, name, t.type, s);
}

static rp_tensor layer_weight(llama *m, uint32_t layer, const char *what) {
    char name[64];
    (void)snprintf(name, sizeof name, "blk.%u.%s.weight", layer, what);
    return weight(m, name);
}

static rp_tensor cache(llama *m, const char *kind, uint32_t layer) {
    char name[32];
    (void)snprintf(name, sizeof name, "%s.%u", kind, layer);
    rp_shape s = RP_SHAPE(m->NB, m->hp->n_head_kv, MODEL_KV_BLOCK, m->hp->head_dim);
    return rp_state(m->g, name, m->kv, s);
}

/* Turns the leading rope_dim elements of each head. */
static rp_tensor rope(llama *m, rp_tensor x, uint32_t heads) {
    const model_hparams *hp = m->hp;
    rp_tensor h = rp_reshape(x, RP_SHAPE(m->T, heads, hp->head_dim));
    if (hp->rope_dim == hp->head_dim)
        h = rp_rope_interleaved(h, m->cos, m->sin);
    else {
        rp_tensor turned = rp_rope_interleaved(rp_slice(h, 2, 0, hp->rope_dim), m->cos, m->sin);
        h = rp_concat((rp_tensor[]){turned, rp_slice(h, 2, hp->rope_dim, hp->head_dim)}, 2, 2);
    }
    return rp_reshape(h, RP_SHAPE(m->T, (int64_t)heads * hp->head_dim));
}

static rp_tensor attention(llama *m, rp_tensor x, uint32_t layer) {
    const model_hparams *hp = m->hp;
    rp_tensor q = rope(m, rp_linear(x, layer_weight(m, layer, "attn_q")), hp->n_head);
    rp_tensor k = rope(m, rp_linear(x, layer_weight(m, layer, "attn_k")), hp->n_head_kv);
    rp_tensor v = rp_linear(x, layer_weight(m, layer, "attn_v"));
    rp_tensor keys = rp_kv_store(cache(m, "k", layer), k, m->slots);
    rp_tensor values = rp_kv_store(cache(m, "v", layer), v, m->slots);
    rp_attention_args a = {.q = q,
                           .k = keys,
                           .v = values,
                           .seqs = m->seqs,
                           .positions = m->positions,
                           .block_tables = m->tables,
                           .heads = hp->n_head,
                           .kv_heads = hp->n_head_kv,
                           .head_dim = hp->head_dim,
                           .scale = 1.0 / sqrt(hp->head_dim)};
    return rp_attention(&a);
}

static rp_tensor feed_forward(llama *m, rp_tensor x, uint32_t layer) {
    rp_tensor gate = rp_linear(x, layer_weight(m, layer, "ffn_gate"));
    rp_tensor up = rp_linear(x, layer_weight(m, layer, "ffn_up"));
    return rp_linear(rp_mul(rp_silu(gate), up), layer_weight(m, layer, "ffn_down"));
}

static rp_tensor norm(llama *m, rp_tensor x, rp_tensor w) {
    return rp_rms_norm(x, w, (double)m->hp->rms_eps);
}

/* What a layer makes of its input and of what its heads have read: each row by itself. */
static rp_tensor behind_attention(llama *m, rp_tensor x, rp_tensor heads, uint32_t layer) {
    x = rp_add(x, rp_linear(heads, layer_weight(m, layer, "attn_output")));
    return rp_add(x, feed_forward(m, norm(m, x, layer_weight(m, layer, "ffn_norm")), layer));
}

static rp_tensor as_f32(rp_tensor x) {
    return rp_dtype_is_quant(rp_tensor_dtype(x)) ? rp_dequant(x) : x;
}

static rp_tensor embed(llama *m, rp_tensor ids) {
    return rp_cast(rp_gather(as_f32(weight(m, "token_embd.weight")), ids), RP_DTYPE_F32);
}

static rp_status begin(llama *m, const model_source *src, const model_graph_options *opt,
                       const char *name, rp_error *err) {
    *m = (llama){.src = src, .hp = model_source_hparams(src), .g = rp_graph_new(name), .err = err};
    if (!m->g) return rp_fail(err, RP_NOMEM, "graph %s", name);
    rp_graph_set_numerics(m->g, opt->numerics);
    m->kv = model_kv_dtype(src, opt->numerics);
    if (opt->last && opt->first == opt->last)
        m->T = rp_dim_const(opt->last);
    else
        m->T = rp_symbol(m->g, "T", opt->last ? opt->first : 1,
                         opt->last ? opt->last : opt->max_tokens);
    return RP_OK;
}

static rp_status end(llama *m, const rp_tensor *results, uint32_t n, rp_graph **out) {
    rp_status st = m->st;
    if (st == RP_OK) st = rp_graph_finish(m->g, results, n, m->err);
    if (st == RP_OK)
        *out = m->g;
    else
        rp_graph_free(m->g);
    return st;
}

static rp_tensor inputs(llama *m, const model_graph_options *opt) {
    rp_graph *g = m->g;
    rp_dim S = rp_symbol(g, "S", 1, opt->max_seqs), B = rp_symbol(g, "B", 1, INT32_MAX);
    rp_dim P = rp_symbol(g, "P", 1, INT32_MAX);
    rp_shape angles = RP_SHAPE(P, m->hp->rope_dim / 2);
    rp_tensor ids = rp_input(g, "token_ids", RP_DTYPE_I32, RP_SHAPE(m->T));
    m->NB = rp_symbol(g, "NB", 1, INT32_MAX);
    m->positions = rp_input(g, "positions", RP_DTYPE_I32, RP_SHAPE(m->T));
    m->slots = rp_input(g, "slots", RP_DTYPE_I32, RP_SHAPE(m->T));
    m->seqs = rp_input(g, "seqs", RP_DTYPE_I32, RP_SHAPE(m->T));
    m->tables = rp_input(g, "block_tables", RP_DTYPE_I32, RP_SHAPE(S, B));
    m->cos = rp_gather(rp_param(g, "rope.cos", RP_DTYPE_F32, angles), m->positions);
    m->sin = rp_gather(rp_param(g, "rope.sin", RP_DTYPE_F32, angles), m->positions);
    return ids;
}

rp_status model_llama_graph(const model_source *src, const model_graph_options *opt, rp_graph **out,
                            rp_error *err) {
    llama m;
    char name[64] = "model";
    if (opt->last && opt->first == opt->last)
        (void)snprintf(name, sizeof name, "model_%" PRId64, opt->last);
    else if (opt->last)
        (void)snprintf(name, sizeof name, "model_%" PRId64 "_%" PRId64, opt->first, opt->last);
    RP_TRY(begin(&m, src, opt, name, err));
    const uint32_t last = m.hp->n_layer - 1;
    rp_tensor results[MODEL_N_RESULTS], x = embed(&m, inputs(&m, opt));
    for (uint32_t l = 0; l <= last; l++) {
        rp_tensor heads = attention(&m, norm(&m, x, layer_weight(&m, l, "attn_norm")), l);
        results[MODEL_LAST] = x;
        results[MODEL_HEADS] = heads;
        if (l < last) x = behind_attention(&m, x, heads, l);
    }
    return end(&m, results, MODEL_N_RESULTS, out);
}

/* The outputs of the model graph as inputs of another. */
static void take_left(llama *m, rp_tensor in[MODEL_N_RESULTS]) {
    const int64_t width[] = {
        [MODEL_LAST] = m->hp->n_embd, [MODEL_HEADS] = (int64_t)m->hp->n_head * m->hp->head_dim};
    for (int i = 0; i < MODEL_N_RESULTS; i++)
        in[i] = rp_input(m->g, model_output_names[i], RP_DTYPE_F32, RP_SHAPE(m->T, width[i]));
}

rp_status model_llama_hidden(const model_source *src, const model_graph_options *opt,
                             rp_graph **out, rp_error *err) {
    llama m;
    rp_tensor in[MODEL_N_RESULTS], results[2];
    RP_TRY(begin(&m, src, opt, "hidden", err));
    take_left(&m, in);
    results[0] = behind_attention(&m, in[MODEL_LAST], in[MODEL_HEADS], m.hp->n_layer - 1);
    results[1] = norm(&m, results[0], weight(&m, "output_norm.weight"));
    return end(&m, results, 2, out);
}

rp_status model_llama_head(const model_source *src, const model_graph_options *opt, rp_graph **out,
                           rp_error *err) {
    llama m;
    RP_TRY(begin(&m, src, opt, "head", err));
    rp_dim R = rp_symbol(m.g, "R", 1, opt->max_tokens);
    rp_tensor left[MODEL_N_RESULTS];
    take_left(&m, left);
    rp_tensor rows = rp_input(m.g, "rows", RP_DTYPE_I32, RP_SHAPE(R));
    rp_tensor x = behind_attention(&m, rp_gather(left[MODEL_LAST], rows),
                                   rp_gather(left[MODEL_HEADS], rows), m.hp->n_layer - 1);
    x = norm(&m, x, weight(&m, "output_norm.weight"));
    rp_tensor w = weight(&m, m.hp->tied ? "token_embd.weight" : "output.weight");
    rp_tensor results[MODEL_N_HEAD];
    results[MODEL_HEAD_LOGITS] = rp_linear(x, w);
    rp_topk(results[MODEL_HEAD_LOGITS], 1, &results[MODEL_HEAD_BEST], &results[MODEL_HEAD_ID]);
    return end(&m, results, MODEL_N_HEAD, out);
}

bool model_llama_has_op(ir_op op) {
    static const ir_op ops[] = {
        IR_input, IR_param,    IR_state,  IR_const,  IR_empty,   IR_gather,   IR_dequant,
        IR_cast,  IR_quantize, IR_matmul, IR_mul,    IR_add,     IR_sub,      IR_sum,
        IR_rsqrt, IR_sigmoid,  IR_slice,  IR_concat, IR_reshape, IR_kv_store, IR_attention};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i] == op) return true;
    return false;
}

rp_dtype model_kv_dtype(const model_source *src, rp_numerics numerics) {
    model_tensor t;
    if (numerics == RP_NUMERICS_EXACT ||
        model_source_tensor(src, "blk.0.attn_q.weight", &t, NULL) != RP_OK)
        return RP_DTYPE_F32;
    return rp_dtype_is_quant(t.type) ? RP_DTYPE_F16 : t.type;
}

void model_rope_rows(const model_hparams *hp, const float *freqs, int64_t first, int64_t end,
                     float *cos_out, float *sin_out) {
    uint32_t half = hp->rope_dim / 2;
    for (uint32_t i = 0; i < half; i++) {
        float inv = (float)(1.0 / pow((double)hp->rope_base, 2.0 * i / hp->rope_dim));
        if (freqs) inv /= freqs[i];
        if (hp->rope_scaling == MODEL_ROPE_LINEAR) inv /= hp->rope_factor;
        for (int64_t p = first; p < end; p++) {
            /* The angle is rounded to single first, as in the reference implementation. */
            float angle = (float)p * inv;
            cos_out[p * half + i] = (float)cos((double)angle);
            sin_out[p * half + i] = (float)sin((double)angle);
        }
    }
}
