/* See batch.h. */
#include "gen/batch.h"

#include <string.h>

#include "base/embed.h"
#include "gen/wgmma.h"

BASE_EMBED(batch_cu);
BASE_EMBED(batch_attention_cu);

enum {
    CHUNK = 64,       /* k of a copy */
    PAIRS = 16,       /* rows that an epilogue takes together */
    WORKERS = 256,    /* threads that multiply; a warp more fetches */
    FLASH_ROWS = 128, /* queries of a block of attention */
    FLASH_KEYS = 64,
    FLASH_AHEAD = 3,
    STREAM_WARPS = 8,
    STREAM_SLOTS = 3,
    SMALL = 200 << 10 /* bytes of a block of a small matrix */
};

static const char *const names[] = {
    [GEN_STEP_QKV] = "rp_batch_qkv",   [GEN_STEP_O] = "rp_batch_o",
    [GEN_STEP_UP] = "rp_batch_up",     [GEN_STEP_DOWN] = "rp_batch_down",
    [GEN_STEP_HEAD] = "rp_batch_head", [GEN_STEP_EMBED] = "rp_batch_embed"};

static uint32_t row_tiles(const gen_batch *b, gen_step_matrix m) {
    return gen_div_up(gen_step_rows(&b->s, m), GEN_BATCH_TILE_ROWS);
}

/* The head of a prefill has one: that of the last token. */
static uint32_t column_tiles(const gen_batch *b, gen_step_matrix m) {
    return m == GEN_STEP_HEAD && b->one_sequence ? 1 : gen_div_up(b->rows, b->tile[m].columns);
}

static size_t stage_bytes(const gen_batch_tile *t) {
    return (size_t)(GEN_BATCH_TILE_ROWS + t->columns) * CHUNK * 2;
}

/* As rp_room of the template. */
static size_t shared_bytes(const gen_batch_tile *t) {
    size_t sent = t->splits > 1 ? (size_t)GEN_BATCH_TILE_ROWS * t->columns * 4 : 0;
    size_t of_columns = (size_t)t->columns * (4 + 8 * 4 + 2 * 4 + 8 * 8);
    return t->stages * stage_bytes(t) + sent + 16 + of_columns + (2 * t->stages + 1) * 8;
}

uint32_t gen_batch_x_rows(const gen_batch *b) {
    return gen_div_up(b->room, GEN_BATCH_MAX_COLUMNS) * GEN_BATCH_MAX_COLUMNS +
           GEN_BATCH_MAX_COLUMNS;
}

uint32_t gen_batch_partials(const gen_batch *b, gen_step_matrix m) {
    return row_tiles(b, m) * b->tile[m].splits;
}

/* ---- choosing tiles ------------------------------------------------------------------------------ */

/* Tiles of a prefill: those whose rounds over all multiprocessors end first. Narrow ones read more for each product. */
static uint32_t fit_columns(const gen_batch *b, gen_step_matrix m, uint32_t n_sm) {
    static const struct {
        uint32_t columns;
        double speed; /* of 256 */
    } widths[] = {{256, 1}, {192, 0.95}, {128, 0.85}, {64, 0.6}};
    uint32_t best = 0;
    double best_time = 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        uint32_t across = gen_div_up(b->rows, widths[i].columns), tiles = row_tiles(b, m) * across;
        uint32_t at_once = tiles < n_sm ? tiles : n_sm / across * across;
        double time = gen_div_up(tiles, at_once) * widths[i].columns / widths[i].speed;
        if (best && time >= best_time) continue;
        best = widths[i].columns;
        best_time = time;
    }
    return best;
}

static void fit_tile(gen_batch *b, gen_step_matrix m, uint32_t n_sm, size_t max_shared) {
    gen_batch_tile *t = &b->tile[m];
    uint32_t chunks = gen_step_k(&b->s, m) / CHUNK, most = 12, tiles;
    size_t room = max_shared;
    *t = (gen_batch_tile){b->room, 1, 2, 0};
    if (b->one_sequence) t->columns = m == GEN_STEP_HEAD ? 8 : fit_columns(b, m, n_sm);
    tiles = row_tiles(b, m) * column_tiles(b, m);
    if (!b->one_sequence && m != GEN_STEP_HEAD)
        while (t->splits < 4 && 8 * t->splits * tiles <= 3 * n_sm && chunks % (2 * t->splits) == 0)
            t->splits *= 2;
    t->blocks = tiles;
    if (t->splits == 1 && tiles > n_sm) {
        uint32_t each = column_tiles(b, m);
        t->blocks = n_sm / each * each;
    }
    if (!b->one_sequence && m != GEN_STEP_HEAD && m != GEN_STEP_UP) {
        room = SMALL;
        most = 7;
    }
    while (t->stages < chunks / t->splits * gen_div_up(tiles, t->blocks) && t->stages < most) {
        t->stages++;
        if (shared_bytes(t) <= room) continue;
        t->stages--;
        break;
    }
}

