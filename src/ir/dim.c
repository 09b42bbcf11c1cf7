/* Dims: forms, their normal form, and interning.
 *
 * A form is c + sum(coef * atom); an atom is a symbol, a floor-division or a remainder by a
 * constant of another form, or a product of such atoms. Terms are sorted by structure (never by age), so equal sizes built
 * in different orders get equal handles and print alike. Overflow and forms of more than
 * DIM_MAX_TERMS terms give IR_DIM_BAD. Questions are in dim_query.c, text in dim_text.c. */
#include "ir/dim.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "ir/dim_form.h"
#include "ir/node.h"

bool dim_valid(const ir_dims *t, ir_dim d) {
    return d < t->n_node;
}

int64_t dim_floor(int64_t a, int64_t k) {
    int64_t q = a / k;
    return a % k < 0 ? q - 1 : q;
}

int64_t dim_gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y != 0) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x; /* 1 divides everything: sound */
}

void dim_load(const ir_dims *t, ir_dim d, dim_form *out) {
    const dim_node *n = &t->node[d];
    out->c = n->c;
    out->n = n->n;
    for (uint32_t i = 0; i < n->n; i++) out->t[i] = n->t[i];
}

static int node_compare(const ir_dims *t, ir_dim a, ir_dim b) {
    if (a == b) return 0;
    const dim_node *x = &t->node[a], *y = &t->node[b];
    for (uint32_t i = 0; i < x->n && i < y->n; i++) {
        int c = dim_atom_compare(t, x->t[i].atom, y->t[i].atom);
        if (c != 0) return c;
        if (x->t[i].coef != y->t[i].coef) return x->t[i].coef < y->t[i].coef ? -1 : 1;
    }
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->c < y->c ? -1 : 1;
}

int dim_atom_compare(const ir_dims *t, uint32_t a, uint32_t b) {
    if (a == b) return 0;
    const dim_atom *x = &t->atom[a], *y = &t->atom[b];
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->kind == DIM_SYMBOL) return x->sym < y->sym ? -1 : 1;
    if (x->k != y->k) return x->k < y->k ? -1 : 1;
    int c = node_compare(t, x->inner, y->inner);
    return c != 0 || x->kind != DIM_PRODUCT ? c : node_compare(t, x->other, y->other);
}

bool dim_add_term(const ir_dims *t, dim_form *f, uint32_t atom, int64_t coef) {
    uint32_t i = 0;
    int c = 1;
    if (coef == 0) return true;
    while (i < f->n && (c = dim_atom_compare(t, f->t[i].atom, atom)) < 0) i++;
    if (i < f->n && c == 0) {
        if (__builtin_add_overflow(f->t[i].coef, coef, &f->t[i].coef)) return false;
        if (f->t[i].coef == 0) {
            f->n--;
            memmove(&f->t[i], &f->t[i + 1], (f->n - i) * sizeof f->t[0]);
        }
        return true;
    }
    if (f->n == DIM_MAX_TERMS) return false;
    memmove(&f->t[i + 1], &f->t[i], (f->n - i) * sizeof f->t[0]);
    f->t[i] = (dim_term){atom, coef};
    f->n++;
    return true;
}

bool dim_addmul(const ir_dims *t, dim_form *f, const dim_form *g, int64_t k) {
    int64_t p;
    if (__builtin_mul_overflow(g->c, k, &p) || __builtin_add_overflow(f->c, p, &f->c)) return false;
    for (uint32_t i = 0; i < g->n; i++) {
        if (__builtin_mul_overflow(g->t[i].coef, k, &p)) return false;
        if (!dim_add_term(t, f, g->t[i].atom, p)) return false;
    }
    return true;
}

int64_t dim_form_gcd(const ir_dims *t, const dim_form *f) {
    int64_t g = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t m;
        if (__builtin_mul_overflow(f->t[i].coef, t->atom[f->t[i].atom].div, &m)) m = f->t[i].coef;
        g = dim_gcd(g, m);
    }
    return g;
}

