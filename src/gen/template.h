/* Text of the templates, with what a unit uses of them. */
#ifndef GEN_TEMPLATE_H
#define GEN_TEMPLATE_H

#include <stdbool.h>

#include "base/str.h"
#include "reprise/dtype.h"

/* The products of a unit: bit d of `quant` for weights of dtype d times packed rows, `floats` for any times float rows.
 * CUDA: also whether there is attention, whether tensor cores multiply, whether neither operand of some product is packed,
 * whether something goes along an axis, whether something is scattered, and whether the largest of a row is looked for. */
typedef struct gen_matmul_uses {
    uint32_t quant;
    bool floats, attention, tensor, strided, axis, scatter, top;
} gen_matmul_uses;

/* How a unit reaches the products (gen/templates.h); nothing when there are none. After gen_c_prelude. */
void gen_c_matmul(const gen_matmul_uses *uses, base_buf *out);
/* The products themselves in CUDA C, after gen_cuda_prelude. */
void gen_cuda_templates(const gen_matmul_uses *uses, base_buf *out);

#endif
