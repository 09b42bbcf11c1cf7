/* Inside of the eager backend: a piece as launches of portable kernels, node by node.
 *
 * Views cost nothing: an operand is memory, an offset and a stride a dim, and the record of a launch carries
 * them. A view that has no strides (a reshape of scattered memory) is copied. */
#ifndef COMPILE_EAGER_H
#define COMPILE_EAGER_H

#include "compile/portable/record.h"
#include "lower/view.h"

typedef struct eager {
    const ir_graph *g;
    ir_dims *dims; /* of g */
    const lower_options *opt;
    lower_piece *out;
    lower_view *view; /* by ref */
    uint32_t cap_temps, cap_consts, cap_packs, cap_launches;
    rp_error *err;
} eager;

static inline const ir_node *eager_at(const eager *e, ir_ref r) {
    return ir_node_at(e->g, r);
}

static inline ir_dim eager_number(const eager *e, int64_t v) {
    return ir_dim_const(e->dims, v);
}

/* eager_emit.c: a launch is built up, then added. */
typedef struct eager_launch {
    const char *name; /* of the kernel, without '@' */
    uint32_t op, unit, rank, n_operands, n_own, n_args;
    ir_dim dim[IR_MAX_RANK];
    lower_view operand[EAGER_MAX_OPERANDS];
    lower_ref arg[EAGER_MAX_OPERANDS + 1];
    ir_dim own[8];
    ir_dim rows, items;
    int64_t scratch;
} eager_launch;

rp_status eager_temp(eager *e, const ir_node *n, lower_ref *out);
/* Of so many bytes, IR_DIM_BAD of which n is to blame for. */
rp_status eager_temp_of(eager *e, const ir_node *n, ir_dim bytes, lower_ref *out);
rp_status eager_const(eager *e, const void *data, uint32_t size, lower_ref *out);
/* Memory of its own for the result of r, which every kernel writes densely. */
rp_status eager_result(eager *e, ir_ref r);
lower_launch *eager_next_launch(eager *e);
/* Starts a launch over the shape s (its dim 0 are the work items). */
eager_launch eager_begin(const eager *e, const char *name, const ir_shape *s);
void eager_operand(eager_launch *l, const lower_view *v);
void eager_own(eager_launch *l, ir_dim d);
rp_status eager_add(eager *e, const eager_launch *l);
/* A copy of the value v of type and shape of n into `to`, dense or not. */
rp_status eager_copy_to(eager *e, const ir_node *n, const lower_view *v, const lower_view *to);
/* Into memory of its own. */
rp_status eager_copy_value(eager *e, const ir_node *n, const lower_view *v, lower_view *out);
/* The operand as dense memory, copied when it is not. */
rp_status eager_dense(eager *e, ir_ref r, lower_ref *out);

/* eager_node.c: launches of node r; sets e->view[r]. */
rp_status eager_node(eager *e, ir_ref r);
rp_status eager_product(eager *e, ir_ref r); /* eager_product.c: of a matmul */

#endif
