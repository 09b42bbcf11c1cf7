/* See decode.h. How tiles are chosen was measured on an H200: bench/results/2026-11-22-nvidia-h200-decode-step-tuning.md. */
#include "gen/decode.h"

#include <math.h>
#include <stdio.h>

#include "base/embed.h"
#include "gen/decode_many.h"
#include "gen/gen.h"
#include "gen/template.h"

BASE_EMBED(tensor_cu);
BASE_EMBED(decode_cu);
BASE_EMBED(decode_attention_cu);

enum {
    STEP = 32,         /* k of a piece of x */
    STEP_BYTES = 1024, /* of a tile */
    TILE = 16,         /* columns */
    MAX_CHUNK = 4096,  /* bytes of one copy */
    MAX_GROUP = 8,     /* tiles whose partial sums wait for one barrier */
    MAX_PARTS = 16384, /* bytes of their room */
    MAX_HELD = 24,     /* pieces of x and of gains that a lane has registers for */
    MAX_ROW = 32       /* pieces of x alone; of several rows the template reads more again */
};

static const gen_step_matrix matrix_of[] = {
    [GEN_DECODE_QKV] = GEN_STEP_QKV,    [GEN_DECODE_BEGIN] = GEN_STEP_QKV,
    [GEN_DECODE_O] = GEN_STEP_O,        [GEN_DECODE_UP] = GEN_STEP_UP,
    [GEN_DECODE_DOWN] = GEN_STEP_DOWN,  [GEN_DECODE_FIRST] = GEN_STEP_O,
    [GEN_DECODE_LOGITS] = GEN_STEP_HEAD};
static const char *const names[] = {
    [GEN_DECODE_QKV] = "qkv",       [GEN_DECODE_BEGIN] = "begin",
    [GEN_DECODE_O] = "o",           [GEN_DECODE_UP] = "up",
    [GEN_DECODE_DOWN] = "down",     [GEN_DECODE_FIRST] = "first",
    [GEN_DECODE_LOGITS] = "logits", [GEN_DECODE_ATTENTION] = "attention",
    [GEN_DECODE_LAST] = "last",     [GEN_DECODE_EMBED] = "embed",
    [GEN_DECODE_GATHER] = "gather", [GEN_DECODE_LARGEST] = "largest"};

static bool is_many(const gen_decode *d) {
    return d->most > GEN_DECODE_FEW;
}

uint32_t gen_decode_k(const gen_decode *d, gen_decode_kernel m) {
    return gen_step_k(&d->s, matrix_of[m]);
}

uint32_t gen_decode_columns(const gen_decode *d, gen_decode_kernel m) {
    return gen_step_rows(&d->s, matrix_of[m]);
}

static uint32_t k_of(const gen_decode *d, uint32_t m) {
    return gen_decode_k(d, (gen_decode_kernel)m);
}

static uint32_t units_each(const gen_decode_tile *t) {
    return gen_div_up(t->units, t->blocks);
}

static uint32_t part_bytes(const gen_decode *d, const gen_decode_tile *t) {
    return t->warps * t->tiles * TILE * d->most * 4;
}

/* As BYTES of the template. */
static size_t shared_bytes(const gen_decode *d, const gen_decode_tile *t) {
    size_t ring = (size_t)t->warps * t->slots * t->chunk * STEP_BYTES;
    size_t parts = (size_t)(units_each(t) > t->group ? 2 : 1) * t->group * part_bytes(d, t);
    size_t squares = (size_t)(t->warps + 1) * d->most * 4; /* and scales */
    return (ring + parts + squares + 7) / 8 * 8 + (size_t)t->warps * t->slots * 8;
}

/* ---- choosing tiles ------------------------------------------------------------------------------ */

static uint32_t largest_divisor(uint32_t n, uint32_t at_most) {
    uint32_t best = at_most < n ? at_most : n;
    while (best > 1 && n % best) best--;
    return best ? best : 1;
}

/* How much of a matrix is on its way before the kernels in front have ended: all of q, k, v and o of a small model. up, and for several
 * sequences q, k, v and down, are held back to one copy a warp at a time, so that the small loads of those kernels
 * are not delayed, unless a matrix cannot come in beside them anyway. */
