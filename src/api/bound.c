#include "api/bound.h"

#include <math.h>

#include "base/alloc.h"
#include "base/status.h"

enum { FIRST_RUNS = 4, MORE_RUNS = 124 };

/* --- units in the last place ---------------------------------------------------------- */

typedef struct format {
    int digits, least; /* bits of the significand; exponent of the smallest number */
} format;

static format format_of(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_F64: return (format){53, -1074};
    case RP_DTYPE_F16: return (format){11, -24};
    case RP_DTYPE_BF16: return (format){8, -133};
    case RP_DTYPE_F8E4M3FN: return (format){4, -9};
    case RP_DTYPE_F8E5M2: return (format){3, -16};
    default: return (format){24, -149}; /* f32, and what stands for floats in blocks */
    }
}

static bool is_integer(rp_dtype t) {
    return !ir_dtype_is_real(t) && !rp_dtype_is_quant(t);
}

double api_ulp(rp_dtype t, double v) {
    format f = format_of(t);
    int e = 0;
    if (is_integer(t) || !isfinite(v)) return 1;
    if (v == 0) return ldexp(1, f.least);
    (void)frexp(v, &e);
    e -= f.digits;
    return ldexp(1, e < f.least ? f.least : e);
}

/* --- what one op may be off by --------------------------------------------------------- */

/* Largest |x| of a value, and the sum along its longest rows: where a bound need not be tight. */
static double largest(const ir_value *v) {
    double most = 0;
    for (int64_t i = 0; i < v->n; i++)
        if (fabs(v->data[i]) > most) most = fabs(v->data[i]);
    return most;
}

/* The largest norm of a column of b, k of whose elements are `step` apart. */
static double largest_norm(const ir_value *b, int64_t k, int64_t step) {
    double most = 0;
    for (int64_t first = 0; k > 0 && first < b->n / k; first++) {
        const double *x = b->data + first / step * k * step + first % step;
        double sum = 0;
        for (int64_t i = 0; i < k; i++) sum += x[i * step] * x[i * step];
        if (sum > most) most = sum;
    }
    return sqrt(most);
}

/* Sums in lanes, which are joined as a tree; a chain for cumsum. */
static double chain(int64_t k, bool lanes) {
    return 2 + sqrt((double)k) / (lanes ? 4 : 1);
}

typedef struct rounding {
    const ir_graph *g;
    const ir_node *n;
    ir_value *const *value;
    ir_value *out;
    uint64_t *random;
    double unit; /* of the sums: half an ulp of 1 */
} rounding;

static double uniform(uint64_t *state) { /* in (-1, 1); splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
}

/* Element i may be off by so much, or by an ulp of a type with fewer digits than the sum has. */
static void disturb(const rounding *r, int64_t i, double by) {
    rp_dtype t = r->n->dtype;
    double *x = &r->out->data[i], ulp = api_ulp(t, *x);
    if (!isfinite(*x) || !isfinite(by)) return;
    if (by > 0 && format_of(t).digits < 24 && by < ulp) by = ulp;
    *x = ir_round(t, *x + by * uniform(r->random));
}

static void disturb_function(const rounding *r, double ulps) {
    bool half = format_of(r->n->dtype).digits < 24;
    double least = r->n->op == IR_sigmoid ? 0x1p-126 : 0; /* compiled ones are 0 below that */
    for (int64_t i = 0; i < r->out->n; i++) {
        double x = r->out->data[i], by = (half ? 1 : ulps) * api_ulp(r->n->dtype, x);
        if (x != 0) disturb(r, i, fabs(x) < least ? least : by);
    }
}

/* sum, prod: by sums of |x| along the axis. */
static void disturb_reduction(const rounding *r) {
    const ir_value *x = r->value[r->n->in[0]];
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0), k = x->dim[axis], inner = 1;
    for (uint32_t d = (uint32_t)axis + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t i = 0; i < r->out->n; i++) {
        const double *at = x->data + i / inner * k * inner + i % inner;
        double sum = 0;
        for (int64_t j = 0; j < k; j++) sum += fabs(at[j * inner]);
        if (r->n->op == IR_prod) sum = fabs(r->out->data[i]) * (double)k;
        disturb(r, i, sum * chain(k, r->n->op == IR_sum) * r->unit);
    }
}

