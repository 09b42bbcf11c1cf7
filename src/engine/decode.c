#include "engine/decode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "compile/skips.h"
#include "engine/decode_code.h"
#include "engine/isa.h"
#include "gen/decode.h"
#include "gen/exchange.h"

enum {
    N_SM = 132,         /* that tiles are chosen for, as target/cuda/tensor_size.c */
    SHARED = 227 << 10, /* of a block */
    MOST_SPLITS = 16,   /* blocks that share a row and kv head */
    N_CLASSES = ENGINE_DECODE_CLASSES,
    LAYER_LAUNCHES = 5,
    HEAD_LAUNCHES = 7
};

static const uint32_t classes[N_CLASSES] = {
    1, 2, 4, GEN_DECODE_FEW, GEN_DECODE_SOME, GEN_DECODE_MOST};

typedef struct builder {
    const model_hparams *hp;
    plan *p;
    uint32_t n; /* classes */
    gen_decode of[N_CLASSES];
    plan_module modules[N_CLASSES];
    uint32_t function[N_CLASSES][GEN_DECODE_KERNELS_];
    uint32_t first_map;
    plan_size rows, attention_items; /* T, clusters of attention times MOST_SPLITS */
    plan_arg x, q, attended, hidden, squares, residual, heads; /* memory */
    plan_arg ids, positions, slots, seqs, tables, cos, sin, embedding;
    rp_error *err;
} builder;

/* ---- whether ------------------------------------------------------------------------------------- */

/* Shared memory and clusters as the kernels want them. */
static bool has_room(const char *arch) {
    static const char *const all[] = {"sm_90", "sm_100", "sm_103"};
    for (size_t i = 0; arch && i < sizeof all / sizeof *all; i++)
        if (strcmp(arch, all[i]) == 0) return true;
    return false;
}

bool engine_decode_wanted(const engine_plans_options *o) {
    const rp_compilation_config *c = o->config;
    return o->arch && *o->arch && c->decode_kernels && !engine_isa_exact(c, o->arch) &&
           c->level == RP_LEVEL_PIECEWISE && strcmp(c->backend, "eager") != 0 &&
           rp_cudagraph_has_mode(rp_config_cudagraph_mode(c), RP_CUDAGRAPH_FULL);
}

/* What rewrites the graph of a model would not reach these kernels. */
static rp_status check_passes(const engine_plans_options *o, rp_error *err) {
    compile_skips skips;
    RP_TRY(compile_skips_of(o->config, &skips, err));
    return skips.n_extra == 0 ? RP_OK
                              : rp_fail(err, RP_UNSUPPORTED,
                                        "registered passes or ops may change the model's graph");
}

/* What the kernels read; a role that is new is not among it until they do. */
static bool is_read(model_role role) {
    switch (role) {
    case MODEL_TOKEN_EMBD:
    case MODEL_ATTN_NORM:
    case MODEL_ATTN_Q:
    case MODEL_ATTN_K:
    case MODEL_ATTN_V:
    case MODEL_ATTN_OUTPUT:
    case MODEL_FFN_NORM:
    case MODEL_FFN_GATE:
    case MODEL_FFN_UP:
    case MODEL_FFN_DOWN:
    case MODEL_OUTPUT_NORM:
    case MODEL_OUTPUT:
    case MODEL_ROPE_FACTORS: return true; /* the last in the tables of angles */
    }
    return false;
}

/* The kernels compute a layer of Llama, whatever the model's graph says. */
static rp_status check_model(const model_source *source, rp_error *err) {
    const model_hparams *hp = model_source_hparams(source);
    if (strcmp(hp->arch, "llama") != 0)
        return rp_fail(err, RP_UNSUPPORTED, "its kernels are of llama, and the model is %s",
                       hp->arch);
    for (size_t i = 0; i < model_n_slots(hp); i++) {
        const model_slot s = model_slot_at(hp, i);
        model_tensor t;
        if (!is_read(s.role))
            return rp_fail(err, RP_UNSUPPORTED, "its kernels do not read %s", s.name);
        if (model_role_is_vector(s.role)) continue;
        RP_TRY(model_source_tensor(source, s.name, &t, err));
        if (t.type != RP_DTYPE_BF16)
            return rp_fail(err, RP_UNSUPPORTED, "%s is not bf16 but %s", s.name,
                           rp_dtype_name(t.type));
    }
    return RP_OK;
}

