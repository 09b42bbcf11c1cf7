/* Ranges, divisors and equal symbols under which a need holds for sure, where none says the same: H % 2 == 0 and W % 2 == 0 for
 * 4*(H//2)*(W//2) == H*W, A == C and B == D for A + B == C + D, A <= 6 <= B for A <= B.
 *
 * They are tried in a table of their own, and hold for the examples. Work is bounded by the bits of a size and the operations of a program. */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/gcd.h"
#include "front/solver.h"

enum { MOST_DIVISOR = 1 << 30, MOST_PAIRS = 4, MOST_TRIES = 256, FAR = 1 << 20 };
static const int64_t MOST_SIZE = INT64_C(1) << 40; /* tried as a bound */

/* d r 0, which comes of f */
typedef struct trial {
    const front_solver *s;
    const front_fact *f;
    ir_dim d;
    rp_relation r;
    front_enough *e; /* by symbol */
} trial;

/* d in t, whose symbols have what is tried. */
static ir_dim tried(const trial *x, base_arena *arena, ir_dims *t) {
    const uint32_t n = ir_dims_symbol_count(x->s->t);
    ir_dim *by = base_arena_array(arena, n + 1u, sizeof *by);
    if (!by) return IR_DIM_BAD;
    for (uint32_t i = 0; i < n; i++) by[i] = IR_DIM_BAD;
    for (uint32_t i = 0; i < x->s->n_symbols; i++) {
        const front_symbol *y = &x->s->symbol[i];
        const front_enough *e = &x->e[i];
        if (!e->used) continue;
        if (e->as != UINT32_MAX) /* an earlier one */
            by[y->table_i] = by[x->s->symbol[e->as].table_i];
        else if (e->fixed)
            by[y->table_i] = ir_dim_const(t, y->hint);
        else
            by[y->table_i] = ir_dim_symbol(t, y->name, e->min, e->max, e->divisor);
        if (by[y->table_i] == IR_DIM_BAD) return IR_DIM_BAD;
    }
    ir_dims_set_import(t, x->s->t, by, n);
    return ir_dim_import(t, x->s->t, x->d);
}

static bool holds(const trial *x) {
    base_arena *arena = base_arena_new();
    ir_dims *t = arena ? ir_dims_new(arena) : NULL;
    bool yes = false;
    if (t) {
        ir_dim d = tried(x, arena, t), zero = ir_dim_const(t, 0);
        yes = (x->r == RP_DIM_EQ ? ir_dim_eq : ir_dim_le)(t, d, zero) == IR_TRUE;
    }
    base_arena_free(arena);
    return yes;
}

static void own_ranges(trial *x) {
    for (uint32_t i = 0; i < x->s->n_symbols; i++) {
        x->e[i].min = x->s->symbol[i].min;
        x->e[i].max = x->s->symbol[i].max;
        x->e[i].fixed = false;
    }
}

/* --- equal symbols -------------------------------------------------------------------------- */

static bool may_be(const front_symbol *y, const front_symbol *other) {
    return y->hint == other->hint && !y->strict && !other->strict;
}

/* With n symbols from `first` on as earlier ones of the same example. */
static bool pairs_from(trial *x, uint32_t first, uint32_t n, uint32_t *tries) {
    for (uint32_t k = first; k < x->s->n_symbols; k++)
        for (uint32_t i = 0; x->e[k].used && i < k; i++) {
            if (!x->e[i].used || x->e[i].as != UINT32_MAX) continue;
            if (!may_be(&x->s->symbol[k], &x->s->symbol[i]) || *tries == 0) continue;
            x->e[k].as = i;
            --*tries;
            if (n == 1 ? holds(x) : pairs_from(x, k + 1, n - 1, tries)) return true;
            x->e[k].as = UINT32_MAX;
        }
    return false;
}

/* As few as are enough. */
static bool by_pairs(trial *x) {
    uint32_t tries = MOST_TRIES;
    own_ranges(x);
    for (uint32_t n = 1; n <= MOST_PAIRS; n++)
        if (pairs_from(x, 0, n, &tries)) return true;
    return false;
}

/* --- divisors ------------------------------------------------------------------------------- */

