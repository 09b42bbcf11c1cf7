/* What the callers of the products know of them (matmul.c.inc, matmul_float.c.inc): sizes of packed weights, the loop over
 * packed rows, and the descriptor of a product with float rows. The products themselves are in the library, compiled once
 * for each instruction set; code that is generated reaches them through rp_templates. Behind prelude.h. */
#ifndef RP_PRODUCT_H
#define RP_PRODUCT_H

/* --- packed weights, in tiles of 16 rows (matmul.c.inc) ------------------------- */

#define RP_BLOCK_q4_0 288
#define RP_BLOCK_q4_1 320
#define RP_BLOCK_q8_0 544
#define RP_TILE_q4_0(k) ((k) / 32 * 288)
#define RP_TILE_q4_1(k) ((k) / 32 * 320)
#define RP_TILE_q8_0(k) ((k) / 32 * 544)
#define RP_TILE_f32(k) ((k) * 64)
#define RP_TILE_f16(k) ((k) * 32)
#define RP_TILE_bf16(k) ((k) * 32)

/* --- packed int16 rows ------------------------------------------------------------ */

/* Rows that are taken at once. */
#if RP_ISA >= 2
#define RP_MR 8
#else
#define RP_MR 4
#endif
/* Bytes of a row in a block of interleaved ones. */
#define RP_MMR_ROW 76

/* One row: this many tiles are read in turn, block by block, each so many bytes ahead. Memory answers several
 * places at once faster than one after the other. */
#define RP_MM_STREAMS 4

/* Rows that the kernels take at once to serve `rows` (1..RP_MR) of them. */
RP_FN int rp_mm_width(long long rows)
{
#if RP_ISA >= 2
    return rows <= 1 ? 1 : rows <= 4 ? 4 : 8;
#else
    return rows <= 1 ? 1 : 4;
#endif
}

/* acc[mr][n_tiles * 16] (row stride `stride` floats) from mr interleaved rows. */
typedef void rp_mm_fn(const char *x, int mr, long long k, const rp_u8 *w, int n_tiles, float *acc, long long stride);
/* acc[RP_MM_STREAMS][n_tiles * 16] from one packed row and as many items of n_tiles adjacent tiles, `item` the first of
 * them, `last` the last there is. */
typedef void rp_mm1_fn(const char *x, long long k, const rp_u8 *w, long long item, long long last, int n_tiles, float *acc);
/* Puts one packed row into place r of mr interleaved ones. */
typedef void rp_mm_interleave_fn(const void *row, long long k, char *out, int r, int mr);

_Static_assert(RP_MR >= RP_MM_STREAMS, "rp_acc holds the rows or the streams");

#define RP_MM_ROUND64(n) (((rp_size)(n) + 63) & ~(rp_size)63)
#define RP_MM_INTERLEAVED(k) RP_MM_ROUND64((rp_size)(k) / 32 * RP_MR * RP_MMR_ROW)
#define RP_MM_SCRATCH(k) (RP_MM_INTERLEAVED(k) + RP_MM_ROUND64(RP_QROW_SIZE(k)))
/* Weight bytes that are reused from the second-level cache over all rows. */
#define RP_MM_CHUNK 262144

/* The loop of a kernel over work items [begin, end), one item being `tiles` adjacent tiles:
 *   XROW(row, tmp)           the packed row `row` of x; may compute it into tmp (RP_QROW_SIZE(k))
 *   EPI(row0, n, item, acc)  consumes acc[n][tiles * 16], rows row0.. of the item
 * with scratch of RP_MM_SCRATCH(k) bytes, 64-byte aligned. */
#define RP_MM_LOOP(fmt, begin, end, rows, k, tiles, weights, scratch, XROW, EPI)    \
    do {                                                                            \
        const rp_size rp_tile = (rp_size)RP_TILE_##fmt(k);                          \
        char *rp_xi = (char *)(scratch), *rp_tmp = rp_xi + RP_MM_INTERLEAVED(k);    \
        float rp_acc[RP_MR * (tiles)*16] __attribute__((aligned(64)));              \
        long long rp_rows = (rows), rp_end = (end);                                 \
        long long rp_step = RP_MM_CHUNK / (long long)(rp_tile * (tiles)) + 1;       \
        if (rp_rows <= RP_MR) rp_step = rp_end;                                     \
        (void)rp_tmp;                                                               \
        for (long long rp_t0 = (begin); rp_t0 < rp_end; rp_t0 += rp_step) {         \
            long long rp_t1 = RP_MIN(rp_t0 + rp_step, rp_end);                      \
            for (long long rp_r = 0; rp_r < rp_rows; rp_r += RP_MR) {               \
                int rp_n = (int)RP_MIN(rp_rows - rp_r, RP_MR), rp_w = rp_mm_width(rp_n); \
                const char *rp_x = (const char *)XROW(rp_r, rp_tmp);                \
                for (int rp_j = 0; rp_w > 1 && rp_j < rp_w; rp_j++) {               \
                    if (rp_j > 0 && rp_j < rp_n) rp_x = (const char *)XROW(rp_r + rp_j, rp_tmp); \
                    rp_mm_interleave(rp_x, (k), rp_xi, rp_j, rp_w);                 \
                }                                                                   \
                if (rp_w > 1) rp_x = rp_xi;                                         \
                int rp_items = rp_w > 1 ? 1 : RP_MM_STREAMS;                        \
                for (long long rp_t = rp_t0; rp_t < rp_t1; rp_t += rp_items) {      \
                    if (rp_w > 1)                                                   \
                        rp_mm_##fmt(rp_x, rp_w, (k),                                \
                                    (const rp_u8 *)(weights) + (rp_size)(rp_t * (tiles)) * rp_tile, \
                                    (tiles), rp_acc, (tiles)*16);                   \
                    else                                                            \
                        rp_mm1_##fmt(rp_x, (k), (const rp_u8 *)(weights), rp_t, rp_t1 - 1, (tiles), rp_acc); \
                    for (int rp_i = 0; rp_i < rp_items && rp_t + rp_i < rp_t1; rp_i++) \
                        EPI(rp_r, rp_n, rp_t + rp_i, (rp_acc + rp_i * (tiles)*16)); \
                }                                                                   \
            }                                                                       \
        }                                                                           \
    } while (0)