/* The classes of up to `most` sequences, all of them or, where a model has none of many, those of few. */
static rp_status fit(builder *b, int64_t most) {
    const model_hparams *hp = b->hp;
    if (hp->rope_dim != hp->head_dim)
        return rp_fail(b->err, RP_UNSUPPORTED, "rotations turn %u of the %u elements of a head",
                       hp->rope_dim, hp->head_dim);
    for (b->n = 0; b->n < N_CLASSES; b->n++) {
        gen_decode *d = &b->of[b->n];
        if (b->n && classes[b->n - 1] >= most && classes[b->n - 1] >= GEN_DECODE_FEW) break;
        *d = (gen_decode){.s = {.hidden = hp->n_embd,
                                .heads = hp->n_head,
                                .kv_heads = hp->n_head_kv,
                                .head_dim = hp->head_dim,
                                .ffn = hp->n_ff,
                                .vocab = hp->n_vocab,
                                .rope_neighbours = true,
                                .eps = hp->rms_eps},
                          .most = classes[b->n]};
        const rp_status st = gen_decode_fit(d, N_SM, SHARED, b->err);
        if (st == RP_UNSUPPORTED && classes[b->n] > GEN_DECODE_FEW) {
            base_log_ch(RP_LOG_CH_AUTOTUNING, false,
                        "more than %d sequences run the kernels of other steps: %s", GEN_DECODE_FEW,
                        b->err->text);
            break;
        }
        RP_TRY(st);
    }
    return RP_OK;
}

/* ---- leaves ---------------------------------------------------------------------------------------- */

static rp_status find_leaf(builder *b, plan_seg seg, const char *name, plan_arg *out) {
    const plan *p = b->p;
    const plan_leaf *list = seg == PLAN_INPUT   ? p->inputs
                            : seg == PLAN_STATE ? p->states
                                                : p->params;
    const uint32_t n = seg == PLAN_INPUT   ? p->n_inputs
                       : seg == PLAN_STATE ? p->n_states
                                           : p->n_params;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) {
            *out = (plan_arg){.seg = seg, .idx = i};
            return RP_OK;
        }
    return rp_fail(b->err, RP_UNSUPPORTED, "the model's plan has no %s", name);
}

static rp_status find_leaves(builder *b) {
    const struct {
        plan_seg seg;
        const char *name;
        plan_arg *out;
    } all[] = {
        {PLAN_INPUT, "token_ids", &b->ids},       {PLAN_INPUT, "positions", &b->positions},
        {PLAN_INPUT, "slots", &b->slots},         {PLAN_INPUT, "seqs", &b->seqs},
        {PLAN_INPUT, "block_tables", &b->tables}, {PLAN_PARAM, "rope.cos", &b->cos},
        {PLAN_PARAM, "rope.sin", &b->sin},        {PLAN_PARAM, "token_embd.weight", &b->embedding}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        RP_TRY(find_leaf(b, all[i].seg, all[i].name, all[i].out));
    b->residual = (plan_arg){.seg = PLAN_OUTPUT, .idx = MODEL_LAST};
    b->heads = (plan_arg){.seg = PLAN_OUTPUT, .idx = MODEL_HEADS};
    return RP_OK;
}

/* Whether parameter idx is tensor `what`, of the layer or (NO_LAYER) of none. */
enum { NO_LAYER = UINT32_MAX };

static bool is_tensor(const plan *p, uint32_t idx, uint32_t layer, const char *what) {
    char name[64];
    if (layer == NO_LAYER)
        (void)snprintf(name, sizeof name, "%s.weight", what);
    else
        (void)snprintf(name, sizeof name, "blk.%u.%s.weight", layer, what);
    return strcmp(p->params[idx].name, name) == 0;
}

static bool is_section(const plan *p, const plan_section *s, uint32_t layer, const char *what,
                       const char *beside) {
    return s->by_k == 0 && s->n_params == (beside ? 2 : 1) &&
           is_tensor(p, s->params[0], layer, what) &&
           (!beside || is_tensor(p, s->params[1], layer, beside));
}

/* The packed weights that are this tensor alone, with another one in turns where there is one beside it. */
static rp_status find_pack(builder *b, uint32_t layer, const char *what, const char *beside,
                           plan_arg *out) {
    const plan *p = b->p;
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *k = &p->packs[i];
        if (!k->swizzled || k->n_sections != 1 || !is_section(p, k->sections, layer, what, beside))
            continue;
        *out = (plan_arg){.seg = PLAN_PACK, .idx = i};
        return RP_OK;
    }
    return rp_fail(b->err, RP_UNSUPPORTED, "%s is not packed by itself", what);
}

