/* What a graph asks of the host: assert and print, calls of ops that the library has registered (src/ir/custom_host.c).
 *
 * Such a call writes memory of one byte, whose versions are a chain from call to call: that is their order, and why two equal calls are
 * two. A body gets it as an argument from the graph around; but for a condition of a while, which has a chain of its own. */
#include <stdio.h>
#include <string.h>

#include "ir/custom.h"
#include "trace/record.h"

enum { MOST_FILE = 200 }; /* bytes of a name; its end says more than its beginning */

rp_tensor trace_order_input(rp_graph *body, rp_error *err) {
    const ir_shape one = {.rank = 1, .dim = {ir_dim_const(ir_graph_dims(body->ir), 1)}};
    rp_tensor x = trace_bad(body);
    if (ir_add_leaf(body->ir, IR_LEAF_INPUT, "order", RP_DTYPE_U8, one, &x.ref, err) == RP_OK)
        ir_input_mutates(body->ir, x.ref);
    return x;
}

/* As the last call left it; none: there was none. */
static rp_tensor order_left(rp_graph *g) {
    if (trace_is_live(g->order)) return g->order;
    return g->acts ? trace_order_input(g, &g->err) : rp_none();
}

rp_tensor trace_order(rp_graph *g) {
    const rp_tensor left = order_left(g);
    if (trace_given(left)) return left;
    const rp_tensor none = rp_const(g, RP_DTYPE_U8, 0);
    return rp_update(rp_empty(g, RP_DTYPE_U8, RP_SHAPE(1)), rp_broadcast(none, RP_SHAPE(1)));
}

/* Which a call of the host may take as it is, since it reads none of it. */
static rp_tensor order_to_write(rp_graph *g) {
    const rp_tensor left = order_left(g);
    return trace_given(left) ? left : rp_empty(g, RP_DTYPE_U8, RP_SHAPE(1));
}

/* x as it is; the graph has failed where it was not called. */
static rp_tensor call_host(rp_tensor x, const char *op, const rp_op_attr *attrs, uint32_t n_attrs) {
    rp_graph *g = x.graph;
    const rp_tensor args[] = {order_to_write(g), x};
    rp_tensor made;
    rp_custom_call(g,
                   &(rp_custom_args){.size = sizeof(rp_custom_args),
                                     .name = op,
                                     .args = args,
                                     .n = 2,
                                     .attrs = attrs,
                                     .n_attrs = n_attrs},
                   &made, 1);
    if (g->err.code == RP_OK) g->order = rp_written(args[0], made);
    return g->err.code == RP_OK ? x : trace_bad(g);
}

/* Whether x is a value of a graph that takes more calls; false: its graph has failed. */
static bool begin(const char *op, rp_tensor x) {
    if (!trace_check_live(op, x)) return false;
    if (!x.graph || !trace_ready(x.graph)) return false;
    if (x.ref != IR_NONE && ir_node_at(x.graph->ir, x.ref)) return true;
    (void)rp_fail(&x.graph->err, RP_INVALID, "%s: not a tensor", op);
    return false;
}

rp_tensor rp_assert_at(rp_tensor cond, const char *message, const char *file, int line) {
    char at[MOST_FILE + 16] = "";
    const size_t n = file ? strlen(file) : 0;
    if (!begin("assert", cond)) return trace_bad(cond.graph);
    if (rp_tensor_dtype(cond) != RP_DTYPE_BOOL) {
        (void)rp_fail(&cond.graph->err, RP_INVALID, "assert: %s is no bool; compare first",
                      trace_type_text(cond.graph, cond).s);
        return trace_bad(cond.graph);
    }
    if (file)
        (void)snprintf(at, sizeof at, "%s:%d", n > MOST_FILE ? file + n - MOST_FILE : file, line);
    const rp_op_attr attrs[] = {
        {.name = "at", .kind = RP_OP_STRING, .s = at},
        {.name = "message", .kind = RP_OP_STRING, .s = message ? message : ""}};
    return call_host(cond, IR_OP_ASSERT, attrs, 2);
}

rp_tensor rp_print(rp_tensor x, const char *message) {
    if (!begin("print", x)) return trace_bad(x.graph);
    if (rp_dtype_is_quant(rp_tensor_dtype(x))) {
        (void)rp_fail(&x.graph->err, RP_INVALID, "print: %s is of a block format; dequantise it",
                      trace_type_text(x.graph, x).s);
        return trace_bad(x.graph);
    }
    const rp_op_attr message_of = {
        .name = "message", .kind = RP_OP_STRING, .s = message ? message : ""};
    return call_host(x, IR_OP_PRINT, &message_of, 1);
}
