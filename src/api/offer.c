#include "api/offer.h"

#include "base/status.h"
#include "ir/custom.h"
#include "ir/site.h"
#include "split/partition.h"
#include "trace/trace.h"

void api_offer_done(api_offer *o) {
    base_arena_free(o->arena);
    *o = (api_offer){0};
}

/* Whether that is a version of memory that calls write. */
static bool in_memory(const ir_graph *g, ir_ref r) {
    ir_ref m = ir_node_at(g, split_root_of(g, r))->memory;
    return m != IR_NONE && (ir_node_at(g, m)->op != IR_input || ir_node_at(g, m)->mutates);
}

static bool touches_memory(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    bool touches = n->op == IR_empty || in_memory(g, r);
    for (uint32_t i = 0; i < n->n_in && !touches; i++) touches = in_memory(g, n->in[i]);
    return touches;
}

static rp_status refuse(api_offer *o, const ir_graph *g, ir_ref r, const char *why, rp_error *err) {
    rp_error text = {0};
    (void)rp_fail(&text, RP_UNSUPPORTED, "%s", why);
    ir_site_blame(g, r, &text);
    o->takes[r] = false;
    o->why[r] = base_arena_str(o->arena, text.text);
    return o->why[r] ? RP_OK : rp_fail(err, RP_NOMEM, "why a node is refused");
}

/* A constant that is not taken is not taken by who reads it, either: by itself it would be no piece. */
static const char *refused_constant(const api_offer *o, const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref x = split_root_of(g, n->in[i]);
        if (split_repeats(ir_node_at(g, x)) && o->why[x]) return o->why[x];
    }
    return NULL;
}

static rp_status ask(const rp_backend_desc *d, const rp_graph *g, ir_ref r, api_offer *o,
                     rp_error *err) {
    rp_error why = {0};
    const ir_node *n = ir_node_at(g->ir, r);
    const char *constant = refused_constant(o, g->ir, r);
    bool takes = false;
    rp_status st = backend_supports(d, g, r, &takes, &why);
    if (st != RP_OK) return rp_fail(err, st, "%s", why.text);
    o->all = o->all && takes;
    o->takes[r] = takes;
    if (!takes) return refuse(o, g->ir, r, why.text, err);
    if (touches_memory(g->ir, r)) {
        (void)rp_fail(&why, RP_UNSUPPORTED, "%s of %s: it is in memory that calls write",
                      ir_op_table(n->op)->name, rp_dtype_name(n->dtype));
        return refuse(o, g->ir, r, why.text, err);
    }
    if (!constant) return RP_OK;
    o->takes[r] = false;
    o->why[r] = constant;
    return RP_OK;
}

/* A node with a result that is not taken is not, either. */
static void join_results(api_offer *o, const ir_graph *g) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) {
        const ir_node *n = ir_node_at(g, r);
        if (n->op != IR_result || o->takes[r] || !o->takes[n->in[0]]) continue;
        o->takes[n->in[0]] = false;
        o->why[n->in[0]] = o->why[r];
    }
}

static rp_status ask_unless_split(const rp_backend_desc *d, const rp_graph *g,
                                  const char *const *ops, uint32_t n_ops, ir_ref r, api_offer *o,
                                  rp_error *err) {
    if (!ir_is_splitting(ir_node_at(g->ir, r), ops, n_ops)) return ask(d, g, r, o, err);
    o->splits[r] = true;
    o->all = false;
    return RP_OK;
}

rp_status api_offer_make(const rp_backend_desc *d, const rp_graph *g, const char *const *ops,
                         uint32_t n_ops, api_offer *out, rp_error *err) {
    const uint32_t n = ir_graph_count(g->ir);
    api_offer o = {.arena = base_arena_new()};
    rp_status st = RP_OK;
    if (o.arena) {
        o.takes = base_arena_array(o.arena, n + 1u, sizeof *o.takes);
        o.why = base_arena_array(o.arena, n + 1u, sizeof *o.why);
        o.splits = base_arena_array(o.arena, n + 1u, sizeof *o.splits);
    }
    if (!o.takes || !o.why || !o.splits) {
        st = rp_fail(err, RP_NOMEM, "an offer of %u nodes", n);
        goto out;
    }
    o.all = ir_leaf_count(g->ir, IR_LEAF_PARAM) + ir_leaf_count(g->ir, IR_LEAF_STATE) == 0;
    for (ir_ref r = 0; r < n; r++) {
        o.takes[r] = o.splits[r] = false;
        o.why[r] = NULL;
        if (!split_is_argument(ir_node_at(g->ir, r)))
            RP_TRY_OUT(ask_unless_split(d, g, ops, n_ops, r, &o, err));
    }
    join_results(&o, g->ir);
    *out = o;
    o = (api_offer){0};
out:
    api_offer_done(&o);
    return st;
}
