/* Programs of forms with common factors taken out: N*C*H*W + 2*N*C*H + 2*N*C*W + 4*N*C, the elements of a padded image, is
 * ((W+2)*H + 2*W + 4)*C*N, of 11 operations and not 24. What a form is worth modulo 2^64 does not change. */
#include <string.h>

#include "base/gcd.h"
#include "ir/dim_form.h"

typedef struct term {
    int64_t coef;
    uint32_t n;
    uint32_t factor[DIM_MAX_FACTORS]; /* atoms that are no products, in canonical order */
} term;

typedef struct sum {
    int64_t c;
    uint32_t n;
    term t[DIM_MAX_TERMS];
} sum;

static bool load(const ir_dims *t, ir_dim d, sum *out) {
    const dim_node *n = &t->node[d];
    out->c = n->c;
    out->n = n->n;
    for (uint32_t i = 0; i < n->n; i++) {
        term *x = &out->t[i];
        uint32_t atom = n->t[i].atom;
        *x = (term){.coef = n->t[i].coef};
        for (; t->atom[atom].kind == DIM_PRODUCT; x->n++) {
            if (x->n + 1u == DIM_MAX_FACTORS) return false;
            x->factor[x->n] = t->node[t->atom[atom].inner].t[0].atom;
            atom = t->node[t->atom[atom].other].t[0].atom;
        }
        x->factor[x->n++] = atom;
    }
    return true;
}

static bool has(const term *x, uint32_t atom, uint32_t *at) {
    for (*at = 0; *at < x->n && x->factor[*at] != atom;) ++*at;
    return *at < x->n;
}

/* The factor of most terms, the first of equals; false where none is in two. */
static bool most_common(const sum *s, uint32_t *out) {
    uint32_t best = 1, at;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->t[i].n; k++) {
            uint32_t in = 0;
            for (uint32_t j = 0; j < s->n; j++) in += has(&s->t[j], s->t[i].factor[k], &at);
            if (in <= best) continue;
            best = in;
            *out = s->t[i].factor[k];
        }
    return best > 1;
}

/* What s is the multiple of, where it is more than one term. */
static int64_t content(const sum *s) {
    int64_t g = s->c < 0 ? -s->c : s->c;
    if (s->n + (s->c != 0) < 2) return 1;
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t k = s->t[i].coef < 0 ? -s->t[i].coef : s->t[i].coef;
        g = g ? base_gcd(g, k) : k;
    }
    return g;
}

static bool put_sum(const ir_dims *t, sum *s, ir_dim_code *c);

static bool put_factor(const ir_dims *t, uint32_t atom, ir_dim_code *c) {
    const dim_atom *a = &t->atom[atom];
    sum inner;
    if (a->kind == DIM_SYMBOL) return dim_code_put(c, IR_DIM_CODE_SYMBOL, a->sym);
    return load(t, a->inner, &inner) && put_sum(t, &inner, c) &&
           dim_code_put(c, a->kind == DIM_MOD ? IR_DIM_CODE_MOD : IR_DIM_CODE_FLOORDIV, a->k);
}

static bool put_term(const ir_dims *t, const term *x, ir_dim_code *c) {
    for (uint32_t i = 0; i < x->n; i++)
        if (!put_factor(t, x->factor[i], c) || (i > 0 && !dim_code_put(c, IR_DIM_CODE_MUL, 0)))
            return false;
    return x->coef == 1 || dim_code_put(c, IR_DIM_CODE_MUL_CONST, x->coef);
}

/* Terms that share nothing. */
static bool put_terms(const ir_dims *t, const sum *s, ir_dim_code *c) {
    if (s->n == 0) return dim_code_put(c, IR_DIM_CODE_CONST, s->c);
    for (uint32_t i = 0; i < s->n; i++)
        if (!put_term(t, &s->t[i], c) || (i > 0 && !dim_code_put(c, IR_DIM_CODE_ADD, 0)))
            return false;
    return s->c == 0 || dim_code_put(c, IR_DIM_CODE_ADD_CONST, s->c);
}

/* s as with * atom + rest. */
static void split(const sum *s, uint32_t atom, sum *with, sum *rest) {
    *with = (sum){0};
    *rest = (sum){.c = s->c};
    for (uint32_t i = 0; i < s->n; i++) {
        term x = s->t[i];
        uint32_t at;
        if (!has(&x, atom, &at)) {
            rest->t[rest->n++] = x;
            continue;
        }
        for (x.n--; at < x.n; at++) x.factor[at] = x.factor[at + 1];
        if (x.n)
            with->t[with->n++] = x;
        else
            with->c = x.coef;
    }
}

/* Whether b is a * times + more. Terms are in order in both. */
static bool is_multiple(const sum *a, const sum *b, int64_t *times, int64_t *more) {
    int64_t k;
    if (a->n == 0 || a->n != b->n || b->t[0].coef % a->t[0].coef != 0) return false;
    *times = b->t[0].coef / a->t[0].coef;
    for (uint32_t i = 0; i < a->n; i++) {
        const term *x = &a->t[i], *y = &b->t[i];
        if (x->n != y->n || memcmp(x->factor, y->factor, x->n * sizeof *x->factor) != 0 ||
            __builtin_mul_overflow(x->coef, *times, &k) || k != y->coef)
            return false;
    }
    return !__builtin_mul_overflow(a->c, *times, &k) && !__builtin_sub_overflow(b->c, k, more);
}

static bool put_split(const ir_dims *t, const sum *s, uint32_t atom, ir_dim_code *c) {
    sum with, rest, again;
    int64_t k, more = 0;
    split(s, atom, &with, &rest);
    again = with;
    if (!put_sum(t, &again, c) || !put_factor(t, atom, c)) return false;
    if (is_multiple(&with, &rest, &k, &more)) { /* with * (atom + k) + more */
        if (!dim_code_put(c, IR_DIM_CODE_ADD_CONST, k)) return false;
        rest = (sum){.c = more};
    }
    if (!dim_code_put(c, IR_DIM_CODE_MUL, 0)) return false;
    if (rest.n) return put_sum(t, &rest, c) && dim_code_put(c, IR_DIM_CODE_ADD, 0);
    return rest.c == 0 || dim_code_put(c, IR_DIM_CODE_ADD_CONST, rest.c);
}

static bool put_sum(const ir_dims *t, sum *s, ir_dim_code *c) {
    const int64_t g = content(s);
    uint32_t atom;
    s->c /= g;
    for (uint32_t i = 0; i < s->n; i++) s->t[i].coef /= g;
    bool ok = most_common(s, &atom) ? put_split(t, s, atom, c) : put_terms(t, s, c);
    return ok && (g == 1 || dim_code_put(c, IR_DIM_CODE_MUL_CONST, g));
}

bool dim_code_factored(const ir_dims *t, ir_dim d, ir_dim_code *out) {
    sum s;
    out->n = 0;
    return load(t, d, &s) && put_sum(t, &s, out);
}
