/* One pass of a user over one graph: the calls with which it rewrites, and what is checked when it is done. */
#include "rewrite/rewrite.h"

#include "base/options.h"
#include "base/status.h"
#include "pass/passes.h"
#include "pass/rules.h"
#include "rewrite/pattern.h"

struct rp_rewrite {
    pass_rebuild b;
    rp_graph *from; /* b.in as users read it */
    rp_graph *to;   /* records into b.out */
    ir_ref mark;    /* of out: what came behind it was made for the node that is replaced next */
    uint32_t n_matches;
};

bool rewrite_same_type(const ir_graph *g, ir_ref a, ir_ref b) {
    const ir_node *x = ir_node_at(g, a), *y = ir_node_at(g, b);
    if (x->dtype != y->dtype || x->shape.rank != y->shape.rank) return false;
    for (uint32_t i = 0; i < x->shape.rank; i++)
        if (!ir_dim_same(ir_graph_dims(g), x->shape.dim[i], y->shape.dim[i])) return false;
    return true;
}

const rp_graph *rp_rewrite_graph(const rp_rewrite *r) {
    return r->from;
}

/* Without nodes that nothing needs there is one for each. */
static rp_status make_until(rp_rewrite *r, uint32_t end) {
    return pass_rebuild_until(&r->b, end, NULL);
}

rp_tensor(rp_rewrite_value)(rp_rewrite *r, uint32_t node) {
    if (node >= ir_graph_count(r->b.in)) {
        (void)rp_fail(&r->to->err, RP_INVALID, "rp_rewrite_value: graph @%s has no node %u",
                      ir_graph_name(r->b.in), node);
        return (rp_tensor){r->to, IR_NONE, r->to->id};
    }
    ir_ref before = ir_graph_count(r->b.out);
    r->b.err = &r->to->err;
    bool made = make_until(r, node + 1) == RP_OK;
    if (r->mark == before) r->mark = ir_graph_count(r->b.out);
    return (rp_tensor){r->to, made ? r->b.map[node] : IR_NONE, r->to->id};
}

static rp_status check_replaced(const rp_rewrite *r, uint32_t node, rp_tensor with, rp_error *err) {
    if (node >= ir_graph_count(r->b.in))
        return rp_fail(err, RP_INVALID, "rp_rewrite_replace: graph @%s has no node %u",
                       ir_graph_name(r->b.in), node);
    const ir_node *n = ir_node_at(r->b.in, node);
    const char *op = ir_op_table(n->op)->name;
    if (r->b.map[node] != IR_NONE && !n->name)
        return rp_fail(err, RP_INVALID,
                       "rp_rewrite_replace: node %u (%s) is in the new graph already; replace "
                       "nodes in ascending order, before their values are asked for",
                       node, op);
    if (n->name || n->memory != IR_NONE || ir_node_is_effect(n))
        return rp_fail(err, RP_INVALID, "rp_rewrite_replace: node %u (%s) %s", node, op,
                       n->name ? "belongs to the graph's caller" : "is memory");
    if (r->to->err.code != RP_OK)
        return rp_fail(err, r->to->err.code, "rp_rewrite_replace: node %u (%s): %s", node, op,
                       r->to->err.text);
    if (with.graph != r->to || with.id != r->to->id || with.ref == IR_NONE)
        return rp_fail(err, RP_INVALID,
                       "rp_rewrite_replace: node %u (%s): `with` is no tensor of the new graph",
                       node, op);
    return RP_OK;
}

/* The types of all results; those of n in the sizes of out. */
static bool same_results(rp_rewrite *r, const ir_node *n, const ir_node *made) {
    ir_dims *to = ir_graph_dims(r->b.out), *from = ir_graph_dims(r->b.in);
    if (n->n_more != made->n_more) return false;
    for (uint32_t i = 0; i <= n->n_more; i++) {
        const ir_shape *a = i ? &n->more[i - 1].shape : &n->shape;
        const ir_shape *b = i ? &made->more[i - 1].shape : &made->shape;
        rp_dtype s = i ? n->more[i - 1].dtype : n->dtype,
                 t = i ? made->more[i - 1].dtype : made->dtype;
        if (s != t || a->rank != b->rank) return false;
        for (uint32_t d = 0; d < a->rank; d++)
            if (!ir_dim_same(to, ir_dim_import(to, from, a->dim[d]), b->dim[d])) return false;
    }
    return true;
}

