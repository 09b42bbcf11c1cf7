/* The CUDA template of one decode step (embed/decode.cu): sizes, tiles, launches, packing of its weights.
 *
 * bf16 weights and cache, up to 8 sequences of one new token each. Nothing here knows a driver: text goes to NVRTC, a launch
 * record to a graph. Plain values; thread-safe. */
#ifndef GEN_DECODE_H
#define GEN_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "gen/step.h"

enum { GEN_DECODE_MAX_BATCH = 8 };

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
    gen_step s;
    uint32_t batch; /* sequences, 1 .. 8 */
    gen_decode_tile tile[GEN_STEP_MATRICES_];
    gen_step_attention attention;
} gen_decode;

/* Fills tile and attention for a GPU of n_sm multiprocessors whose blocks may have max_shared bytes.
 * RP_UNSUPPORTED names the size that the template cannot take. */
rp_status gen_decode_fit(gen_decode *d, uint32_t n_sm, size_t max_shared,
                         rp_error *err) RP_MUST_USE;
/* Whether the template compiles with these tiles and fits max_shared; RP_UNSUPPORTED says why not. */
rp_status gen_decode_check(const gen_decode *d, size_t max_shared, rp_error *err) RP_MUST_USE;

/* CUDA C for sm_90a. */
void gen_decode_text(const gen_decode *d, base_buf *out);
/* kernel: a gen_step_matrix or a gen_step_kernel. */
gen_step_launch gen_decode_launch_of(const gen_decode *d, unsigned kernel);

/* Packed rows of a matrix (vocab is rounded up), bytes, which row of the model's matrix a packed row is. */
uint32_t gen_decode_rows(const gen_decode *d, gen_step_matrix m);
size_t gen_decode_bytes(const gen_decode *d, gen_step_matrix m);
uint32_t gen_decode_row(const gen_decode *d, gen_step_matrix m, uint32_t packed);
/* Packs bf16 rows (row-major, all of them) into out, gen_decode_bytes. */
void gen_decode_pack(const gen_decode *d, gen_step_matrix m, const uint16_t *w, uint16_t *out);

#endif
