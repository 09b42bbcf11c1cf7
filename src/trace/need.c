/* What ops need of sizes: asked as shape rules ask, so in a function that compiles itself it is a guard where what is known does not
 * tell. */
#include "trace/record.h"

bool trace_le(rp_graph *g, rp_dim a, rp_dim b) {
    return trace_ready(g) &&
           ir_dim_le(ir_graph_dims(g->ir), trace_dim(g, a), trace_dim(g, b)) == IR_TRUE;
}

bool trace_equal(rp_graph *g, rp_dim a, rp_dim b) {
    return trace_ready(g) &&
           ir_dim_eq(ir_graph_dims(g->ir), trace_dim(g, a), trace_dim(g, b)) == IR_TRUE;
}

bool trace_number(rp_graph *g, rp_dim size, int64_t *out) {
    int64_t is;
    if (rp_dim_is_const(size, out)) return true;
    if (!trace_ready(g) || !g->oracle) return false;
    ir_dim d = trace_dim(g, size);
    if (d == IR_DIM_BAD || !g->oracle->example(g->oracle->user, d, &is)) return false;
    if (!trace_equal(g, size, rp_dim_const(is))) return false;
    *out = is;
    return true;
}

bool trace_at_least(rp_graph *g, rp_dim size, int64_t least) {
    return trace_le(g, rp_dim_const(least), size);
}