rp_status rp_rewrite_replace(rp_rewrite *r, uint32_t node, rp_tensor with, rp_error *err) {
    base_error_clear(err);
    if (!r) return rp_fail(err, RP_INVALID, "rp_rewrite_replace: no rewrite");
    RP_TRY(check_replaced(r, node, with, err));
    const ir_node *n = ir_node_at(r->b.in, node);
    if (!same_results(r, n, ir_node_at(r->b.out, with.ref)))
        return rp_fail(err, RP_INVALID,
                       "rp_rewrite_replace: node %u (%s) is %s; %s cannot stand for it", node,
                       ir_op_table(n->op)->name, ir_type_of(r->b.in, node).s,
                       ir_type_of(r->b.out, with.ref).s);
    ir_ref first = r->mark;
    r->b.err = err;
    RP_TRY(pass_rebuild_replace(&r->b, node, first, with.ref));
    RP_TRY(make_until(r, node + 1));
    r->mark = ir_graph_count(r->b.out);
    r->n_matches++;
    return RP_OK;
}

bool rp_tensor_number(rp_tensor x, double *value) {
    if (x.ref == IR_NONE || !trace_is_live(x)) return false;
    ir_ref c = pass_constant_of(x.graph->ir, x.ref);
    if (c == IR_NONE) return false;
    if (value) *value = ir_attr_float(ir_node_at(x.graph->ir, c), IR_ATTR_VALUE, 0);
    return true;
}

/* --- running a pass -------------------------------------------------------------------- */

static rp_status run_code(const rp_pass_desc *d, rp_rewrite *r, rp_error *err) {
    rp_error why = {0};
    rp_status st = d->run(d->user, r, &why);
    if (st != RP_OK && why.text[0]) return rp_fail(err, st, "%s", why.text);
    if (st != RP_OK)
        return rp_fail(err, st, "it failed (%s) and gave no reason", rp_status_name(st));
    return r->to->err.code == RP_OK ? RP_OK : rp_fail(err, r->to->err.code, "%s", r->to->err.text);
}

static rp_status run_pattern(const rp_pass_desc *d, rp_rewrite *r, rp_error *err) {
    rewrite_forms forms;
    rp_status st = rewrite_forms_make(d, &forms, NULL, err);
    if (st == RP_OK) st = rewrite_match_all(d, &forms, &r->b, r->to, &r->n_matches, err);
    rewrite_forms_done(&forms);
    return st;
}

/* A piece is called with what it was made for. */
static rp_status check_leaves(const rp_rewrite *r, rp_error *err) {
    for (int kind = IR_LEAF_INPUT; kind <= IR_LEAF_STATE; kind++)
        if (ir_leaf_count(r->b.in, (ir_leaf)kind) != ir_leaf_count(r->b.out, (ir_leaf)kind))
            return rp_fail(err, RP_INVALID, "it added an input, a param or a state");
    return RP_OK;
}

static rp_status rewrite(const rewrite_pass *p, rp_rewrite *r, ir_graph **out, rp_error *err) {
    ir_graph *shared = ir_graph_share(r->b.in);
    rp_status st = trace_graph_wrap(shared, &r->from, err);
    if (st != RP_OK) {
        ir_graph_free(shared);
        return st;
    }
    RP_TRY(pass_rebuild_begin(&r->b));
    r->to = trace_graph_open(r->b.out, RP_NUMERICS_EXACT);
    if (!r->to) return rp_fail(err, RP_NOMEM, "a pass");
    r->mark = ir_graph_count(r->b.out);
    st = p->desc.run ? run_code(&p->desc, r, err) : run_pattern(&p->desc, r, err);
    if (st == RP_OK) st = check_leaves(r, err);
    r->b.err = err;
    if (st == RP_OK) st = pass_rebuild_finish(&r->b, NULL, out);
    trace_graph_close(r->to);
    return st;
}

rp_status rewrite_run(const void *self, const ir_graph *in, ir_graph **out, uint32_t *n_matches,
                      rp_error *err) {
    ir_graph *live = NULL;
    RP_TRY(pass_dce(in, &live, err));
    ir_graph *made = NULL;
    rp_rewrite r = {.b = {.in = live, .err = err}};
    rp_status st = rewrite(self, &r, &made, err);
    if (st == RP_OK) st = pass_dce(made, out, err); /* what trials left behind */
    *n_matches = r.n_matches;
    ir_graph_free(made);
    pass_rebuild_done(&r.b);
    rp_graph_free(r.from);
    ir_graph_free(live);
    return st;
}
