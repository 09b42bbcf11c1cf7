/* Products of dims.
 *
 * A product of atoms is an atom: a sorted list of factors, which are no products themselves. Forms are multiplied
 * term by term, so (T+1)*(S-1) and T*S-T+S-1 are one form. */
#include "ir/dim_form.h"

const dim_atom *dim_sole_atom(const ir_dims *t, ir_dim d) {
    return &t->atom[t->node[d].t[0].atom];
}

/* Appends the factors of an atom; false when there are too many. */
static bool factors_of(const ir_dims *t, uint32_t atom, uint32_t *list, uint32_t *n) {
    for (; t->atom[atom].kind == DIM_PRODUCT; atom = t->node[t->atom[atom].other].t[0].atom) {
        if (*n == DIM_MAX_FACTORS) return false;
        list[(*n)++] = t->node[t->atom[atom].inner].t[0].atom;
    }
    if (*n == DIM_MAX_FACTORS) return false;
    list[(*n)++] = atom;
    return true;
}

/* Bounds, divisor and nesting of a product of two atoms. */
static dim_atom product_of(const dim_atom *x, const dim_atom *y) {
    const int64_t at[] = {dim_sat_mul(x->lo, y->lo), dim_sat_mul(x->lo, y->hi),
                          dim_sat_mul(x->hi, y->lo), dim_sat_mul(x->hi, y->hi)};
    dim_atom p = {.kind = DIM_PRODUCT, .lo = at[0], .hi = at[0]};
    for (int i = 1; i < 4; i++) {
        if (at[i] < p.lo) p.lo = at[i];
        if (at[i] > p.hi) p.hi = at[i];
    }
    if (__builtin_mul_overflow(x->div, y->div, &p.div) || p.div > DIM_LIMIT)
        p.div = x->div > y->div ? x->div : y->div;
    p.nest = x->nest > y->nest ? x->nest : y->nest;
    return p;
}

/* The atom that stands for x * y; UINT32_MAX when there are too many factors or no memory. */
static uint32_t product_atom(ir_dims *t, uint32_t x, uint32_t y) {
    uint32_t list[DIM_MAX_FACTORS], n = 0;
    if (!factors_of(t, x, list, &n) || !factors_of(t, y, list, &n)) return UINT32_MAX;
    for (uint32_t i = 1; i < n; i++) /* sorted, so that equal products are one atom */
        for (uint32_t j = i; j > 0 && dim_atom_compare(t, list[j], list[j - 1]) < 0; j--) {
            uint32_t swap = list[j];
            list[j] = list[j - 1];
            list[j - 1] = swap;
        }
    uint32_t rest = list[n - 1];
    for (uint32_t i = n - 1; i-- > 0;) {
        ir_dim inner = dim_single(t, list[i]), other = dim_single(t, rest);
        if (inner == IR_DIM_BAD || other == IR_DIM_BAD) return UINT32_MAX;
        dim_atom p = product_of(&t->atom[list[i]], &t->atom[rest]);
        p.inner = inner;
        p.other = other;
        rest = dim_atom_add(t, p);
        if (rest == UINT32_MAX) return rest;
    }
    return rest;
}

/* f += a * b, term by term. */
static bool add_product(ir_dims *t, dim_form *f, const dim_form *a, const dim_form *b) {
    dim_form terms = *a;
    terms.c = 0;
    if (!dim_addmul(t, f, b, a->c) || !dim_addmul(t, f, &terms, b->c)) return false;
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t j = 0; j < b->n; j++) {
            uint32_t atom = product_atom(t, a->t[i].atom, b->t[j].atom);
            int64_t coef;
            if (atom == UINT32_MAX || __builtin_mul_overflow(a->t[i].coef, b->t[j].coef, &coef) ||
                !dim_add_term(t, f, atom, coef))
                return false;
        }
    return true;
}

/* coef * (x//k) * rest is (coef/k) * x * rest where both divide: the term leaves f for that. */
static bool join_product(ir_dims *t, dim_form *f, uint32_t at, bool *changed) {
    uint32_t list[DIM_MAX_FACTORS], n = 0, out = 0;
    int64_t coef = f->t[at].coef;
    if (!factors_of(t, f->t[at].atom, list, &n)) return false;
    while (out < n && !(dim_is_exact(t, &t->atom[list[out]]) && coef % t->atom[list[out]].k == 0))
        out++;
    if (out == n) return true;
    dim_form x, rest = {.c = 1}, product = {0}, one;
    dim_load(t, t->atom[list[out]].inner, &x);
    for (uint32_t i = 0; i < n; i++) {
        if (i == out) continue;
        one = (dim_form){.n = 1, .t = {{list[i], 1}}};
        product = (dim_form){0};
        if (!add_product(t, &product, &rest, &one)) return false;
        rest = product;
    }
    product = (dim_form){0};
    if (!add_product(t, &product, &x, &rest)) return false;
    dim_remove_term(f, at);
    *changed = true;
    return dim_addmul(t, f, &product, coef / t->atom[list[out]].k);
}

bool dim_join_products(ir_dims *t, dim_form *f) {
    bool changed = true;
    for (int round = 0; changed && round < DIM_MAX_TERMS; round++) {
        changed = false;
        for (uint32_t i = 0; i < f->n && !changed; i++)
            if (t->atom[f->t[i].atom].kind == DIM_PRODUCT && !join_product(t, f, i, &changed))
                return false;
    }
    return true;
}

ir_dim ir_dim_mul(ir_dims *t, ir_dim a, ir_dim b) {
    dim_form f = {0}, g, h;
    if (!dim_valid(t, a) || !dim_valid(t, b)) return IR_DIM_BAD;
    dim_load(t, a, &g);
    dim_load(t, b, &h);
    return add_product(t, &f, &g, &h) ? dim_finish(t, &f) : IR_DIM_BAD;
}
