/* Interpreter of ops along an axis: cumulative sums, top-k, sorting, scatters. */
#include <string.h>

#include "base/alloc.h"
#include "ir/eval_node.h"

static void eval_cumsum(const ir_value *x, int64_t axis, rp_dtype t, ir_value *out) {
    int64_t n = x->dim[axis], inner = 1;
    bool exact = !rp_dtype_is_float(t);
    for (uint32_t i = (uint32_t)axis + 1; i < x->rank; i++) inner *= x->dim[i];
    for (int64_t i = 0; i < x->n; i++) {
        if (i / inner % n) continue;
        int64_t whole[2] = {0};
        for (int64_t j = 0; t == RP_DTYPE_I64 && j < n; j++) {
            whole[1] = ir_value_int(x, i + j * inner);
            whole[0] = ir_apply_i64(IR_add, whole);
            ir_value_set_int(out, i + j * inner, whole[0]);
        }
        if (t == RP_DTYPE_I64) continue;
        double sum[2] = {x->data[i], 0};
        for (int64_t j = 0; j < n; j++) {
            sum[1] = x->data[i + j * inner];
            if (j) sum[0] = ir_apply(IR_add, t, exact ? t : RP_DTYPE_COUNT_, sum);
            out->data[i + j * inner] = ir_round(t, sum[0]);
        }
    }
}

/* Whether x[i] comes before x[j]. */
static bool before(const double *x, int64_t i, int64_t j) {
    bool a = x[i] != x[i], b = x[j] != x[j];
    if (a || b) return a && (!b || i < j);
    return x[i] > x[j] || (x[i] == x[j] && i < j);
}

/* Each round finds the best that comes behind the one before. */
static void eval_topk(const ir_value *x, ir_value *out, ir_value *indices) {
    int64_t n = x->dim[x->rank - 1], k = out->dim[out->rank - 1], last = -1;
    for (int64_t i = 0; i < out->n; i++) {
        const double *row = x->data + i / k * n;
        int64_t best = -1;
        if (i % k == 0) last = -1;
        for (int64_t j = 0; j < n; j++)
            if ((last < 0 || before(row, last, j)) && (best < 0 || before(row, j, best))) best = j;
        out->data[i] = row[best];
        indices->data[i] = (double)best;
        last = best;
    }
}

/* A line of a value along an axis: n elements, step apart. */
typedef struct line {
    const ir_value *x;
    int64_t first, n, step;
    bool wide, descending;
} line;

/* Whether element i of the line comes before element k, whatever their places. */
static bool comes_first(const line *l, int64_t i, int64_t k) {
    int64_t at = l->first + (l->descending ? k : i) * l->step;
    int64_t than = l->first + (l->descending ? i : k) * l->step;
    if (l->wide) return ir_value_int(l->x, at) < ir_value_int(l->x, than);
    double a = l->x->data[at], b = l->x->data[than];
    return a == a && (b != b || a < b); /* NaN is largest */
}

/* Places of [from, to) in order, by merging; room has as many. */
static void sort_places(const line *l, double *place, double *room, int64_t from, int64_t to) {
    int64_t mid = from + (to - from) / 2, a = from, b = mid;
    if (to - from < 2) return;
    sort_places(l, place, room, from, mid);
    sort_places(l, place, room, mid, to);
    for (int64_t i = from; i < to; i++) {
        bool second = a == mid || (b < to && comes_first(l, (int64_t)place[b], (int64_t)place[a]));
        room[i] = second ? place[b++] : place[a++];
    }
    memcpy(place + from, room + from, (size_t)(to - from) * sizeof *place);
}

