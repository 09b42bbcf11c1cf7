/* Calls of registered ops: their results have the types that the call gives, or those that the op's shape function says. */
#include "base/options.h"
#include "ir/custom.h"
#include "ir/op_attrs.h"
#include "trace/record.h"

/* What the op itself says of its results. False: the graph has failed. */
static bool shaped(rp_graph *g, const rp_op_desc *d, const rp_custom_args *a, rp_tensor_type *types,
                   uint32_t n_out) {
    rp_error why = {0};
    rp_op_attr all[RP_MAX_OP_ATTRS];
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->args[i].graph == g && a->args[i].ref != IR_NONE) continue;
        (void)rp_fail(&g->err, RP_INVALID, "custom: operand %u of %s is not a tensor of graph @%s",
                      i, d->name, ir_graph_name(g->ir));
        return false;
    }
    if (ir_op_attrs_complete(d, a->attrs, a->n_attrs, all, &g->err) != RP_OK) return false;
    rp_op_call call = ir_custom_call_of(d, all, a->n);
    rp_status st = d->shape(&call, a->args, a->n, types, n_out, &why);
    if (st != RP_OK)
        (void)rp_fail(&g->err, st, "custom op %s: %s", d->name,
                      why.text[0] ? why.text : "its shape function failed and gave no reason");
    return g->err.code == RP_OK;
}

static bool check_count(rp_graph *g, const rp_op_desc *d, uint32_t n_out) {
    if (n_out <= IR_MAX_RESULTS && (!d || !d->shape || n_out == ir_custom_results(d))) return true;
    if (n_out > IR_MAX_RESULTS)
        (void)rp_fail(&g->err, RP_INVALID, "custom: %u results; %u are the most", n_out,
                      IR_MAX_RESULTS);
    else
        (void)rp_fail(&g->err, RP_INVALID, "custom: %s has %u results, not %u", d->name,
                      ir_custom_results(d), n_out);
    return false;
}

/* The call's types as the graph has them; false: there are none, or the graph has failed. */
static bool result_types(rp_graph *g, const rp_op_desc *d, const rp_custom_args *a, uint32_t n_out,
                         ir_type *out) {
    rp_tensor_type said[IR_MAX_RESULTS] = {{0}};
    const rp_tensor_type *types = a->types;
    if (d && d->shape) {
        if (!shaped(g, d, a, said, n_out)) return false;
        types = said;
    } else if (!types && d && d->result_like >= 0) {
        return true;
    }
    if (!types && !d)
        (void)rp_fail(&g->err, RP_NOT_FOUND,
                      "custom: '%s' is not registered; call rp_op_register first", a->name);
    else if (!types)
        (void)rp_fail(&g->err, RP_INVALID, "custom: %s wants types of results", a->name);
    for (uint32_t i = 0; i < n_out && types; i++) {
        out[i].dtype = types[i].dtype;
        if (!trace_shape(g, types[i].shape, &out[i].shape)) return false;
    }
    return types != NULL;
}

static void add_call(rp_graph *g, const rp_custom_args *a, rp_tensor *out, uint32_t n_out) {
    ir_type own[IR_MAX_RESULTS] = {{0}};
    const rp_op_desc *d = ir_custom_find(a->name);
    if (n_out == 0 || !check_count(g, d, n_out) || !result_types(g, d, a, n_out, own)) return;
    ir_attr attrs[] = {{.key = IR_ATTR_NAME, .u.s = a->name},
                       {.key = IR_ATTR_ATTRS, .n = a->n_attrs, .u.values = a->attrs},
                       {.key = IR_ATTR_TYPES, .n = n_out, .u.types = own}};
    bool like = d && d->result_like >= 0;
    out[0] = trace_op(g, IR_custom, a->args, a->n, attrs, like ? 2 : 3);
    for (uint32_t i = 1; i < n_out; i++) out[i] = trace_result(out[0], i);
}

void(rp_custom_call)(rp_graph *g, const rp_custom_args *call, rp_tensor *out, uint32_t n_out) {
    rp_custom_args own = {0};
    for (uint32_t i = 0; i < n_out; i++) out[i] = trace_bad(g);
    if (!trace_ready(g)) return;
    if (base_options_take(&own, sizeof own, call, "rp_custom_args", &g->err) != RP_OK) return;
    if (!own.name) own.name = "";
    if ((own.n && !own.args) || (own.n_attrs && !own.attrs)) {
        (void)rp_fail(&g->err, RP_INVALID, "custom: args or attrs of %s is NULL", own.name);
        return;
    }
    add_call(g, &own, out, n_out);
}

void(rp_custom_results)(rp_graph *g, const char *name, const rp_tensor *args, uint32_t n,
                        const rp_tensor_type *types, uint32_t n_out, rp_tensor *out) {
    rp_custom_args a = {.size = sizeof a, .name = name, .args = args, .n = n, .types = types};
    (rp_custom_call)(g, &a, out, n_out);
}

rp_tensor rp_custom(rp_graph *g, const char *name, const rp_tensor *args, uint32_t n,
                    rp_dtype dtype, rp_shape shape) {
    rp_tensor out = trace_bad(g);
    (rp_custom_results)(g, name, args, n, &(rp_tensor_type){dtype, shape}, 1, &out);
    return out;
}