void gen_batch_settle(gen_batch *b) {
    if (!b->one_sequence) return;
    b->room = gen_div_up(b->rows, 8) * 8;
    for (int m = 0; m < GEN_STEP_HEAD; m++) {
        uint32_t wide = gen_div_up(b->rows, b->tile[m].columns) * b->tile[m].columns;
        if (wide > b->room) b->room = wide;
    }
}

rp_status gen_batch_fit(gen_batch *b, uint32_t n_sm, size_t max_shared, rp_error *err) {
    uint32_t most = b->one_sequence ? GEN_BATCH_MAX_TOKENS : GEN_BATCH_MAX_SEQUENCES;
    RP_TRY(gen_step_check(&b->s, err));
    if (!b->rows || b->rows > most)
        return rp_fail(err, RP_UNSUPPORTED, "step of many rows: %u %s; 1 to %u are possible",
                       b->rows, b->one_sequence ? "tokens" : "sequences", most);
    for (b->room = 8; b->room < b->rows && !b->one_sequence;) b->room *= 2;
    for (int m = 0; m < GEN_STEP_MATRICES_; m++) fit_tile(b, (gen_step_matrix)m, n_sm, max_shared);
    gen_batch_settle(b);
    b->attention = gen_step_attention_fit(&b->s, b->one_sequence ? 1 : b->rows, n_sm);
    b->stream = !b->one_sequence && b->rows * b->s.kv_heads >= n_sm / 4 * 3;
    return gen_batch_check(b, max_shared, err);
}

static rp_status check_tile(const gen_batch *b, gen_step_matrix m, size_t max_shared,
                            rp_error *err) {
    const gen_batch_tile *t = &b->tile[m];
    uint32_t k = gen_step_k(&b->s, m), most = GEN_BATCH_MAX_COLUMNS;
    bool whole = t->columns && t->columns % 8 == 0 && t->columns <= most &&
                 column_tiles(b, m) * t->columns <= b->room && t->splits && 8 % t->splits == 0 &&
                 k % (t->splits * CHUNK) == 0 && t->stages >= 2;
    if (!whole)
        return rp_fail(err, RP_UNSUPPORTED,
                       "step of many rows, %s: no tile of %u columns, %u splits and %u stages for "
                       "%u rows of %u",
                       gen_step_matrix_name(m), t->columns, t->splits, t->stages,
                       gen_step_rows(&b->s, m), k);
    uint32_t tiles = row_tiles(b, m) * column_tiles(b, m);
    if (!t->blocks || t->blocks > tiles || t->blocks % column_tiles(b, m) ||
        (t->splits > 1 && t->blocks != tiles))
        return rp_fail(err, RP_UNSUPPORTED,
                       "step of many rows, %s: %u tiles are not dealt to %u blocks",
                       gen_step_matrix_name(m), tiles, t->blocks);
    if (shared_bytes(t) > max_shared)
        return rp_fail(err, RP_UNSUPPORTED,
                       "step of many rows, %s: %zu bytes of shared memory; a block may have %zu",
                       gen_step_matrix_name(m), shared_bytes(t), max_shared);
    return RP_OK;
}

rp_status gen_batch_check(const gen_batch *b, size_t max_shared, rp_error *err) {
    for (int m = 0; m < GEN_STEP_MATRICES_; m++)
        RP_TRY(check_tile(b, (gen_step_matrix)m, max_shared, err));
    return gen_step_attention_check(&b->s, &b->attention, err);
}

/* ---- text and launches --------------------------------------------------------------------------- */

/* Each width that a tile has, once, and those of attention. */
static void all_wgmma_text(const gen_batch *b, base_buf *out) {
    base_buf_printf(out, "template <int COLUMNS>\n__device__ void rp_wgmma(float *d, rp_u64 a, "
                         "rp_u64 b, int more);\n"
                         "template <int COLUMNS>\n__device__ void rp_wgmma_turned(float *d, const "
                         "rp_u32 *a, rp_u64 b);\n");
    for (uint32_t columns = 8; columns <= GEN_BATCH_MAX_COLUMNS; columns += 8) {
        bool used = b->one_sequence && columns == FLASH_KEYS / 2;
        for (int m = 0; m < GEN_STEP_MATRICES_; m++) used = used || b->tile[m].columns == columns;
        if (used) gen_wgmma_text("rp_wgmma", columns, GEN_WGMMA_SHARED, out);
    }
    if (b->one_sequence)
        gen_wgmma_text("rp_wgmma_turned", b->s.head_dim, GEN_WGMMA_REGISTERS_TURNED, out);
}

