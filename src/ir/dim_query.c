/* Questions about dims: bounds, equality, order, divisibility, value.
 *
 * Answers are sound for every value of the symbols within their ranges; what interval and divisor
 * reasoning does not decide is IR_UNKNOWN. Nothing here changes the table. */
#include <string.h>

#include "ir/dim_form.h"

static int64_t sat_add(int64_t a, int64_t b) {
    int64_t r;
    if (a == INT64_MIN || b == INT64_MIN) return INT64_MIN;
    if (a == INT64_MAX || b == INT64_MAX) return INT64_MAX;
    if (__builtin_add_overflow(a, b, &r)) return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static bool unbounded(int64_t v) {
    return v == INT64_MIN || v == INT64_MAX;
}

int64_t dim_sat_mul(int64_t a, int64_t b) {
    int64_t r;
    if (a == 0 || b == 0) return 0;
    if (unbounded(a) || unbounded(b) || __builtin_mul_overflow(a, b, &r))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return r;
}

/* Sum of the terms' intervals, as if atoms were independent. */
static void plain_bounds(const ir_dims *t, const dim_form *f, int64_t *lo, int64_t *hi) {
    *lo = *hi = f->c;
    for (uint32_t i = 0; i < f->n; i++) {
        const dim_atom *a = &t->atom[f->t[i].atom];
        int64_t coef = f->t[i].coef;
        *lo = sat_add(*lo, dim_sat_mul(coef > 0 ? a->lo : a->hi, coef));
        *hi = sat_add(*hi, dim_sat_mul(coef > 0 ? a->hi : a->lo, coef));
    }
}

/* Whether atom is a floor-division with as many divisions inside as any other of f has. */
static bool is_outermost(const ir_dims *t, const dim_form *f, const dim_atom *atom) {
    if (atom->kind != DIM_FLOORDIV) return false;
    for (uint32_t i = 0; i < f->n; i++) {
        const dim_atom *a = &t->atom[f->t[i].atom];
        if (a->kind == DIM_FLOORDIV && a->nest > atom->nest) return false;
    }
    return true;
}

/* The factor that makes every outermost floor-division's coefficient a multiple of its divisor; 0 when there is
 * none to replace, or it would be large. */
static int64_t common_factor(const ir_dims *t, const dim_form *f) {
    int64_t m = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const dim_atom *a = &t->atom[f->t[i].atom];
        if (!is_outermost(t, f, a)) continue;
        int64_t need = a->k / dim_gcd(a->k, f->t[i].coef);
        if (m == 0) m = 1;
        need /= dim_gcd(need, m);
        if (need > (INT64_C(1) << 20) / m) return 0;
        m *= need;
    }
    return m;
}

/* k*(x//k) lies in [x-k+1, x]: with it 16*((T+15)//16) is known to be at least T, and T//4 at most
 * T. m times the form is bounded with every outermost floor-division replaced by its dividend, whose own are then among
 * those of the form: in 3*((T-T//2+2)//3) - T + T//2 they cancel. */
static bool replaced_bounds(const ir_dims *t, const dim_form *f, int64_t m, int64_t *lo,
                            int64_t *hi) {
    dim_form g = {0};
    int64_t slack_lo = 0, slack_hi = 0;
    if (__builtin_mul_overflow(f->c, m, &g.c)) return false;
    for (uint32_t i = 0; i < f->n; i++) {
        const dim_atom *a = &t->atom[f->t[i].atom];
        dim_form part = {.n = 1, .t = {f->t[i]}};
        int64_t coef;
        if (__builtin_mul_overflow(f->t[i].coef, m, &coef)) return false;
        if (is_outermost(t, f, a)) {
            int64_t q = coef / a->k, s = dim_sat_mul(dim_sat_mul(a->k - 1, q), -1);
            dim_load(t, a->inner, &part);
            if (!dim_addmul(t, &g, &part, q)) return false;
            if (q > 0)
                slack_lo = sat_add(slack_lo, s);
            else
                slack_hi = sat_add(slack_hi, s);
        } else if (!dim_addmul(t, &g, &part, m)) {
            return false;
        }
    }
    dim_form_bounds(t, &g, lo, hi);
    *lo = sat_add(*lo, slack_lo);
    *hi = sat_add(*hi, slack_hi);
    if (*lo != INT64_MIN && *lo != INT64_MAX) *lo = -dim_floor(-*lo, m);
    if (*hi != INT64_MIN && *hi != INT64_MAX) *hi = dim_floor(*hi, m);
    return true;
}

/* k*x*y of f with what it has of x and y as k*(x + p)*(y + q): (H-1)*(W-1) is known not to be negative where H and W are above 0. False
 * where term i is no such product. */
