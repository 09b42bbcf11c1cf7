/* The CUDA templates of a decode step (embed/decode.cu, decode_attention.cu; of more than GEN_DECODE_FEW sequences decode_many.cu, decode_stream.cu): sizes, tiles, launches,
 * text.
 *
 * bf16 weights, packed in tiles of 16 rows (gen/pack.h), and bf16 cache in blocks of 16 positions; one new token a sequence. Nothing here
 * knows a driver or a plan. Plain values; thread-safe. */
#ifndef GEN_DECODE_H
#define GEN_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/access.h"
#include "gen/step.h"

/* Sequences of the templates. */
enum { GEN_DECODE_FEW = 8, GEN_DECODE_SOME = 32, GEN_DECODE_MOST = 64 };

typedef enum gen_decode_kernel {
    GEN_DECODE_QKV,
    GEN_DECODE_BEGIN, /* the same of embedded tokens, in the first layer */
    GEN_DECODE_O,
    GEN_DECODE_UP, /* gate and up */
    GEN_DECODE_DOWN,
    GEN_DECODE_FIRST, /* o of the last layer, of rows that are gathered */
    GEN_DECODE_LOGITS,
    GEN_DECODE_MATRICES_,
    GEN_DECODE_ATTENTION = GEN_DECODE_MATRICES_, /* for o */
    GEN_DECODE_LAST,    /* attention of the last layer, whose results are float32 rows */
    GEN_DECODE_EMBED,   /* of many rows: embedded tokens for begin */
    GEN_DECODE_GATHER,  /* and the rows of first; */
    GEN_DECODE_LARGEST, /* the largest logit of each row */
    GEN_DECODE_KERNELS_
} gen_decode_kernel;

/* How one matrix is dealt to blocks and warps; see rk_decode_tile of the template. */
typedef struct gen_decode_tile {
    uint32_t units;  /* of `tiles` tiles of 16 columns */
    uint32_t tiles;  /* 2 of gate and up, else 1 */
    uint32_t blocks; /* of the grid */
    uint32_t warps;  /* of a block; each has a slice of k */
    uint32_t chunk;  /* times 32 k are one copy */
    uint32_t slots;  /* copies in flight a warp */
    uint32_t group;  /* units between two barriers */
    uint32_t cap;    /* copies in flight a warp until the kernels in front have ended; <= slots */
} gen_decode_tile;

/* The same of many rows: jobs of `tiles` tiles of 16 columns; see rk_many_rows of the template. */
typedef struct gen_decode_job {
    uint32_t units;  /* of 32 columns of each matrix */
    uint32_t tiles;  /* 4, 6 or 8 */
    uint32_t stages; /* chunks of 128 k in flight a block */
    uint32_t slices; /* of k, summed apart */
    uint32_t splits; /* blocks (a cluster) that share the slices */
    uint32_t blocks; /* of the grid */
    uint32_t parts;  /* blocks that have neighbouring units each; 0: they take jobs in turns */
} gen_decode_job;

typedef struct gen_decode {
    gen_step s;    /* without layers and max_blocks; rotations take neighbours */
    uint32_t most; /* rows that it is for: 1, 2, 4, 8, 32, 64; of 2 and 4 attention alone */
    gen_decode_tile tile[GEN_DECODE_MATRICES_]; /* of few rows */
    gen_decode_job job[GEN_DECODE_MATRICES_];   /* of many */
    gen_step_attention attention;
    /* Attention of many: cells of the cache that are on their way a warp; blocks, which take rows and kv heads in turn. */
    uint32_t cells, attention_blocks;
} gen_decode;

/* Fills tile and attention for a GPU of n_sm multiprocessors whose blocks may have max_shared bytes.
 * RP_UNSUPPORTED names the size that the template cannot take. */
rp_status gen_decode_fit(gen_decode *d, uint32_t n_sm, size_t max_shared,
                         rp_error *err) RP_MUST_USE;

/* Whether there is such a kernel for d->most rows. Matrices of up to 8 rows are those of 8. */
bool gen_decode_has(const gen_decode *d, gen_decode_kernel k);
/* CUDA C of all kernels that d has, for sm_90 and later. The parameters are those of every generated kernel (target/cuda/head.c): addresses,
 * sizes, items. Those in brackets are of many rows, whose x are tiles and times gains already: squares, sums of them for the norm.
 *   embed: table, gains, ids, residual, x, squares; rows
 *   qkv: weights, x, gains, q, k, v, positions, slots, cos, sin, (squares); rows
 *   begin: the same with the table in the place of x, but ids, residual, (x, squares) at the end; rows
 *   o, down: weights, rows, residual, x, (gains of the norm behind, squares); rows
 *   up: weights, x, gains, result, (squares); rows
 *   gather: float32 rows, which of them, tiles; rows
 *   first: weights, float32 rows, which of them, the residual that they are added to (the same of it), residual, x, (gains, squares, tiles); rows
 *   logits: weights, x, gains, result, (squares, ranks: 8 bytes for each block and row, state of the exchange: gen/exchange.h); rows
 *   largest: ranks, values, places; rows
 *   attention, last: q, k, v, seqs, positions, block tables, result; rows, width of a table's row, settled */
rp_status gen_decode_text(const gen_decode *d, base_buf *out, rp_error *err) RP_MUST_USE;
/* What kernel k does with argument i, as bits of base_access; 0: nothing, as with those in brackets where there are no kernels of `many` rows. */
uint8_t gen_decode_access(gen_decode_kernel k, uint32_t i, bool many);
/* Its name, at most GEN_DECODE_NAME bytes with the NUL. */
enum { GEN_DECODE_NAME = 32 };
void gen_decode_name(const gen_decode *d, gen_decode_kernel k, char out[GEN_DECODE_NAME]);

/* blocks: of a matrix, and of attention of many; of attention of few a row and kv head; of the others a row. */
typedef struct gen_decode_launch {
    uint32_t blocks, threads;
    size_t shared; /* bytes of dynamic shared memory */
} gen_decode_launch;
gen_decode_launch gen_decode_launch_of(const gen_decode *d, gen_decode_kernel k);

#endif
