/* Gathers what an elementwise op reads rather than what it gives, where few rows of many are wanted: then the others are
 * never computed, nor stored. gather(f(a, b)) becomes f(gather(a), gather(b)); a reshape between them moves to a and b.
 *
 * It makes cross-entropy (the log-probabilities of one class a row) cost one element a row; and what is the same in a row, its
 * maximum say, is read where the row is, as no index need be divided for it. */
#include "pass/passes.h"
#include "pass/rebuild.h"

#define FEW 8        /* rows of the table for each that is wanted, at least */
#define MAX_NODES 16 /* computed again at the rows that are wanted */

typedef struct pusher {
    ir_graph *g;
    ir_ref idx;
    ir_ref
        place; /* idx before it was reshaped, where place i along its first axis is in [i * length, (i + 1) * length); or IR_NONE */
    int64_t length;
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

/* --- one row of the table for each of the index --------------------------------------------- */

static const ir_node *behind_reshapes(const ir_graph *g, ir_ref *r) {
    while (ir_node_at(g, *r)->op == IR_reshape) *r = ir_node_at(g, *r)->in[0];
    return ir_node_at(g, *r);
}

static bool is_whole(const ir_node *n, int64_t *out) {
    const double v = n->op == IR_const ? ir_attr_float(n, IR_ATTR_VALUE, 0) : 0.5;
    *out = v > -1e15 && v < 1e15 ? (int64_t)v : 0;
    return (double)*out == v;
}

typedef struct bounds {
    int64_t lo, hi;
} bounds;

/* Of integers, as far as a clamp says them. */
static bounds bounds_of(const ir_graph *g, ir_ref r, unsigned depth) {
    const ir_node *n = behind_reshapes(g, &r);
    int64_t v;
    if (is_whole(n, &v)) return (bounds){v, v};
    if ((n->op != IR_min && n->op != IR_max) || depth == 0) return (bounds){INT64_MIN, INT64_MAX};
    const bounds a = bounds_of(g, n->in[0], depth - 1), b = bounds_of(g, n->in[1], depth - 1);
    const bool min = n->op == IR_min;
    return (bounds){(a.lo < b.lo) == min ? a.lo : b.lo, (a.hi < b.hi) == min ? a.hi : b.hi};
}

/* Whether r counts along the first axis of shape s, in steps of *length that its type holds all. */
static bool counts_rows(const ir_graph *g, ir_ref r, const ir_shape *s, int64_t *length) {
    const ir_node *n = ir_node_at(g, r);
    const int64_t most = n->dtype == RP_DTYPE_I64   ? INT64_MAX
                         : n->dtype == RP_DTYPE_I32 ? INT32_MAX
                                                    : 0;
    int64_t lo, hi;
    if (n->op != IR_mul || n->shape.rank != s->rank || n->shape.dim[0] != s->dim[0]) return false;
    ir_dim_bounds(ir_graph_dims(g), s->dim[0], &lo, &hi);
    for (uint32_t i = 0; i < 2; i++) {
        const ir_node *row = ir_node_at(g, n->in[i]);
        if (row->op == IR_iota && row->shape.rank == s->rank && row->shape.dim[0] == s->dim[0] &&
            ir_attr_int(row, IR_ATTR_AXIS, 0) == 0 &&
            is_whole(ir_node_at(g, n->in[1 - i]), length) && *length > 0)
            return hi <= most / *length;
    }
    return false;
}

/* Fills place and length. */
static void find_place(pusher *p) {
    ir_ref at = p->idx;
    const ir_node *n = behind_reshapes(p->g, &at);
    if (n->op != IR_add || n->shape.rank == 0) return;
    for (uint32_t i = 0; i < 2; i++) {
        if (!counts_rows(p->g, n->in[i], &n->shape, &p->length)) continue;
        const bounds in_row = bounds_of(p->g, n->in[1 - i], 4);
        if (in_row.lo >= 0 && in_row.hi < p->length) p->place = at;
    }
}

/* Gives *out where r, broadcast along the last axis of shape s, is the same for a whole row of the index: r itself, in its shape. */
static rp_status push_row(const pusher *p, ir_ref r, const ir_shape *s, ir_ref *out) {
    const ir_shape *own = &ir_node_at(p->g, r)->shape;
    ir_dims *t = ir_graph_dims(p->g);
    *out = IR_NONE;
    if (p->place == IR_NONE || own->rank != s->rank || !ir_dim_is(t, own->dim[own->rank - 1], 1) ||
        !ir_dim_is(t, s->dim[s->rank - 1], p->length))
        return RP_OK;
    const ir_shape *idx = &ir_node_at(p->g, p->place)->shape;
    ir_shape rows = {.rank = idx->rank, .dim = {idx->dim[0]}};
    ir_dim all = ir_dim_const(t, 1);
    for (uint32_t i = 0; i + 1 < s->rank; i++) {
        if (own->dim[i] != s->dim[i]) return RP_OK;
        all = ir_dim_mul(t, all, s->dim[i]);
    }
    if (all != idx->dim[0]) return RP_OK;
    for (uint32_t i = 1; i < rows.rank; i++) rows.dim[i] = ir_dim_const(t, 1);
    RP_TRY(as_shape(p, IR_reshape, r, &rows, out));
    RP_TRY(as_shape(p, IR_broadcast, *out, idx, out));
    return as_shape(p, IR_reshape, *out, &ir_node_at(p->g, p->idx)->shape, out);
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
        ir_ref row;
        RP_TRY(push_row(p, in[i], &n->shape, &row));
        if (row != IR_NONE) {
            in[i] = row;
            continue;
        }
        RP_TRY(as_shape(p, IR_broadcast, in[i], &n->shape, &in[i]));
        RP_TRY(as_shape(p, IR_reshape, in[i], to, &in[i]));
        RP_TRY(push(p, in[i], &in[i]));
    }
    return ir_add(p->g, n->op, in, n->n_in, n->attrs, n->n_attrs, out, p->err);
}

static rp_status rewrite(pass_rebuild *b, ir_ref r, ir_ref *out) {
    const ir_node *n = ir_node_at(b->in, r);
    if (n->op != IR_gather) return RP_OK;
    pusher p = {.g = b->out, .idx = b->map[n->in[1]], .place = IR_NONE, .err = b->err};
    ir_ref table = b->map[n->in[0]];
    uint32_t count = count_nodes(p.g, table);
    if (count == 0 || count > MAX_NODES ||
        !few_rows(p.g, &ir_node_at(p.g, table)->shape, &ir_node_at(p.g, p.idx)->shape))
        return RP_OK;
    if (ir_node_at(p.g, table)->shape.rank == 1) find_place(&p); /* else an index is of rows */
    return push(&p, table, out);
}

rp_status pass_gather(const ir_graph *in, ir_graph **out, rp_error *err) {
    return pass_rebuild_graph(in, rewrite, NULL, out, err);
}