static bool factored(const ir_dims *t, const dim_form *f, uint32_t i, int64_t *lo, int64_t *hi) {
    const dim_atom *a = &t->atom[f->t[i].atom];
    int64_t k = f->t[i].coef, of_x = 0, of_y = 0, pq, c;
    if (a->kind != DIM_PRODUCT || dim_sole_atom(t, a->other)->kind == DIM_PRODUCT) return false;
    const dim_atom *x = dim_sole_atom(t, a->inner), *y = dim_sole_atom(t, a->other);
    dim_form rest = {.c = f->c};
    for (uint32_t j = 0; j < f->n; j++) {
        const dim_atom *b = &t->atom[f->t[j].atom];
        if (b == x) of_x = f->t[j].coef;
        if (b == y) of_y = f->t[j].coef;
        if (j != i && b != x && b != y) rest.t[rest.n++] = f->t[j];
    }
    if (x == y || (of_x == 0 && of_y == 0) || of_x % k != 0 || of_y % k != 0) return false;
    int64_t p = of_y / k, q = of_x / k; /* k*(x + p)*(y + q) */
    if (__builtin_mul_overflow(of_y, q, &pq) || __builtin_sub_overflow(rest.c, pq, &c))
        return false;
    rest.c = c;
    const int64_t xs[] = {sat_add(x->lo, p), sat_add(x->hi, p)};
    const int64_t ys[] = {sat_add(y->lo, q), sat_add(y->hi, q)};
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int j = 0; j < 4; j++) {
        int64_t v = dim_sat_mul(dim_sat_mul(xs[j & 1], ys[j >> 1]), k);
        if (v < least) least = v;
        if (v > most) most = v;
    }
    dim_form_bounds(t, &rest, lo, hi);
    *lo = sat_add(*lo, least);
    *hi = sat_add(*hi, most);
    return true;
}

static void tighten(int64_t lo2, int64_t hi2, int64_t *lo, int64_t *hi) {
    if (lo2 > *lo) *lo = lo2;
    if (hi2 < *hi) *hi = hi2;
}

void dim_form_bounds(const ir_dims *t, const dim_form *f, int64_t *lo, int64_t *hi) {
    int64_t m = common_factor(t, f), lo2, hi2;
    plain_bounds(t, f, lo, hi);
    if (m != 0 && replaced_bounds(t, f, m, &lo2, &hi2)) tighten(lo2, hi2, lo, hi);
    for (uint32_t i = 0; i < f->n; i++)
        if (factored(t, f, i, &lo2, &hi2)) tighten(lo2, hi2, lo, hi);
}

bool ir_dim_is_const(const ir_dims *t, ir_dim d, int64_t *out) {
    if (!dim_valid(t, d) || t->node[d].n != 0) return false;
    if (out) *out = t->node[d].c;
    return true;
}

bool ir_dim_is(const ir_dims *t, ir_dim d, int64_t v) {
    int64_t is;
    return ir_dim_is_const(t, d, &is) && is == v;
}

bool ir_dim_same(const ir_dims *t, ir_dim a, ir_dim b) {
    return a == b || ir_dim_eq(t, a, b) == IR_TRUE;
}

int64_t ir_dim_nominal(const ir_dims *t, ir_dim d) {
    int64_t lo, hi;
    ir_dim_bounds(t, d, &lo, &hi);
    return ir_dim_nominal_of(lo, hi);
}

void ir_dim_bounds(const ir_dims *t, ir_dim d, int64_t *min, int64_t *max) {
    bool ok = dim_valid(t, d);
    *min = ok ? t->node[d].lo : INT64_MIN;
    *max = ok ? t->node[d].hi : INT64_MAX;
}

/* *f = a - b in normal form; false when it cannot be formed. */
static bool difference(const ir_dims *t, ir_dim a, ir_dim b, dim_form *f) {
    dim_form g;
    if (!dim_valid(t, a) || !dim_valid(t, b)) return false;
    dim_load(t, a, f);
    dim_load(t, b, &g);
    return dim_addmul(t, f, &g, -1) && dim_join(t, f);
}

void ir_dims_set_assume(ir_dims *t, ir_dim_assume_fn fn, void *user) {
    t->assume = fn;
    t->assume_user = user;
}

void ir_dims_get_assume(const ir_dims *t, ir_dim_assume_fn *fn, void **user) {
    *fn = t->assume;
    *user = t->assume_user;
}

static ir_tri open_question(const ir_dims *t, ir_dim_question q, ir_dim a, ir_dim b, int64_t k) {
    return t->assume && t->assume(t->assume_user, q, a, b, k) ? IR_TRUE : IR_UNKNOWN;
}

