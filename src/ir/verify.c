/* Invariants of a whole graph, checked from scratch.
 *
 * Node by node: operands before users, arity, attributes sorted and canonical, dtype and shape as the
 * rule says, no two equal pure nodes. Over the graph: memory that is written is touched in an order
 * that operands enforce, and an `empty` is only ever written. Changes nothing. */
#include <string.h>

#include "base/alloc.h"
#include "ir/node.h"

static rp_status bad(const ir_graph *g, ir_ref r, rp_error *err, const char *text) {
    const ir_node *n = ir_node_at(g, r);
    return rp_fail(err, RP_INVALID, "verify: %s = %s%s%s : %s of graph %s: %s", ir_name_of(g, r).s,
                   ir_op_table(n->op)->name, n->name ? " @" : "", n->name ? n->name : "",
                   ir_type_of(g, r).s, ir_graph_name(g), text);
}

static bool same_type(const ir_node *n, rp_dtype t, const ir_shape *s) {
    return n->dtype == t && n->shape.rank == s->rank &&
           memcmp(n->shape.dim, s->dim, s->rank * sizeof s->dim[0]) == 0;
}

static rp_status check_leaf(const ir_graph *g, ir_ref r, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    if (!n->name || !ir_name_ok(n->name)) return bad(g, r, err, "its name is not a name");
    if (n->n_in != 0 || n->n_attrs != 0) return bad(g, r, err, "a leaf has operands or attributes");
    return ir_check_shape(g, "verify", n->dtype, &n->shape, err);
}

static rp_status check_node(const ir_graph *g, ir_ref r, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    const ir_op_info *info = ir_op_table(n->op);
    ir_attr a[IR_MAX_ATTRS];
    int64_t axes[IR_MAX_RANK];
    uint32_t n_attrs;
    rp_dtype t = n->dtype;
    ir_shape s = n->shape;
    if ((unsigned)n->op >= IR_OP_COUNT_) return bad(g, r, err, "no such op");
    if (n->op == IR_input || n->op == IR_param || n->op == IR_state) return check_leaf(g, r, err);
    if (info->arity >= 0 && n->n_in != (uint32_t)info->arity)
        return bad(g, r, err, "wrong number of operands");
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] >= r) return bad(g, r, err, "an operand comes after its user");
    if (n->n_attrs > IR_MAX_ATTRS) return bad(g, r, err, "too many attributes");
    RP_TRY(ir_attrs_normalise(g, n, a, &n_attrs, axes, err));
    if (n_attrs != n->n_attrs || !ir_attrs_equal(a, n->attrs, n_attrs))
        return bad(g, r, err, "its attributes are not in canonical form");
    RP_TRY(ir_infer(g, n, &t, &s, err));
    if (!same_type(n, t, &s)) return bad(g, r, err, "its type is not what its op gives");
    return RP_OK;
}

/* The leaf whose memory r is, through effects that give back what they wrote; IR_NONE of a plain value. */
static ir_ref memory_of(const ir_graph *g, ir_ref r) {
    for (;;) {
        const ir_node *n = ir_node_at(g, r);
        if (n->dtype == RP_DTYPE_TOKEN) return IR_NONE;
        uint64_t w = ir_node_writes(n);
        if (n->op == IR_state || n->op == IR_empty || n->op == IR_input) return r;
        if (w == 0 || (w & (w - 1)) != 0) return IR_NONE;
        r = n->in[__builtin_ctzll(w)];
    }
}

/* Whether `to` is reached from `from` by operands; seen is a stamp for each node. */
static bool depends(const ir_graph *g, ir_ref from, ir_ref to, uint32_t *seen, ir_ref *stack) {
    uint32_t n = 0;
    if (from == to) return true;
    stack[n++] = from;
    while (n > 0) {
        const ir_node *x = ir_node_at(g, stack[--n]);
        for (uint32_t i = 0; i < x->n_in; i++) {
            if (x->in[i] == to) return true;
            if (x->in[i] < to || seen[x->in[i]] == from + 1) continue;
            seen[x->in[i]] = from + 1;
            stack[n++] = x->in[i];
        }
    }
    return false;
}

