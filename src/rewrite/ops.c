/* Lowering of registered ops, node by node: each call becomes what the op's function records on the same operands. */
#include "rewrite/ops.h"

#include "base/alloc.h"
#include "ir/site.h"
#include "pass/rebuild.h"
#include "trace/trace.h"

typedef struct lowerer {
    rewrite_keeps_fn keeps;
    const void *user;
    rp_graph *to; /* records into the new graph */
    ir_ref *more; /* IR_MAX_RESULTS of each node that was lowered */
    uint32_t *n;
} lowerer;

static const rp_op_desc *lowered_op(const lowerer *l, const ir_node *n) {
    const rp_op_desc *d = ir_custom_of(n);
    return d && d->lower && !l->keeps(l->user, d) ? d : NULL;
}

static bool same_type(ir_graph *out, const ir_node *made, const ir_graph *in, const ir_type *want) {
    ir_dims *t = ir_graph_dims(out);
    if (made->dtype != want->dtype || made->shape.rank != want->shape.rank) return false;
    for (uint32_t i = 0; i < want->shape.rank; i++)
        if (!ir_dim_same(t, made->shape.dim[i],
                         ir_dim_import(t, ir_graph_dims(in), want->shape.dim[i])))
            return false;
    return true;
}

static rp_status take_results(pass_rebuild *b, ir_ref r, const rp_op_desc *d,
                              const rp_tensor *made) {
    const lowerer *l = b->user;
    const ir_node *n = ir_node_at(b->in, r);
    if (l->to->err.code != RP_OK)
        return rp_fail(b->err, l->to->err.code, "custom op %s: its lowering: %s", d->name,
                       l->to->err.text);
    for (uint32_t i = 0; i <= n->n_more; i++) {
        ir_type want = i ? n->more[i - 1] : (ir_type){n->dtype, n->shape};
        if (made[i].graph != l->to || made[i].id != l->to->id ||
            made[i].ref >= ir_graph_count(b->out))
            return rp_fail(b->err, RP_INVALID,
                           "custom op %s: its lowering gives no tensor for result %u", d->name, i);
        if (ir_node_at(b->out, made[i].ref)->op == IR_empty)
            return rp_fail(b->err, RP_INVALID,
                           "custom op %s: its lowering gives memory without contents for result %u",
                           d->name, i);
        if (!same_type(b->out, ir_node_at(b->out, made[i].ref), b->in, &want)) {
            base_buf text;
            base_buf_init(&text, 0);
            ir_type_print(b->in, want.dtype, &want.shape, &text);
            rp_status st = rp_fail(b->err, RP_INVALID,
                                   "custom op %s: its lowering gives %s for result %u, which is %s",
                                   d->name, ir_type_of(b->out, made[i].ref).s, i,
                                   text.data ? text.data : "another");
            base_buf_done(&text);
            return st;
        }
        l->more[(size_t)r * IR_MAX_RESULTS + i] = made[i].ref;
    }
    return RP_OK;
}

static uint32_t n_leaves(const ir_graph *g) {
    uint32_t n = 0;
    for (int kind = IR_LEAF_INPUT; kind <= IR_LEAF_STATE; kind++)
        n += ir_leaf_count(g, (ir_leaf)kind);
    return n;
}

static rp_status lower_call(pass_rebuild *b, ir_ref r, const rp_op_desc *d, ir_ref *out) {
    const lowerer *l = b->user;
    const ir_node *n = ir_node_at(b->in, r);
    rp_tensor in[64], made[IR_MAX_RESULTS] = {{0}};
    if (n->n_in > 64)
        return rp_fail(b->err, RP_UNSUPPORTED, "custom op %s: %u operands; at most 64", d->name,
                       n->n_in);
    for (uint32_t i = 0; i < n->n_in; i++) in[i] = (rp_tensor){l->to, b->map[n->in[i]], l->to->id};
    rp_op_call call = ir_custom_call_at(d, n);
    const uint32_t leaves = n_leaves(b->out);
    d->lower(&call, in, n->n_in, made, n->n_more + 1);
    RP_TRY(take_results(b, r, d, made));
    if (n_leaves(b->out) != leaves)
        return rp_fail(b->err, RP_INVALID,
                       "custom op %s: its lowering added an input, a param or a state", d->name);
    ++*l->n;
    *out = made[0].ref;
    return RP_OK;
}

static rp_status lower_node(pass_rebuild *b, ir_ref r, ir_ref *out) {
    const lowerer *l = b->user;
    const ir_node *n = ir_node_at(b->in, r);
    const rp_op_desc *d = lowered_op(l, n);
    if (d) {
        rp_status st = lower_call(b, r, d, out);
        if (st != RP_OK) ir_site_blame(b->in, r, b->err);
        return st;
    }
    if (n->op != IR_result || !lowered_op(l, ir_node_at(b->in, n->in[0]))) return RP_OK;
    *out = l->more[(size_t)n->in[0] * IR_MAX_RESULTS + (size_t)ir_attr_int(n, IR_ATTR_INDEX, 0)];
    return RP_OK;
}

static rp_status lower_all(lowerer *l, pass_rebuild *b, ir_graph **out) {
    RP_TRY(pass_rebuild_begin(b));
    l->more =
        base_alloc_array((size_t)(ir_graph_count(b->in) + 1u) * IR_MAX_RESULTS, sizeof *l->more);
    l->to = trace_graph_open(b->out, RP_NUMERICS_EXACT);
    if (!l->more || !l->to) return rp_fail(b->err, RP_NOMEM, "lowering custom ops");
    RP_TRY(pass_rebuild_until(b, ir_graph_count(b->in), lower_node));
    return pass_rebuild_finish(b, NULL, out);
}

rp_status rewrite_lower_ops(const ir_graph *g, rewrite_keeps_fn keeps, const void *user,
                            ir_graph **out, uint32_t *n, rp_error *err) {
    lowerer l = {.keeps = keeps, .user = user, .n = n};
    pass_rebuild b = {.in = g, .user = &l, .err = err};
    bool any = false;
    for (ir_ref r = 0; r < ir_graph_count(g) && !any; r++) any = lowered_op(&l, ir_node_at(g, r));
    if (!any) return RP_OK;
    ir_graph *made = NULL;
    rp_status st = lower_all(&l, &b, &made);
    if (st == RP_OK) st = ir_verify(made, err);
    if (st == RP_OK)
        *out = made;
    else
        ir_graph_free(made);
    trace_graph_close(l.to);
    base_free(l.more);
    pass_rebuild_done(&b);
    return st;
}