ir_tri ir_dim_eq(const ir_dims *t, ir_dim a, ir_dim b) {
    dim_form f;
    int64_t lo, hi;
    if (a == b) return dim_valid(t, a) ? IR_TRUE : IR_UNKNOWN;
    if (!difference(t, a, b, &f)) return IR_UNKNOWN;
    if (f.n == 0) return f.c == 0 ? IR_TRUE : IR_FALSE;
    dim_form_bounds(t, &f, &lo, &hi);
    if (lo > 0 || hi < 0) return IR_FALSE;
    if (lo == 0 && hi == 0) return IR_TRUE;
    if (f.c % dim_form_gcd(t, &f) != 0) return IR_FALSE;
    return open_question(t, IR_DIM_EQ, a, b, 0);
}

ir_tri ir_dim_le(const ir_dims *t, ir_dim a, ir_dim b) {
    dim_form f;
    int64_t lo, hi;
    if (!difference(t, b, a, &f)) return IR_UNKNOWN;
    dim_form_bounds(t, &f, &lo, &hi);
    return lo >= 0 ? IR_TRUE : hi < 0 ? IR_FALSE : open_question(t, IR_DIM_LE, a, b, 0);
}

ir_tri ir_dim_divisible(const ir_dims *t, ir_dim a, int64_t k) {
    dim_form f;
    if (!dim_valid(t, a) || k < 1) return IR_UNKNOWN;
    dim_load(t, a, &f);
    int64_t g = dim_gcd(dim_form_gcd(t, &f), k);
    if (f.c % g != 0) return IR_FALSE;
    if (g == k) return f.c % k == 0 ? IR_TRUE : IR_FALSE;
    if (dim_is_multiple(t, &f, k)) return IR_TRUE;
    return open_question(t, IR_DIM_DIVISIBLE, a, IR_DIM_BAD, k);
}

bool ir_dims_assume_around(void *user, ir_dim_question q, ir_dim a, ir_dim b, int64_t k) {
    const ir_dims_pair *p = user;
    ir_dim x = ir_dim_import(p->around, p->own, a);
    if (q == IR_DIM_DIVISIBLE) return ir_dim_divisible(p->around, x, k) == IR_TRUE;
    ir_dim y = ir_dim_import(p->around, p->own, b);
    return (q == IR_DIM_EQ ? ir_dim_eq : ir_dim_le)(p->around, x, y) == IR_TRUE;
}

int64_t ir_dim_factor(const ir_dims *t, ir_dim d) {
    if (!dim_valid(t, d)) return 1;
    int64_t g = dim_gcd(0, t->node[d].c);
    for (uint32_t i = 0; i < t->node[d].n; i++) g = dim_gcd(g, t->node[d].t[i].coef);
    return g;
}

uint32_t ir_dims_symbol_count(const ir_dims *t) {
    return t->n_sym;
}

const ir_symbol *ir_dims_symbol(const ir_dims *t, uint32_t i) {
    return i < t->n_sym ? &t->sym[i] : NULL;
}

uint32_t ir_dims_find(const ir_dims *t, const char *name) {
    for (uint32_t i = 0; i < t->n_sym; i++)
        if (strcmp(t->sym[i].name, name) == 0) return i;
    return UINT32_MAX;
}

bool ir_dim_uses(const ir_dims *t, ir_dim d, uint32_t i) {
    if (!dim_valid(t, d)) return false;
    for (uint32_t j = 0; j < t->node[d].n; j++) {
        const dim_atom *a = &t->atom[t->node[d].t[j].atom];
        if (a->kind == DIM_SYMBOL ? a->sym == i : ir_dim_uses(t, a->inner, i)) return true;
        if (a->kind == DIM_PRODUCT && ir_dim_uses(t, a->other, i)) return true;
    }
    return false;
}

int64_t ir_dim_eval(const ir_dims *t, ir_dim d, const int64_t *values) {
    if (!dim_valid(t, d)) return -1;
    uint64_t sum = (uint64_t)t->node[d].c; /* unsigned: symbol values come from callers */
    for (uint32_t j = 0; j < t->node[d].n; j++) {
        const dim_atom *a = &t->atom[t->node[d].t[j].atom];
        int64_t v;
        if (a->kind == DIM_SYMBOL) {
            v = values[a->sym];
        } else if (a->kind == DIM_PRODUCT) {
            v = (int64_t)((uint64_t)ir_dim_eval(t, a->inner, values) *
                          (uint64_t)ir_dim_eval(t, a->other, values));
        } else {
            v = ir_dim_eval(t, a->inner, values);
            int64_t q = dim_floor(v, a->k);
            v = a->kind == DIM_FLOORDIV ? q : (int64_t)((uint64_t)v - (uint64_t)q * (uint64_t)a->k);
        }
        sum += (uint64_t)v * (uint64_t)t->node[d].t[j].coef;
    }
    return (int64_t)sum;
}
