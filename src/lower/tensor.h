/* Private to the room: matmul groups of a GPU on tensor cores (gen/embed/tensor.cu). */
#ifndef LOWER_TENSOR_H
#define LOWER_TENSOR_H

#include "lower/emit.h"

/* Whether the group is one of GEN_CUDA that tensor cores multiply; where it could be but for a size or type, a line of the log
 * says why not (name NULL: none). x: of the rows in memory. The weights are to be packed swizzled. */
bool lower_tensor_can(const lowerer *L, const pass_group *gr, const char *name, rp_dtype x);
/* The launch, with a kernel for each class of rows; operand: rows and weights. */
rp_status lower_tensor_group(lowerer *L, const pass_group *gr, const char *name, rp_dtype x,
                             const lower_ref operand[2]);

#endif
