/* What kind of product a matmul node is: which operands can be packed ahead, which products share their rows. */
#ifndef PASS_PRODUCT_H
#define PASS_PRODUCT_H

#include "ir/graph.h"

/* A matrix of parameters as the right operand of a product. */
typedef struct pass_weights {
    ir_ref param;
    rp_dtype dtype;
    int64_t n, k;
    bool by_k; /* memory is [k][n], else [n][k] */
} pass_weights;

/* Whether the right operand of product r is a parameter of known size, perhaps transposed or dequantised, that a template
 * reads packed. */
bool pass_product_weights(const ir_graph *g, ir_ref r, pass_weights *out);
/* Whether product r takes packed i16b32 rows as they are: exact integer dots against block-quantised weights.
 * All other left operands are float rows. */
bool pass_is_packed_matmul(const ir_graph *g, ir_ref r);
/* Whether products a and b of one left operand can be one launch: both with packed weights of one format. */
bool pass_products_join(const ir_graph *g, ir_ref a, ir_ref b);

#endif
