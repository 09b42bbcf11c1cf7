/* What the tensor API records into; opaque to users as rp_graph. */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "ir/graph.h"
#include "reprise/tensor.h"

struct rp_graph {
    ir_graph *ir;
    rp_numerics numerics;
    rp_error err; /* first failure of the trace */
    bool finished;
};

/* The traced graph, borrowed until rp_graph_free. */
const ir_graph *trace_graph_ir(const rp_graph *g);
/* Wraps an IR graph; takes ownership on success. */
rp_status trace_graph_wrap(ir_graph *ir, rp_graph **out, rp_error *err) RP_MUST_USE;
/* Traces since process start (witness of the warm law). */
uint64_t trace_count(void);

#endif
