/* Products of the tensor API: all of them are matmuls behind views. */
#include "trace/record.h"

/* x with its last two axes in turn. */
static rp_tensor swap_last(rp_tensor x) {
    int axes[RP_MAX_RANK];
    int n = (int)rp_tensor_shape(x).rank;
    for (int i = 0; i < n; i++) axes[i] = i;
    axes[n - 2] = n - 1;
    axes[n - 1] = n - 2;
    return rp_permute(x, axes, (uint32_t)n);
}

static rp_tensor fail_k(rp_tensor a, rp_tensor b) {
    (void)rp_fail(&a.graph->err, RP_INVALID, "matmul: k of %s and %s differ",
                  trace_type_text(a.graph, a).s, trace_type_text(a.graph, b).s);
    return trace_bad(a.graph);
}

/* In double precision, for which there is no kernel of products: rounded products a[...,M,1,K] * b[...,1,N,K], and their sums. */
static rp_tensor double_product(rp_tensor a, rp_tensor b, bool trans_b) {
    if (!trans_b) b = swap_last(b);
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    const ir_shape *sa = &ir_node_at(a.graph->ir, a.ref)->shape;
    const ir_shape *sb = &ir_node_at(b.graph->ir, b.ref)->shape;
    if (!ir_dim_same(ir_graph_dims(a.graph->ir), sa->dim[sa->rank - 1], sb->dim[sb->rank - 1]))
        return fail_k(a, b);
    const bool full = sa->rank == RP_MAX_RANK || sb->rank == RP_MAX_RANK;
    rp_dim lead[2];
    if (full) trace_pair(&a, &b, lead);
    a = rp_unsqueeze(a, -2);
    b = rp_unsqueeze(b, -3);
    rp_tensor y = rp_sum(rp_mul(a, b), -1, false);
    return full ? trace_regroup(y, 0, 1, lead, 2) : y;
}

static bool is_double(rp_tensor x) {
    return rp_tensor_dtype(x) == RP_DTYPE_F64 && rp_tensor_shape(x).rank >= 2;
}

/* A rank-1 operand is a row (left) or a column (right), whose axis the result does not have: as in numpy. */
rp_tensor rp_matmul(rp_tensor a, rp_tensor b, bool trans_b) {
    rp_shape sa = rp_tensor_shape(a), sb = rp_tensor_shape(b);
    if (!trace_ready(a.graph)) return trace_bad(a.graph);
    if (b.graph != a.graph) return trace_op(a.graph, IR_matmul, (rp_tensor[]){a, b}, 2, NULL, 0);
    bool row = sa.rank == 1, column = sb.rank == 1;
    if (row) a = rp_reshape(a, RP_SHAPE(1, sa.dim[0]));
    if (column) b = rp_reshape(b, RP_SHAPE(1, sb.dim[0]));
    ir_attr attr = {.key = IR_ATTR_TRANS_B, .u.i = trans_b || column};
    rp_tensor y = is_double(a) && is_double(b)
                      ? double_product(a, b, trans_b || column)
                      : trace_op(a.graph, IR_matmul, (rp_tensor[]){a, b}, 2, &attr, 1);
    if (!row && !column) return y;
    rp_shape s = rp_tensor_shape(y);
    if (!trace_ready(y.graph) || s.rank < 2) return y;
    if (row && !column) s.dim[s.rank - 2] = s.dim[s.rank - 1];
    s.rank -= (uint32_t)row + (uint32_t)column;
    return rp_reshape(y, s);
}

rp_tensor rp_linear(rp_tensor x, rp_tensor w) {
    if (!trace_ready(x.graph)) return trace_bad(x.graph);
    rp_dtype t = rp_tensor_dtype(w);
    bool exact = x.graph->numerics == RP_NUMERICS_EXACT;
    if (rp_dtype_is_quant(t)) {
        rp_tensor a = exact ? x : rp_dequant(rp_quantize(x, RP_DTYPE_I16B32));
        return rp_matmul(a, rp_dequant(w), true);
    }
    if (!exact && t != RP_DTYPE_F32) x = rp_cast(x, t);
    return rp_matmul(x, w, true);
}

/* --- dot_general ------------------------------------------------------------------- */

/* An operand as [batch..., free, contracted]: its axes in that order. */
typedef struct dot_side {
    rp_tensor x;
    rp_shape shape;
    int axes[RP_MAX_RANK];
    uint32_t n_batch, n_free, n_contract;
} dot_side;

/* Enters the listed axes, counted from the last where negative, each once. */
static bool take_axes(dot_side *s, const int *list, uint32_t n, bool *taken, uint32_t *at) {
    for (uint32_t i = 0; i < n; i++) {
        int axis = list[i] < 0 ? list[i] + (int)s->shape.rank : list[i];
        if (axis < 0 || axis >= (int)s->shape.rank || taken[axis]) {
            (void)rp_fail(&s->x.graph->err, RP_INVALID, "dot_general: axis %d of %s %s", list[i],
                          trace_type_text(s->x.graph, s->x).s,
                          axis < 0 || axis >= (int)s->shape.rank ? "does not exist" : "twice");
            return false;
        }
        taken[axis] = true;
        s->axes[(*at)++] = axis;
    }
    return true;
}