void dim_remove_term(dim_form *f, uint32_t i) {
    f->n--;
    memmove(&f->t[i], &f->t[i + 1], (f->n - i) * sizeof f->t[0]);
}

/* Drops multiples of k from f: coefficients modulo k, remainders whose modulus k divides. */
static bool reduce_mod(const ir_dims *t, dim_form *f, int64_t k) {
    dim_form out = {.c = f->c - dim_floor(f->c, k) * k};
    for (uint32_t i = 0; i < f->n; i++) {
        int64_t coef = f->t[i].coef % k, m;
        const dim_atom *a = &t->atom[f->t[i].atom];
        if (!__builtin_mul_overflow(coef, a->div, &m) && m % k == 0) continue;
        if (a->kind == DIM_MOD && !__builtin_mul_overflow(coef, a->k, &m) && m % k == 0) {
            dim_form inner; /* c*(y%a) = c*y modulo k, as k divides c*a */
            dim_load(t, a->inner, &inner);
            if (!dim_addmul(t, &out, &inner, coef)) return false;
        } else if (!dim_add_term(t, &out, f->t[i].atom, coef)) {
            return false;
        }
    }
    *f = out;
    f->c -= dim_floor(f->c, k) * k;
    return true;
}

/* f modulo k, as far as remainders open; false on overflow. */
static bool reduce_all(const ir_dims *t, dim_form *f, int64_t k) {
    for (int i = 0; i < 4; i++) /* opening a remainder may bring new multiples of k */
        if (!reduce_mod(t, f, k)) return false;
    return true;
}

/* n, and n + (-n) % 8 of 8, too. */
bool dim_is_multiple(const ir_dims *t, const dim_form *f, int64_t k) {
    dim_form x = *f;
    if (f->c % k == 0 && dim_form_gcd(t, f) % k == 0) return true;
    return reduce_all(t, &x, k) && x.n == 0 && x.c == 0;
}

/* x//k divides without a rest. */
bool dim_is_exact(const ir_dims *t, const dim_atom *a) {
    dim_form x;
    if (a->kind != DIM_FLOORDIV) return false;
    dim_load(t, a->inner, &x);
    return dim_is_multiple(t, &x, a->k);
}

/* One step of dim_join at term i; *changed says whether f was rewritten. */
static bool join_at(const ir_dims *t, dim_form *f, uint32_t i, bool *changed) {
    const dim_atom *a = &t->atom[f->t[i].atom];
    int64_t coef = f->t[i].coef;
    dim_form inner;
    if (a->kind != DIM_FLOORDIV || coef % a->k != 0) return true;
    dim_load(t, a->inner, &inner);
    bool exact = dim_is_exact(t, a);
    uint32_t j = f->n;
    if (!exact) {
        for (j = 0; j < f->n; j++) {
            const dim_atom *b = &t->atom[f->t[j].atom];
            if (b->kind == DIM_MOD && b->inner == a->inner && b->k == a->k &&
                f->t[j].coef == coef / a->k)
                break;
        }
        if (j == f->n) return true;
    }
    int64_t k = coef / a->k;
    if (j < f->n && j > i) dim_remove_term(f, j);
    dim_remove_term(f, i);
    if (j < i) dim_remove_term(f, j);
    *changed = true;
    return dim_addmul(t, f, &inner, k);
}

bool dim_join(const ir_dims *t, dim_form *f) {
    bool changed = true;
    for (int round = 0; changed && round < DIM_MAX_TERMS; round++) {
        changed = false;
        for (uint32_t i = 0; i < f->n && !changed; i++)
            if (!join_at(t, f, i, &changed)) return false;
    }
    return true;
}

static void *new_array(ir_dims *t, uint32_t n, size_t size) {
    void *p = base_arena_array(t->arena, n, size);
    if (!p) t->exhausted = true;
    return p;
}

