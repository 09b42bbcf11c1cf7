/* Packing of weights into 16-row tiles.
 *
 * Pure data movement: no value is changed, and rows beyond n are zero bytes (a zero scale
 * makes their results zero). Works on any alignment of src, since GGUF promises 32 bytes only
 * for the start of a tensor. Does not check types: gen_pack_size is the gate. */
#include "gen/pack.h"

#include <string.h>

#include "base/alloc.h"

#define PACK_BLOCK 32

bool gen_pack_supports(rp_dtype type) {
    switch (type) {
    case RP_DTYPE_F32:
    case RP_DTYPE_F16:
    case RP_DTYPE_BF16:
    case RP_DTYPE_Q4_0:
    case RP_DTYPE_Q4_1:
    case RP_DTYPE_Q8_0: return true;
    default: return false;
    }
}

/* Bytes of 16 rows of one block (or one element) of k. */
static size_t pack_unit(rp_dtype type) {
    return rp_dtype_block_bytes(type) * GEN_TILE_ROWS;
}

size_t gen_pack_tile_size(rp_dtype type, int64_t k) {
    size_t size;
    if (!gen_pack_supports(type) || k <= 0) return 0;
    int64_t block = (int64_t)rp_dtype_block(type);
    if (k % block != 0) return 0;
    return base_mul_size((size_t)(k / block), pack_unit(type), &size) ? size : 0;
}

int64_t gen_pack_tiles(int64_t n) {
    return n / GEN_TILE_ROWS + (n % GEN_TILE_ROWS != 0);
}

size_t gen_pack_size(rp_dtype type, int64_t n, int64_t k) {
    size_t size, tile = gen_pack_tile_size(type, k);
    if (tile == 0 || n <= 0) return 0;
    return base_mul_size((size_t)gen_pack_tiles(n), tile, &size) ? size : 0;
}

/* Eight nibbles, one in the low half of each byte of x, in the order 0 2 4 6 1 3 5 7. */
static uint32_t pack_nibbles(uint64_t x) {
    uint64_t even = x & UINT64_C(0x000f000f000f000f), odd = x >> 8 & UINT64_C(0x000f000f000f000f);
    even = (even | even >> 12) & UINT64_C(0x000000ff000000ff);
    odd = (odd | odd >> 12) & UINT64_C(0x000000ff000000ff);
    even = (even | even >> 24) & 0xffff;
    odd = (odd | odd >> 24) & 0xffff;
    return (uint32_t)(even | odd << 16);
}

/* Little-endian; written out, so that compilers see one load and one store. */
static uint64_t pack_load_64(const uint8_t *p) {
    uint64_t lo = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                  (uint32_t)p[3] << 24;
    uint64_t hi = (uint32_t)p[4] | (uint32_t)p[5] << 8 | (uint32_t)p[6] << 16 |
                  (uint32_t)p[7] << 24;
    return lo | hi << 32;
}

static void pack_store_32(uint8_t *p, uint32_t x) {
    p[0] = (uint8_t)x;
    p[1] = (uint8_t)(x >> 8);
    p[2] = (uint8_t)(x >> 16);
    p[3] = (uint8_t)(x >> 24);
}

/* One GGUF nibble block (16 bytes: byte j holds elements j and j + 16) to row r of 4 chunks. */
static void pack_q4_row(const uint8_t *qs, uint8_t *dst, int r) {
    uint64_t x = pack_load_64(qs), y = pack_load_64(qs + 8);
    pack_store_32(dst + r * 4, pack_nibbles(x));
    pack_store_32(dst + 64 + r * 4, pack_nibbles(y));
    pack_store_32(dst + 128 + r * 4, pack_nibbles(x >> 4));
    pack_store_32(dst + 192 + r * 4, pack_nibbles(y >> 4));
}

/* Row r of one tile of block formats, k elements at src. */
static void pack_block_row(rp_dtype type, const uint8_t *src, int64_t k, uint8_t *tile, int r) {
    size_t unit = pack_unit(type), bytes = rp_dtype_block_bytes(type);
    for (int64_t b = 0; b < k / PACK_BLOCK; b++, src += bytes, tile += unit) {
        memcpy(tile + r * 2, src, 2);
        if (type == RP_DTYPE_Q4_0) {
            pack_q4_row(src + 2, tile + 32, r);
        } else if (type == RP_DTYPE_Q4_1) {
            memcpy(tile + 32 + r * 2, src + 2, 2);
            pack_q4_row(src + 4, tile + 64, r);
        } else {
            for (int p = 0; p < PACK_BLOCK / 2; p++)
                memcpy(tile + 32 + p * 32 + r * 2, src + 2 + p * 2, 2);
        }
    }
}

typedef float pack_v4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t pack_v4i __attribute__((vector_size(16)));
#if defined(__clang__)
#define PACK_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define PACK_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (pack_v4i){i, j, k, l})
#endif