static void fit_ring(const gen_decode *d, uint32_t m, gen_decode_tile *t) {
    bool small = d->s.hidden <= 2048;
    uint32_t copies = units_each(t) * t->tiles * (k_of(d, m) / STEP / t->warps / t->chunk);
    uint32_t bytes = t->warps * t->chunk * STEP_BYTES, kb = 128;
    if (m == GEN_DECODE_UP && (d->most == 1 || !small)) kb = small ? 192 : 160;
    if (m == GEN_DECODE_LOGITS) kb = 192;
    t->slots = kb * 1024 / bytes;
    if (t->slots > copies) t->slots = copies;
    bool up = m == GEN_DECODE_UP && small && t->slots < copies;
    bool back = d->most > 1 && (m == GEN_DECODE_QKV || m == GEN_DECODE_DOWN);
    t->cap = up || back ? 1 : t->slots;
    if (up && d->most > 1) t->group = 1;
}

static void fit_tile(gen_decode *d, uint32_t m, uint32_t n_sm, size_t max_shared) {
    gen_decode_tile *t = &d->tile[m];
    uint32_t pairs = k_of(d, m) / STEP;
    const bool grouped = m == GEN_DECODE_UP || m == GEN_DECODE_LOGITS; /* else one group a block */
    *t = (gen_decode_tile){.tiles = m == GEN_DECODE_UP ? 2 : 1};
    t->units = gen_div_up(gen_step_rows(&d->s, matrix_of[m]), TILE * t->tiles);
    uint32_t each = gen_div_up(t->units, n_sm);
    t->blocks = !grouped && each < 5 ? gen_div_up(t->units, each)
                : t->units < n_sm    ? t->units
                                     : n_sm;
    t->warps = largest_divisor(pairs, m == GEN_DECODE_LOGITS ? 8 : 9);
    uint32_t chunk = m == GEN_DECODE_UP && d->most == 1 && d->s.hidden <= 2048 ? 2 * MAX_CHUNK
                                                                               : MAX_CHUNK;
    t->chunk = largest_divisor(pairs / t->warps, chunk / STEP_BYTES);
    t->group = each;
    if (grouped) {
        uint32_t room = MAX_PARTS / part_bytes(d, t);
        if (t->group > MAX_GROUP / t->tiles) t->group = MAX_GROUP / t->tiles;
        if (t->group > room) t->group = room;
        if (!t->group) t->group = 1;
    }
    fit_ring(d, m, t);
    while (t->slots > 1 && shared_bytes(d, t) > max_shared) t->slots--;
    if (t->cap > t->slots) t->cap = t->slots;
}

static rp_status check_tile(const gen_decode *d, uint32_t m, size_t max_shared, rp_error *err) {
    const gen_decode_tile *t = &d->tile[m];
    const uint32_t slice = k_of(d, m) / STEP / t->warps;
    const bool normed = m == GEN_DECODE_QKV || m == GEN_DECODE_BEGIN || m == GEN_DECODE_UP ||
                        m == GEN_DECODE_LOGITS;
    const uint32_t held = d->most == 1 ? gen_div_up(slice, 8) : slice;
    if ((normed && held > MAX_HELD) || (d->most == 1 && held > MAX_ROW))
        return rp_fail(
            err, RP_UNSUPPORTED,
            "decode step: of %u rows of %u elements a block has no registers for its share",
            d->most, k_of(d, m));
    if (shared_bytes(d, t) > max_shared)
        return rp_fail(err, RP_UNSUPPORTED,
                       "decode step, %s: %zu bytes of shared memory; a block may have %zu",
                       names[m], shared_bytes(d, t), max_shared);
    return RP_OK;
}

/* Tiles of q, k and v are whole, and gate and up alternate by 32 columns. */
static rp_status check_rows(const gen_step *s, rp_error *err) {
    const uint32_t wide = s->heads * s->head_dim, narrow = s->kv_heads * s->head_dim;
    if (wide % STEP == 0 && narrow % STEP == 0 && s->ffn % STEP == 0 && s->hidden % STEP == 0)
        return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED, "decode step: rows of %u, %u, %u, %u are not all whole 32",
                   wide, narrow, s->ffn, s->hidden);
}