static void disturb_cumsum(const rounding *r) {
    const ir_value *x = r->value[r->n->in[0]];
    int64_t axis = ir_attr_int(r->n, IR_ATTR_AXIS, 0), k = x->dim[axis], inner = 1;
    for (uint32_t d = (uint32_t)axis + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t row = 0; k > 0 && row < x->n / k; row++) {
        int64_t first = row / inner * k * inner + row % inner;
        double sum = 0;
        for (int64_t j = 0; j < k; j++) {
            sum += fabs(x->data[first + j * inner]);
            disturb(r, first + j * inner, sum * chain(j + 1, false) * r->unit);
        }
    }
}

/* By Cauchy and Schwarz: a row of a and the longest column of b. */
static void disturb_product(const rounding *r) {
    const ir_value *a = r->value[r->n->in[0]], *b = r->value[r->n->in[1]];
    int64_t k = a->dim[a->rank - 1], n = r->out->dim[r->out->rank - 1];
    bool by_rows = ir_attr_int(r->n, IR_ATTR_TRANS_B, 0) != 0;
    double columns = largest_norm(b, k, by_rows ? 1 : n), rows = largest_norm(a, k, 1);
    bool own = k > 0 && n > 0 && a->n / k == r->out->n / n; /* each row of the result has one */
    for (int64_t i = 0; i < r->out->n; i++) {
        const ir_value row = {.n = k, .data = own ? a->data + i / n * k : NULL};
        if (own && i % n == 0) rows = largest_norm(&row, k, 1);
        disturb(r, i, rows * columns * chain(k, false) * r->unit);
    }
}

/* The error of a score is one of its weight; values are averaged. */
static void disturb_attention(const rounding *r) {
    const ir_value *q = r->value[r->n->in[0]];
    int64_t dim = ir_attr_int(r->n, IR_ATTR_HEAD_DIM, 1);
    double scale = fabs(ir_attr_float(r->n, IR_ATTR_SCALE, 1));
    double score = largest(q) * largest(r->value[r->n->in[1]]) * scale * (double)dim;
    double by = largest(r->value[r->n->in[2]]) * r->unit * (32 + 4 * score);
    for (int64_t i = 0; i < r->out->n; i++) disturb(r, i, by);
}

static void disturb_node(const rounding *r) {
    double ulps = ir_op_ulps(r->n->op, r->n->dtype == RP_DTYPE_F64);
    switch (r->n->op) {
    case IR_sum:
    case IR_prod: disturb_reduction(r); break;
    case IR_cumsum: disturb_cumsum(r); break;
    case IR_scatter_add:
    case IR_scatter_prod: disturb_function(r, (double)r->out->n); break;
    case IR_matmul: disturb_product(r); break;
    case IR_attention: disturb_attention(r); break;
    default:
        if (ulps > 0) disturb_function(r, ulps);
    }
}

static void made(void *user, const ir_graph *g, ir_ref node, ir_value *const *value) {
    const ir_node *n = ir_node_at(g, node);
    rounding r = {g, n, value, value[node], user, n->dtype == RP_DTYPE_F64 ? 0x1p-53 : 0x1p-24};
    if (ir_dtype_is_real(n->dtype)) disturb_node(&r);
}

/* --- comparing ------------------------------------------------------------------------- */

/* A value and how far runs of the interpreter were from it. */
typedef struct judged {
    const api_trial *t;
    const api_values *want, *got;
    double **spread; /* by value and element */
    uint64_t random;
} judged;

static bool same(rp_dtype t, const ir_value *a, const ir_value *b, int64_t i) {
    if (t == RP_DTYPE_I64) return ir_value_int(a, i) == ir_value_int(b, i);
    return a->data[i] == b->data[i] || (isnan(a->data[i]) && isnan(b->data[i]));
}

