/* A value as strided memory: what a chain of views reads, without copying it. */
#ifndef LOWER_VIEW_H
#define LOWER_VIEW_H

#include "lower/lower.h"

/* Sizes are dims of the graph; counts are of elements. */
typedef struct lower_view {
    lower_ref at;
    rp_dtype dtype; /* of the memory: of a dequant, the block format */
    int64_t row;    /* i16b32: elements a packed row */
    ir_dim offset, stride[IR_MAX_RANK];
} lower_view;

/* A view over row-major memory of a node's own shape. */
void lower_view_dense(ir_dims *t, lower_ref at, const ir_node *n, lower_view *out);
/* The view of a VIEW node or dequant n whose operand, of shape `own`, is v; false when it has no strides and must be
 * copied. */
bool lower_view_of(ir_dims *t, const ir_node *n, const ir_shape *own, const lower_view *v,
                   lower_view *out);
/* Memory that holds the value row-major from its first byte. */
bool lower_view_is_dense(ir_dims *t, const lower_view *v, const ir_shape *s);
/* v as read at the indices of shape s (numpy broadcasting). */
void lower_view_broadcast(ir_dims *t, const lower_view *v, const ir_shape *own, const ir_shape *s,
                          lower_view *out);

#endif