/* Those of q, k and v, one behind the other. */
static rp_status find_qkv(builder *b, uint32_t layer, plan_arg *out) {
    static const char *const what[] = {"attn_q", "attn_k", "attn_v"};
    const plan *p = b->p;
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *k = &p->packs[i];
        bool right = k->swizzled && k->n_sections == 3;
        for (uint32_t j = 0; right && j < 3; j++)
            right = is_section(p, &k->sections[j], layer, what[j], NULL);
        if (!right) continue;
        *out = (plan_arg){.seg = PLAN_PACK, .idx = i};
        return RP_OK;
    }
    return rp_fail(b->err, RP_UNSUPPORTED, "q, k and v of layer %u are not packed together", layer);
}

static rp_status find_logits(builder *b, plan_arg *out) {
    return find_pack(b, NO_LAYER, b->hp->tied ? "token_embd" : "output", NULL, out);
}

/* ---- sizes and memory -------------------------------------------------------------------------------- */

static plan_size constant(int64_t n) {
    return (plan_size){.n = 1, .op = {IR_DIM_CODE_CONST}, .k = {n}};
}

static rp_status symbol(builder *b, const char *name, uint32_t *out) {
    for (*out = 0; *out < b->p->n_symbols; ++*out)
        if (strcmp(b->p->symbols[*out].name, name) == 0) return RP_OK;
    return rp_fail(b->err, RP_UNSUPPORTED, "the model's plan has no size %s", name);
}

/* Sizes that kernels get: the rows, of attention those and the width of a row of block tables. */
enum { MAP_ROWS, MAP_TABLES, N_MAPS };

/* Behind the maps that the plan has. */
static rp_status make_sizes(builder *b, const char *rows_name, const char *width_name) {
    plan *p = b->p;
    uint32_t rows, width = 0;
    RP_TRY(symbol(b, rows_name, &rows));
    if (width_name) RP_TRY(symbol(b, width_name, &width));
    b->rows = (plan_size){.n = 1, .op = {IR_DIM_CODE_SYMBOL}, .k = {rows}};
    b->attention_items = (plan_size){.n = 2,
                                     .op = {IR_DIM_CODE_SYMBOL, IR_DIM_CODE_MUL_CONST},
                                     .k = {rows, (int64_t)b->hp->n_head_kv * MOST_SPLITS}};
    plan_dim_map *maps = base_arena_array(p->arena, p->n_dim_maps + N_MAPS, sizeof *maps);
    uint32_t *map = base_arena_array(p->arena, 3, sizeof *map);
    if (!maps || !map) return rp_fail(b->err, RP_NOMEM, "sizes of a decode step");
    if (p->n_dim_maps) memcpy(maps, p->dim_maps, p->n_dim_maps * sizeof *maps);
    map[0] = map[1] = rows;
    map[2] = width;
    p->dim_maps = maps;
    b->first_map = p->n_dim_maps;
    maps[b->first_map + MAP_ROWS] = (plan_dim_map){map, 1};
    maps[b->first_map + MAP_TABLES] = (plan_dim_map){map + 1, 2};
    p->n_dim_maps += N_MAPS;
    return RP_OK;
}