static double element(rp_dtype t, const ir_value *v, int64_t i) {
    return t == RP_DTYPE_I64 ? (double)ir_value_int(v, i) : v->data[i];
}

static double distance(rp_dtype t, const ir_value *a, const ir_value *b, int64_t i) {
    if (same(t, a, b, i)) return 0;
    if (t == RP_DTYPE_I64) { /* of large ones the doubles may be equal */
        const int64_t x = ir_value_int(a, i), y = ir_value_int(b, i);
        return (double)(x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x);
    }
    double d = fabs(a->data[i] - b->data[i]);
    return isnan(d) ? (double)INFINITY : d;
}

/* Some element of value v was another one in a run: roundings reach it, and may take any element over a border. */
static bool is_moved(const judged *j, uint32_t v) {
    if (!j->spread[v]) return false;
    for (int64_t i = 0; i < j->want->v[v].n; i++)
        if (j->spread[v][i] > 0) return true;
    return false;
}

static void judge(const judged *j, api_difference *out) {
    double worst = 0;
    *out = (api_difference){0};
    for (uint32_t v = 0; v < j->want->n && !out->found; v++) {
        rp_dtype t = api_trial_type(j->t, v);
        const bool moved = ir_dtype_is_real(t) && is_moved(j, v);
        for (int64_t i = 0; i < j->want->v[v].n; i++) {
            double d = distance(t, &j->want->v[v], &j->got->v[v], i);
            double bound = j->spread[v] ? 4 * j->spread[v][i] : 0;
            if (d == 0 || d <= bound) continue;
            double ulp = api_ulp(t, j->want->v[v].data[i]);
            if (moved && bound < ulp) bound = ulp;
            if (d <= bound) continue;
            double by = d / ulp - bound / ulp;
            if (out->found && !(by > worst)) continue;
            worst = by;
            *out = (api_difference){
                true,    v,          i, element(t, &j->want->v[v], i), element(t, &j->got->v[v], i),
                d / ulp, bound / ulp};
        }
    }
}

static rp_status run_disturbed(judged *j, rp_error *err) {
    const ir_eval_watch watch = {&j->random, made};
    api_values x = {0};
    RP_TRY(api_trial_interpret(j->t, &watch, &x, err));
    for (uint32_t v = 0; v < x.n; v++)
        for (int64_t i = 0; i < x.v[v].n; i++) {
            double d = distance(api_trial_type(j->t, v), &j->want->v[v], &x.v[v], i);
            if (d > j->spread[v][i]) j->spread[v][i] = d;
        }
    api_values_done(&x);
    return RP_OK;
}

static rp_status make_spread(judged *j, rp_error *err) {
    j->spread = base_alloc_array(j->want->n + 1u, sizeof *j->spread);
    if (!j->spread) return rp_fail(err, RP_NOMEM, "bounds");
    for (uint32_t v = 0; v < j->want->n; v++) {
        j->spread[v] = base_alloc_array((size_t)j->want->v[v].n + 1, sizeof **j->spread);
        if (!j->spread[v]) return rp_fail(err, RP_NOMEM, "bounds");
    }
    return RP_OK;
}

static void judged_done(judged *j) {
    for (uint32_t v = 0; j->spread && v < j->want->n; v++) base_free(j->spread[v]);
    base_free(j->spread);
}

rp_status api_difference_find(const api_trial *t, const api_values *want, const api_values *got,
                              api_difference *out, rp_error *err) {
    judged j = {.t = t, .want = want, .got = got};
    rp_status st = RP_OK;
    j.spread = base_alloc_array(want->n + 1u, sizeof *j.spread);
    if (!j.spread) return rp_fail(err, RP_NOMEM, "bounds");
    judge(&j, out);
    base_free(j.spread);
    j.spread = NULL;
    for (int i = 0; out->found && i < FIRST_RUNS + MORE_RUNS; i++) {
        if (i == 0) RP_TRY_OUT(make_spread(&j, err));
        RP_TRY_OUT(run_disturbed(&j, err));
        if (i + 1 >= FIRST_RUNS) judge(&j, out);
    }
out:
    judged_done(&j);
    return st;
}