/* Doubles *p so that it holds one more than n. */
static bool grow(ir_dims *t, void **p, uint32_t n, uint32_t *cap, size_t size) {
    if (n < *cap) return true;
    uint32_t cap2 = *cap ? *cap * 2 : 16;
    void *q = new_array(t, cap2, size);
    if (!q) return false;
    if (n > 0) memcpy(q, *p, n * size);
    *p = q;
    *cap = cap2;
    return true;
}

static uint64_t form_hash(const dim_form *f) {
    uint64_t h = base_hash_mix(17, (uint64_t)f->c);
    for (uint32_t i = 0; i < f->n; i++)
        h = base_hash_mix(base_hash_mix(h, f->t[i].atom), (uint64_t)f->t[i].coef);
    return h;
}

static bool rehash(ir_dims *t, uint32_t n_slot) {
    uint32_t *slot = new_array(t, n_slot, sizeof *slot);
    if (!slot) return false;
    memset(slot, 0xff, n_slot * sizeof *slot);
    for (uint32_t i = 0; i < t->n_node; i++) {
        uint32_t s = (uint32_t)t->node[i].hash & (n_slot - 1);
        while (slot[s] != UINT32_MAX) s = (s + 1) & (n_slot - 1);
        slot[s] = i;
    }
    t->slot = slot;
    t->n_slot = n_slot;
    return true;
}

static bool same_form(const dim_node *n, const dim_form *f) {
    if (n->c != f->c || n->n != f->n) return false;
    for (uint32_t i = 0; i < f->n; i++)
        if (n->t[i].atom != f->t[i].atom || n->t[i].coef != f->t[i].coef) return false;
    return true;
}

/* The handle of a normalised form. */
static ir_dim intern(ir_dims *t, const dim_form *f) {
    assert(f->n <= DIM_MAX_TERMS);
    uint64_t h = form_hash(f);
    uint32_t s = (uint32_t)h & (t->n_slot - 1);
    for (; t->slot[s] != UINT32_MAX; s = (s + 1) & (t->n_slot - 1)) {
        const dim_node *n = &t->node[t->slot[s]];
        if (n->hash == h && same_form(n, f)) return t->slot[s];
    }
    if (!grow(t, (void **)&t->node, t->n_node, &t->cap_node, sizeof *t->node)) return IR_DIM_BAD;
    dim_term *terms = NULL;
    if (f->n > 0) {
        terms = new_array(t, f->n, sizeof *terms);
        if (!terms) return IR_DIM_BAD;
        memcpy(terms, f->t, f->n * sizeof *terms);
    }
    dim_node *n = &t->node[t->n_node];
    *n = (dim_node){.c = f->c, .n = f->n, .t = terms, .hash = h};
    dim_form_bounds(t, f, &n->lo, &n->hi);
    t->slot[s] = t->n_node++;
    if (t->n_node * 2 > t->n_slot && !rehash(t, t->n_slot * 2)) {
        t->n_node--; /* the old table stays; forget the node that did not fit */
        t->slot[s] = UINT32_MAX;
        return IR_DIM_BAD;
    }
    return t->n_node - 1;
}

static bool in_limit(int64_t v) {
    return v >= -DIM_LIMIT && v <= DIM_LIMIT;
}

/* Every form passes here, so numbers inside are far enough from overflow to divide freely. */
ir_dim dim_finish(ir_dims *t, dim_form *f) {
    if (!dim_round(t, f) || !dim_join_products(t, f) || !dim_join(t, f) || !in_limit(f->c))
        return IR_DIM_BAD;
    for (uint32_t i = 0; i < f->n; i++)
        if (!in_limit(f->t[i].coef)) return IR_DIM_BAD;
    return intern(t, f);
}

bool ir_dims_exhausted(const ir_dims *t) {
    return t->exhausted;
}

