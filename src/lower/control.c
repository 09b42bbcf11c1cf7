/* call, cond, while and scan: a launch that runs plans of their graphs, which are pieces of their own to compile. */
#include <string.h>

#include "lower/emit.h"

static rp_status check_slices(const ir_graph *g, const ir_node *n, rp_error *err) {
    int64_t first = ir_attr_int(n, IR_ATTR_CARRIED, 0),
            end = first + ir_attr_int(n, IR_ATTR_SLICED, 0);
    for (int64_t i = first; i < end; i++)
        if (rp_dtype_is_quant(ir_node_at(g, n->in[i])->dtype))
            return rp_fail(err, RP_UNSUPPORTED,
                           "scan: slices of a block format, %s, have no compiled form; dequant it",
                           ir_type_of(g, n->in[i]).s);
    return RP_OK;
}

uint32_t lower_carried(const ir_node *n) {
    if (n->op == IR_while) return n->n_more + 1;
    return n->op == IR_scan ? (uint32_t)ir_attr_int(n, IR_ATTR_CARRIED, 0) : 0;
}

rp_status lower_control_launch(const ir_graph *g, ir_ref r, lower_piece *p, lower_launch *out,
                               rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    const ir_attr *length = ir_attr_get(n, IR_ATTR_LENGTH);
    lower_control *c = base_arena_alloc(p->arena, sizeof *c);
    RP_TRY(check_slices(g, n, err));
    if (!c) return rp_fail(err, RP_NOMEM, "launch of %s", ir_op_table(n->op)->name);
    c->op = n->op;
    for (uint32_t i = 0; i < 2; i++) c->graph[i] = ir_node_graph(n, i);
    c->n_operands = n->n_in;
    c->n_results = n->n_more + 1;
    c->carried = lower_carried(n);
    c->sliced = (uint32_t)ir_attr_int(n, IR_ATTR_SLICED, 0);
    c->limit = ir_attr_int(n, IR_ATTR_LIMIT, 0);
    c->length = length ? ir_dim_import(p->dims, ir_graph_dims(g), length->u.dim)
                       : ir_dim_const(p->dims, 0);
    *out = (lower_launch){.name = ir_op_table(n->op)->name, .control = c, .grain = 1};
    out->rows = out->items = ir_dim_const(p->dims, 1);
    return c->length == IR_DIM_BAD ? rp_fail(err, RP_NOMEM, "length of a scan") : RP_OK;
}

/* Whether r is memory, or a part of it, that somebody else may have written. */
static bool is_given(const ir_graph *g, ir_ref r) {
    const ir_node *x = ir_node_at(g, r);
    while (ir_op_table(x->op)->kind == IR_KIND_VIEW && x->op != IR_result && x->memory == IR_NONE)
        x = ir_node_at(g, x->in[0]);
    if (x->memory != IR_NONE) return ir_node_at(g, x->memory)->op != IR_empty;
    return x->op == IR_param || x->op == IR_custom;
}

bool lower_carries_given(const ir_graph *g, const ir_node *n, uint32_t i) {
    return i < lower_carried(n) && !(ir_node_writes(n) >> i & 1) &&
           ir_node_at(g, n->in[i])->dtype == RP_DTYPE_BOOL && is_given(g, n->in[i]);
}

rp_status lower_graphs(lowerer *L, const ir_node *n, ir_ref r) {
    lower_ref args[LOWER_MAX_CONTROL_ARGS];
    lower_launch own;
    uint32_t n_args = 0;
    RP_TRY(lower_control_launch(L->g, r, L->out, &own, L->err));
    for (uint32_t i = 0; i < n->n_in; i++)
        RP_TRY(lower_carries_given(L->g, n, i)
                   ? lower_copy(L, n->in[i], &args[n_args++])
                   : lower_operand_memory(L, n->in[i], &args[n_args++]));
    for (uint32_t i = 0; i <= n->n_more; i++) RP_TRY(lower_result_memory(L, r, i, &args[n_args++]));
    for (uint32_t i = 0; i < lower_carried(n); i++) {
        ir_node type = lower_result_type(n, i);
        ir_dim bytes = lower_bytes(ir_graph_dims(L->g), &type);
        RP_TRY(lower_temp_memory(L, &type, bytes, &args[n_args++]));
    }
    if (n->op == IR_while)
        RP_TRY(lower_temp_memory(L, n, ir_dim_const(ir_graph_dims(L->g), 1), &args[n_args++]));
    L->n_args = n_args;
    memcpy(L->args, args, n_args * sizeof *args);
    lower_node_access(n, L->args, L->n_args, 0);
    lower_launch *l = lower_add_launch(L);
    *l = own;
    return lower_take_args(L, l);
}