rp_status gen_decode_fit(gen_decode *d, uint32_t n_sm, size_t max_shared, rp_error *err) {
    RP_TRY(gen_step_check(&d->s, err));
    RP_TRY(check_rows(&d->s, err));
    if (d->most != 1 && d->most != 2 && d->most != 4 && d->most != GEN_DECODE_FEW &&
        d->most != GEN_DECODE_SOME && d->most != GEN_DECODE_MOST)
        return rp_fail(err, RP_UNSUPPORTED, "decode step: no kernels for up to %u sequences",
                       d->most);
    if (is_many(d)) return gen_decode_many_fit(d, n_sm, max_shared, err);
    d->attention = gen_step_attention_fit(&d->s, d->most, n_sm);
    if (d->attention.splits == 2) d->attention.warps = 8; /* nine were slower here */
    RP_TRY(gen_step_attention_check(&d->s, &d->attention, err));
    for (uint32_t m = 0; gen_decode_has(d, GEN_DECODE_QKV) && m < GEN_DECODE_MATRICES_; m++) {
        fit_tile(d, m, n_sm, max_shared);
        RP_TRY(check_tile(d, m, max_shared, err));
    }
    return RP_OK;
}

bool gen_decode_has(const gen_decode *d, gen_decode_kernel k) {
    if (k == GEN_DECODE_EMBED || k == GEN_DECODE_GATHER || k == GEN_DECODE_LARGEST)
        return is_many(d);
    return k == GEN_DECODE_ATTENTION || k == GEN_DECODE_LAST || d->most == 1 ||
           d->most >= GEN_DECODE_FEW;
}

/* Bits of the arguments that a kernel writes, and of those that only one of many rows touches. */
typedef struct usage {
    uint32_t writes, many;
} usage;

#define ARG(i) (UINT32_C(1) << (i))

uint8_t gen_decode_access(gen_decode_kernel k, uint32_t i, bool many) {
    static const usage of[GEN_DECODE_KERNELS_] = {
        [GEN_DECODE_QKV] = {ARG(3) | ARG(4) | ARG(5), ARG(10)},
        [GEN_DECODE_BEGIN] = {ARG(3) | ARG(4) | ARG(5) | ARG(11), ARG(12) | ARG(13)},
        [GEN_DECODE_O] = {ARG(2) | ARG(3) | ARG(5), ARG(4) | ARG(5)},
        [GEN_DECODE_UP] = {ARG(3), ARG(4)},
        [GEN_DECODE_DOWN] = {ARG(2) | ARG(3) | ARG(5), ARG(4) | ARG(5)},
        [GEN_DECODE_FIRST] = {ARG(4) | ARG(5) | ARG(7), ARG(6) | ARG(7) | ARG(8)},
        [GEN_DECODE_LOGITS] = {ARG(3) | ARG(5) | ARG(6), ARG(4) | ARG(5) | ARG(6)},
        [GEN_DECODE_ATTENTION] = {ARG(6), 0},
        [GEN_DECODE_LAST] = {ARG(6), 0},
        [GEN_DECODE_EMBED] = {ARG(3) | ARG(4) | ARG(5), 0},
        [GEN_DECODE_GATHER] = {ARG(2), 0},
        [GEN_DECODE_LARGEST] = {ARG(1) | ARG(2), 0}};
    const uint32_t bit = ARG(i);
    const bool adds = k == GEN_DECODE_O || k == GEN_DECODE_DOWN; /* to the residual */
    if (of[k].many & bit && !many) return 0;
    if (!(of[k].writes & bit)) return BASE_READS;
    return adds && i == 2 ? BASE_READS | BASE_WRITES : BASE_WRITES;
}

void gen_decode_name(const gen_decode *d, gen_decode_kernel k, char out[GEN_DECODE_NAME]) {
    (void)snprintf(out, GEN_DECODE_NAME, "decode%u_%s", d->most, names[k]);
}

gen_decode_launch gen_decode_launch_of(const gen_decode *d, gen_decode_kernel k) {
    if (is_many(d)) return gen_decode_many_launch(d, k);
    if (k >= GEN_DECODE_MATRICES_)
        return (gen_decode_launch){d->attention.splits, d->attention.warps * 32, 0};
    const gen_decode_tile *t = &d->tile[k];
    return (gen_decode_launch){t->blocks, t->warps * 32, shared_bytes(d, t)};
}

/* ---- text ---------------------------------------------------------------------------------------- */

