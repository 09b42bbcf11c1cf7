/* See step.h. The dealing of attention was measured on an H200: bench/results/2026-11-22-nvidia-h200-decode-step-tuning.md. */
#include "gen/step.h"

#include <math.h>

#include "base/embed.h"

BASE_EMBED(step_cu);

enum {
    PAIR = 32,   /* k of a pair of mma steps */
    MIN_OWN = 8, /* outputs of a block of attention */
    MAX_OWN = 256,
    STATIC_SHARED = 48 << 10
};

const char *gen_step_matrix_name(gen_step_matrix m) {
    static const char *const names[] = {"qkv", "o", "up", "down", "head"};
    return names[m];
}

const char *gen_step_matrix_macro(gen_step_matrix m) {
    static const char *const names[] = {"QKV", "O", "UP", "DOWN", "HEAD"};
    return names[m];
}

gen_step_launch gen_step_embed_launch(const char *name, uint32_t rows) {
    return (gen_step_launch){.name = name, .grid = {rows, 1, 1}, .threads = 256};
}

uint32_t gen_step_rows(const gen_step *s, gen_step_matrix m) {
    switch (m) {
    case GEN_STEP_QKV: return (s->heads + 2 * s->kv_heads) * s->head_dim;
    case GEN_STEP_UP: return 2 * s->ffn;
    case GEN_STEP_HEAD: return s->vocab;
    default: return s->hidden;
    }
}

uint32_t gen_step_k(const gen_step *s, gen_step_matrix m) {
    return m == GEN_STEP_O ? s->heads * s->head_dim : m == GEN_STEP_DOWN ? s->ffn : s->hidden;
}

uint32_t gen_step_row(const gen_step *s, gen_step_matrix m, uint32_t unit_rows, uint32_t packed) {
    uint32_t half = unit_rows / 2, unit = packed / unit_rows, r = packed % unit_rows;
    uint32_t pair = unit * half + r % half, second = r / half;
    if (packed >= gen_step_rows(s, m)) return UINT32_MAX;
    if (m == GEN_STEP_UP) return pair + second * s->ffn;
    if (m != GEN_STEP_QKV) return packed;
    uint32_t turns = s->head_dim / 2, head = pair / turns, i = pair % turns;
    return head * s->head_dim + (s->rope_neighbours ? 2 * i + second : i + second * turns);
}

rp_status gen_step_check(const gen_step *s, rp_error *err) {
    const struct {
        const char *what;
        uint32_t value, of;
    } multiple[] = {{"hidden size", s->hidden, PAIR},
                    {"width of all heads", s->heads * s->head_dim, PAIR},
                    {"head size", s->head_dim, PAIR},
                    {"feed-forward size", s->ffn, PAIR},
                    {"number of heads", s->heads, s->kv_heads ? s->kv_heads : 1}};
    for (size_t i = 0; i < sizeof multiple / sizeof *multiple; i++)
        if (!multiple[i].value || multiple[i].value % multiple[i].of)
            return rp_fail(err, RP_UNSUPPORTED, "step: %s %u is no multiple of %u",
                           multiple[i].what, multiple[i].value, multiple[i].of);
    return RP_OK;
}

/* ---- attention ----------------------------------------------------------------------------------- */

uint32_t gen_step_padded_queries(const gen_step *s) {
    uint32_t n = 1;
    while (n < s->heads / s->kv_heads) n *= 2;
    return n;
}

/* Outputs that a block of an attention cluster owns. */
static uint32_t owned(const gen_step *s, const gen_step_attention *a) {
    return a->splits ? gen_step_padded_queries(s) * s->head_dim / a->splits : 0;
}

/* As rp_attention_room of the template. */
static size_t attention_bytes(const gen_step *s, const gen_step_attention *a) {
    size_t own = owned(s, a), heads = own > s->head_dim ? own / s->head_dim : 1;
    return (size_t)a->warps * gen_step_padded_queries(s) * (s->head_dim * 4 + 8) +
           a->splits * (own * 4 + heads * 8) + 16;
}

/* All multiprocessors, by as large a cluster as there may be. Four warps are one in each quarter of a multiprocessor, whose
 * registers are apart: five would find no room beside the kernels in front. */
gen_step_attention gen_step_attention_fit(const gen_step *s, uint32_t batch, uint32_t n_sm) {
    gen_step_attention a = {.splits = 16};
    bool wide = s->head_dim > 64;
    while (a.splits > 1 && a.splits * s->kv_heads * batch > n_sm) a.splits /= 2;
    while (a.splits > 1 && owned(s, &a) < MIN_OWN) a.splits /= 2;
    while (owned(s, &a) > MAX_OWN) a.splits *= 2;
    a.warps = a.splits >= 8 ? 4 : a.splits == 4 || wide ? 8 : 9;
    while (a.warps * 32 < owned(s, &a) && a.warps < 16) a.warps *= 2;
    while (attention_bytes(s, &a) > STATIC_SHARED && a.splits < 16) a.splits *= 2;
    a.ahead = !wide || a.warps == 4;
    return a;
}

rp_status gen_step_attention_check(const gen_step *s, const gen_step_attention *a, rp_error *err) {
    uint32_t queries = s->heads / s->kv_heads, own = owned(s, a), threads = a->warps * 32;
    if (queries > 8 || own < MIN_OWN || threads < own ||
        4 * threads < gen_step_padded_queries(s) * s->head_dim || a->splits > 16 ||
        (a->splits & (a->splits - 1)) || attention_bytes(s, a) > STATIC_SHARED)
        return rp_fail(err, RP_UNSUPPORTED,
                       "step: no attention of %u queries a kv head, head size %u, in %u blocks of "
                       "%u warps",
                       queries, s->head_dim, a->splits, a->warps);
    return RP_OK;
}

gen_step_launch gen_step_attention_launch(const gen_step *s, const gen_step_attention *a,
                                          uint32_t batch) {
    return (gen_step_launch){.name = "rp_decode_attention",
                             .grid = {a->splits, s->kv_heads, batch},
                             .threads = a->warps * 32};
}

/* ---- text ---------------------------------------------------------------------------------------- */

void gen_step_define(base_buf *out, const char *name, uint32_t value) {
    base_buf_printf(out, "#define RP_%s %u\n", name, value);
}

void gen_step_text(const gen_step *s, const gen_step_attention *a, uint32_t room,
                   uint32_t x_columns, base_buf *out) {
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"ROOM", room},
                 {"X_COLUMNS", x_columns},
                 {"HIDDEN", s->hidden},
                 {"HEADS", s->heads},
                 {"KV_HEADS", s->kv_heads},
                 {"HEAD_DIM", s->head_dim},
                 {"FFN", s->ffn},
                 {"VOCAB", s->vocab},
                 {"MAX_BLOCKS", s->max_blocks},
                 {"ROPE_NEIGHBOURS", s->rope_neighbours},
                 {"SPLITS", a->splits},
                 {"ATTENTION_WARPS", a->warps},
                 {"AHEAD", a->ahead}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        gen_step_define(out, sizes[i].name, sizes[i].value);
    base_buf_printf(out, "#define RP_EPS %.9ef\n", (double)s->eps);
    base_buf_printf(out, "#define RP_SCORE_SCALE %.9ef /* log2 e / sqrt(head size) */\n",
                    1.4426950408889634 / sqrt(s->head_dim));
    base_buf_add(out, rp_embed_step_cu, rp_embed_step_cu_size);
}