rp_status ir_dims_refusal(const ir_dims *t) {
    return t->exhausted ? RP_NOMEM : RP_INVALID;
}

ir_dims *ir_dims_new(base_arena *arena) {
    ir_dims *t = base_arena_alloc(arena, sizeof *t);
    if (!t) return NULL;
    t->arena = arena;
    return rehash(t, 64) ? t : NULL;
}

ir_dim ir_dim_const(ir_dims *t, int64_t v) {
    dim_form f = {.c = v};
    return in_limit(v) ? intern(t, &f) : IR_DIM_BAD;
}

uint32_t dim_atom_add(ir_dims *t, dim_atom a) {
    for (uint32_t i = 0; i < t->n_atom; i++) {
        const dim_atom *b = &t->atom[i];
        if (b->kind == a.kind && b->sym == a.sym && b->inner == a.inner && b->other == a.other &&
            b->k == a.k)
            return i;
    }
    if (a.kind == DIM_FLOORDIV || a.kind == DIM_MOD) {
        const dim_node *n = &t->node[a.inner];
        for (uint32_t i = 0; i < n->n; i++)
            if (a.nest <= t->atom[n->t[i].atom].nest) a.nest = t->atom[n->t[i].atom].nest + 1;
        if (a.nest > DIM_MAX_NEST) return UINT32_MAX;
    }
    if (!grow(t, (void **)&t->atom, t->n_atom, &t->cap_atom, sizeof *t->atom)) return UINT32_MAX;
    t->atom[t->n_atom] = a;
    return t->n_atom++;
}

ir_dim dim_single(ir_dims *t, uint32_t atom) {
    if (atom == UINT32_MAX) return IR_DIM_BAD;
    dim_form f = {.n = 1, .t = {{atom, 1}}};
    return intern(t, &f);
}

static bool good_name(const char *s) {
    if (!ir_alpha(*s) && *s != '_') return false;
    size_t n = 0;
    for (; s[n]; n++)
        if (!ir_word_char(s[n]) || n >= DIM_MAX_NAME) return false;
    return true;
}

void ir_dims_set_hint(ir_dims *t, uint32_t i, int64_t hint) {
    if (i < t->n_sym) t->sym[i].hint = hint;
}

ir_dim ir_dim_symbol(ir_dims *t, const char *name, int64_t min, int64_t max, int64_t divisor) {
    uint32_t i = ir_dims_find(t, name);
    if (!good_name(name) || min > max || divisor < 1 || divisor > DIM_LIMIT) return IR_DIM_BAD;
    if (min < -DIM_LIMIT || min > DIM_LIMIT || (max > DIM_LIMIT && max != INT64_MAX))
        return IR_DIM_BAD;
    int64_t lo = -dim_floor(-min, divisor) * divisor;
    int64_t hi = max == INT64_MAX ? max : dim_floor(max, divisor) * divisor;
    if (lo > hi) return IR_DIM_BAD; /* no multiple of the divisor in the range */
    if (i == UINT32_MAX) {
        if (!grow(t, (void **)&t->sym, t->n_sym, &t->cap_sym, sizeof *t->sym)) return IR_DIM_BAD;
        char *copy = base_arena_str(t->arena, name);
        if (!copy) t->exhausted = true;
        if (!copy) return IR_DIM_BAD;
        i = t->n_sym++;
        t->sym[i] = (ir_symbol){copy, min, max, divisor, -1};
    } else if (t->sym[i].min != min || t->sym[i].max != max || t->sym[i].divisor != divisor) {
        return IR_DIM_BAD;
    }
    return dim_single(t, dim_atom_add(t, (dim_atom){.kind = DIM_SYMBOL,
                                                    .sym = i,
                                                    .inner = IR_DIM_BAD,
                                                    .lo = lo,
                                                    .hi = hi,
                                                    .div = divisor}));
}