/* --- float rows ----------------------------------------------------------------- */

#define RP_MMF_CHUNK 256
/* Rows of a block at most: whole panels on every instruction set. */
#define RP_MMF_ROWS 168
#define RP_MMF_BATCH 4
#define RP_MMF_MATS 4

/* Elements k0 .. k0+n of a tile as float [n][16], n <= RP_MMF_CHUNK, whole blocks where there are blocks. */
typedef const float *rp_mmf_tile_fn(const rp_u8 *tile, long long k0, int n, float *out);

/* Operands with strides, copied to out[n][pitch]: n elements of k by `count` <= pitch rows (or columns). */
typedef void rp_mmf_load_fn(const rp_u8 *at, long long step, long long k_step, long long n, int count, int pitch, float *out);

typedef struct rp_mmf_side {
    const rp_u8 *base;
    long long step, k_step; /* elements between rows (of w: columns), between k's */
    long long batch[RP_MMF_BATCH];
    rp_mmf_load_fn *load;
    int size; /* bytes of an element */
} rp_mmf_side;

/* Takes acc[n][mats * 32] of an item: rows row0.. of all batches counted through. */
typedef void rp_mmf_done_fn(const void *user, long long row0, int n, long long item, float *acc);

/* Columns with one epilogue: items of 32 of them, of each of `mats` matrices, whose tiles alternate in twos. */
typedef struct rp_mmf_part {
    long long items;
    int mats;
    const rp_u8 *tiles; /* packed weights */
    rp_mmf_done_fn *done;
} rp_mmf_part;

/* A work item is one item of a part of one block of rows of one batch, in the order batch, block, part, item. */
typedef struct rp_mmf {
    long long rows, block; /* block: rows at most, a multiple of 12 up to RP_MMF_ROWS */
    long long k, columns, items;
    long long batch[RP_MMF_BATCH];
    rp_mmf_side x, w;     /* w: where weights are not packed, and then there is one part of one matrix */
    rp_mmf_tile_fn *tile; /* packed weights */
    rp_size tile_size;
    const rp_mmf_part *part;
    const void *user;
} rp_mmf;

#define RP_MMF_PANELS 114688 /* floats: all rows of a block and two chunks, on any instruction set */
#define RP_MMF_TILES (2 * 16 * RP_MMF_CHUNK)
#define RP_MMF_SUMS (2 * RP_MMF_ROWS * RP_MMF_MATS * 32)
#define RP_MMF_SCRATCH ((RP_MMF_PANELS + RP_MMF_TILES + RP_MMF_SUMS) * 4)

/* Work items [begin, end); scratch of RP_MMF_SCRATCH bytes, 64-byte aligned. */
typedef void rp_mmf_run_fn(const rp_mmf *p, long long begin, long long end, void *scratch);

/* What a kernel was called with, for its epilogues. */
typedef struct rp_mmf_call {
    void *const *arg;
    const long long *dim;
} rp_mmf_call;

/* --- the templates of an instruction set ----------------------------------------- */

#define RP_TEMPLATES(X)                    \
    X(rp_mm_fn, rp_mm_q4_0)                \
    X(rp_mm_fn, rp_mm_q4_1)                \
    X(rp_mm_fn, rp_mm_q8_0)                \
    X(rp_mm1_fn, rp_mm1_q4_0)              \
    X(rp_mm1_fn, rp_mm1_q4_1)              \
    X(rp_mm1_fn, rp_mm1_q8_0)              \
    X(rp_mm_interleave_fn, rp_mm_interleave) \
    X(rp_mmf_run_fn, rp_mmf_run)           \
    X(rp_mmf_load_fn, rp_mmf_load_f32)     \
    X(rp_mmf_load_fn, rp_mmf_load_f16)     \
    X(rp_mmf_load_fn, rp_mmf_load_bf16)    \
    X(rp_mmf_tile_fn, rp_mmw_f32)          \
    X(rp_mmf_tile_fn, rp_mmw_f16)          \
    X(rp_mmf_tile_fn, rp_mmw_bf16)         \
    X(rp_mmf_tile_fn, rp_mmw_q4_0)         \
    X(rp_mmf_tile_fn, rp_mmw_q4_1)         \
    X(rp_mmf_tile_fn, rp_mmw_q8_0)

typedef struct rp_templates {
#define RP_MEMBER(type, name) type *name;
    RP_TEMPLATES(RP_MEMBER)
#undef RP_MEMBER
} rp_templates;

#endif
