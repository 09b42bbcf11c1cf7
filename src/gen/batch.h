/* The CUDA template of a step of many rows (embed/batch.cu): a decode step of up to 64 sequences, or the prefill of one sequence.
 *
 * bf16 weights and cache, tensor cores. Nothing here knows a driver: text goes to NVRTC, a launch record to a graph. Plain values;
 * thread-safe. */
#ifndef GEN_BATCH_H
#define GEN_BATCH_H

#include "gen/step.h"

enum {
    GEN_BATCH_MAX_SEQUENCES = 64,
    GEN_BATCH_MAX_TOKENS = 8192,
    GEN_BATCH_TILE_ROWS = 128, /* of a matrix, that a block multiplies at once */
    GEN_BATCH_MAX_COLUMNS = 256
};

/* How one matrix is dealt; see rp_tile in the template. */
typedef struct gen_batch_tile {
    uint32_t columns; /* rows of x of a tile: a multiple of 8, at most 256 */
    uint32_t splits;  /* blocks (a cluster) that share a tile's k: 1, 2, 4, 8 */
    uint32_t stages;  /* chunks of 64 k in flight a block, 2 at least */
    uint32_t
        blocks; /* clusters of the grid: a multiple of the tiles of columns; all tiles where splits > 1 */
} gen_batch_tile;

typedef struct gen_batch {
    gen_step s;
    uint32_t rows;     /* sequences of one new token each, or tokens of one sequence */
    bool one_sequence; /* the latter */
    uint32_t room;     /* rows rounded up, so that the column tiles of every matrix fit */
    gen_batch_tile tile[GEN_STEP_MATRICES_];
    gen_step_attention attention; /* of a decode step */
    bool stream; /* its attention is a block a sequence and kv head, and not as attention says */
} gen_batch;

/* Fills room, tile and attention for a GPU of n_sm multiprocessors whose blocks may have max_shared bytes.
 * RP_UNSUPPORTED names the size that the template cannot take. */
rp_status gen_batch_fit(gen_batch *b, uint32_t n_sm, size_t max_shared, rp_error *err) RP_MUST_USE;
/* Sets room for tiles that were changed by hand. */
void gen_batch_settle(gen_batch *b);
/* Whether the template compiles with these tiles and fits max_shared; RP_UNSUPPORTED says why not. */
rp_status gen_batch_check(const gen_batch *b, size_t max_shared, rp_error *err) RP_MUST_USE;

/* CUDA C for sm_90a. */
void gen_batch_text(const gen_batch *b, base_buf *out);
/* kernel: a gen_step_matrix or a gen_step_kernel. */
gen_step_launch gen_batch_launch_of(const gen_batch *b, unsigned kernel);
/* Rows that x, attention's result and the feed-forward's need memory for: whole tiles of any width. */
uint32_t gen_batch_x_rows(const gen_batch *b);
/* Sums of squares of a row that the kernel m, O or DOWN, leaves behind: rows of [room] floats. */
uint32_t gen_batch_partials(const gen_batch *b, gen_step_matrix m);

/* Packed rows of a matrix (rounded up to whole tiles), bytes, which row of the model's matrix a packed row is. */
uint32_t gen_batch_rows(const gen_batch *b, gen_step_matrix m);
size_t gen_batch_bytes(const gen_batch *b, gen_step_matrix m);
uint32_t gen_batch_row(const gen_batch *b, gen_step_matrix m, uint32_t packed);
/* Packs bf16 rows (row-major, all of them) into out, gen_batch_bytes. */
void gen_batch_pack(const gen_batch *b, gen_step_matrix m, const uint16_t *w, uint16_t *out);

#endif
