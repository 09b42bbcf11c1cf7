/* Packs weight matrices into the tiles that the matmul templates read (src/gen/embed/matmul.c.inc
 * says what a tile holds). The layout is the same for every instruction set. */
#ifndef GEN_PACK_H
#define GEN_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/dtype.h"

#define GEN_TILE_ROWS 16

/* A matrix of this type can be packed: f32 f16 bf16 q4_0 q4_1 q8_0. */
bool gen_pack_supports(rp_dtype type);
/* Bytes of one tile of 16 rows of k elements; 0 where type, k or the product does not fit (block
 * formats need k to be a multiple of 32). */
size_t gen_pack_tile_size(rp_dtype type, int64_t k);
/* Tiles of n rows: the last one is filled with zeros. */
int64_t gen_pack_tiles(int64_t n);
/* gen_pack_tiles(n) * gen_pack_tile_size(type, k); 0 as above. */
size_t gen_pack_size(rp_dtype type, int64_t n, int64_t k);

/* Packs tile `tile` of the n x k matrix at src (rows as in GGUF) to dst, gen_pack_tile_size bytes. Where
 * the tiles of one or several matrices lie is the caller's affair: a work item of a kernel
 * wants its tiles side by side. Rows beyond n are zeros, so a tile past the end is all zeros. Reads and
 * writes each byte once; any thread may pack any tile. type, n and k must have passed gen_pack_size. */
void gen_pack_tile(rp_dtype type, const void *src, int64_t n, int64_t k, int64_t tile, void *dst);
/* The same of a matrix that lies [k][n]: f32, f16 and bf16. */
void gen_pack_tile_by_k(rp_dtype type, const void *src, int64_t n, int64_t k, int64_t tile,
                        void *dst);
/* Makes of a packed tile of 2-byte elements, [k][16], what tensor cores read (embed/tensor.cu): the halves of row k change places
 * where k & 4. Again: back. */
void gen_pack_swizzle(int64_t k, void *tile);

#endif
