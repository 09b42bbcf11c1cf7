/* The door of models: what they declare against what they traced. */
#include "trace/support.h"

#include <string.h>

#include "ir/node.h"
#include "ir/site.h"

bool trace_support_covers(const char *name, const char *of) {
    size_t n = strlen(name);
    return strncmp(name, of, n) == 0 && (of[n] == 0 || of[n] == '[' || of[n] == '.');
}

uint32_t trace_support_axis(const rp_arg_dim *d, uint32_t rank) {
    int64_t axis = d->axis < 0 ? (int64_t)rank + d->axis : d->axis;
    return axis >= 0 && axis < (int64_t)rank ? (uint32_t)axis : UINT32_MAX;
}

bool trace_support_lists(const rp_arg_dim *dims, uint32_t n, const char *of, uint32_t axis,
                         uint32_t rank) {
    uint32_t i = 0;
    while (i < n &&
           !(trace_support_covers(dims[i].arg, of) && trace_support_axis(&dims[i], rank) == axis))
        i++;
    return i < n;
}

bool trace_support_dynamic(const rp_support *s, const char *of, uint32_t axis, uint32_t rank) {
    return s->dynamic_arg_dims
               ? trace_support_lists(s->dynamic_arg_dims, s->n_dynamic_arg_dims, of, axis, rank)
               : axis == 0;
}

rp_status trace_support_write(const rp_support *s, const ir_graph *g, ir_ref e, const char *name,
                              rp_error *err) {
    uint32_t i = 0;
    while (i < s->n_mutates && !trace_support_covers(s->mutates[i], name)) i++;
    if (i < s->n_mutates) return RP_OK;
    rp_status st =
        rp_fail(err, RP_INVALID, "%s is written, which `mutates` of the model does not name", name);
    ir_site_blame(g, e, err);
    return st;
}

/* --- graphs ------------------------------------------------------------------------------ */

static rp_status check_input(const rp_support *s, const rp_graph *g, const ir_node *x,
                             rp_error *err) {
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        int64_t number;
        if (ir_dim_is_const(ir_graph_dims(g->ir), x->shape.dim[d], &number) ||
            trace_support_dynamic(s, x->name, d, x->shape.rank))
            continue;
        return rp_fail(err, RP_INVALID,
                       "axis %u of %s is no number, which dynamic_arg_dims of the model does not "
                       "name",
                       d, x->name);
    }
    return RP_OK;
}

static const ir_node *leaf_at(const rp_graph *g, ir_leaf kind, uint32_t i) {
    return ir_node_at(g->ir, ir_leaf_at(g->ir, kind, i));
}

/* Whether an input, or a state, goes by this name and has the axis (NULL: any). */
static bool is_there(const rp_graph *g, ir_leaf kind, const char *name, const rp_arg_dim *d) {
    for (uint32_t i = 0; i < ir_leaf_count(g->ir, kind); i++) {
        const ir_node *x = leaf_at(g, kind, i);
        if (trace_support_covers(name, x->name) &&
            (!d || trace_support_axis(d, x->shape.rank) != UINT32_MAX))
            return true;
    }
    return false;
}

static rp_status check_names(const rp_support *s, const rp_graph *g, rp_error *err) {
    for (uint32_t i = 0; i < s->n_dynamic_arg_dims; i++) {
        const rp_arg_dim *d = &s->dynamic_arg_dims[i];
        if (!is_there(g, IR_LEAF_INPUT, d->arg, d))
            return rp_fail(err, RP_INVALID,
                           "dynamic_arg_dims names axis %d of %s, which no input has", d->axis,
                           d->arg);
    }
    for (uint32_t i = 0; i < s->n_mutates; i++)
        if (!is_there(g, IR_LEAF_STATE, s->mutates[i], NULL) &&
            !is_there(g, IR_LEAF_INPUT, s->mutates[i], NULL))
            return rp_fail(err, RP_INVALID, "mutates names %s, which no input or state is called",
                           s->mutates[i]);
    return RP_OK;
}

static rp_status check_effect(const rp_support *s, const ir_graph *g, ir_ref e, rp_error *err) {
    const ir_node *x = ir_node_at(g, e);
    uint64_t writes = ir_node_writes(x);
    for (uint32_t i = 0; i < x->n_in && i < 64; i++) {
        if (!(writes >> i & 1)) continue;
        const ir_node *leaf = ir_node_at(g, ir_node_at(g, x->in[i])->memory);
        if (leaf->op == IR_input || leaf->op == IR_state)
            RP_TRY(trace_support_write(s, g, e, leaf->name, err));
    }
    return RP_OK;
}

rp_status trace_support_check(const rp_support *s, const rp_graph *g, rp_error *err) {
    for (uint32_t i = 0; i < ir_leaf_count(g->ir, IR_LEAF_INPUT); i++)
        RP_TRY(check_input(s, g, leaf_at(g, IR_LEAF_INPUT, i), err));
    RP_TRY(check_names(s, g, err));
    for (ir_ref e = 0; e < ir_graph_count(g->ir); e++)
        if (ir_node_is_effect(ir_node_at(g->ir, e))) RP_TRY(check_effect(s, g->ir, e, err));
    return RP_OK;
}
