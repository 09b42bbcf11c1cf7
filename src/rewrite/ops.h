/* Registered ops as the ops that they are made of. */
#ifndef REWRITE_OPS_H
#define REWRITE_OPS_H

#include "ir/custom.h"

/* Whether the op keeps an implementation of its own. */
typedef bool (*rewrite_keeps_fn)(const void *user, const rp_op_desc *d);

/* A graph in which calls of ops that have `lower`, and that are not kept, are what it makes of them; *n counts them. *out stays NULL where
 * there is none. Graphs within g stay as they are. A failure names the op. */
rp_status rewrite_lower_ops(const ir_graph *g, rewrite_keeps_fn keeps, const void *user,
                            ir_graph **out, uint32_t *n, rp_error *err) RP_MUST_USE;

#endif
