/* Numbers are intervals of doubles; elements are followed through views and broadcasting by the box of places that is asked for. */
#include "pass/hidden.h"

#include <math.h>

/* A value that is shared may be asked for by many ways. */
#define MOST_STEPS 4096
/* Integers beyond it may have been rounded, or have wrapped. */
#define MOST_EXACT 0x1p24
#define MOST_SMALL 127 /* in types of 8 and 16 bits */

typedef struct span {
    double lo, hi; /* NaN: not known */
} span;

typedef struct seeker {
    const ir_graph *g;
    uint32_t steps;
} seeker;

static const span unknown = {NAN, NAN};

static bool is_known(span s) {
    return s.lo <= s.hi;
}

static bool is_exactly(span s, double v) {
    return s.lo == v && s.hi == v && signbit(s.lo) == signbit(v);
}

pass_box pass_box_of(const ir_graph *g, ir_ref r) {
    const ir_shape *s = &ir_node_at(g, r)->shape;
    pass_box b = {{0}, {0}};
    int64_t min, max;
    for (uint32_t i = 0; i < s->rank; i++) {
        ir_dim_bounds(ir_graph_dims(g), s->dim[i], &min, &max);
        b.hi[i] = max - 1;
    }
    return b;
}

/* --- boxes of operands --------------------------------------------------------------- */

static bool is_one(const ir_graph *g, ir_dim d) {
    return ir_dim_is(ir_graph_dims(g), d, 1);
}

/* numpy broadcasting: last axes lie on one another. */
static bool stretched(const ir_graph *g, const ir_node *n, const ir_node *x, const pass_box *b,
                      pass_box *out) {
    if (x->shape.rank > n->shape.rank) return false;
    uint32_t missing = n->shape.rank - x->shape.rank;
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        bool one = is_one(g, x->shape.dim[i]);
        out->lo[i] = one ? 0 : b->lo[i + missing];
        out->hi[i] = one ? 0 : b->hi[i + missing];
    }
    return true;
}

/* A reshape that adds and drops ones alone. */
static bool regrouped(const ir_graph *g, const ir_node *n, const ir_node *x, const pass_box *b,
                      pass_box *out) {
    uint32_t k = 0;
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        out->lo[i] = out->hi[i] = 0;
        if (is_one(g, x->shape.dim[i])) continue;
        while (k < n->shape.rank && is_one(g, n->shape.dim[k])) k++;
        if (k == n->shape.rank || n->shape.dim[k] != x->shape.dim[i]) return false;
        out->lo[i] = b->lo[k];
        out->hi[i] = b->hi[k++];
    }
    while (k < n->shape.rank && is_one(g, n->shape.dim[k])) k++;
    return k == n->shape.rank;
}

/* One that joins or cuts the axes in front of the last two: of those it reads all. */
static bool same_matrices(const ir_graph *g, const ir_node *n, const ir_node *x, const pass_box *b,
                          pass_box *out) {
    uint32_t to = n->shape.rank, from = x->shape.rank;
    if (to < 2 || from < 2) return false;
    for (uint32_t i = 1; i <= 2; i++) {
        if (n->shape.dim[to - i] != x->shape.dim[from - i]) return false;
        out->lo[from - i] = b->lo[to - i];
        out->hi[from - i] = b->hi[to - i];
    }
    pass_box all = pass_box_of(g, n->in[0]);
    for (uint32_t i = 0; i + 2 < from; i++) {
        out->lo[i] = all.lo[i];
        out->hi[i] = all.hi[i];
    }
    return true;
}

static bool sliced(const ir_graph *g, const ir_node *n, const pass_box *b, pass_box *out) {
    const int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
    int64_t start;
    if (!ir_dim_is_const(ir_graph_dims(g), ir_attr_get(n, IR_ATTR_START)->u.dim, &start))
        return false;
    *out = *b;
    out->lo[axis] += start;
    out->hi[axis] += start;
    return true;
}

/* The places of operand i that places b of n are computed from, element by element. */
static bool operand_box(const ir_graph *g, const ir_node *n, uint32_t i, const pass_box *b,
                        pass_box *out) {
    const ir_node *x = ir_node_at(g, n->in[i]);
    const ir_attr *axes = ir_attr_get(n, IR_ATTR_AXES);
    *out = (pass_box){{0}, {0}};
    switch (n->op) {
    case IR_reshape: return regrouped(g, n, x, b, out) || same_matrices(g, n, x, b, out);
    case IR_slice: return sliced(g, n, b, out);
    case IR_permute:
        for (uint32_t k = 0; k < axes->n; k++) {
            out->lo[axes->u.ints[k]] = b->lo[k];
            out->hi[axes->u.ints[k]] = b->hi[k];
        }
        return true;
    default:
        return (n->op == IR_broadcast || ir_op_table(n->op)->kind == IR_KIND_ELEMENTWISE) &&
               stretched(g, n, x, b, out);
    }
}

/* --- numbers --------------------------------------------------------------------------- */

static span span_of(seeker *s, ir_ref r, const pass_box *b);