/* Whether there are kernels that have nothing to do for few rows. */
static bool has_many(const builder *b) {
    return gen_decode_has(&b->of[b->n - 1], GEN_DECODE_EMBED);
}

/* Memory for rows of so many bytes each; the kernels of many have tiles and sums for the most. */
typedef struct room {
    plan_arg *at;
    int64_t row;
} room;

static rp_status make_values(builder *b, const room *rooms, uint32_t n) {
    plan *p = b->p;
    const int64_t most = has_many(b) ? GEN_DECODE_MOST : b->of[b->n - 1].most;
    plan_value *values = base_arena_array(p->arena, p->n_values + n, sizeof *values);
    if (!values) return rp_fail(b->err, RP_NOMEM, "memory of a decode step");
    if (p->n_values) memcpy(values, p->values, p->n_values * sizeof *values);
    p->values = values;
    for (uint32_t i = 0; i < n; i++) {
        *rooms[i].at = (plan_arg){.seg = PLAN_ARENA, .idx = p->n_values};
        p->values[p->n_values++] = (plan_value){.bytes = constant(rooms[i].row * most)};
    }
    return RP_OK;
}

/* ---- code -------------------------------------------------------------------------------------------- */

/* Functions of all classes, behind those that the plan has. */
static rp_status add_code(builder *b) {
    plan *p = b->p;
    for (uint32_t i = 0; i < b->n; i++) {
        char names[GEN_DECODE_KERNELS_][GEN_DECODE_NAME];
        const char *symbols[GEN_DECODE_KERNELS_];
        uint32_t n = 0;
        for (uint32_t k = 0; k < GEN_DECODE_KERNELS_; k++) {
            if (!gen_decode_has(&b->of[i], (gen_decode_kernel)k)) continue;
            gen_decode_name(&b->of[i], (gen_decode_kernel)k, names[n]);
            b->function[i][k] = p->n_functions + n;
            symbols[n] = names[n];
            n++;
        }
        RP_TRY(plan_add_code(p, &b->modules[i], symbols, n, b->err));
    }
    return RP_OK;
}

/* ---- launches ------------------------------------------------------------------------------------------ */

/* A launch of kernel k with these arguments, whose alternatives are the classes that have it. */
static rp_status add(builder *b, gen_decode_kernel k, const plan_arg *args, uint32_t n_args) {
    plan *p = b->p;
    plan_launch *l = &p->launches[p->n_launches++];
    const bool attention = k == GEN_DECODE_ATTENTION || k == GEN_DECODE_LAST;
    char name[GEN_DECODE_NAME];
    gen_decode_name(&b->of[0], k, name);
    *l = (plan_launch){.name = base_arena_str(p->arena, strchr(name, '_') + 1),
                       .rows = b->rows,
                       .items = attention ? b->attention_items : b->rows,
                       .grain = 1,
                       .per_block = 1,
                       .dim_map = b->first_map + (attention ? MAP_TABLES : MAP_ROWS),
                       .args = base_arena_array(p->arena, n_args, sizeof *l->args),
                       .n_args = n_args,
                       .attention = attention};
    if (!l->name || !l->args) return rp_fail(b->err, RP_NOMEM, "a launch");
    memcpy(l->args, args, n_args * sizeof *args);
    for (uint32_t i = 0; i < n_args; i++) l->args[i].access = gen_decode_access(k, i, has_many(b));
    if (!gen_decode_has(&b->of[0], k))
        l->alts[l->n_alts++] = (plan_alt){.max = GEN_DECODE_FEW, .function = PLAN_NO_FUNCTION};
    for (uint32_t i = 0; i < b->n; i++) {
        if (!gen_decode_has(&b->of[i], k)) continue;
        const gen_decode_launch of = gen_decode_launch_of(&b->of[i], k);
        const bool whole = k < GEN_DECODE_MATRICES_ ||
                           (attention && b->of[i].most > GEN_DECODE_FEW);
        l->threads = of.threads;
        l->alts[l->n_alts++] =
            (plan_alt){.max = b->of[i].most,
                       .function = b->function[i][k],
                       .scratch = (int64_t)of.shared,
                       .threads = of.threads,
                       .per_block = attention && !whole ? MOST_SPLITS / of.blocks : 1,
                       .blocks = whole ? of.blocks : 0};
    }
    return RP_OK;
}

