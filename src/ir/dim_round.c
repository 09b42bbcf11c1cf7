/* Sizes that are rounded by a remainder: x - x%k is k*(x//k), and x + (-x)%k, as pads to a multiple are written, is
 * k*((x+k-1)//k), so that they are the forms that divisions give. */
#include "ir/dim_form.h"

/* Whether f has at least -c * each term of g. */
static bool has_all(const dim_form *f, const dim_form *g, int64_t c) {
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t j = 0;
        int64_t want;
        while (j < f->n && f->t[j].atom != g->t[i].atom) j++;
        if (j == f->n || __builtin_mul_overflow(-c, g->t[i].coef, &want)) return false;
        if (want > 0 ? f->t[j].coef < want : f->t[j].coef > want) return false;
    }
    return g->n > 0;
}

/* f += c * (g%k), which has -c * g: c*g - c*k * (g//k), or what that is of -g, so that the negative of a form has the same atoms. */
static bool add_rounded(ir_dims *t, dim_form *f, const dim_form *g, int64_t k, int64_t c) {
    const bool up = g->t[0].coef < 0;
    dim_form x = *g, whole;
    int64_t ck;
    if (up) {
        x = (dim_form){.c = k - 1};
        if (!dim_addmul(t, &x, g, -1)) return false;
    }
    ir_dim d = ir_dim_floordiv(t, dim_finish(t, &x), k);
    if (d == IR_DIM_BAD || __builtin_mul_overflow(up ? c : -c, k, &ck)) return false;
    dim_load(t, d, &whole);
    return dim_addmul(t, f, g, c) && dim_addmul(t, f, &whole, ck);
}

static bool round_at(ir_dims *t, dim_form *f, uint32_t i, bool *changed) {
    const dim_atom a = t->atom[f->t[i].atom];
    const int64_t c = f->t[i].coef;
    dim_form g;
    if (a.kind != DIM_MOD) return true;
    dim_load(t, a.inner, &g);
    if (!has_all(f, &g, c)) {
        dim_form minus = {0}; /* modulo 2 it is as much */
        if (!dim_addmul(t, &minus, &g, -1)) return false;
        if (a.k != 2 || !has_all(f, &minus, c)) return true;
        g = minus;
    }
    *changed = true;
    dim_remove_term(f, i);
    return add_rounded(t, f, &g, a.k, c);
}

bool dim_round(ir_dims *t, dim_form *f) {
    bool changed = true;
    for (int round = 0; changed && round < DIM_MAX_TERMS; round++) {
        changed = false;
        for (uint32_t i = 0; i < f->n && !changed; i++)
            if (!round_at(t, f, i, &changed)) return false;
    }
    return true;
}
