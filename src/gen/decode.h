/* The CUDA template of one decode step (embed/decode.cu): sizes, tiles, launches, packing of its weights.
 *
 * bf16 weights and cache, up to 8 sequences of one new token each. Nothing here knows a driver: text goes to NVRTC, a launch
 * record to a graph. Plain values; thread-safe. */
#ifndef GEN_DECODE_H
#define GEN_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { GEN_DECODE_MAX_BATCH = 8, GEN_DECODE_KV_BLOCK = 16 };

typedef enum gen_decode_matrix {
    GEN_DECODE_QKV,
    GEN_DECODE_O,
    GEN_DECODE_UP, /* gate and up */
    GEN_DECODE_DOWN,
    GEN_DECODE_HEAD,
    GEN_DECODE_MATRICES_
} gen_decode_matrix;

/* How one matrix is dealt to blocks and warps; see rp_tile in the template. */
typedef struct gen_decode_tile {
    uint32_t rows;   /* of a unit: 8 or 16 */
    uint32_t blocks; /* of the grid */
    uint32_t warps;  /* of a block; each has a slice of k */
    uint32_t chunk;  /* pairs of k16 steps that are one copy */
    uint32_t slots;  /* copies in flight a warp */
    uint32_t group;  /* units between two barriers */
    uint32_t cap;    /* copies in flight a warp until the kernels in front have ended; <= slots */
} gen_decode_tile;

typedef struct gen_decode {
    uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
    uint32_t batch;       /* sequences, 1 .. 8 */
    uint32_t max_blocks;  /* entries of a row of the block table */
    bool rope_neighbours; /* pairs are (2i, 2i + 1), otherwise (i, i + head_dim / 2) */
    float eps;
    gen_decode_tile tile[GEN_DECODE_MATRICES_];
    uint32_t splits;          /* blocks (a cluster) that share a sequence and kv head */
    uint32_t attention_warps; /* of such a block */
    uint32_t attention_ahead; /* 1: a warp has registers for its next block of the cache */
} gen_decode;

/* A kernel of the template. The order of parameters is the kernel's own. */
typedef enum gen_decode_kernel {
    GEN_DECODE_K_EMBED = GEN_DECODE_MATRICES_, /* before it: the matrices' kernels */
    GEN_DECODE_K_ATTENTION,
    GEN_DECODE_KERNELS_
} gen_decode_kernel;

typedef struct gen_decode_launch {
    const char *name;
    uint32_t grid[3], threads;
    size_t shared; /* bytes of dynamic shared memory */
} gen_decode_launch;

/* Fills tile, splits and attention_warps for a GPU of n_sm multiprocessors whose blocks may have max_shared bytes.
 * RP_UNSUPPORTED names the size that the template cannot take. */
rp_status gen_decode_fit(gen_decode *d, uint32_t n_sm, size_t max_shared,
                         rp_error *err) RP_MUST_USE;
/* Whether the template compiles with these tiles and fits max_shared; RP_UNSUPPORTED says why not. */
rp_status gen_decode_check(const gen_decode *d, size_t max_shared, rp_error *err) RP_MUST_USE;

/* CUDA C for sm_90a. */
void gen_decode_text(const gen_decode *d, base_buf *out);
/* kernel: a gen_decode_matrix or a gen_decode_kernel. */
gen_decode_launch gen_decode_launch_of(const gen_decode *d, unsigned kernel);

/* Packed rows of a matrix (vocab is rounded up), elements of a row, bytes. */
uint32_t gen_decode_rows(const gen_decode *d, gen_decode_matrix m);
uint32_t gen_decode_k(const gen_decode *d, gen_decode_matrix m);
size_t gen_decode_bytes(const gen_decode *d, gen_decode_matrix m);
/* Which row of the model's matrix a packed row is; UINT32_MAX for padding. Rows of QKV count through q, k, v; of UP
 * through gate, up. */
uint32_t gen_decode_row(const gen_decode *d, gen_decode_matrix m, uint32_t packed);
/* Packs bf16 rows (row-major, all of them) into out, gen_decode_bytes. */
void gen_decode_pack(const gen_decode *d, gen_decode_matrix m, const uint16_t *w, uint16_t *out);

#endif
