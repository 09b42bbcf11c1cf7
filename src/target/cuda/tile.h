/* Tiles of products of floats (gen/embed/tile.cu). */
#ifndef TARGET_CUDA_TILE_H
#define TARGET_CUDA_TILE_H

#include "base/str.h"

#define TARGET_TILE_ROWS 64 /* of a tile; or half as many */

typedef struct target_tile {
    uint32_t rows, columns;
    uint32_t groups;  /* of threads, which take chunks of k in turns */
    uint32_t own;     /* rows of a thread */
    uint32_t threads; /* of a block */
} target_tile;

/* Rows of tiles, for most_rows (INT64_MAX: any number) and so many tiles beside each other. square: tiles have as many columns, so that
 * smaller ones read both operands twice as often, and one for each processor is enough. */
uint32_t target_tile_rows(int64_t most_rows, int64_t beside, bool square);
/* The rest, for k at most and about so many tiles; columns: 32, 64, 96 or 128. alone: all tiles of the kernel are alike, else they
 * have 256 threads. shared: as of lower_options. */
target_tile target_tile_of(uint32_t rows, uint32_t columns, int64_t k, int64_t tiles, bool alone,
                           uint32_t shared);
/* Blocks that a multiprocessor shall have registers for, of about so many tiles. */
uint32_t target_tile_per_sm(target_tile t, int64_t tiles);
/* Of dynamic shared memory. */
int64_t target_tile_bytes(target_tile t);
/* A declaration of `tile`, whose sums come in columns of `per`. */
void target_tile_put(base_buf *b, target_tile t, uint32_t per);

#endif