/* What symbol i is a multiple of where it is one of k, too, as its example is; else what it is anyhow. */
static int64_t joined(const trial *x, uint32_t i, int64_t k) {
    const front_symbol *y = &x->s->symbol[i];
    int64_t more = k / base_gcd(k, y->divisor);
    if (more > MOST_DIVISOR / y->divisor || y->hint % (more * y->divisor) != 0) return y->divisor;
    return more * y->divisor;
}

/* What operation `at` of f divides by; 1 where it does not. */
static int64_t divides(const trial *x, uint32_t at) {
    const ir_dim_code *c = at < IR_DIM_CODE_MAX ? &x->f->a : &x->f->b;
    at %= IR_DIM_CODE_MAX;
    bool is = at < c->n && (c->op[at] == IR_DIM_CODE_FLOORDIV || c->op[at] == IR_DIM_CODE_MOD);
    return is ? c->k[at] : 1;
}

/* The least divisor of symbol i that is enough beside those of the others. */
static void least_divisor(trial *x, uint32_t i) {
    int64_t best = x->e[i].divisor;
    x->e[i].divisor = x->s->symbol[i].divisor;
    if (holds(x)) return;
    for (uint32_t at = 0; at < 2 * IR_DIM_CODE_MAX; at++) {
        x->e[i].divisor = joined(x, i, divides(x, at));
        if (x->e[i].divisor > x->s->symbol[i].divisor && x->e[i].divisor < best && holds(x))
            best = x->e[i].divisor;
    }
    x->e[i].divisor = best;
}

/* Numbers, but for those symbols that need not be. */
static bool by_divisors(trial *x) {
    for (uint32_t i = 0; i < x->s->n_symbols; i++) x->e[i].fixed = x->e[i].used;
    if (!holds(x)) return false;
    for (uint32_t i = 0; i < x->s->n_symbols; i++) {
        int64_t all = 1;
        for (uint32_t at = 0; x->e[i].used && at < 2 * IR_DIM_CODE_MAX; at++) {
            int64_t k = joined(x, i, divides(x, at)), more = k / base_gcd(k, all);
            if (more <= MOST_DIVISOR / all && x->s->symbol[i].hint % (more * all) == 0) all *= more;
        }
        if (!x->e[i].used) continue;
        x->e[i].divisor = joined(x, i, all);
        x->e[i].fixed = false;
        x->e[i].fixed = !holds(x);
        if (!x->e[i].fixed) least_divisor(x, i);
    }
    return true;
}

/* --- ranges --------------------------------------------------------------------------------- */

/* With each symbol m or more, or m at most, but for its example. */
static bool from(trial *x, int64_t m) {
    for (uint32_t i = 0; i < x->s->n_symbols; i++) {
        const front_symbol *y = &x->s->symbol[i];
        int64_t least = m < y->hint ? m : y->hint;
        x->e[i].min = least > y->min ? least : y->min;
    }
    return holds(x);
}

static bool up_to(trial *x, int64_t m) {
    for (uint32_t i = 0; i < x->s->n_symbols; i++) {
        const front_symbol *y = &x->s->symbol[i];
        int64_t most = m > y->hint ? m : y->hint;
        x->e[i].max = most < y->max ? most : y->max;
    }
    return holds(x);
}

/* The bound nearest to `loose` that is enough; `tight` is. */
static bool loosest(trial *x, bool (*with)(trial *x, int64_t m), int64_t tight, int64_t loose) {
    if (!with(x, tight)) return false;
    while (tight - loose > 1 || loose - tight > 1) {
        int64_t m = tight + (loose - tight) / 2;
        if (with(x, m))
            tight = m;
        else
            loose = m;
    }
    return with(x, tight);
}

/* A bound for all of them. */
static bool by_bound(trial *x) {
    int64_t most = 0, least = INT64_MAX;
    own_ranges(x);
    for (uint32_t i = 0; i < x->s->n_symbols; i++) {
        const int64_t hint = x->s->symbol[i].hint;
        if (!x->e[i].used) continue;
        if (hint > most) most = hint;
        if (hint < least) least = hint;
    }
    if (most > MOST_SIZE) return false;
    if (loosest(x, from, most, -1)) return true;
    (void)from(x, -1);
    return loosest(x, up_to, least, MOST_SIZE);
}

