/* Inside of matmul groups: what packed and float rows share. */
#ifndef LOWER_MATMUL_H
#define LOWER_MATMUL_H

#include "gen/product.h"
#include "lower/emit.h"
#include "lower/product.h"

/* Whether the weights of a group are packed ahead, rather than read where they lie. */
bool lower_is_packed(const lowerer *L, const pass_group *gr);
/* Columns of a segment, and its work items a block of rows. Dims of the graph. */
ir_dim lower_columns(const lowerer *L, const pass_segment *s);
ir_dim lower_column_items(const lowerer *L, const pass_segment *s);
/* L->k becomes the epilogue of s as a fragment NAME over `columns` columns; the caller frees it, also after a failure. */
rp_status lower_epilogue_build(lowerer *L, const pass_segment *s, const char *name,
                               int64_t columns);
/* And its text is in the source. */
rp_status lower_epilogue(lowerer *L, const pass_segment *s, const char *name, int64_t columns);
/* How the fragment that is being built is called. */
typedef struct lower_call {
    int64_t columns;
    const char *acc; /* its sums of the first matrix; of the next, `columns` behind */
    const char *space, *name, *end; /* declares temporary i: SPACE type NAMEi END */
    const char *at;                 /* and gives it: NAMEi AT */
} lower_call;
/* Declares the temporaries of the fragment of s. */
void lower_call_temporaries(lowerer *L, const pass_segment *s, const lower_call *c);
/* ", SUMS.., TEMPORARIES..": its arguments behind row and column. */
void lower_call_arguments(lowerer *L, const pass_segment *s, const lower_call *c);
/* Rows of x in memory: all but the last dim. */
ir_dim lower_flat_rows(const lowerer *L, const ir_node *x);
/* Of segment i's epilogue; NULL when memory is exhausted. */
char *lower_epilogue_name(lowerer *L, const char *name, uint32_t i);

/* matmul_float.c: products with float rows. */
typedef struct lower_float_group {
    lower_product p; /* of the first product */
    rp_dtype x, w;   /* of the memory; w: where it is not packed */
} lower_float_group;

/* Finds the operands in memory, through views; what has no strides is copied. operand[1] only when `strided`. */
rp_status lower_float_operands(lowerer *L, const pass_group *gr, bool strided,
                               lower_float_group *out, lower_ref operand[2]);
/* The text of the kernel behind those of its epilogues; its arguments 0 and 1 are the operands. */
rp_status lower_float_kernel(lowerer *L, const pass_group *gr, const lower_float_group *f,
                             const char *name, ir_dim *items);
/* stored.c: whether a kernel of the library makes the results of the group, and then what it is told. */
bool lower_stored_record(const lowerer *L, const pass_group *gr, const lower_float_group *f,
                         gen_product_record *out);
rp_status lower_stored_group(lowerer *L, const pass_group *gr, const lower_float_group *f,
                             const char *name, const gen_product_record *r,
                             const lower_ref operand[2]);
/* A dim of the graph as an expression over dim[]; L->err where it overflows. */
void lower_put_dim(lowerer *L, ir_dim d);
/* product_cuda.c: the same kernel in CUDA C, where neither operand is packed. */
rp_status lower_cuda_product(lowerer *L, const lower_float_group *f, const char *name,
                             lower_launch *l, ir_dim *items);

#endif
