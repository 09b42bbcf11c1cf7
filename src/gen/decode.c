/* See decode.h. The tiles were measured on an H200: bench/results/2026-11-22-nvidia-h200-decode-step-tuning.md. */
#include "gen/decode.h"

#include <string.h>

#include "base/embed.h"

BASE_EMBED(decode_cu);

enum {
    PAIR = 32,             /* k of a pair of mma steps */
    HALF_BYTES = 512,      /* of 8 rows of a pair */
    MAX_CHUNK = 4096,      /* bytes of one copy */
    MAX_GROUP = 8,         /* units whose partial sums wait for one barrier */
    LARGE_UNIT = 64 << 10, /* bytes */
    MAX_PARTS = 16384      /* bytes of their room */
};

static const char *const names[] = {
    [GEN_STEP_QKV] = "rp_decode_qkv",   [GEN_STEP_O] = "rp_decode_o",
    [GEN_STEP_UP] = "rp_decode_up",     [GEN_STEP_DOWN] = "rp_decode_down",
    [GEN_STEP_HEAD] = "rp_decode_head", [GEN_STEP_EMBED] = "rp_decode_embed"};

static uint32_t n_units(const gen_decode *d, gen_step_matrix m) {
    return gen_div_up(gen_step_rows(&d->s, m), d->tile[m].rows);
}

static uint32_t columns(const gen_decode *d) {
    return d->batch == 1 ? 1 : GEN_DECODE_MAX_BATCH;
}

static uint32_t units_each(const gen_decode *d, gen_step_matrix m) {
    return gen_div_up(n_units(d, m), d->tile[m].blocks);
}

static uint32_t unit_parts_bytes(const gen_decode *d, const gen_decode_tile *t) {
    return t->warps * t->rows * columns(d) * 4;
}

/* As RING_BYTES and rp_room of the template. */
static size_t shared_bytes(const gen_decode *d, gen_step_matrix m) {
    const gen_decode_tile *t = &d->tile[m];
    size_t ring = (size_t)t->warps * t->slots * t->chunk * (t->rows / 8) * HALF_BYTES;
    size_t parts = (size_t)(units_each(d, m) > t->group ? 2 : 1) * t->group *
                   unit_parts_bytes(d, t);
    size_t squares = (size_t)t->warps * columns(d) * 4;
    return (ring + parts + squares + 7) / 8 * 8 + (size_t)t->warps * t->slots * 8;
}

/* ---- choosing tiles ------------------------------------------------------------------------------ */

/* Rows of the block that has most. */
static uint32_t longest(uint32_t rows, uint32_t unit, uint32_t n_sm) {
    return gen_div_up(gen_div_up(rows, unit), n_sm) * unit;
}

static uint32_t largest_divisor(uint32_t n, uint32_t at_most) {
    uint32_t best = at_most < n ? at_most : n;
    while (best > 1 && n % best) best--;
    return best ? best : 1;
}

/* How much of a matrix is on its way before the kernels in front have ended: all of q, k, v and o of a small model. up, and for several
 * sequences q, k, v and down, are held back to one copy a warp at a time, so that the small loads of those kernels
 * are not delayed, unless a matrix cannot come in beside them anyway. */
static void fit_ring(const gen_decode *d, gen_step_matrix m, gen_decode_tile *t, uint32_t each) {
    bool small = d->s.hidden <= 2048;
    uint32_t copies = each * (gen_step_k(&d->s, m) / PAIR / t->warps / t->chunk);
    uint32_t bytes = t->warps * t->chunk * (t->rows / 8) * HALF_BYTES, kb = 128;
    if (m == GEN_STEP_UP && (d->batch == 1 || !small)) kb = small ? 192 : 160;
    if (m == GEN_STEP_HEAD) kb = 192;
    t->slots = kb * 1024 / bytes;
    if (t->slots > copies) t->slots = copies;
    bool up = m == GEN_STEP_UP && small && t->slots < copies;
    bool back = d->batch > 1 && (m == GEN_STEP_QKV || m == GEN_STEP_DOWN);
    t->cap = up || back ? 1 : t->slots;
    if (up && d->batch > 1) t->group = 1;
}

