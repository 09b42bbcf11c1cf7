/* Which sizes are 0 where another one is: a sum of terms that are not negative is 0 where each of them is, and a term where one of its
 * factors is. So each way to choose a factor a term must make one of the sizes 0. */
#include "ir/dim_form.h"

enum { MOST_CHOSEN = 4 };

typedef struct chosen {
    uint32_t n;
    uint32_t atom[MOST_CHOSEN]; /* no products; they are 0 */
} chosen;

static bool is_zero(const ir_dims *t, const chosen *c, uint32_t atom) {
    for (; t->atom[atom].kind == DIM_PRODUCT; atom = t->node[t->atom[atom].other].t[0].atom)
        if (is_zero(t, c, t->node[t->atom[atom].inner].t[0].atom)) return true;
    uint32_t i = 0;
    while (i < c->n && c->atom[i] != atom) i++;
    return i < c->n;
}

/* All terms are 0, and nothing is added. */
static bool is_empty(const ir_dims *t, const chosen *c, ir_dim d) {
    if (!dim_valid(t, d) || t->node[d].c != 0) return false;
    uint32_t i = 0;
    while (i < t->node[d].n && is_zero(t, c, t->node[d].t[i].atom)) i++;
    return i == t->node[d].n;
}

static bool each_way(const ir_dims *t, ir_dim d, const ir_dim *of, uint32_t n, const chosen *c) {
    const dim_node *x = &t->node[d];
    uint32_t i = 0;
    for (uint32_t k = 0; k < n; k++)
        if (is_empty(t, c, of[k])) return true;
    while (i < x->n && is_zero(t, c, x->t[i].atom)) i++;
    if (i == x->n || c->n == MOST_CHOSEN) return false;
    uint32_t rest = x->t[i].atom;
    for (bool last = false; !last;) {
        last = t->atom[rest].kind != DIM_PRODUCT;
        chosen more = *c;
        const uint32_t factor = last ? rest : t->node[t->atom[rest].inner].t[0].atom;
        more.atom[more.n++] = factor;
        if (t->atom[factor].lo < 1 && !each_way(t, d, of, n, &more)) return false;
        if (!last) rest = t->node[t->atom[rest].other].t[0].atom;
    }
    return true;
}

/* The same but for what it is a multiple of. */
static ir_dim reduced(ir_dims *t, ir_dim d) {
    const int64_t k = ir_dim_factor(t, d);
    return k > 1 ? ir_dim_floordiv(t, d, k) : d;
}

bool ir_dim_empty_with(ir_dims *t, ir_dim d, const ir_dim *of, uint32_t n) {
    const chosen none = {0};
    if (!dim_valid(t, d)) return false;
    const ir_dim one = reduced(t, d);
    for (uint32_t k = 0; k < n; k++)
        if (one != IR_DIM_BAD && dim_valid(t, of[k]) && reduced(t, of[k]) == one) return true;
    const dim_node *x = &t->node[d];
    for (uint32_t i = 0; i < x->n; i++)
        if (x->t[i].coef < 0 || t->atom[x->t[i].atom].lo < 0) return false;
    return x->c > 0 || (x->c == 0 && each_way(t, d, of, n, &none));
}