static bool dot_side_of(rp_tensor x, const int *batch, const int *contract, const rp_dot_dims *d,
                        dot_side *out) {
    dot_side s = {
        .x = x, .shape = rp_tensor_shape(x), .n_batch = d->n_batch, .n_contract = d->n_contract};
    bool taken[RP_MAX_RANK] = {0};
    uint32_t at = 0, last = 0;
    int summed[RP_MAX_RANK];
    if (d->n_batch > RP_MAX_RANK || d->n_contract > RP_MAX_RANK) {
        (void)rp_fail(&x.graph->err, RP_INVALID,
                      "dot_general: %u batch and %u contracted axes of %s; %d are the most",
                      d->n_batch, d->n_contract, trace_type_text(x.graph, x).s, RP_MAX_RANK);
        return false;
    }
    if (!take_axes(&s, batch, d->n_batch, taken, &at)) return false;
    dot_side c = s;
    if (!take_axes(&c, contract, d->n_contract, taken, &last)) return false;
    for (uint32_t i = 0; i < last; i++) summed[i] = c.axes[i];
    for (uint32_t i = 0; i < s.shape.rank; i++)
        if (!taken[i]) s.axes[at++] = (int)i;
    s.n_free = at - d->n_batch;
    for (uint32_t i = 0; i < last; i++) s.axes[at++] = summed[i];
    *out = s;
    return true;
}

static rp_dim size_of(const dot_side *s, uint32_t first, uint32_t n) {
    rp_dim d = rp_dim_const(1);
    for (uint32_t i = 0; i < n; i++) d = rp_dim_mul(d, s->shape.dim[s->axes[first + i]]);
    return d;
}

/* [batch..., free, contracted], one axis each of the last two. */
static rp_tensor dot_matrix(const dot_side *s) {
    rp_shape to = {.rank = s->n_batch + 2};
    for (uint32_t i = 0; i < s->n_batch; i++) to.dim[i] = s->shape.dim[s->axes[i]];
    to.dim[s->n_batch] = size_of(s, s->n_batch, s->n_free);
    to.dim[s->n_batch + 1] = size_of(s, s->n_batch + s->n_free, s->n_contract);
    return rp_reshape(rp_permute(s->x, s->axes, s->shape.rank), to);
}

static bool sizes_meet(const dot_side *a, const dot_side *b, uint32_t i, uint32_t k) {
    rp_dim x = a->shape.dim[a->axes[i]], y = b->shape.dim[b->axes[k]];
    if (trace_equal(a->x.graph, x, y)) return true;
    (void)rp_fail(&a->x.graph->err, RP_INVALID,
                  "dot_general: axis %d of %s and axis %d of %s differ in size", a->axes[i],
                  trace_type_text(a->x.graph, a->x).s, b->axes[k],
                  trace_type_text(a->x.graph, b->x).s);
    return false;
}

static bool dot_fits(const dot_side *a, const dot_side *b) {
    uint32_t ka = a->n_batch + a->n_free, kb = b->n_batch + b->n_free;
    for (uint32_t i = 0; i < a->n_batch; i++)
        if (!sizes_meet(a, b, i, i)) return false;
    for (uint32_t i = 0; i < a->n_contract; i++)
        if (!sizes_meet(a, b, ka + i, kb + i)) return false;
    if (a->n_batch + 2 <= RP_MAX_RANK && a->n_batch + a->n_free + b->n_free <= RP_MAX_RANK)
        return true;
    (void)rp_fail(&a->x.graph->err, RP_UNSUPPORTED,
                  "dot_general: %u batch axes, and %u and %u that stay; a result has at most %d, "
                  "two of them free",
                  a->n_batch, a->n_free, b->n_free, RP_MAX_RANK);
    return false;
}

rp_tensor rp_dot_general(rp_tensor a, rp_tensor b, const rp_dot_dims *d) {
    dot_side x, y;
    if (!d) return trace_null(a.graph, "dot_general: the axes");
    if (!trace_ready(a.graph) || a.graph != b.graph) return rp_matmul(a, b, false);
    if (!dot_side_of(a, d->a_batch, d->a_contract, d, &x) ||
        !dot_side_of(b, d->b_batch, d->b_contract, d, &y) || !dot_fits(&x, &y))
        return trace_bad(a.graph);
    rp_tensor r = rp_matmul(dot_matrix(&x), dot_matrix(&y), true);
    rp_shape s = {.rank = x.n_batch + x.n_free};
    for (uint32_t i = 0; i < x.n_batch + x.n_free; i++) s.dim[i] = x.shape.dim[x.axes[i]];
    for (uint32_t i = 0; i < y.n_free; i++) s.dim[s.rank++] = y.shape.dim[y.axes[y.n_batch + i]];
    return rp_reshape(r, s);
}
