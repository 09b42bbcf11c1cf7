/* The record of a portable kernel: the last argument of its launch.
 *
 * It names sizes and strides as programs over the symbols, because a launch is made once for all sizes.
 * Forms follow the header: dim[rank], then for each operand offset and stride[rank], then those that are the
 * kernel's own. All counts are of elements of the operand's memory; kernels that move bytes count units. */
#ifndef COMPILE_PORTABLE_RECORD_H
#define COMPILE_PORTABLE_RECORD_H

#include "ir/dim_code.h"
#include "ir/graph.h"

#define EAGER_MAX_OPERANDS 4 /* three operands and the result, which is last */

typedef struct eager_memory {
    uint32_t dtype; /* of the memory: what is loaded from it is f32 or i32 */
    uint32_t row;   /* i16b32: elements a packed row */
} eager_memory;

typedef struct eager_record {
    uint32_t rank, n_operands, n_own;
    uint32_t op;   /* ir_op */
    uint32_t unit; /* bytes of a unit for kernels that move bytes, else 0 */
    eager_memory mem[EAGER_MAX_OPERANDS];
    uint32_t zero; /* records are stored as bytes, so there is no padding in them */
    ir_dim_code form[];
} eager_record;
_Static_assert(sizeof(eager_record) == 4 * (5 + 2 * EAGER_MAX_OPERANDS + 1), "no padding");

static inline uint32_t eager_record_forms(uint32_t rank, uint32_t n_operands, uint32_t n_own) {
    return rank + n_operands * (1 + rank) + n_own;
}

/* Place of the offset of operand k; its strides follow. */
static inline uint32_t eager_record_operand(const eager_record *r, uint32_t k) {
    return r->rank + k * (1 + r->rank);
}

static inline int64_t eager_record_own(const eager_record *r, uint32_t i, const long long *dim) {
    return ir_dim_code_eval_ll(&r->form[r->rank + r->n_operands * (1 + r->rank) + i], dim);
}

#endif