/* Four k's of four rows that are row_size bytes apart, moved as they are, to columns of a tile. */
static void pack_turn(const uint8_t *src, size_t row_size, uint8_t *tile) {
    pack_v4 r[4];
    for (int i = 0; i < 4; i++) memcpy(&r[i], src + (size_t)i * row_size, sizeof r[i]);
    pack_v4 a = PACK_SHUFFLE(r[0], r[1], 0, 4, 1, 5), b = PACK_SHUFFLE(r[2], r[3], 0, 4, 1, 5);
    pack_v4 c = PACK_SHUFFLE(r[0], r[1], 2, 6, 3, 7), d = PACK_SHUFFLE(r[2], r[3], 2, 6, 3, 7);
    const pack_v4 out[4] = {PACK_SHUFFLE(a, b, 0, 1, 4, 5), PACK_SHUFFLE(a, b, 2, 3, 6, 7),
                            PACK_SHUFFLE(c, d, 0, 1, 4, 5), PACK_SHUFFLE(c, d, 2, 3, 6, 7)};
    for (int i = 0; i < 4; i++) memcpy(tile + i * 64, &out[i], sizeof out[i]);
}

/* k's that are turned of four rows before those of the next four: a line of the cache. Sixteen rows that are a power of two apart
 * have the same few places there, where they would push each other out. */
enum { PACK_LINE = 16 };

/* The first k's of a full tile of 32-bit elements; gives how many. */
static int64_t pack_turned(const uint8_t *src, size_t row_size, int64_t k, uint8_t *tile) {
    int64_t i = 0;
    for (; i + PACK_LINE <= k; i += PACK_LINE)
        for (int r = 0; r < GEN_TILE_ROWS; r += 4)
            for (int64_t j = i; j < i + PACK_LINE; j += 4)
                pack_turn(src + (size_t)r * row_size + j * 4, row_size, tile + j * 64 + r * 4);
    return i;
}

/* A whole tile of plain elements: k rows of 16, written in order. */
static void pack_plain(const uint8_t *src, size_t row_size, int64_t k, uint8_t *tile, int rows,
                       bool wide) {
    int64_t i = wide && rows == GEN_TILE_ROWS ? pack_turned(src, row_size, k, tile) : 0;
    for (tile += i * (wide ? 64 : 32); i < k; i++, tile += wide ? 64 : 32)
        for (int r = 0; r < rows; r++) {
            const uint8_t *from = src + (size_t)r * row_size;
            if (wide)
                memcpy(tile + r * 4, from + i * 4, 4);
            else
                memcpy(tile + r * 2, from + i * 2, 2);
        }
}

void gen_pack_tile(rp_dtype type, const void *src, int64_t n, int64_t k, int64_t tile, void *dst) {
    size_t tile_size = gen_pack_tile_size(type, k), row_size = tile_size / GEN_TILE_ROWS;
    int64_t first = tile * GEN_TILE_ROWS, rows = n - first;
    if (rows < GEN_TILE_ROWS) memset(dst, 0, tile_size);
    if (rows <= 0) return;
    if (rows > GEN_TILE_ROWS) rows = GEN_TILE_ROWS;
    const uint8_t *from = (const uint8_t *)src + (size_t)first * row_size;
    if (rp_dtype_block(type) == 1) {
        pack_plain(from, row_size, k, dst, (int)rows, type == RP_DTYPE_F32);
        return;
    }
    for (int r = 0; r < rows; r++) pack_block_row(type, from + (size_t)r * row_size, k, dst, r);
}

void gen_pack_tile_by_k(rp_dtype type, const void *src, int64_t n, int64_t k, int64_t tile,
                        void *dst) {
    size_t size = rp_dtype_block_bytes(type), row = size * GEN_TILE_ROWS;
    int64_t first = tile * GEN_TILE_ROWS, columns = n - first;
    if (columns < GEN_TILE_ROWS) memset(dst, 0, gen_pack_tile_size(type, k));
    if (columns <= 0) return;
    if (columns > GEN_TILE_ROWS) columns = GEN_TILE_ROWS;
    const uint8_t *from = (const uint8_t *)src + (size_t)first * size;
    for (int64_t i = 0; i < k; i++)
        memcpy((uint8_t *)dst + (size_t)i * row, from + (size_t)(i * n) * size,
               (size_t)columns * size);
}

void gen_pack_swizzle(int64_t k, void *tile) {
    enum { HALF = GEN_TILE_ROWS }; /* bytes of 8 elements */
    for (int64_t i = 0; i < k; i++) {
        uint8_t *row = (uint8_t *)tile + (size_t)i * 2 * HALF, half[HALF];
        if (!(i & 4)) continue;
        memcpy(half, row, HALF);
        memcpy(row, row + HALF, HALF);
        memcpy(row + HALF, half, HALF);
    }
}