static void fit_tile(gen_decode *d, gen_step_matrix m, uint32_t n_sm, size_t max_shared) {
    gen_decode_tile *t = &d->tile[m];
    uint32_t rows = gen_step_rows(&d->s, m), pairs = gen_step_k(&d->s, m) / PAIR, each, room;
    bool one_group = m != GEN_STEP_UP && m != GEN_STEP_HEAD;
    /* 16 rows an instruction, unless they are so many bytes that 8 spread clearly better. */
    bool large = 16 * pairs * 64 >= LARGE_UNIT;
    t->rows = large && longest(rows, 8, n_sm) * 20 < longest(rows, 16, n_sm) * 19 ? 8 : 16;
    if (m != GEN_STEP_HEAD && rows % t->rows) t->rows = 8;
    each = gen_div_up(n_units(d, m), n_sm);
    t->blocks = each < 5 ? gen_div_up(n_units(d, m), each) : n_sm;
    t->warps = largest_divisor(pairs, m == GEN_STEP_HEAD ? 8 : 9);
    uint32_t chunk = m == GEN_STEP_UP && d->batch == 1 && d->s.hidden <= 2048 ? 2 * MAX_CHUNK
                                                                              : MAX_CHUNK;
    t->chunk = largest_divisor(pairs / t->warps, chunk / (t->rows / 8 * HALF_BYTES));
    t->group = each;
    if (!one_group) {
        room = MAX_PARTS / unit_parts_bytes(d, t);
        if (t->group > MAX_GROUP) t->group = MAX_GROUP;
        if (t->group > room) t->group = room;
    }
    fit_ring(d, m, t, each);
    while (t->slots > 1 && shared_bytes(d, m) > max_shared) t->slots--;
    if (t->cap > t->slots) t->cap = t->slots;
}

rp_status gen_decode_fit(gen_decode *d, uint32_t n_sm, size_t max_shared, rp_error *err) {
    RP_TRY(gen_step_check(&d->s, err));
    if (!d->batch || d->batch > GEN_DECODE_MAX_BATCH)
        return rp_fail(err, RP_UNSUPPORTED, "decode step: %u sequences; 1 to %d are possible",
                       d->batch, GEN_DECODE_MAX_BATCH);
    for (int m = 0; m < GEN_STEP_MATRICES_; m++) fit_tile(d, (gen_step_matrix)m, n_sm, max_shared);
    d->attention = gen_step_attention_fit(&d->s, d->batch, n_sm);
    return gen_decode_check(d, max_shared, err);
}

static rp_status check_tile(const gen_decode *d, gen_step_matrix m, size_t max_shared,
                            rp_error *err) {
    const gen_decode_tile *t = &d->tile[m];
    const char *name = gen_step_matrix_name(m);
    uint32_t pairs = gen_step_k(&d->s, m) / PAIR;
    bool sound = (t->rows == 8 || t->rows == 16) && t->blocks && t->warps && t->chunk && t->slots &&
                 t->group && t->cap && t->cap <= t->slots && pairs % t->warps == 0 &&
                 pairs / t->warps % t->chunk == 0;
    if (!sound || t->warps > 16 || (m != GEN_STEP_HEAD && gen_step_rows(&d->s, m) % t->rows))
        return rp_fail(err, RP_UNSUPPORTED,
                       "decode step, %s: no tile of %u rows, %u warps and %u pairs for %u rows of "
                       "%u",
                       name, t->rows, t->warps, t->chunk, gen_step_rows(&d->s, m),
                       gen_step_k(&d->s, m));
    bool one_group = m != GEN_STEP_UP && m != GEN_STEP_HEAD;
    if (one_group && units_each(d, m) > t->group)
        return rp_fail(err, RP_UNSUPPORTED, "decode step, %s: a block's units are not one group",
                       name);
    if (shared_bytes(d, m) > max_shared)
        return rp_fail(err, RP_UNSUPPORTED,
                       "decode step, %s: %zu bytes of shared memory; a block may have %zu", name,
                       shared_bytes(d, m), max_shared);
    return RP_OK;
}

