/* What ops need of types, and of sizes: asked as shape rules ask, so in a function that compiles itself it is a guard where what is known does not
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

bool trace_wants_real(const char *call, rp_tensor a) {
    if (!trace_ready(a.graph)) return false;
    if (ir_dtype_is_real(rp_tensor_dtype(a)) && !ir_dtype_is_f8(rp_tensor_dtype(a))) return true;
    (void)rp_fail(&a.graph->err, RP_INVALID, "%s: wants f32, f16, bf16 or f64, not %s; cast it",
                  call, trace_type_text(a.graph, a).s);
    return false;
}

bool trace_at_least(rp_graph *g, rp_dim size, int64_t least) {
    return trace_le(g, rp_dim_const(least), size);
}