void gen_decode_head(const gen_decode *d, gen_decode_kernel k, uint32_t per_sm, uint32_t blocks,
                     base_buf *out) {
    static const uint32_t addresses_of[] = {
        [GEN_DECODE_QKV] = 11,      [GEN_DECODE_BEGIN] = 14, [GEN_DECODE_O] = 6,
        [GEN_DECODE_UP] = 5,        [GEN_DECODE_DOWN] = 6,   [GEN_DECODE_FIRST] = 9,
        [GEN_DECODE_LOGITS] = 7,    [GEN_DECODE_LAST] = 7,   [GEN_DECODE_EMBED] = 6,
        [GEN_DECODE_ATTENTION] = 7, [GEN_DECODE_GATHER] = 3, [GEN_DECODE_LARGEST] = 3};
    const bool attention = k == GEN_DECODE_ATTENTION || k == GEN_DECODE_LAST;
    const uint32_t addresses = addresses_of[k], sizes = attention ? 3 : 1;
    char name[GEN_DECODE_NAME], cluster[48] = "";
    gen_decode_name(d, k, name);
    if (blocks) (void)snprintf(cluster, sizeof cluster, "RK_CLUSTER(RK_BLOCKS(%u)) ", blocks);
    base_buf_printf(out, "extern \"C\" __global__ void __launch_bounds__(%u, %u) %s%s(",
                    gen_decode_launch_of(d, k).threads, per_sm, cluster, name);
    for (uint32_t i = 0; i < addresses; i++) base_buf_printf(out, "char *a%u, ", i);
    for (uint32_t i = 0; i < sizes; i++) base_buf_printf(out, "long long d%u, ", i);
    base_buf_puts(out, "long long items)\n{\n    (void)items;\n");
}

static void put_tile(const gen_decode *d, uint32_t m, base_buf *out) {
    const gen_decode_tile *t = &d->tile[m];
    base_buf_printf(out,
                    "typedef rk_decode_tile<%u, %u, %u, %u, %u, %u, %u, %u, %u, %u> rk_%s_tile;\n"
                    "static_assert(rk_%s_tile::BYTES == %zu, \"shared memory\");\n",
                    k_of(d, m), t->units, t->tiles, t->blocks, t->warps, t->chunk, t->slots,
                    t->group, t->cap, d->most, names[m], names[m], shared_bytes(d, t));
}

static void put_qkv(const gen_decode *d, gen_decode_kernel k, base_buf *out) {
    const gen_step *s = &d->s;
    const bool begins = k == GEN_DECODE_BEGIN;
    gen_decode_head(d, k, d->most == 1 ? 2 : 1, 0, out);
    if (begins)
        base_buf_printf(out,
                        "    typedef rk_decode_embedded<%u, %u> X;\n    const X x = {(const rp_u16 "
                        "*)a1, (const rp_i32 *)a10, (float *)a11};\n",
                        s->hidden, s->vocab);
    else
        base_buf_printf(out,
                        "    typedef rk_decode_x<%u> X;\n    const X x = {(const rp_u16 *)a1};\n",
                        s->hidden);
    base_buf_printf(
        out,
        "    rk_decode_qkv<rk_%s_tile, %u, %u, %u, X> e = {(rp_u16 *)a3, (rp_u16 *)a4, (rp_u16 "
        "*)a5, (const rp_i32 *)a6, (const rp_i32 *)a7, (const float *)a8, (const float *)a9, "
        "(int)d0, &x};\n    rk_decode_product<rk_%s_tile, true, %s>(a0, x, a2, %.9ef, (int)d0, "
        "e);\n}\n",
        names[k], s->heads, s->kv_heads, s->head_dim, names[k], begins ? "true" : "false",
        (double)s->eps);
}

/* o, down and o of gathered rows. */
static void put_residual(const gen_decode *d, gen_decode_kernel k, base_buf *out) {
    const char *name = names[k];
    const bool gathers = k == GEN_DECODE_FIRST;
    gen_decode_head(d, k, d->most == 1 ? 2 : 1, 0, out);
    base_buf_printf(out,
                    "    rk_decode_residual<rk_%s_tile, %u, %s> e = {(const float *)a%d, (const "
                    "rp_i32 *)a%d, (float *)a%d, (rp_u16 *)a%d, (int)d0};\n",
                    name, d->s.hidden, gathers ? "true" : "false", gathers ? 3 : 2, gathers ? 2 : 0,
                    gathers ? 4 : 2, gathers ? 5 : 3);
    if (gathers)
        base_buf_printf(out,
                        "    const rk_decode_gathered<%u> x = {(const float *)a1, (const rp_i32 "
                        "*)a2};\n",
                        k_of(d, k));
    else
        base_buf_printf(out, "    const rk_decode_x<%u> x = {(const rp_u16 *)a1};\n", k_of(d, k));
    base_buf_printf(
        out, "    rk_decode_product<rk_%s_tile, false, false>(a0, x, a1, 0.0f, (int)d0, e);\n}\n",
        name);
}

