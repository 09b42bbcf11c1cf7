/* Invariants of a whole graph, checked from scratch.
 *
 * Node by node: operands before users, arity, attributes sorted and canonical, dtype and shape as the
 * rule says, no two equal pure nodes; what is written is memory, the last version of it, and an
 * `empty` is not read before it is. Changes nothing. */
#include <string.h>

#include "ir/node.h"
#include "ir/site.h"

static rp_status bad(const ir_graph *g, ir_ref r, rp_error *err, const char *text) {
    const ir_node *n = ir_node_at(g, r);
    (void)rp_fail(err, RP_INVALID, "verify: %s = %s%s%s : %s of graph %s: %s", ir_name_of(g, r).s,
                  ir_op_table(n->op)->name, n->name ? " @" : "", n->name ? n->name : "",
                  ir_type_of(g, r).s, ir_graph_name(g), text);
    ir_site_blame(g, r, err);
    return RP_INVALID;
}

static bool same_type(rp_dtype t, const ir_shape *s, const ir_type *x) {
    return x->dtype == t && x->shape.rank == s->rank &&
           memcmp(x->shape.dim, s->dim, s->rank * sizeof s->dim[0]) == 0;
}

static bool same_types(const ir_node *n, const ir_type *x, uint32_t n_x) {
    bool same = n->n_more + 1 == n_x && same_type(n->dtype, &n->shape, x);
    for (uint32_t i = 0; same && i < n->n_more; i++)
        same = same_type(n->more[i].dtype, &n->more[i].shape, &x[i + 1]);
    return same;
}

static rp_status check_leaf(const ir_graph *g, ir_ref r, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    if (!n->name || !ir_name_ok(n->name)) return bad(g, r, err, "its name is not a name");
    if (n->n_in != 0 || n->n_attrs != 0) return bad(g, r, err, "a leaf has operands or attributes");
    return ir_check_shape(g, "verify", n->dtype, &n->shape, err);
}

/* What is in an empty before anything has written it. */
static rp_status check_reads(const ir_graph *g, ir_ref r, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    uint64_t writes = ir_node_writes(n);
    if (n->op == IR_written) return RP_OK;
    if (ir_op_has_graphs(n->op)) writes = 0; /* a graph may read what it is given to write */
    for (uint32_t i = 0; i < n->n_in; i++)
        if (ir_node_at(g, n->in[i])->op == IR_empty && !(i < 64 && (writes >> i & 1)))
            return bad(g, r, err, "it reads an empty that nothing has written");
    return RP_OK;
}

static rp_status check_returned(const ir_graph *g, ir_ref r, rp_error *err) {
    if (ir_node_at(g, r)->op != IR_empty) return RP_OK;
    return bad(g, r, err, "it is returned, and has no contents; return what a write of it gives");
}

rp_status ir_check_returned(const ir_graph *g, rp_error *err) {
    for (uint32_t i = 0; i < ir_output_count(g); i++)
        RP_TRY(check_returned(g, ir_output_at(g, i), err));
    return RP_OK;
}

static rp_status check_graphs(const ir_node *n, rp_error *err) {
    const ir_graph *x;
    for (uint32_t i = 0; (x = ir_node_graph(n, i)); i++) {
        RP_TRY(ir_verify(x, err));
        RP_TRY(ir_check_returned(x, err));
    }
    return RP_OK;
}

static rp_status check_node(const ir_graph *g, ir_ref r, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    const ir_op_info *info = ir_op_table(n->op);
    ir_attr a[IR_MAX_ATTRS];
    ir_attr_room room;
    uint32_t n_attrs, n_out = 0;
    ir_type out[IR_MAX_RESULTS];
    if ((unsigned)n->op >= IR_OP_COUNT_) return bad(g, r, err, "no such op");
    if (n->op == IR_input || n->op == IR_param || n->op == IR_state) return check_leaf(g, r, err);
    if (info->arity >= 0 && n->n_in != (uint32_t)info->arity)
        return bad(g, r, err, "wrong number of operands");
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] >= r) return bad(g, r, err, "an operand comes after its user");
    if (n->n_attrs > IR_MAX_ATTRS) return bad(g, r, err, "too many attributes");
    RP_TRY(ir_attrs_normalise(g, n, a, &n_attrs, &room, err));
    if (n_attrs != n->n_attrs || !ir_attrs_equal(a, n->attrs, n_attrs))
        return bad(g, r, err, "its attributes are not in canonical form");
    RP_TRY(check_graphs(n, err));
    RP_TRY(ir_check_writes(g, n, r, err));
    RP_TRY(ir_infer(g, n, out, &n_out, err));
    if (!same_types(n, out, n_out)) return bad(g, r, err, "its type is not what its op gives");
    return check_reads(g, r, err);
}

static rp_status check_merged(const ir_graph *g, rp_error *err) {
    uint32_t n = ir_graph_count(g);
    for (ir_ref r = 0; r < n; r++) {
        ir_ref found = ir_graph_find(g, r);
        if (found != IR_NONE && found != r) return bad(g, r, err, "an equal node exists");
    }
    return RP_OK;
}

rp_status ir_verify(const ir_graph *g, rp_error *err) {
    for (ir_ref r = 0; r < ir_graph_count(g); r++) RP_TRY(check_node(g, r, err));
    for (uint32_t i = 0; i < ir_output_count(g); i++) {
        /* An `empty` may be returned: a piece hands the buffer to the attention of the next one. */
        if (ir_output_at(g, i) >= ir_graph_count(g))
            return rp_fail(err, RP_INVALID, "verify: output %u does not exist", i);
        /* What it was before it is written would have to be copied. */
        if (ir_writer_of(g, ir_output_at(g, i)) != IR_NONE)
            RP_TRY(check_returned(g, ir_output_at(g, i), err));
    }
    return check_merged(g, err);
}