typedef struct touches {
    ir_ref *last_write; /* per memory leaf */
    ir_ref *last_read;
    uint32_t *seen;
    ir_ref *stack;
} touches;

static rp_status ordered(const ir_graph *g, touches *t, ir_ref r, ir_ref before, rp_error *err) {
    if (before == IR_NONE || before == r) return RP_OK;
    memset(t->seen, 0, ir_graph_count(g) * sizeof *t->seen);
    if (depends(g, r, before, t->seen, t->stack)) return RP_OK;
    const ir_node *n = ir_node_at(g, r);
    return rp_fail(err, RP_INVALID,
                   "verify: %s = %s of graph %s touches memory that %s = %s reads or writes, in no "
                   "order; make that an operand",
                   ir_name_of(g, r).s, ir_op_table(n->op)->name, ir_graph_name(g),
                   ir_name_of(g, before).s, ir_op_table(ir_node_at(g, before)->op)->name);
}

/* Every node that read m since its last write comes before r. */
static rp_status after_readers(const ir_graph *g, touches *t, ir_ref r, ir_ref m, rp_error *err) {
    if (t->last_read[m] == IR_NONE) return RP_OK;
    ir_ref first = t->last_write[m] == IR_NONE ? 0 : t->last_write[m];
    for (ir_ref q = first; q <= t->last_read[m]; q++) {
        const ir_node *n = ir_node_at(g, q);
        for (uint32_t i = 0; i < n->n_in; i++)
            if (memory_of(g, n->in[i]) == m) RP_TRY(ordered(g, t, r, q, err));
    }
    return RP_OK;
}

/* A read must follow the last write of its memory, a write that and all reads since. */
static rp_status check_effect(const ir_graph *g, ir_ref r, touches *t, rp_error *err) {
    const ir_node *n = ir_node_at(g, r);
    uint64_t writes = ir_node_writes(n);
    bool effect = ir_op_table(n->op)->kind == IR_KIND_EFFECT;
    for (uint32_t i = 0; i < n->n_in; i++) {
        ir_ref m = memory_of(g, n->in[i]);
        bool write = i < 64 && (writes >> i & 1);
        if (ir_node_at(g, n->in[i])->op == IR_empty && !effect)
            return bad(g, r, err, "it reads an empty that nothing has written");
        if (m == IR_NONE) continue;
        RP_TRY(ordered(g, t, r, t->last_write[m], err));
        if (write) RP_TRY(after_readers(g, t, r, m, err));
        if (write) t->last_write[m] = r;
        if (write)
            t->last_read[m] = IR_NONE;
        else
            t->last_read[m] = r;
    }
    return RP_OK;
}

static rp_status check_order(const ir_graph *g, rp_error *err) {
    rp_status st = RP_OK;
    uint32_t n = ir_graph_count(g);
    touches t = {base_alloc_array(n, sizeof *t.last_write),
                 base_alloc_array(n, sizeof *t.last_read), base_alloc_array(n, sizeof *t.seen),
                 base_alloc_array(n, sizeof *t.stack)};
    if (!t.last_write || !t.last_read || !t.seen || !t.stack) {
        st = rp_fail(err, RP_NOMEM, "verify: out of memory");
        goto out;
    }
    memset(t.last_write, 0xff, n * sizeof *t.last_write);
    memset(t.last_read, 0xff, n * sizeof *t.last_read);
    for (ir_ref r = 0; r < n; r++) RP_TRY_OUT(check_effect(g, r, &t, err));
out:
    base_free(t.last_write);
    base_free(t.last_read);
    base_free(t.seen);
    base_free(t.stack);
    return st;
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
    }
    RP_TRY(check_merged(g, err));
    return check_order(g, err);
}
