/* Gathers what an elementwise op reads rather than what it gives, where few rows of many are wanted: then the others are
 * never computed, nor stored. gather(f(a, b)) becomes f(gather(a), gather(b)); a reshape between them moves to a and b.
 *
 * It makes cross-entropy (the log-probabilities of one class a row) cost one element a row. */
#include "pass/passes.h"
#include "pass/rebuild.h"

#define FEW 8        /* rows of the table for each that is wanted, at least */
#define MAX_NODES 16 /* computed again at the rows that are wanted */

typedef struct pusher {
    ir_graph *g;
    ir_ref idx;
    rp_error *err;
} pusher;

static bool few_rows(const ir_graph *g, const ir_shape *table, const ir_shape *idx) {
    ir_dims *t = ir_graph_dims(g);
    ir_dim wanted = ir_dim_const(t, FEW);
    for (uint32_t i = 0; i < idx->rank; i++) wanted = ir_dim_mul(t, wanted, idx->dim[i]);
    return ir_dim_le(t, wanted, table->dim[0]) == IR_TRUE;
}

static bool same_shape(const ir_shape *a, const ir_shape *b) {
    if (a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

/* r as shape s, by a broadcast or a reshape; itself where it has that shape. */
static rp_status as_shape(const pusher *p, ir_op op, ir_ref r, const ir_shape *s, ir_ref *out) {
    *out = r;
    if (same_shape(&ir_node_at(p->g, r)->shape, s)) return RP_OK;
    ir_attr shape = {.key = IR_ATTR_SHAPE, .n = s->rank, .u.dims = s->dim};
    return ir_add(p->g, op, &r, 1, &shape, 1, out, p->err);
}

/* The elementwise node that a table is, or is a reshape of; memory that is written keeps its place in the order. */
static const ir_node *computed_by(const ir_graph *g, ir_ref table) {
    const ir_node *n = ir_node_at(g, table);
    while (n->op == IR_reshape) n = ir_node_at(g, n->in[0]);
    if (ir_op_table(n->op)->kind != IR_KIND_ELEMENTWISE || n->shape.rank == 0) return NULL;
    for (uint32_t i = 0; i < n->n_in; i++) {
        const ir_node *x = ir_node_at(g, n->in[i]);
        while (ir_op_table(x->op)->kind == IR_KIND_VIEW) x = ir_node_at(g, x->in[0]);
        if (x->op == IR_state || ir_node_is_effect(x)) return NULL;
    }
    return n;
}

/* How many nodes push computes again, or some number above MAX_NODES. */
static uint32_t count_nodes(const ir_graph *g, ir_ref table) {
    const ir_node *n = computed_by(g, table);
    uint32_t count = n != NULL;
    for (uint32_t i = 0; n && i < n->n_in && count <= MAX_NODES; i++)
        if (same_shape(&ir_node_at(g, n->in[i])->shape, &n->shape))
            count += count_nodes(g, n->in[i]);
    return count;
}

/* The wanted rows of `table`. */
static rp_status push(const pusher *p, ir_ref table, ir_ref *out) {
    const ir_node *n = computed_by(p->g, table);
    const ir_shape *to = &ir_node_at(p->g, table)->shape;
    ir_ref in[3];
    if (!n) return ir_add2(p->g, IR_gather, table, p->idx, out, p->err);
    for (uint32_t i = 0; i < n->n_in; i++) {
        in[i] = n->in[i];
        if (ir_node_at(p->g, in[i])->shape.rank == 0) continue; /* broadcasts as it is */
        RP_TRY(as_shape(p, IR_broadcast, in[i], &n->shape, &in[i]));
        RP_TRY(as_shape(p, IR_reshape, in[i], to, &in[i]));
        RP_TRY(push(p, in[i], &in[i]));
    }
    return ir_add(p->g, n->op, in, n->n_in, n->attrs, n->n_attrs, out, p->err);
}

static rp_status rewrite(pass_rebuild *b, ir_ref r, ir_ref *out) {
    const ir_node *n = ir_node_at(b->in, r);
    if (n->op != IR_gather) return RP_OK;
    const pusher p = {.g = b->out, .idx = b->map[n->in[1]], .err = b->err};
    ir_ref table = b->map[n->in[0]];
    uint32_t count = count_nodes(p.g, table);
    if (count == 0 || count > MAX_NODES ||
        !few_rows(p.g, &ir_node_at(p.g, table)->shape, &ir_node_at(p.g, p.idx)->shape))
        return RP_OK;
    return push(&p, table, out);
}

rp_status pass_gather(const ir_graph *in, ir_graph **out, rp_error *err) {
    return pass_rebuild_graph(in, rewrite, NULL, out, err);
}