void gen_batch_text(const gen_batch *b, base_buf *out) {
    gen_step_define(out, "ROWS", b->rows);
    gen_step_define(out, "ONE_SEQUENCE", b->one_sequence);
    gen_step_text(&b->s, &b->attention, b->room, b->tile[GEN_STEP_O].columns, out);
    all_wgmma_text(b, out);
    for (int m = 0; m < GEN_STEP_MATRICES_; m++) {
        const gen_batch_tile *t = &b->tile[m];
        base_buf_printf(out, "#define RP_%s_TILE %u, %u, %u, %u, %u, %u\n",
                        gen_step_matrix_macro((gen_step_matrix)m), row_tiles(b, (gen_step_matrix)m),
                        t->columns, column_tiles(b, (gen_step_matrix)m), t->splits, t->stages,
                        t->blocks);
    }
    base_buf_add(out, rp_embed_batch_cu, rp_embed_batch_cu_size);
    base_buf_add(out, rp_embed_batch_attention_cu, rp_embed_batch_attention_cu_size);
}

/* As rp_stream_room of the template. */
static size_t stream_bytes(const gen_step *s) {
    const size_t queries = gen_step_padded_queries(s);
    return STREAM_WARPS * (STREAM_SLOTS * (2 * GEN_STEP_KV_BLOCK * 2 * s->head_dim + 8) +
                           queries * (s->head_dim * 4 + 8));
}

gen_step_launch gen_batch_launch_of(const gen_batch *b, unsigned kernel) {
    gen_step_launch l = {.name = names[kernel < GEN_STEP_ATTENTION ? kernel : 0],
                         .grid = {1, 1, 1}};
    if (kernel == GEN_STEP_EMBED) {
        l = gen_step_embed_launch(names[kernel], b->rows);
    } else if (kernel == GEN_STEP_ATTENTION && b->one_sequence) {
        l = (gen_step_launch){.name = "rp_batch_attention",
                              .grid = {gen_div_up(b->rows, FLASH_ROWS), b->s.heads, 1},
                              .threads = 2 * FLASH_ROWS,
                              .shared = (size_t)(2 * FLASH_AHEAD * FLASH_KEYS + FLASH_ROWS) *
                                            b->s.head_dim * 2 +
                                        FLASH_AHEAD * 8};
    } else if (kernel == GEN_STEP_ATTENTION && b->stream) {
        l = (gen_step_launch){.name = "rp_batch_stream",
                              .grid = {b->s.kv_heads, b->rows, 1},
                              .threads = STREAM_WARPS * 32,
                              .shared = stream_bytes(&b->s)};
    } else if (kernel == GEN_STEP_ATTENTION) {
        l = gen_step_attention_launch(&b->s, &b->attention, b->rows);
    } else {
        l.grid[0] = b->tile[kernel].blocks * b->tile[kernel].splits;
        l.threads = WORKERS + 32;
        l.shared = shared_bytes(&b->tile[kernel]);
    }
    return l;
}

/* ---- packing ------------------------------------------------------------------------------------- */

uint32_t gen_batch_rows(const gen_batch *b, gen_step_matrix m) {
    return row_tiles(b, m) * GEN_BATCH_TILE_ROWS;
}

size_t gen_batch_bytes(const gen_batch *b, gen_step_matrix m) {
    return (size_t)gen_batch_rows(b, m) * gen_step_k(&b->s, m) * 2;
}

uint32_t gen_batch_row(const gen_batch *b, gen_step_matrix m, uint32_t packed) {
    return gen_step_row(&b->s, m, PAIRS, packed);
}

void gen_batch_pack(const gen_batch *b, gen_step_matrix m, const uint16_t *w, uint16_t *out) {
    uint32_t k = gen_step_k(&b->s, m);
    for (uint32_t packed = 0; packed < gen_batch_rows(b, m); packed++) {
        uint32_t from = gen_batch_row(b, m, packed), r = packed % GEN_BATCH_TILE_ROWS;
        uint16_t *tile = out + (size_t)(packed - r) * k;
        for (uint32_t i = 0; i < k / 8; i++) {
            uint16_t *to = tile + ((size_t)i * GEN_BATCH_TILE_ROWS + r) * 8;
            if (from == UINT32_MAX)
                memset(to, 0, 16);
            else
                memcpy(to, w + (size_t)from * k + i * 8, 16);
        }
    }
}
