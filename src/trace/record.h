/* Recording helpers shared by the files of this room. */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include "trace/trace.h"

#define TRACE_MAX_OPERANDS 32

rp_tensor trace_bad(rp_graph *g);
/* Whether an op may be recorded now: no failure so far, not finished. */
bool trace_ready(rp_graph *g);
/* A size in the graph's table; IR_DIM_BAD for an invalid one, and the graph fails for one of another graph. And back. */
ir_dim trace_dim(rp_graph *g, rp_dim d);
rp_dim trace_dim_out(rp_graph *g, ir_dim d);
rp_tensor trace_op(rp_graph *g, ir_op op, const rp_tensor *in, uint32_t n, const ir_attr *attrs,
                   uint32_t n_attrs);

#endif
