/* Private to the room: matmul groups of a GPU on tensor cores (gen/embed/tensor.cu). */
#ifndef TARGET_TENSOR_H
#define TARGET_TENSOR_H

#include "lower/matmul.h"

/* Whether the group is one that tensor cores multiply; where it could be but for a size or type, a line of the log
 * says why not (name NULL: none). x: of the rows in memory. The weights are to be packed swizzled. */
bool target_tensor_can(const lowerer *L, const pass_group *gr, const char *name, rp_dtype x);
/* The launch, with a kernel for each class of rows. */
rp_status target_tensor_group(lowerer *L, const lower_matmul *m);

#endif
