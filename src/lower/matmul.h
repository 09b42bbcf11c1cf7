/* Matmul groups: what is multiplied, and where it lies. A target makes launches of it. */
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
/* Rows of x in memory: all but the last dim. */
ir_dim lower_flat_rows(const lowerer *L, const ir_node *x);
/* Of segment i's epilogue; NULL when memory is exhausted. */
char *lower_epilogue_name(lowerer *L, const char *name, uint32_t i);

/* Products with float rows. */
typedef struct lower_float_group {
    lower_product p; /* of the first product */
    rp_dtype x, w;   /* of the memory; w: where it is not packed */
} lower_float_group;

/* A matmul group, whose products share their rows. */
typedef struct lower_matmul {
    const pass_group *gr;
    const char *name;
    bool quant;           /* rows are packed i16b32, else as f says */
    bool packed;          /* lower_is_packed */
    bool swizzled;        /* as the target wants them */
    lower_float_group f;  /* where they are float */
    lower_ref operand[2]; /* rows and weights */
} lower_matmul;

/* The rest of launch l, whose first alternative has all but its function. items: a dim of the graph. */
rp_status lower_matmul_launch(lowerer *L, const lower_matmul *m, const char *symbol,
                              lower_launch *l, ir_dim items);

#endif