#define ADD(b, k, ...)                         \
    add(b, k, (const plan_arg[]){__VA_ARGS__}, \
        sizeof((const plan_arg[]){__VA_ARGS__}) / sizeof(plan_arg))

static rp_status layer_leaf(builder *b, plan_seg seg, const char *format, uint32_t layer,
                            plan_arg *out) {
    char name[64];
    (void)snprintf(name, sizeof name, format, layer);
    return find_leaf(b, seg, name, out);
}

static rp_status add_qkv(builder *b, uint32_t layer) {
    plan_arg w, gain, k, v;
    RP_TRY(find_qkv(b, layer, &w));
    RP_TRY(layer_leaf(b, PLAN_PARAM, "blk.%u.attn_norm.weight", layer, &gain));
    RP_TRY(layer_leaf(b, PLAN_STATE, "k.%u", layer, &k));
    RP_TRY(layer_leaf(b, PLAN_STATE, "v.%u", layer, &v));
    if (layer == 0 && has_many(b))
        RP_TRY(ADD(b, GEN_DECODE_EMBED, b->embedding, gain, b->ids, b->residual, b->x, b->squares));
    if (layer == 0)
        return ADD(b, GEN_DECODE_BEGIN, w, b->embedding, gain, b->q, k, v, b->positions, b->slots,
                   b->cos, b->sin, b->ids, b->residual, b->x, b->squares);
    return ADD(b, GEN_DECODE_QKV, w, b->x, gain, b->q, k, v, b->positions, b->slots, b->cos, b->sin,
               b->squares);
}

static rp_status add_attention(builder *b, uint32_t layer) {
    const bool last = layer + 1 == b->hp->n_layer;
    plan_arg k, v;
    RP_TRY(layer_leaf(b, PLAN_STATE, "k.%u", layer, &k));
    RP_TRY(layer_leaf(b, PLAN_STATE, "v.%u", layer, &v));
    return ADD(b, last ? GEN_DECODE_LAST : GEN_DECODE_ATTENTION, b->q, k, v, b->seqs, b->positions,
               b->tables, last ? b->heads : b->attended);
}

/* The gains of the norm behind a layer. */
static rp_status next_gain(builder *b, uint32_t layer, plan_arg *out) {
    return layer + 1 < b->hp->n_layer
               ? layer_leaf(b, PLAN_PARAM, "blk.%u.attn_norm.weight", layer + 1, out)
               : find_leaf(b, PLAN_PARAM, "output_norm.weight", out);
}

static rp_status add_feed_forward(builder *b, uint32_t layer) {
    plan_arg up, down, gain, next;
    RP_TRY(find_pack(b, layer, "ffn_gate", "ffn_up", &up));
    RP_TRY(find_pack(b, layer, "ffn_down", NULL, &down));
    RP_TRY(layer_leaf(b, PLAN_PARAM, "blk.%u.ffn_norm.weight", layer, &gain));
    RP_TRY(next_gain(b, layer, &next));
    RP_TRY(ADD(b, GEN_DECODE_UP, up, b->x, gain, b->hidden, b->squares));
    return ADD(b, GEN_DECODE_DOWN, down, b->hidden, b->residual, b->x, next, b->squares);
}

