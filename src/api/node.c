/* Finished graphs as compilers outside of the library read them. */
#include "reprise/node.h"

#include <string.h>

#include "api/api.h"
#include "base/options.h"
#include "base/status.h"
#include "ir/dim_code.h"

/* NULL where there is nothing to read. */
static const ir_graph *readable(const rp_graph *g) {
    return g && g->finished && g->err.code == RP_OK ? g->ir : NULL;
}

static const ir_leaf leaf_of[] = {[RP_GRAPH_INPUTS] = IR_LEAF_INPUT,
                                  [RP_GRAPH_PARAMS] = IR_LEAF_PARAM,
                                  [RP_GRAPH_STATES] = IR_LEAF_STATE};

uint32_t rp_graph_count(const rp_graph *g, rp_graph_list list) {
    const ir_graph *ir = readable(g);
    if (!ir) return 0;
    switch (list) {
    case RP_GRAPH_NODES: return ir_graph_count(ir);
    case RP_GRAPH_INPUTS:
    case RP_GRAPH_PARAMS:
    case RP_GRAPH_STATES: return ir_leaf_count(ir, leaf_of[list]);
    case RP_GRAPH_OUTPUTS: return ir_output_count(ir);
    }
    return 0;
}

uint32_t rp_graph_at(const rp_graph *g, rp_graph_list list, uint32_t i) {
    if (i >= rp_graph_count(g, list)) return RP_NO_NODE;
    if (list == RP_GRAPH_NODES) return i;
    return list == RP_GRAPH_OUTPUTS ? ir_output_at(g->ir, i) : ir_leaf_at(g->ir, leaf_of[list], i);
}

const char *rp_graph_name(const rp_graph *g) {
    return g ? ir_graph_name(g->ir) : "";
}

static rp_dim public_dim(const rp_graph *g, ir_dim d) {
    return trace_dim_out((rp_graph *)(uintptr_t)g, d);
}

static rp_status find_node(const rp_graph *g, uint32_t node, const char *call, const ir_node **out,
                           rp_error *err) {
    RP_TRY(api_graph_ready(g, err));
    if (node >= ir_graph_count(g->ir))
        return rp_fail(err, RP_INVALID, "%s: graph @%s has %u nodes, none is number %u", call,
                       ir_graph_name(g->ir), ir_graph_count(g->ir), node);
    *out = ir_node_at(g->ir, node);
    return RP_OK;
}

rp_status rp_graph_node(const rp_graph *g, uint32_t node, rp_node *out, rp_error *err) {
    base_error_clear(err);
    const ir_node *n;
    RP_TRY(find_node(g, node, "rp_graph_node", &n, err));
    rp_node own = {.size = sizeof own,
                   .op = ir_op_table(n->op)->name,
                   .dtype = n->dtype,
                   .shape = {.rank = n->shape.rank},
                   .in = n->in,
                   .n_in = n->n_in,
                   .n_results = n->n_more + 1,
                   .n_attrs = n->n_attrs,
                   .name = n->name,
                   .memory = n->memory,
                   .mutates = n->mutates,
                   .effect = ir_node_is_effect(n),
                   .random = ir_op_is_random(n->op),
                   .host = ir_op_run_by_host(n->op) || ir_op_read_by_host(n->op)};
    for (uint32_t d = 0; d < n->shape.rank; d++) own.shape.dim[d] = public_dim(g, n->shape.dim[d]);
    return base_result_give(out, &own, sizeof own, "rp_node", err);
}

/* --- attributes ---------------------------------------------------------------------------------- */

static const rp_attr_kind kinds[] = {
    [IR_ATTR_TYPE_INT] = RP_ATTR_INT,      [IR_ATTR_TYPE_INTS] = RP_ATTR_INTS,
    [IR_ATTR_TYPE_FLOAT] = RP_ATTR_FLOAT,  [IR_ATTR_TYPE_BOOL] = RP_ATTR_BOOL,
    [IR_ATTR_TYPE_STR] = RP_ATTR_STRING,   [IR_ATTR_TYPE_DTYPE] = RP_ATTR_DTYPE,
    [IR_ATTR_TYPE_DIM] = RP_ATTR_DIM,      [IR_ATTR_TYPE_DIMS] = RP_ATTR_DIMS,
    [IR_ATTR_TYPE_TYPES] = RP_ATTR_TYPES,  [IR_ATTR_TYPE_GRAPH] = RP_ATTR_GRAPH,
    [IR_ATTR_TYPE_VALUES] = RP_ATTR_VALUES};

static rp_attr public_attr(const rp_graph *g, const ir_attr *a) {
    rp_attr own = {.size = sizeof own,
                   .key = ir_attr_key_name(a->key),
                   .kind = kinds[ir_attr_key_type(a->key)],
                   .n = a->n};
    switch (own.kind) {
    case RP_ATTR_INT:
    case RP_ATTR_BOOL: own.i = a->u.i; break;
    case RP_ATTR_INTS: own.ints = a->u.ints; break;
    case RP_ATTR_FLOAT: own.f = a->u.f; break;
    case RP_ATTR_STRING: own.s = a->u.s; break;
    case RP_ATTR_DTYPE: own.dtype = (rp_dtype)a->u.i; break;
    case RP_ATTR_DIM: own.dim[0] = public_dim(g, a->u.dim); break;
    case RP_ATTR_DIMS:
        for (uint32_t d = 0; d < a->n; d++) own.dim[d] = public_dim(g, a->u.dims[d]);
        break;
    case RP_ATTR_VALUES: own.values = a->u.values; break;
    case RP_ATTR_TYPES:
    case RP_ATTR_GRAPH: break;
    }
    return own;
}

