/* Private to the room: templates in CUDA C. */
#ifndef TARGET_CUDA_H
#define TARGET_CUDA_H

#include "target/cuda/prologue.h"
#include "target/fragment.h"

#define TARGET_CUDA_ROWS 8 /* RK_MM_ROWS: of a call of an epilogue, a warp each */

/* The head of a kernel of the current launch: "__global__ .. HOW NAME(arguments, sizes, items)", and arg and dim as a fragment
 * wants them. per_sm: blocks that shall fit on a multiprocessor; 0: any number. */
void target_cuda_head(lowerer *L, const char *name, uint32_t threads, uint32_t per_sm,
                      const char *how);
/* The same with one more number behind the sizes; NULL: none. */
void target_cuda_head_with(lowerer *L, const char *name, uint32_t threads, uint32_t per_sm,
                           const char *how, const char *more);
/* One item of k, scheduled again, as function NAME (gen_cuda_item). */
rp_status target_render_item(lowerer *L, const kir_func *k, const char *name, uint32_t threads);
/* The fragment L->k as gen_cuda_element writes it. */
rp_status target_render_element(lowerer *L, uint32_t *n_asked);
/* As lower_target.matmul. */
rp_status target_cuda_matmul(lowerer *L, const lower_matmul *m);
/* Where neither operand is packed (product.c). */
rp_status target_cuda_product(lowerer *L, const lower_float_group *f, const char *name,
                              lower_launch *l, ir_dim *items);
/* As lower_target.attention: kernels for few rows and for many, which take plan_bound.settled behind the sizes. */
rp_status target_cuda_attention(lowerer *L, const ir_node *n, const gen_attention_record *r,
                                lower_launch *l);
/* As lower_target.source: d has text in CUDA C, or PTX. */
rp_status target_cuda_source(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d);

/* How many elements axes [from, to) of s have, in sizes of the piece; and the statement that a kernel begins with for such a number:
 * "const long long NAME = d;". */
ir_dim target_cuda_extent(const lowerer *L, const ir_shape *s, uint32_t from, uint32_t to);
void target_cuda_put(lowerer *L, const char *name, ir_dim d);
/* Scans and scatters as launches of their own. */
rp_status target_cuda_scan(lowerer *L, ir_ref r);
rp_status target_cuda_scatter(lowerer *L, ir_ref r);

#endif