static rp_status add_rest(builder *b, uint32_t layer) {
    plan_arg w, gain;
    RP_TRY(find_pack(b, layer, "attn_output", NULL, &w));
    RP_TRY(layer_leaf(b, PLAN_PARAM, "blk.%u.ffn_norm.weight", layer, &gain));
    RP_TRY(ADD(b, GEN_DECODE_O, w, b->attended, b->residual, b->x, gain, b->squares));
    return add_feed_forward(b, layer);
}

/* Pieces as the model has them: what is between two attentions, and these. */
static rp_status add_piece(builder *b, uint32_t i) {
    const uint32_t layer = i / 2, first = b->p->n_launches;
    if (b->p->pieces[i].splitting) {
        RP_TRY(add_attention(b, layer));
    } else {
        if (layer > 0) RP_TRY(add_rest(b, layer - 1));
        RP_TRY(add_qkv(b, layer));
    }
    b->p->pieces[i].first = first;
    b->p->pieces[i].n = b->p->n_launches - first;
    return RP_OK;
}

/* Bytes of sums of squares of a row: one a piece of 32 columns. */
static int64_t squares_row(const builder *b) {
    return b->hp->n_embd / 32 * INT64_C(4);
}

static rp_status make_launches(builder *b) {
    plan *p = b->p;
    const uint32_t n = b->hp->n_layer * LAYER_LAUNCHES - 3 + has_many(b);
    const int64_t wide = (int64_t)b->hp->n_head * b->hp->head_dim * 2;
    const room rooms[] = {{&b->x, b->hp->n_embd * INT64_C(2)},
                          {&b->q, wide},
                          {&b->attended, wide},
                          {&b->hidden, b->hp->n_ff * INT64_C(2)},
                          {&b->squares, squares_row(b)}};
    if (p->n_pieces != 2 * b->hp->n_layer)
        return rp_fail(b->err, RP_UNSUPPORTED, "the model is compiled in %u pieces, not in %u",
                       p->n_pieces, 2 * b->hp->n_layer);
    p->launches = base_arena_array(p->arena, n, sizeof *p->launches);
    if (!p->launches) return rp_fail(b->err, RP_NOMEM, "%u launches", n);
    RP_TRY(make_values(b, rooms, sizeof rooms / sizeof *rooms));
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        if (p->pieces[i].splitting != (i % 2 == 1))
            return rp_fail(b->err, RP_UNSUPPORTED, "piece %u of the model is another than usual",
                           i);
        RP_TRY(add_piece(b, i));
    }
    return RP_OK;
}

/* Of the head what is behind the logits stays: it reads and writes what is returned, and nothing else. */
static rp_status keep_last(builder *b, plan_launch *out) {
    const plan *p = b->p;
    const plan_launch *last = p->n_launches ? &p->launches[p->n_launches - 1] : NULL;
    for (uint32_t i = 0; last && i < last->n_args; i++)
        if (last->args[i].seg != PLAN_OUTPUT) last = NULL;
    if (!last || p->n_pieces != 1 || last->n_alts >= PLAN_MAX_ALTS)
        return rp_fail(b->err, RP_UNSUPPORTED, "the head ends otherwise than usual");
    *out = *last;
    return RP_OK;
}

/* An input that the model has not: what the exchange has taken last. */
static rp_status add_state(builder *b, plan_arg *out) {
    plan *p = b->p;
    plan_leaf *inputs = base_arena_array(p->arena, p->n_inputs + 1u, sizeof *inputs);
    if (!inputs) return rp_fail(b->err, RP_NOMEM, "inputs of a decode step");
    if (p->n_inputs) memcpy(inputs, p->inputs, p->n_inputs * sizeof *inputs);
    inputs[p->n_inputs] = (plan_leaf){.name = ENGINE_DECODE_STATE,
                                      .dtype = RP_DTYPE_I32,
                                      .rank = 1,
                                      .dim = {constant(GEN_EXCHANGE_STATE)},
                                      .bytes = constant(GEN_EXCHANGE_STATE * INT64_C(4))};
    p->inputs = inputs;
    *out = (plan_arg){.seg = PLAN_INPUT, .idx = p->n_inputs++};
    return RP_OK;
}