rp_status gen_decode_check(const gen_decode *d, size_t max_shared, rp_error *err) {
    for (int m = 0; m < GEN_STEP_MATRICES_; m++)
        RP_TRY(check_tile(d, (gen_step_matrix)m, max_shared, err));
    return gen_step_attention_check(&d->s, &d->attention, err);
}

/* ---- text and launches --------------------------------------------------------------------------- */

void gen_decode_text(const gen_decode *d, base_buf *out) {
    gen_step_text(&d->s, &d->attention, GEN_DECODE_MAX_BATCH, 0, out);
    gen_step_define(out, "BATCH", d->batch);
    for (int m = 0; m < GEN_STEP_MATRICES_; m++) {
        const gen_decode_tile *t = &d->tile[m];
        base_buf_printf(out, "#define RP_%s_TILE %u, %u, %u, %u, %u, %u, %u, %u\n",
                        gen_step_matrix_macro((gen_step_matrix)m), t->rows,
                        n_units(d, (gen_step_matrix)m), t->blocks, t->warps, t->chunk, t->slots,
                        t->group, t->cap);
    }
    base_buf_add(out, rp_embed_decode_cu, rp_embed_decode_cu_size);
}

gen_step_launch gen_decode_launch_of(const gen_decode *d, unsigned kernel) {
    gen_step_launch l = {.name = names[kernel < GEN_STEP_ATTENTION ? kernel : 0],
                         .grid = {1, 1, 1}};
    if (kernel == GEN_STEP_EMBED) {
        l = gen_step_embed_launch(names[kernel], d->batch);
    } else if (kernel == GEN_STEP_ATTENTION) {
        l = gen_step_attention_launch(&d->s, &d->attention, d->batch);
    } else {
        l.grid[0] = d->tile[kernel].blocks;
        l.threads = d->tile[kernel].warps * 32;
        l.shared = shared_bytes(d, (gen_step_matrix)kernel);
    }
    return l;
}

/* ---- packing ------------------------------------------------------------------------------------- */

uint32_t gen_decode_rows(const gen_decode *d, gen_step_matrix m) {
    return n_units(d, m) * d->tile[m].rows;
}

size_t gen_decode_bytes(const gen_decode *d, gen_step_matrix m) {
    return (size_t)gen_decode_rows(d, m) * gen_step_k(&d->s, m) * 2;
}

uint32_t gen_decode_row(const gen_decode *d, gen_step_matrix m, uint32_t packed) {
    return gen_step_row(&d->s, m, d->tile[m].rows, packed);
}

void gen_decode_pack(const gen_decode *d, gen_step_matrix m, const uint16_t *w, uint16_t *out) {
    uint32_t k = gen_step_k(&d->s, m), rows = d->tile[m].rows, pairs = k / PAIR;
    for (uint32_t packed = 0; packed < gen_decode_rows(d, m); packed++) {
        uint32_t from = gen_decode_row(d, m, packed), r = packed % rows;
        uint16_t *unit = out + (size_t)(packed / rows) * rows * k;
        for (uint32_t p = 0; p < pairs; p++)
            for (uint32_t t = 0; t < 4; t++) {
                uint16_t *to = unit + ((p * (rows / 8) + r / 8) * 32 + r % 8 * 4 + t) * 8;
                if (from == UINT32_MAX)
                    memset(to, 0, 16);
                else
                    memcpy(to, w + (size_t)from * k + p * PAIR + t * 8, 16);
            }
    }
}
