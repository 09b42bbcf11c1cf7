/* Private to the room: what the host runs, as C and as launches of the library's kernels. */
#ifndef TARGET_CPU_H
#define TARGET_CPU_H

#include "target/fragment.h"

/* As lower_target.matmul. */
rp_status target_cpu_matmul(lowerer *L, const lower_matmul *m);
/* The text of the kernel over float rows, behind those of its epilogues; its arguments 0 and 1 are the operands. */
rp_status target_float_kernel(lowerer *L, const lower_matmul *m, ir_dim *items);
/* Whether a kernel of the library makes the results of the group, and then what it is told. */
bool target_stored_record(const lowerer *L, const lower_matmul *m, gen_product_record *out);
rp_status target_stored_group(lowerer *L, const lower_matmul *m, const gen_product_record *r);
/* As lower_target.source: d has text in C. */
rp_status target_cpu_source(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d);
/* As lower_target.ready. */
rp_status target_ready(lowerer *L, const char *name, size_t begin, const char **symbol);

#endif