/* A launch of the head as it was, but of few rows alone. */
static void leave_to_few(plan_launch *l) {
    uint32_t n = 0;
    while (n + 1 < l->n_alts && l->alts[n].max < GEN_DECODE_FEW) n++;
    l->alts[n].max = GEN_DECODE_FEW;
    l->alts[n + 1] = (plan_alt){.max = INT64_MAX, .function = PLAN_NO_FUNCTION};
    l->n_alts = n + 2;
}

static rp_status make_head(builder *b) {
    plan *p = b->p;
    plan_launch last;
    plan_arg rows, from, weights, gain, last_gain, w, ranks, state;
    const plan_arg logits = {.seg = PLAN_OUTPUT, .idx = MODEL_HEAD_LOGITS};
    const gen_decode *many = &b->of[b->n - 1];
    const room rooms[] = {{&b->residual, b->hp->n_embd * INT64_C(4)},
                          {&b->x, b->hp->n_embd * INT64_C(2)},
                          {&b->hidden, b->hp->n_ff * INT64_C(2)},
                          {&b->squares, squares_row(b)},
                          {&b->attended, (int64_t)b->hp->n_head * b->hp->head_dim * 2},
                          {&ranks, many->job[GEN_DECODE_LOGITS].blocks * INT64_C(8)}};
    RP_TRY(keep_last(b, &last));
    p->n_values = 0;
    p->launches = base_arena_array(p->arena, HEAD_LAUNCHES, sizeof *p->launches);
    if (!p->launches) return rp_fail(b->err, RP_NOMEM, "%d launches", HEAD_LAUNCHES);
    p->n_launches = 0;
    RP_TRY(make_values(b, rooms, sizeof rooms / sizeof *rooms));
    RP_TRY(find_leaf(b, PLAN_INPUT, "rows", &rows));
    RP_TRY(find_leaf(b, PLAN_INPUT, model_output_names[MODEL_LAST], &from));
    RP_TRY(find_leaf(b, PLAN_INPUT, model_output_names[MODEL_HEADS], &b->heads));
    RP_TRY(find_pack(b, b->hp->n_layer - 1, "attn_output", NULL, &w));
    RP_TRY(layer_leaf(b, PLAN_PARAM, "blk.%u.ffn_norm.weight", b->hp->n_layer - 1, &last_gain));
    if (has_many(b)) RP_TRY(ADD(b, GEN_DECODE_GATHER, b->heads, rows, b->attended));
    RP_TRY(ADD(b, GEN_DECODE_FIRST, w, b->heads, rows, from, b->residual, b->x, last_gain,
               b->squares, b->attended));
    RP_TRY(add_feed_forward(b, b->hp->n_layer - 1));
    RP_TRY(find_leaf(b, PLAN_PARAM, "output_norm.weight", &gain));
    RP_TRY(find_logits(b, &weights));
    RP_TRY(add_state(b, &state));
    RP_TRY(ADD(b, GEN_DECODE_LOGITS, weights, b->x, gain, logits, b->squares, ranks, state));
    if (has_many(b)) {
        RP_TRY(ADD(b, GEN_DECODE_LARGEST, ranks,
                   ((plan_arg){.seg = PLAN_OUTPUT, .idx = MODEL_HEAD_BEST}),
                   ((plan_arg){.seg = PLAN_OUTPUT, .idx = MODEL_HEAD_ID})));
        leave_to_few(&last);
    }
    p->launches[p->n_launches++] = last;
    p->pieces[0].first = 0;
    p->pieces[0].n = p->n_launches;
    return RP_OK;
}

/* --- both ---------------------------------------------------------------------------------------------- */

static rp_status copy_plan(const plan *from, plan **out, rp_error *err) {
    char *data = NULL;
    size_t size = 0;
    RP_TRY(plan_save(from, &data, &size, err));
    rp_status st = plan_load(data, size, out, err);
    base_free(data);
    return st;
}

