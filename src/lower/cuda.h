/* Private to the room: templates in CUDA C. */
#ifndef LOWER_CUDA_H
#define LOWER_CUDA_H

#include "lower/prologue.h"

#define LOWER_CUDA_ROWS 8 /* RK_MM_ROWS: of an item, a warp each in the epilogue */

/* The head of a kernel of the current launch: "__global__ .. HOW NAME(arguments, sizes, items)", and arg and dim as a fragment
 * wants them. per_sm: blocks that shall fit on a multiprocessor; 0: any number. */
void lower_cuda_head(lowerer *L, const char *name, uint32_t threads, uint32_t per_sm,
                     const char *how);
/* The same with one more number behind the sizes; NULL: none. */
void lower_cuda_head_with(lowerer *L, const char *name, uint32_t threads, uint32_t per_sm,
                          const char *how, const char *more);
/* Columns of an item of such a segment. */
uint32_t lower_cuda_columns(const lowerer *L, const pass_segment *s);
/* #define FRAG_EPI(row0, n, item, acc): calls the fragment that is being built for each of n rows, a warp a row. */
void lower_cuda_epilogue(lowerer *L, const pass_segment *s, const char *frag);

/* Columns of one segment: n of each of its matrices, k long. */
typedef struct lower_cuda_segment {
    const char *frag;
    rp_dtype dtype, left; /* of the weights, of the rows */
    int64_t n_items, k, first_item, first_tile;
    uint32_t n_mats, columns; /* columns of an item: 16 or 32 of every matrix */
} lower_cuda_segment;
/* A kernel over them, of *threads a block, which takes an item: columns of a segment for up to LOWER_CUDA_ROWS of `rows` (a dim
 * of the graph), which lie one behind the other in argument 0; the packed weights are argument 1. `own` (may be NULL) makes
 * a single row in the kernel. */
rp_status lower_cuda_matmul(lowerer *L, const char *name, ir_dim rows, const lower_rows *own,
                            const lower_cuda_segment *segs, uint32_t n, uint32_t *threads);
/* Its work items, n of them a block of rows: a dim of the graph. */
ir_dim lower_cuda_matmul_items(lowerer *L, ir_dim rows, int64_t n);

/* Attention over `rows` with tables of blocks, n_tables rows of width, over a cache of n_blocks (dims of the piece). */
typedef struct lower_cuda_attention {
    gen_attention_record record;
    ir_dim rows, n_tables, width, n_blocks;
    bool tensor; /* lower_attention_on_tensor_cores */
} lower_cuda_attention;
/* Whether such attention is for tensor cores; the channel `autotuning` says why it is not, unless exact sums are wanted. */
bool lower_attention_on_tensor_cores(const lowerer *L, const gen_attention_record *r);
/* Its kernels, for few rows and for many, and everything of the launch l but its arguments, which are L->args. Behind the sizes they take
 * plan_bound.settled. */
rp_status lower_cuda_attention_kernels(lowerer *L, const lower_cuda_attention *a, lower_launch *l);

/* Scans and scatters as launches of their own. */
rp_status lower_cuda_scan(lowerer *L, ir_ref r);
rp_status lower_cuda_scatter(lowerer *L, ir_ref r);

#endif
