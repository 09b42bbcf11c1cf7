/* Walks the live nodes of a graph and builds a new one through the builder, which shares and folds. */
#include "pass/rebuild.h"

#include "base/alloc.h"
#include "ir/site.h"

void pass_mark_live(const ir_graph *g, bool *live) {
    for (uint32_t i = 0; i < ir_output_count(g); i++) live[ir_output_at(g, i)] = true;
    for (uint32_t i = ir_graph_count(g); i > 0; i--) {
        const ir_node *x = ir_node_at(g, i - 1);
        if (ir_node_is_effect(x) || ir_op_run_by_host(x->op)) live[i - 1] = true;
        for (uint32_t k = 0; live[i - 1] && k < x->n_in; k++) live[x->in[k]] = true;
    }
}

static rp_status copy_leaf(pass_rebuild *b, ir_leaf kind, ir_ref r) {
    const ir_node *n = ir_node_at(b->in, r);
    ir_shape s = n->shape;
    for (uint32_t i = 0; i < s.rank; i++) {
        s.dim[i] = ir_dim_import(ir_graph_dims(b->out), ir_graph_dims(b->in), s.dim[i]);
        if (s.dim[i] == IR_DIM_BAD) return rp_fail(b->err, RP_NOMEM, "pass: dims");
    }
    RP_TRY(ir_add_leaf(b->out, kind, n->name, n->dtype, s, &b->map[r], b->err));
    if (n->mutates) ir_input_mutates(b->out, b->map[r]);
    if (!ir_sites_join(b->out, b->map[r], b->in, r)) return rp_fail(b->err, RP_NOMEM, "pass");
    return RP_OK;
}

static rp_status copy_leaves(pass_rebuild *b) {
    for (int kind = IR_LEAF_INPUT; kind <= IR_LEAF_STATE; kind++)
        for (uint32_t i = 0; i < ir_leaf_count(b->in, (ir_leaf)kind); i++)
            RP_TRY(copy_leaf(b, (ir_leaf)kind, ir_leaf_at(b->in, (ir_leaf)kind, i)));
    return RP_OK;
}

rp_status pass_rebuild_replace(pass_rebuild *b, ir_ref r, ir_ref first, ir_ref made) {
    bool ok = !ir_has_sites(b->in) || ir_sites_join(b->out, made, b->in, r);
    for (ir_ref i = first; ok && ir_has_sites(b->in) && i < ir_graph_count(b->out); i++)
        ok = ir_sites_join(b->out, i, b->in, r);
    b->map[r] = made;
    return ok ? RP_OK : rp_fail(b->err, RP_NOMEM, "pass");
}

rp_status pass_rebuild_until(pass_rebuild *b, ir_ref end, pass_node_fn fn) {
    for (; b->next < end; b->next++) {
        ir_ref r = b->next, made = IR_NONE, first = ir_graph_count(b->out);
        if (!b->live[r] || b->map[r] != IR_NONE) continue;
        if (fn) RP_TRY(fn(b, r, &made));
        if (made == IR_NONE)
            RP_TRY(ir_copy_node(b->out, b->in, r, b->map, &b->map[r], b->err));
        else
            RP_TRY(pass_rebuild_replace(b, r, first, made));
    }
    return RP_OK;
}

/* A copy that is none of the n values in front; equal copies are one node, so then a copy of that. */
static rp_status copy_output(pass_rebuild *b, ir_ref *outs, uint32_t n) {
    bool again = true;
    while (again) {
        RP_TRY(ir_add1(b->out, IR_copy, outs[n], &outs[n], b->err));
        again = false;
        for (uint32_t i = 0; i < n; i++) again = again || outs[i] == outs[n];
    }
    return RP_OK;
}

static rp_status set_outputs(pass_rebuild *b) {
    uint32_t n = ir_output_count(b->in);
    ir_ref *outs = base_alloc_array(n + 1u, sizeof *outs);
    if (!outs) return rp_fail(b->err, RP_NOMEM, "pass outputs");
    rp_status st = RP_OK;
    for (uint32_t i = 0; i < n && st == RP_OK; i++) {
        outs[i] = b->map[ir_output_at(b->in, i)];
        if (b->copied && b->copied[i]) st = copy_output(b, outs, i);
    }
    if (st == RP_OK) st = ir_graph_finish(b->out, outs, n, b->err);
    base_free(outs);
    return st;
}

rp_status pass_rebuild_begin(pass_rebuild *b) {
    uint32_t n = ir_graph_count(b->in);
    b->out = ir_graph_new(ir_graph_name(b->in));
    b->map = base_alloc_array(n + 1u, sizeof *b->map);
    b->live = base_alloc_array(n + 1u, sizeof *b->live);
    if (!b->out || !b->map || !b->live) return rp_fail(b->err, RP_NOMEM, "pass over %u nodes", n);
    for (uint32_t i = 0; i < n; i++) b->map[i] = IR_NONE;
    pass_mark_live(b->in, b->live);
    return copy_leaves(b);
}

rp_status pass_rebuild_finish(pass_rebuild *b, pass_node_fn fn, ir_graph **out) {
    RP_TRY(pass_rebuild_until(b, ir_graph_count(b->in), fn));
    RP_TRY(set_outputs(b));
    *out = b->out;
    b->out = NULL;
    return RP_OK;
}

void pass_rebuild_done(pass_rebuild *b) {
    ir_graph_free(b->out);
    base_free(b->map);
    base_free(b->live);
    *b = (pass_rebuild){0};
}

static rp_status rebuild(const ir_graph *in, pass_node_fn fn, void *user, const bool *copied,
                         ir_graph **out, rp_error *err) {
    pass_rebuild b = {.in = in, .user = user, .copied = copied, .err = err};
    rp_status st = pass_rebuild_begin(&b);
    if (st == RP_OK) st = pass_rebuild_finish(&b, fn, out);
    pass_rebuild_done(&b);
    return st;
}

rp_status pass_rebuild_graph(const ir_graph *in, pass_node_fn fn, void *user, ir_graph **out,
                             rp_error *err) {
    return rebuild(in, fn, user, NULL, out, err);
}

rp_status pass_copy_outputs(const ir_graph *in, const bool *copied, ir_graph **out, rp_error *err) {
    return rebuild(in, NULL, NULL, copied, out, err);
}