rp_status rp_node_attr_at(const rp_graph *g, uint32_t node, uint32_t i, rp_attr *out,
                          rp_error *err) {
    base_error_clear(err);
    const ir_node *n;
    RP_TRY(find_node(g, node, "rp_node_attr_at", &n, err));
    if (i >= n->n_attrs)
        return rp_fail(err, RP_INVALID, "rp_node_attr_at: node %u (%s) has %u attributes", node,
                       ir_op_table(n->op)->name, n->n_attrs);
    rp_attr own = public_attr(g, &n->attrs[i]);
    return base_result_give(out, &own, sizeof own, "rp_attr", err);
}

static rp_status find_attr(const rp_graph *g, uint32_t node, const char *key, const char *call,
                           const ir_attr **out, rp_error *err) {
    const ir_node *n;
    RP_TRY(find_node(g, node, call, &n, err));
    if (!key) return rp_fail(err, RP_INVALID, "%s: key is NULL", call);
    ir_attr_key k = ir_attr_key_find(key);
    *out = k == IR_ATTR_COUNT_ ? NULL : ir_attr_get(n, k);
    if (*out) return RP_OK;
    return rp_fail(err, RP_NOT_FOUND, "node %u (%s) has no attribute '%.40s'", node,
                   ir_op_table(n->op)->name, key);
}

rp_status rp_node_attr(const rp_graph *g, uint32_t node, const char *key, rp_attr *out,
                       rp_error *err) {
    base_error_clear(err);
    const ir_attr *a;
    RP_TRY(find_attr(g, node, key, "rp_node_attr", &a, err));
    rp_attr own = public_attr(g, a);
    return base_result_give(out, &own, sizeof own, "rp_attr", err);
}

rp_status rp_node_graph(const rp_graph *g, uint32_t node, const char *key, rp_graph **out,
                        rp_error *err) {
    base_error_clear(err);
    const ir_attr *a;
    if (!out) return rp_fail(err, RP_INVALID, "rp_node_graph: out is NULL");
    RP_TRY(find_attr(g, node, key, "rp_node_graph", &a, err));
    if (ir_attr_key_type(a->key) != IR_ATTR_TYPE_GRAPH)
        return rp_fail(err, RP_INVALID, "rp_node_graph: attribute '%s' of node %u is no graph", key,
                       node);
    ir_graph *inner = ir_graph_share(a->u.graph);
    rp_status st = trace_graph_wrap(inner, out, err);
    if (st != RP_OK) ir_graph_free(inner);
    return st;
}

/* --- sizes ------------------------------------------------------------------------------------------ */

uint32_t rp_graph_symbol_count(const rp_graph *g) {
    const ir_graph *ir = readable(g);
    return ir ? ir_dims_symbol_count(ir_graph_dims(ir)) : 0;
}

rp_size_symbol rp_graph_symbol(const rp_graph *g, uint32_t i) {
    if (i >= rp_graph_symbol_count(g)) return (rp_size_symbol){0};
    const ir_symbol *s = ir_dims_symbol(ir_graph_dims(g->ir), i);
    return (rp_size_symbol){s->name, s->min, s->max};
}

/* The symbol that size d is a multiple of, plus a number, and its value where d is n. */
static bool solve(const ir_dims *t, ir_dim d, int64_t n, uint32_t *symbol, int64_t *value) {
    ir_dim_code code;
    int64_t coef, constant;
    if (ir_dim_code_of(t, d, &code, NULL) != RP_OK ||
        !ir_dim_code_linear(&code, symbol, &coef, &constant))
        return false;
    *value = (n - constant) / coef;
    return true;
}

rp_status rp_graph_read_symbols(const rp_graph *g, const rp_buffer *inputs, uint32_t n_inputs,
                                int64_t *values, rp_error *err) {
    base_error_clear(err);
    RP_TRY(api_graph_ready(g, err));
    const ir_dims *t = ir_graph_dims(g->ir);
    uint32_t n = ir_dims_symbol_count(t);
    if (n_inputs != ir_leaf_count(g->ir, IR_LEAF_INPUT) || (n_inputs && !inputs) || (n && !values))
        return rp_fail(err, RP_INVALID,
                       "rp_graph_read_symbols: graph @%s has %u inputs; %u were given",
                       ir_graph_name(g->ir), ir_leaf_count(g->ir, IR_LEAF_INPUT), n_inputs);
    for (uint32_t i = 0; i < n; i++) values[i] = ir_dims_symbol(t, i)->min;
    for (uint32_t i = 0; i < n_inputs; i++) {
        const ir_node *x = ir_node_at(g->ir, ir_leaf_at(g->ir, IR_LEAF_INPUT, i));
        if (x->shape.rank != inputs[i].rank)
            return rp_fail(err, RP_INVALID, "input %s has rank %u; the graph wants %u", x->name,
                           inputs[i].rank, x->shape.rank);
        for (uint32_t d = 0; d < x->shape.rank; d++) {
            uint32_t s;
            int64_t v;
            if (solve(t, x->shape.dim[d], inputs[i].dim[d], &s, &v)) values[s] = v;
        }
    }
    return RP_OK;
}

int64_t rp_dim_eval(rp_dim d, const int64_t *values) {
    if (!d.graph) return d.n;
    return ir_dim_eval(ir_graph_dims(d.graph->ir), (ir_dim)d.n, values);
}