ir_dim ir_dim_add(ir_dims *t, ir_dim a, ir_dim b) {
    dim_form f, g;
    if (!dim_valid(t, a) || !dim_valid(t, b)) return IR_DIM_BAD;
    dim_load(t, a, &f);
    dim_load(t, b, &g);
    return dim_addmul(t, &f, &g, 1) ? dim_finish(t, &f) : IR_DIM_BAD;
}

ir_dim ir_dim_sub(ir_dims *t, ir_dim a, ir_dim b) {
    dim_form f, g;
    if (!dim_valid(t, a) || !dim_valid(t, b)) return IR_DIM_BAD;
    dim_load(t, a, &f);
    dim_load(t, b, &g);
    return dim_addmul(t, &f, &g, -1) ? dim_finish(t, &f) : IR_DIM_BAD;
}

ir_dim ir_dim_mul_const(ir_dims *t, ir_dim a, int64_t k) {
    dim_form f = {0}, g;
    if (!dim_valid(t, a)) return IR_DIM_BAD;
    dim_load(t, a, &g);
    return dim_addmul(t, &f, &g, k) ? dim_finish(t, &f) : IR_DIM_BAD;
}

/* --- divisions -------------------------------------------------------------------------- */

/* The atom f//k or f%k of a reduced form, or the constant it must be. */
static ir_dim divmod_atom(ir_dims *t, dim_form *f, int64_t k, dim_atom_kind kind) {
    int64_t lo, hi;
    ir_dim inner = dim_finish(t, f);
    if (inner == IR_DIM_BAD) return IR_DIM_BAD;
    lo = t->node[inner].lo;
    hi = t->node[inner].hi;
    bool one_period = lo != INT64_MIN && hi != INT64_MAX && dim_floor(lo, k) == dim_floor(hi, k);
    dim_atom a = {.kind = kind, .inner = inner, .k = k, .div = 1};
    assert(k > 1 && lo <= hi);
    dim_load(t, inner, f);
    int64_t g = dim_gcd(dim_form_gcd(t, f), f->c);
    if (kind == DIM_FLOORDIV) {
        if (one_period) return ir_dim_const(t, dim_floor(lo, k));
        a.lo = lo == INT64_MIN ? lo : dim_floor(lo, k);
        a.hi = hi == INT64_MAX ? hi : dim_floor(hi, k);
        if (g != 0 && g % k == 0) a.div = g / k;
    } else {
        if (one_period) return ir_dim_sub(t, inner, ir_dim_const(t, dim_floor(lo, k) * k));
        a.hi = k - 1;
        a.div = dim_gcd(g, k);
        a.hi -= a.hi % a.div;
    }
    return dim_single(t, dim_atom_add(t, a));
}

/* Takes from f what divides exactly: *whole receives the sum of those parts over k. The rest has
 * |coef| < k and a constant in [0, k). */
static bool take_multiples(const ir_dims *t, dim_form *f, int64_t k, dim_form *whole) {
    dim_form rest = {0};
    *whole = (dim_form){.c = dim_floor(f->c, k)};
    rest.c = f->c - whole->c * k;
    for (uint32_t i = 0; i < f->n; i++) {
        if (!dim_add_term(t, whole, f->t[i].atom, f->t[i].coef / k)) return false;
        if (!dim_add_term(t, &rest, f->t[i].atom, f->t[i].coef % k)) return false;
    }
    *f = rest;
    return true;
}

/* (x//a + c) // b = (x + a*c) // (a*b): *x and *ab, when f is one floor-division and a constant. */
static bool nested_floordiv(ir_dims *t, const dim_form *f, int64_t b, ir_dim *x, int64_t *ab) {
    int64_t ac;
    if (f->n != 1 || f->t[0].coef != 1) return false;
    const dim_atom *a = &t->atom[f->t[0].atom];
    if (a->kind != DIM_FLOORDIV) return false;
    if (__builtin_mul_overflow(a->k, f->c, &ac) || __builtin_mul_overflow(a->k, b, ab))
        return false;
    *x = ir_dim_add(t, a->inner, ir_dim_const(t, ac));
    return *x != IR_DIM_BAD && *ab <= DIM_LIMIT;
}