static rp_status eval_sort(const eval_state *s, ir_ref r, ir_value *out) {
    const ir_node *n = ir_node_at(s->g, r);
    const ir_value *x = s->value[n->in[0]];
    int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0), step = 1, k = x->dim[axis];
    for (uint32_t i = (uint32_t)axis + 1; i < x->rank; i++) step *= x->dim[i];
    double *place = base_alloc_array((size_t)k * 2, sizeof *place);
    if (!place) return rp_fail(s->err, RP_NOMEM, "eval: out of memory");
    for (int64_t first = 0; first < x->n; first++) {
        line l = {x,
                  first,
                  k,
                  step,
                  n->dtype == RP_DTYPE_I64,
                  ir_attr_int(n, IR_ATTR_DESCENDING, 0) != 0};
        if (first / step % k) continue;
        for (int64_t i = 0; i < k; i++) place[i] = (double)i;
        sort_places(&l, place, place + k, 0, k);
        for (int64_t i = 0; i < k; i++) {
            int64_t from = first + (int64_t)place[i] * step, to = first + i * step;
            memcpy(&out->data[to], &x->data[from], sizeof *x->data); /* i64 is no double */
            s->more[r]->data[to] = place[i];
        }
    }
    base_free(place);
    return RP_OK;
}

rp_status ir_eval_scan(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    const ir_value *x = s->value[n->in[0]];
    switch (n->op) {
    case IR_sort: return eval_sort(s, r, s->value[r]);
    case IR_topk: eval_topk(x, s->value[r], s->more[r]); return RP_OK;
    case IR_cumsum:
        eval_cumsum(x, ir_attr_int(n, IR_ATTR_AXIS, 0), n->dtype, s->value[r]);
        return RP_OK;
    default:
        return rp_fail(s->err, RP_INTERNAL, "eval: %s has no meaning", ir_op_table(n->op)->name);
    }
}

/* --- scatters ------------------------------------------------------------------- */

/* Puts element `from` of src at element `to` of out. */
static void join_element(const ir_node *n, const ir_value *src, int64_t from, ir_value *out,
                         int64_t to) {
    if (n->op == IR_scatter) {
        memcpy(&out->data[to], &src->data[from], sizeof *out->data); /* i64 is no double */
    } else if (n->dtype == RP_DTYPE_I64) {
        int64_t v[3] = {ir_value_int(out, to), ir_value_int(src, from)};
        ir_value_set_int(out, to, ir_apply_i64(n->op, v));
    } else {
        double v[3] = {out->data[to], src->data[from]};
        out->data[to] = ir_apply(n->op, n->dtype, n->dtype, v);
    }
}

/* Elements of axes [from, to). */
static int64_t count(const ir_value *x, uint32_t from, uint32_t to) {
    int64_t n = 1;
    for (uint32_t i = from; i < to; i++) n *= x->dim[i];
    return n;
}

void ir_eval_scatter(eval_state *s, ir_ref r) {
    const ir_node *n = ir_node_at(s->g, r);
    const ir_value *x = s->value[n->in[0]], *index = s->value[n->in[1]];
    const ir_value *src = s->value[n->in[2]];
    ir_value *out = s->value[r];
    uint32_t axis = (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0);
    bool wide = ir_node_at(s->g, n->in[1])->dtype == RP_DTYPE_I64;
    int64_t inner = count(src, axis + 1, src->rank), size = x->dim[axis], k = src->dim[axis];
    /* The index may be the same in all axes before, or behind. */
    int64_t own_outer = count(index, 0, axis), own_inner = count(index, axis + 1, index->rank);
    if (x->n > 0) memcpy(out->data, x->data, (size_t)x->n * sizeof *x->data);
    for (int64_t i = 0; size > 0 && i < src->n; i++) {
        int64_t o = i / inner / k, row = i / inner % k, j = i % inner;
        int64_t at = ((own_outer == 1 ? 0 : o) * k + row) * own_inner + (own_inner == 1 ? 0 : j);
        int64_t to = wide ? ir_value_int(index, at) : ir_to_i64(index->data[at]);
        to = to < 0 ? 0 : to >= size ? size - 1 : to;
        join_element(n, src, i, out, (o * size + to) * inner + j);
    }
}
