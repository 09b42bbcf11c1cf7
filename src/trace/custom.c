/* Calls of registered ops: their results have the types that the call gives, or those that the op's shape function says. */
#include "ir/custom.h"
#include "trace/record.h"

/* What the op itself says of its results. False: the graph has failed. */
static bool shaped(rp_graph *g, const rp_op_desc *d, const rp_tensor *args, uint32_t n,
                   rp_tensor_type *types, uint32_t n_out) {
    rp_error why = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (args[i].graph == g && args[i].ref != IR_NONE) continue;
        (void)rp_fail(&g->err, RP_INVALID, "custom: operand %u of %s is not a tensor of graph @%s",
                      i, d->name, ir_graph_name(g->ir));
        return false;
    }
    rp_status st = d->shape(d->user, args, n, types, n_out, &why);
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

void(rp_custom_results)(rp_graph *g, const char *name, const rp_tensor *args, uint32_t n,
                        const rp_tensor_type *types, uint32_t n_out, rp_tensor *out) {
    ir_type own[IR_MAX_RESULTS] = {{0}};
    rp_tensor_type said[IR_MAX_RESULTS] = {{0}};
    const rp_op_desc *d = name ? ir_custom_find(name) : NULL;
    for (uint32_t i = 0; i < n_out; i++) out[i] = trace_bad(g);
    if (n_out == 0 || !trace_ready(g) || !check_count(g, d, n_out)) return;
    if (d && d->shape) {
        if (!shaped(g, d, args, n, said, n_out)) return;
        types = said;
    }
    for (uint32_t i = 0; i < n_out; i++) {
        own[i].dtype = types[i].dtype;
        if (!trace_shape(g, types[i].shape, &own[i].shape)) return;
    }
    ir_attr attrs[] = {{.key = IR_ATTR_NAME, .u.s = name ? name : ""},
                       {.key = IR_ATTR_TYPES, .n = n_out, .u.types = own}};
    out[0] = trace_op(g, IR_custom, args, n, attrs, d && d->result_like >= 0 ? 1 : 2);
    for (uint32_t i = 1; i < n_out; i++) out[i] = trace_result(out[0], i);
}

rp_tensor rp_custom(rp_graph *g, const char *name, const rp_tensor *args, uint32_t n,
                    rp_dtype dtype, rp_shape shape) {
    rp_tensor out = trace_bad(g);
    (rp_custom_results)(g, name, args, n, &(rp_tensor_type){dtype, shape}, 1, &out);
    return out;
}