static void put_matrices(const gen_decode *d, base_buf *out) {
    const gen_step *s = &d->s;
    for (uint32_t m = 0; m < GEN_DECODE_MATRICES_; m++) put_tile(d, m, out);
    put_qkv(d, GEN_DECODE_QKV, out);
    put_qkv(d, GEN_DECODE_BEGIN, out);
    put_residual(d, GEN_DECODE_O, out);
    put_residual(d, GEN_DECODE_DOWN, out);
    put_residual(d, GEN_DECODE_FIRST, out);
    gen_decode_head(d, GEN_DECODE_UP, d->most == 1 ? 2 : 1, 0, out);
    base_buf_printf(out,
                    "    rk_decode_gate<rk_up_tile, %u> e = {(rp_u16 *)a3, (int)d0};\n"
                    "    rk_decode_matrix<rk_up_tile, true>(a0, a1, a2, %.9ef, (int)d0, e);\n}\n",
                    s->ffn, (double)s->eps);
    gen_decode_head(d, GEN_DECODE_LOGITS, 1, 0, out);
    base_buf_printf(
        out,
        "    rk_decode_logits<rk_logits_tile, %u> e = {(float *)a3, (int)d0};\n"
        "    rk_decode_matrix<rk_logits_tile, true>(a0, a1, a2, %.9ef, (int)d0, e);\n}\n",
        s->vocab, (double)s->eps);
}

void gen_decode_put_out(const gen_decode *d, gen_decode_kernel k, base_buf *out) {
    const uint32_t wide = d->s.heads * d->s.head_dim;
    if (k == GEN_DECODE_LAST)
        base_buf_printf(out, "    const rk_attended_rows<%u> out = {(float *)a6};\n", wide);
    else if (is_many(d))
        base_buf_puts(out, "    const rk_attended_tiles out = {(rp_u16 *)a6, "
                           "rk_tiles_of(RK_MANY, d0)};\n");
    else
        base_buf_printf(out, "    const rk_attended_x<%u> out = {(rp_u16 *)a6};\n", wide);
}

double gen_decode_score_scale(const gen_decode *d) {
    return 1.4426950408889634 / sqrt(d->s.head_dim);
}

/* Registers for four small blocks on a multiprocessor, beside those of the kernels around. */
static void put_attention(const gen_decode *d, gen_decode_kernel k, base_buf *out) {
    const gen_step *s = &d->s;
    const gen_step_attention *a = &d->attention;
    gen_decode_head(d, k, s->head_dim <= 64 && a->warps == 4 ? 4 : 1, a->splits, out);
    gen_decode_put_out(d, k, out);
    base_buf_printf(out,
                    "    (void)d2;\n    typedef rk_decode_attention<%u, %u, %u, RK_BLOCKS(%u), %u, "
                    "%s> A;\n    __shared__ A::room r;\n"
                    "    A::run(r, a0, a1, a2, a3, a4, a5, out, d1, d0 * %u, %.9ef);\n}\n",
                    s->heads, s->kv_heads, s->head_dim, a->splits, a->warps,
                    a->ahead ? "true" : "false", s->kv_heads, gen_decode_score_scale(d));
}

rp_status gen_decode_text(const gen_decode *d, base_buf *out, rp_error *err) {
    gen_cuda_prelude(out);
    if (is_many(d))
        gen_cuda_templates(&(gen_matmul_uses){.tensor = true, .top = true}, out);
    else
        base_buf_add(out, rp_embed_tensor_cu, rp_embed_tensor_cu_size);
    base_buf_add(out, rp_embed_decode_cu, rp_embed_decode_cu_size);
    base_buf_add(out, rp_embed_decode_attention_cu, rp_embed_decode_attention_cu_size);
    if (is_many(d)) return gen_decode_many_text(d, out, err);
    if (gen_decode_has(d, GEN_DECODE_QKV)) put_matrices(d, out);
    put_attention(d, GEN_DECODE_ATTENTION, out);
    put_attention(d, GEN_DECODE_LAST, out);
    return base_buf_status(out, err);
}