/* Moves terms that are multiples of k by their atom's divisor from f to (exact // k). */
static ir_dim take_exact(ir_dims *t, dim_form *f, int64_t k) {
    ir_dim sum = ir_dim_const(t, 0);
    for (uint32_t i = 0; i < f->n;) {
        int64_t m;
        bool whole = f->n > 1 || f->c != 0;
        if (whole && !__builtin_mul_overflow(f->t[i].coef, t->atom[f->t[i].atom].div, &m) &&
            m % k == 0) {
            dim_form one = {.n = 1, .t = {f->t[i]}};
            sum = ir_dim_add(t, sum, ir_dim_floordiv(t, intern(t, &one), k));
            dim_remove_term(f, i);
        } else {
            i++;
        }
    }
    return sum;
}

ir_dim ir_dim_floordiv(ir_dims *t, ir_dim a, int64_t k) {
    dim_form f, whole;
    ir_dim x, r;
    int64_t kk;
    if (!dim_valid(t, a) || k < 1 || k > DIM_LIMIT) return IR_DIM_BAD;
    if (k == 1) return a;
    dim_load(t, a, &f);
    if (!take_multiples(t, &f, k, &whole)) return IR_DIM_BAD;
    ir_dim exact = take_exact(t, &f, k);
    ir_dim w = dim_finish(t, &whole);
    int64_t g = k, low = f.c;
    f.c = 0; /* (x + c) // k = x//k where x is a multiple of k, and c below that */
    if (!dim_is_multiple(t, &f, k)) f.c = low;
    for (uint32_t i = 0; i < f.n; i++) g = dim_gcd(g, f.t[i].coef);
    /* floor((g*x + c) / k) = floor((x + floor(c/g)) / (k/g)) */
    f.c = dim_floor(f.c, g);
    for (uint32_t i = 0; i < f.n; i++) f.t[i].coef /= g;
    k /= g;
    if (k == 1 || f.n == 0)
        r = f.n == 0 ? ir_dim_const(t, dim_floor(f.c, k)) : dim_finish(t, &f);
    else if (g > 1) /* smaller: may divide further */
        r = ir_dim_floordiv(t, dim_finish(t, &f), k);
    else if (nested_floordiv(t, &f, k, &x, &kk))
        r = ir_dim_floordiv(t, x, kk);
    else
        r = divmod_atom(t, &f, k, DIM_FLOORDIV);
    return ir_dim_add(t, ir_dim_add(t, w, exact), r);
}

ir_dim ir_dim_mod(ir_dims *t, ir_dim a, int64_t k) {
    dim_form f;
    if (!dim_valid(t, a) || k < 1 || k > DIM_LIMIT) return IR_DIM_BAD;
    if (k == 1) return ir_dim_const(t, 0);
    dim_load(t, a, &f);
    if (!reduce_all(t, &f, k)) return IR_DIM_BAD;
    if (f.n == 0) return ir_dim_const(t, f.c);
    int64_t g = k;
    for (uint32_t i = 0; i < f.n; i++) g = dim_gcd(g, f.t[i].coef);
    if (g == 1) return divmod_atom(t, &f, k, DIM_MOD);
    /* (g*x + c) % k = g * ((x + c//g) % (k/g)) + c%g */
    int64_t low = f.c % g;
    f.c /= g;
    for (uint32_t i = 0; i < f.n; i++) f.t[i].coef /= g;
    ir_dim r = ir_dim_mul_const(t, ir_dim_mod(t, dim_finish(t, &f), k / g), g);
    return ir_dim_add(t, r, ir_dim_const(t, low));
}