static span operand_span(seeker *s, const ir_node *n, uint32_t i, const pass_box *b) {
    pass_box in;
    return operand_box(s->g, n, i, b, &in) ? span_of(s, n->in[i], &in) : unknown;
}

static span truth(bool always, bool never) {
    return always ? (span){1, 1} : never ? (span){0, 0} : (span){0, 1};
}

static span compared(ir_op op, span a, span b) {
    bool apart = a.hi < b.lo || b.hi < a.lo, equal = a.lo == b.hi && a.hi == b.lo;
    switch (op) {
    case IR_lt: return truth(a.hi < b.lo, a.lo >= b.hi);
    case IR_le: return truth(a.hi <= b.lo, a.lo > b.hi);
    case IR_gt: return truth(a.lo > b.hi, a.hi <= b.lo);
    case IR_ge: return truth(a.lo >= b.hi, a.hi < b.lo);
    case IR_eq: return truth(equal, apart);
    default: return truth(apart, equal);
    }
}

static span times(span a, span b) {
    const double p[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    span y = {p[0], p[0]};
    for (int i = 0; i < 4; i++) {
        if (isnan(p[i])) return unknown;
        y = (span){fmin(y.lo, p[i]), fmax(y.hi, p[i])};
    }
    return y;
}

static span joined(const ir_node *n, span a, span b) {
    switch (n->op) {
    case IR_add: return (span){a.lo + b.lo, a.hi + b.hi};
    case IR_sub: return (span){a.lo - b.hi, a.hi - b.lo};
    case IR_mul: return times(a, b);
    case IR_min: return (span){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
    case IR_max: return (span){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
    case IR_floor_divide:
        if (b.lo != b.hi || b.lo <= 0) return unknown;
        return (span){floor(a.lo / b.lo), floor(a.hi / b.lo)};
    case IR_lt:
    case IR_le:
    case IR_gt:
    case IR_ge:
    case IR_eq:
    case IR_ne: return compared(n->op, a, b);
    case IR_and: return n->dtype == RP_DTYPE_BOOL ? (span){a.lo * b.lo, a.hi * b.hi} : unknown;
    case IR_or:
        return n->dtype == RP_DTYPE_BOOL ? (span){fmax(a.lo, b.lo), fmax(a.hi, b.hi)} : unknown;
    default: return unknown;
    }
}

static span chosen(seeker *s, const ir_node *n, const pass_box *b) {
    span c = operand_span(s, n, 0, b);
    if (is_exactly(c, 1)) return operand_span(s, n, 1, b);
    if (is_exactly(c, 0)) return operand_span(s, n, 2, b);
    span x = operand_span(s, n, 1, b), y = operand_span(s, n, 2, b);
    return is_known(x) && is_known(y) ? (span){fmin(x.lo, y.lo), fmax(x.hi, y.hi)} : unknown;
}

static span of_one(const ir_node *n, span a) {
    switch (n->op) {
    case IR_neg: return (span){-a.hi, -a.lo};
    case IR_not: return n->dtype == RP_DTYPE_BOOL ? (span){1 - a.hi, 1 - a.lo} : unknown;
    case IR_cast: return n->dtype == RP_DTYPE_BOOL && !(a.lo >= 0 && a.hi <= 1) ? unknown : a;
    default: return unknown;
    }
}

static span computed(seeker *s, const ir_node *n, const pass_box *b) {
    if (n->op == IR_where) return chosen(s, n, b);
    span x = operand_span(s, n, 0, b);
    if (ir_op_table(n->op)->kind == IR_KIND_VIEW) return x;
    if (!is_known(x) || n->n_in > 2 || n->n_more) return unknown;
    if (n->n_in == 1) return of_one(n, x);
    span y = operand_span(s, n, 1, b);
    return is_known(y) ? joined(n, x, y) : unknown;
}

/* Whole numbers that the type holds, and -inf. Of a bool there is always something to say. */
static span held(const ir_node *n, span s) {
    const rp_dtype t = n->dtype;
    if (t == RP_DTYPE_BOOL) return is_known(s) ? s : (span){0, 1};
    bool wide = t == RP_DTYPE_F32 || t == RP_DTYPE_F64 || t == RP_DTYPE_I32 || t == RP_DTYPE_I64;
    double least = wide ? -MOST_EXACT : 0, most = wide ? MOST_EXACT : MOST_SMALL;
    bool fits = s.lo >= least || (isinf(s.lo) && ir_dtype_is_real(t));
    return is_known(s) && fits && s.hi <= most ? s : unknown;
}

static span span_of(seeker *s, ir_ref r, const pass_box *b) {
    const ir_node *n = ir_node_at(s->g, r);
    if (++s->steps > MOST_STEPS) return unknown;
    if (n->n_in == 0 && n->op != IR_const && n->op != IR_iota) return held(n, unknown);
    if (n->op == IR_const) {
        double v = ir_attr_float(n, IR_ATTR_VALUE, 0);
        return v == trunc(v) ? held(n, (span){v, v}) : unknown;
    }
    if (n->op == IR_iota) {
        const int64_t axis = ir_attr_int(n, IR_ATTR_AXIS, 0);
        return held(n, (span){(double)b->lo[axis], (double)b->hi[axis]});
    }
    return held(n, computed(s, n, b));
}

/* --- what is hidden -------------------------------------------------------------------- */

bool pass_is_power(const ir_graph *g, const ir_node *n) {
    if (n->op == IR_exp) return true;
    if (n->op != IR_pow) return false;
    const ir_node *c = ir_node_at(g, n->in[0]);
    while (c->op == IR_broadcast || c->op == IR_reshape) c = ir_node_at(g, c->in[0]);
    double base = c->op == IR_const ? ir_attr_float(c, IR_ATTR_VALUE, 0) : 0;
    return base > 1 && !isinf(base);
}

static bool hidden(seeker *s, ir_ref r, const pass_box *b);
static bool zero(seeker *s, ir_ref r, const pass_box *b);

typedef bool (*known_fn)(seeker *s, ir_ref r, const pass_box *b);

static bool of_operand(seeker *s, const ir_node *n, uint32_t i, const pass_box *b, known_fn fn) {
    pass_box in;
    return operand_box(s->g, n, i, b, &in) && fn(s, n->in[i], &in);
}

static bool of_branches(seeker *s, const ir_node *n, const pass_box *b, known_fn fn) {
    span c = operand_span(s, n, 0, b);
    return (is_exactly(c, 0) || of_operand(s, n, 1, b, fn)) &&
           (is_exactly(c, 1) || of_operand(s, n, 2, b, fn));
}

static bool is_positive(seeker *s, const ir_node *n, uint32_t i, const pass_box *b) {
    const ir_node *c = ir_node_at(s->g, n->in[i]);
    while (c->op == IR_broadcast || c->op == IR_reshape) c = ir_node_at(s->g, c->in[0]);
    double v = c->op == IR_const ? ir_attr_float(c, IR_ATTR_VALUE, 0) : 0;
    return (v > 0 && !isinf(v)) || operand_span(s, n, i, b).lo > 0;
}

static bool hidden(seeker *s, ir_ref r, const pass_box *b) {
    const ir_node *n = ir_node_at(s->g, r);
    if (++s->steps > MOST_STEPS || !ir_dtype_is_real(n->dtype)) return false;
    switch (n->op) {
    case IR_const: return ir_attr_float(n, IR_ATTR_VALUE, 0) == -HUGE_VAL;
    case IR_where: return of_branches(s, n, b, hidden);
    case IR_min:
    case IR_add: return of_operand(s, n, 0, b, hidden) || of_operand(s, n, 1, b, hidden);
    case IR_max: return of_operand(s, n, 0, b, hidden) && of_operand(s, n, 1, b, hidden);
    case IR_mul:
        return (is_positive(s, n, 1, b) && of_operand(s, n, 0, b, hidden)) ||
               (is_positive(s, n, 0, b) && of_operand(s, n, 1, b, hidden));
    case IR_div: return is_positive(s, n, 1, b) && of_operand(s, n, 0, b, hidden);
    case IR_sub: return of_operand(s, n, 0, b, hidden);
    case IR_cast:
        return ir_dtype_is_real(ir_node_at(s->g, n->in[0])->dtype) &&
               of_operand(s, n, 0, b, hidden);
    default: return ir_op_table(n->op)->kind == IR_KIND_VIEW && of_operand(s, n, 0, b, hidden);
    }
}

static bool zero(seeker *s, ir_ref r, const pass_box *b) {
    const ir_node *n = ir_node_at(s->g, r);
    if (++s->steps > MOST_STEPS || !ir_dtype_is_real(n->dtype)) return false;
    switch (n->op) {
    case IR_const: return is_exactly((span){ir_attr_float(n, IR_ATTR_VALUE, 0), 0}, 0);
    case IR_exp: return of_operand(s, n, 0, b, hidden);
    case IR_pow: return pass_is_power(s->g, n) && of_operand(s, n, 1, b, hidden);
    case IR_where: return of_branches(s, n, b, zero);
    case IR_mul: return of_operand(s, n, 0, b, zero) || of_operand(s, n, 1, b, zero);
    case IR_cast:
        if (!ir_dtype_is_real(ir_node_at(s->g, n->in[0])->dtype))
            return is_exactly(operand_span(s, n, 0, b), 0);
        return of_operand(s, n, 0, b, zero);
    case IR_div: return of_operand(s, n, 0, b, zero);
    default: return ir_op_table(n->op)->kind == IR_KIND_VIEW && of_operand(s, n, 0, b, zero);
    }
}

bool pass_is_hidden(const ir_graph *g, ir_ref r, const pass_box *b) {
    seeker s = {g, 0};
    return hidden(&s, r, b);
}

bool pass_is_zero(const ir_graph *g, ir_ref r, const pass_box *b) {
    seeker s = {g, 0};
    return zero(&s, r, b);
}
