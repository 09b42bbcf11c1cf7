/* What the CUDA templates of a model's step share: the model's sizes, its matrices, in which order their rows are packed.
 *
 * bf16 weights and cache. Plain values; thread-safe. */
#ifndef GEN_STEP_H
#define GEN_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { GEN_STEP_KV_BLOCK = 16 }; /* positions of a block of the cache */

typedef enum gen_step_matrix {
    GEN_STEP_QKV,
    GEN_STEP_O,
    GEN_STEP_UP, /* gate and up */
    GEN_STEP_DOWN,
    GEN_STEP_HEAD,
    GEN_STEP_MATRICES_
} gen_step_matrix;

/* A kernel of a template. The order of parameters is the kernel's own. */
typedef enum gen_step_kernel {
    GEN_STEP_EMBED = GEN_STEP_MATRICES_, /* before it: the matrices' kernels */
    GEN_STEP_ATTENTION,
    GEN_STEP_KERNELS_
} gen_step_kernel;

typedef struct gen_step {
    uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
    uint32_t max_blocks;  /* entries of a row of the block table */
    bool rope_neighbours; /* pairs are (2i, 2i + 1), otherwise (i, i + head_dim / 2) */
    float eps;
} gen_step;

typedef struct gen_step_launch {
    const char *name;
    uint32_t grid[3], threads;
    size_t shared; /* bytes of dynamic shared memory */
} gen_step_launch;

/* Attention of one new token a sequence: how it is dealt. */
typedef struct gen_step_attention {
    uint32_t splits; /* blocks (a cluster) that share a sequence and kv head */
    uint32_t warps;  /* of such a block */
    uint32_t ahead;  /* 1: a warp has registers for its next block of the cache */
} gen_step_attention;

/* "qkv", "o", "up", "down", "head". */
const char *gen_step_matrix_name(gen_step_matrix m);
/* "QKV" ..: in names of macros. */
const char *gen_step_matrix_macro(gen_step_matrix m);
/* Rows and elements of a row. */
uint32_t gen_step_rows(const gen_step *s, gen_step_matrix m);
uint32_t gen_step_k(const gen_step *s, gen_step_matrix m);
/* Which row of the model's matrix a packed row is, where the two rows that an epilogue takes together (of a rotation; gate and up) are half a
 * unit apart; UINT32_MAX for padding. Rows of QKV count through q, k, v; of UP through gate, up. */
uint32_t gen_step_row(const gen_step *s, gen_step_matrix m, uint32_t unit_rows, uint32_t packed);

/* RP_UNSUPPORTED names the size that no template can take. */
rp_status gen_step_check(const gen_step *s, rp_error *err) RP_MUST_USE;
/* Query heads of a kv head, to a power of two. */
uint32_t gen_step_padded_queries(const gen_step *s);
/* For n_sm multiprocessors and batch sequences. */
gen_step_attention gen_step_attention_fit(const gen_step *s, uint32_t batch, uint32_t n_sm);
rp_status gen_step_attention_check(const gen_step *s, const gen_step_attention *a,
                                   rp_error *err) RP_MUST_USE;
gen_step_launch gen_step_attention_launch(const gen_step *s, const gen_step_attention *a,
                                          uint32_t batch);

/* A block a row that is looked up. */
gen_step_launch gen_step_embed_launch(const char *name, uint32_t rows);

static inline uint32_t gen_div_up(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

/* #define RP_name value. */
void gen_step_define(base_buf *out, const char *name, uint32_t value);
/* The definitions of sizes and the text of step.cu, which stands in front of a template. room: rows of the step's record.
 * x_columns: of the tiles in which attention leaves its result, 0 for rows. */
void gen_step_text(const gen_step *s, const gen_step_attention *a, uint32_t room,
                   uint32_t x_columns, base_buf *out);

#endif