/* Whatever is in memory stays there to the end. */
static rp_status seal(plan *p, rp_error *err) {
    for (uint32_t i = 0; i < p->n_values; i++) p->values[i].last = p->n_launches - 1;
    return plan_seal(p, err);
}

static rp_status fill_model(builder *b) {
    b->p->n_values = b->p->n_consts = b->p->n_modules = b->p->n_functions = 0;
    b->p->n_dim_maps = b->p->n_launches = 0;
    RP_TRY(find_leaves(b));
    RP_TRY(make_sizes(b, "T", "B"));
    RP_TRY(add_code(b));
    return make_launches(b);
}

static rp_status fill_behind(builder *b) {
    RP_TRY(make_sizes(b, "R", NULL));
    RP_TRY(add_code(b));
    return make_head(b);
}

/* A copy of a plan, of which the launches and what they need are others. */
static rp_status make_plan(builder *b, const plan *from, const char *name,
                           rp_status (*fill)(builder *b), plan **out) {
    if (from->n_inner)
        return rp_fail(b->err, RP_UNSUPPORTED, "the model has graphs within its graph");
    RP_TRY(copy_plan(from, &b->p, b->err));
    b->p->name = base_arena_str(b->p->arena, name);
    rp_status st = b->p->name ? fill(b) : rp_fail(b->err, RP_NOMEM, "plan of a decode step");
    if (st == RP_OK) st = seal(b->p, b->err);
    if (st == RP_OK)
        *out = b->p;
    else
        plan_free(b->p);
    b->p = NULL;
    return st;
}

rp_status engine_decode_can(const engine_plans_options *o, int64_t *most, rp_error *err) {
    builder b = {.hp = model_source_hparams(o->source), .err = err};
    if (!has_room(o->arch))
        return rp_fail(err, RP_UNSUPPORTED, "its kernels were not made for %s", o->arch);
    RP_TRY(check_passes(o, err));
    RP_TRY(check_model(o->source, err));
    RP_TRY(fit(&b, o->config->max_num_seqs.v));
    *most = b.of[b.n - 1].most;
    return RP_OK;
}

static void put_packs(const plan *p, base_buf *out) {
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *k = &p->packs[i];
        base_buf_printf(out, "%" PRId64 " %" PRId64 " %d\n", k->k, k->size, k->swizzled);
        for (uint32_t s = 0; s < k->n_sections; s++)
            for (uint32_t m = 0; m < k->sections[s].n_params; m++)
                base_buf_printf(out, "%s\n", p->params[k->sections[s].params[m]].name);
    }
}

rp_status engine_decode_key(const engine_plans *all, cache_key *k, rp_error *err) {
    char hex[33] = "";
    base_buf b;
    base_buf_init(&b, 0);
    put_packs(all->model, &b);
    put_packs(all->head, &b);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) base_hash_hex(base_hash(b.data, b.len), hex);
    if (st == RP_OK) st = cache_key_add(k, "steps", "decode", err);
    if (st == RP_OK) st = cache_key_add(k, "packed weights", hex, err);
    base_buf_done(&b);
    return st;
}

rp_status engine_decode_plans(const engine_plans_options *o, const engine_plans *all,
                              const compile_nvrtc *nvrtc, engine_plans *out, rp_error *err) {
    builder b = {.hp = model_source_hparams(o->source), .err = err};
    RP_TRY(fit(&b, o->last));
    RP_TRY(engine_decode_code(o, nvrtc, b.of, b.n, b.modules, &out->stats, err));
    RP_TRY(make_plan(&b, all->model, "decode", fill_model, &out->model));
    RP_TRY(make_plan(&b, all->head, "decode head", fill_behind, &out->head));
    out->stats.pieces = out->model->n_pieces;
    out->stats.compiled = out->model->n_compiled;
    out->stats.distinct = out->model->n_distinct;
    return RP_OK;
}