/* Symbol i at most t above its example, or at most t below it. */
static bool side(trial *x, uint32_t i, int64_t t) {
    const front_symbol *y = &x->s->symbol[i];
    front_enough *e = &x->e[i];
    e->min = y->min;
    e->max = y->max;
    if (e->up && y->max - y->hint > t) e->max = y->hint + t;
    if (!e->up && y->hint - y->min > t) e->min = y->hint - t;
    return holds(x);
}

/* Symbol i as far from its example as what is left for it and for others - 1 behind it allows, shared evenly. */
static void loosen(trial *x, uint32_t i, uint32_t others) {
    int64_t t = 0, step = 1;
    if (side(x, i, INT64_MAX)) return;
    while (step < MOST_SIZE && side(x, i, t + step)) t += step, step *= 2;
    for (; step > 0; step /= 2)
        if (side(x, i, t + step)) t += step;
    (void)side(x, i, t / others);
}

/* Whether the form falls as symbol i grows, which then has a least size. */
static bool falls(const trial *x, uint32_t i) {
    int64_t *v = &x->s->value[x->s->symbol[i].table_i];
    const int64_t hint = *v, at = ir_dim_eval(x->s->t, x->d, x->s->value);
    *v = hint + FAR;
    bool less = ir_dim_eval(x->s->t, x->d, x->s->value) < at;
    *v = hint;
    return less;
}

/* A bound for each of them, between its example and what is enough for all. */
static bool by_sides(trial *x) {
    uint32_t n = 0;
    own_ranges(x);
    for (uint32_t i = 0; i < x->s->n_symbols; i++) x->e[i].fixed = x->e[i].used;
    if (!holds(x)) return false;
    for (uint32_t i = 0; i < x->s->n_symbols; i++) {
        front_enough *e = &x->e[i];
        if (!e->used) continue;
        e->up = !falls(x, i);
        e->fixed = false;
        e->fixed = !side(x, i, 0);
        n += !e->fixed;
    }
    for (uint32_t i = 0, left = n; left && i < x->s->n_symbols; i++)
        if (x->e[i].used && !x->e[i].fixed) loosen(x, i, left--);
    return n > 0;
}

/* How far each symbol may at least go from its example; -1: no ranges are found. */
static int64_t room_of(const trial *x, bool found) {
    int64_t room = INT64_MAX;
    for (uint32_t i = 0; i < x->s->n_symbols && found; i++) {
        const front_symbol *y = &x->s->symbol[i];
        const front_enough *e = &x->e[i];
        if (!e->used) continue;
        if (e->fixed) return 0;
        if (e->min > y->min && y->hint - e->min < room) room = y->hint - e->min;
        if (e->max < y->max && e->max - y->hint < room) room = e->max - y->hint;
    }
    return found ? room : -1;
}

/* The ranges with more room; pairs where there is none. */
static bool by_ranges(trial *x) {
    int64_t bound = room_of(x, by_bound(x)), sides = room_of(x, by_sides(x));
    if (bound <= 0 && sides <= 0 && by_pairs(x)) return true;
    return bound >= sides ? by_bound(x) : by_sides(x);
}

front_enough *front_solver_enough(const front_solver *s, const front_fact *f, ir_dim d,
                                  rp_relation r) {
    front_enough *e = base_alloc_array(s->n_symbols + 1u, sizeof *e);
    trial x = {.s = s, .f = f, .d = d, .r = r, .e = e};
    if (!e) return NULL;
    for (uint32_t i = 0; i < s->n_symbols; i++) {
        const front_symbol *y = &s->symbol[i];
        e[i] =
            (front_enough){.min = y->min, .max = y->max, .divisor = y->divisor, .as = UINT32_MAX};
        e[i].used = y->table_i != UINT32_MAX && ir_dim_uses(s->t, d, y->table_i);
    }
    bool ok = r == RP_DIM_EQ ? by_pairs(&x) || by_divisors(&x) : r == RP_DIM_LE && by_ranges(&x);
    if (ok) return e;
    base_free(e);
    return NULL;
}
