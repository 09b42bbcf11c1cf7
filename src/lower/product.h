/* A product of float operands as what its template is told (gen/embed/matmul_float.c.inc): loops over strided memory. */
#ifndef LOWER_PRODUCT_H
#define LOWER_PRODUCT_H

#include "lower/view.h"

#define LOWER_PRODUCT_BATCH (IR_MAX_RANK - 2)

/* Elements from a row (of w: a column) to the next, from one k to the next, between matrices. */
typedef struct lower_side {
    ir_dim offset, step, k_step, batch[LOWER_PRODUCT_BATCH];
} lower_side;

typedef struct lower_product {
    ir_dim batch[LOWER_PRODUCT_BATCH], rows, columns, k;
    uint32_t n_batch;
    lower_side x, w;
    int64_t block; /* rows of a work item at most */
} lower_product;

/* Product n of operands a and b, which lie as va and vb say; vb NULL: b is packed. Batches that share w are rows where the
 * strides of x allow. Sizes are dims of t. */
void lower_product_of(ir_dims *t, const ir_node *n, const ir_node *a, const lower_view *va,
                      const ir_node *b, const lower_view *vb, lower_product *out);
/* Work items of p where a block of rows has `columns` of them; IR_DIM_BAD when that is too many. */
ir_dim lower_product_items(ir_dims *t, const lower_product *p, ir_dim columns);

/* Columns of a work item of any product, and so of an epilogue; bytes of scratch of a kernel over float rows. */
#define LOWER_COLUMNS 32
#define LOWER_PRODUCT_SCRATCH 663552

#endif
