/* What of a graph is random, and what the host sees of it while it runs. */
#include "api/seen.h"

bool api_runs_source(const rp_compiler *by, const rp_op_desc *d) {
    return by == &compile_cuda ? ir_custom_on_gpu(d) : by == &compile_inductor && d->c_source;
}

const char *api_host_sees(const ir_node *n, const rp_compiler *by) {
    const rp_op_desc *d = ir_custom_of(n);
    if (ir_op_run_by_host(n->op))
        return d && api_runs_source(by, d) ? NULL : "a function of the host runs it";
    if (!ir_op_read_by_host(n->op)) return NULL;
    return by == &compile_cuda ? "the host reads back from the GPU what decides; where the call is "
                                 "captured the GPU decides"
                               : "the host reads what decides, also in each replay";
}

/* Leaves that a call brings, and what code over its arguments makes of them, which is not looked at. */
static bool comes_with_a_call(const ir_node *n) {
    return n->op == IR_input || n->op == IR_param || n->op == IR_state || n->op == IR_size ||
           ir_op_is_call(n->op);
}

void api_mark_given(const ir_graph *g, bool *given) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        given[r] = comes_with_a_call(n);
        for (uint32_t i = 0; i < n->n_in; i++) given[r] = given[r] || given[n->in[i]];
    }
}
