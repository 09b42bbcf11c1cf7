/* The solver. Work is bounded: a fact is linear in what it narrows, or it stays as it is; nothing is searched for. */
#include "front/solver.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/gcd.h"
#include "base/log.h"

/* A bound beyond it is none that anything asked for. */
static const int64_t FAR = INT64_C(1) << 40;

void front_solver_done(front_solver *s) {
    for (uint32_t i = 0; i < s->n_symbols; i++) base_free(s->symbol[i].source);
    for (uint32_t i = 0; i < s->n_facts; i++) base_free(s->fact[i].file);
    base_free(s->symbol);
    base_free(s->fact);
    base_free(s->value);
    *s = (front_solver){0};
}

rp_status front_solver_copy(const front_solver *s, front_solver *out, rp_error *err) {
    front_solver c = {.what = s->what, .told = s->told, .pass = s->pass};
    bool ok = true;
    c.symbol = base_alloc_array(s->n_symbols + 1u, sizeof *c.symbol);
    c.fact = base_alloc_array(s->n_facts + 1u, sizeof *c.fact);
    if (!c.symbol || !c.fact) ok = false;
    for (; ok && c.n_symbols < s->n_symbols; c.n_symbols++) {
        front_symbol *y = &c.symbol[c.n_symbols];
        *y = s->symbol[c.n_symbols];
        y->source = base_strdup(y->source);
        ok = y->source != NULL;
    }
    for (; ok && c.n_facts < s->n_facts; c.n_facts++) {
        front_fact *f = &c.fact[c.n_facts];
        *f = s->fact[c.n_facts];
        if (f->file) ok = (f->file = base_strdup(f->file)) != NULL;
    }
    c.cap_facts = s->n_facts + 1u;
    if (ok) {
        *out = c;
        return RP_OK;
    }
    front_solver_done(&c);
    return rp_fail(err, RP_NOMEM, "guards of %s", s->what);
}

void front_solver_restart(front_solver *s, const front_symbol *first, uint32_t n) {
    for (uint32_t i = 0; i < s->n_facts; i++) base_free(s->fact[i].file);
    for (uint32_t i = n; i < s->n_symbols; i++) base_free(s->symbol[i].source);
    for (uint32_t i = 0; i < n; i++) {
        front_symbol *y = &s->symbol[i];
        const bool literal = y->literal, asked = y->asked;
        *y = first[i]; /* of the same source */
        y->literal = literal;
        y->asked = literal && asked;
        y->fixed = y->fixed || literal;
    }
    s->room += s->n_symbols - n;
    s->n_symbols = n;
    s->n_facts = s->told = 0;
}

bool front_solver_settle(front_solver *s) {
    bool any = false;
    for (uint32_t i = 0; i < s->n_symbols; i++) {
        front_symbol *y = &s->symbol[i];
        if (y->policy != FRONT_BACKED || y->fixed) continue;
        y->fixed = any = true;
    }
    s->learnt += any;
    return any;
}

/* --- sizes in a table ------------------------------------------------------------------------ */

static ir_dim form_of(front_solver *s, const ir_dim_code *c);
static void violated(front_solver *s, const front_symbol *y, const front_fact *f, const char *what);
static const char *source_of(const void *solver, uint32_t i);

bool front_solver_reserve(front_solver *s, uint32_t n) {
    if (n <= s->n_values) return true;
    int64_t *value = base_realloc_array(s->value, n, sizeof *value);
    if (!value) return false;
    s->value = value;
    s->n_values = n;
    return true;
}

static ir_dim make_symbol(front_solver *s, front_symbol *y) {
    if (y->table_i != UINT32_MAX) return y->dim;
    uint32_t before = ir_dims_symbol_count(s->t);
    ir_dim d = ir_dim_symbol(s->t, y->name, y->min, y->max, y->divisor);
    if (d == IR_DIM_BAD || ir_dims_symbol_count(s->t) == before) return d;
    if (!front_solver_reserve(s, before + 1u)) {
        (void)rp_fail(s->err, RP_NOMEM, "sizes of %s", s->what);
        return IR_DIM_BAD;
    }
    s->value[before] = y->hint;
    if (y->policy != FRONT_UNBACKED) ir_dims_set_hint(s->t, before, y->hint);
    y->table_i = before;
    return y->dim = d;
}

ir_dim front_solver_size(front_solver *s, uint32_t i) {
    front_symbol *y = &s->symbol[i];
    if (y->fixed) return ir_dim_const(s->t, y->hint);
    if (y->replaced) return form_of(s, &y->as);
    return make_symbol(s, y);
}

/* What a program says, in the table of this pass. */
static ir_dim form_of(front_solver *s, const ir_dim_code *c) {
    ir_dim stack[IR_DIM_CODE_STACK + 1] = {0}, *top = stack;
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t k = c->k[i];
        switch ((ir_dim_code_op)c->op[i]) {
        case IR_DIM_CODE_CONST: *top++ = ir_dim_const(s->t, k); break;
        case IR_DIM_CODE_SYMBOL: *top++ = front_solver_size(s, (uint32_t)k); break;
        case IR_DIM_CODE_ADD: top--, top[-1] = ir_dim_add(s->t, top[-1], *top); break;
        case IR_DIM_CODE_MUL: top--, top[-1] = ir_dim_mul(s->t, top[-1], *top); break;
        case IR_DIM_CODE_ADD_CONST:
            top[-1] = ir_dim_add(s->t, top[-1], ir_dim_const(s->t, k));
            break;
        case IR_DIM_CODE_MUL_CONST: top[-1] = ir_dim_mul_const(s->t, top[-1], k); break;
        case IR_DIM_CODE_FLOORDIV: top[-1] = ir_dim_floordiv(s->t, top[-1], k); break;
        case IR_DIM_CODE_MOD: top[-1] = ir_dim_mod(s->t, top[-1], k); break;
        case IR_DIM_CODE_OP_COUNT_: return IR_DIM_BAD;
        }
    }
    return stack[0];
}

/* A mark of a size that is a form of others, which have become numbers. */
static void check_mark(front_solver *s, const front_symbol *y) {
    int64_t number;
    char what[96];
    if (y->policy != FRONT_MARKED || !y->replaced || y->fixed) return;
    if (!ir_dim_is_const(s->t, form_of(s, &y->as), &number)) return;
    (void)snprintf(what, sizeof what, "your code specialized it to be a constant (%" PRId64 ")",
                   number);
    violated(s, y, NULL, what);
}

void front_solver_again(front_solver *s) {
    uint32_t n = 0, told = 0;
    for (uint32_t i = 0; i < s->n_facts; i++) {
        if (s->fact[i].postponed) {
            base_free(s->fact[i].file);
            continue;
        }
        told += i < s->told;
        s->fact[n++] = s->fact[i];
    }
    s->n_facts = n;
    s->told = told;
}

rp_status front_solver_begin(front_solver *s, ir_dims *t, rp_error *trace) {
    s->t = t;
    s->err = trace;
    s->pass++;
    s->changed = s->runs = false;
    for (uint32_t i = 0; i < s->n_symbols; i++) s->symbol[i].table_i = UINT32_MAX;
    for (uint32_t i = 0; i < s->n_symbols; i++)
        if (front_solver_size(s, i) == IR_DIM_BAD)
            return rp_fail(trace, RP_NOMEM, "sizes of %s", s->what);
    for (uint32_t i = 0; i < s->n_symbols && !s->refused; i++) check_mark(s, &s->symbol[i]);
    return s->refused ? trace->code : RP_OK;
}

/* The solver's symbol behind symbol i of the table; UINT32_MAX for one that the function made. */
static uint32_t symbol_of(const front_solver *s, uint32_t table_i) {
    uint32_t i = 0;
    while (i < s->n_symbols && s->symbol[i].table_i != table_i) i++;
    return i < s->n_symbols ? i : UINT32_MAX;
}

/* d as a program over the solver's symbols; false where it has none. */
static bool code_of(const front_solver *s, ir_dim d, ir_dim_code *out) {
    if (d == IR_DIM_BAD || ir_dim_code_of(s->t, d, out, NULL) != RP_OK) return false;
    for (uint32_t i = 0; i < out->n; i++) {
        if (out->op[i] != IR_DIM_CODE_SYMBOL) continue;
        uint32_t y = symbol_of(s, (uint32_t)out->k[i]);
        if (y == UINT32_MAX) return false;
        out->k[i] = y;
    }
    return true;
}

static bool uses(const front_solver *s, ir_dim d, uint32_t symbol) {
    uint32_t i = s->symbol[symbol].table_i;
    return i != UINT32_MAX && ir_dim_uses(s->t, d, i);
}

/* Every symbol of d has an example. */
static bool has_hint(const front_solver *s, ir_dim d) {
    for (uint32_t i = 0; i < ir_dims_symbol_count(s->t); i++) {
        uint32_t y = symbol_of(s, i);
        if (ir_dim_uses(s->t, d, i) && (y == UINT32_MAX || s->symbol[y].policy == FRONT_UNBACKED))
            return false;
    }
    return true;
}

/* --- learning --------------------------------------------------------------------------------- */

/* torch's words for a mark that does not hold; f, or NULL: what it does not hold for. */
static void violated(front_solver *s, const front_symbol *y, const front_fact *f,
                     const char *what) {
    base_buf b;
    s->refused = true;
    base_buf_init(&b, 0);
    if (f) base_buf_puts(&b, ": ");
    if (f) front_fact_print(s, f, &b);
    (void)rp_fail(
        s->err, RP_INVALID,
        "Constraints violated (%s)! You marked %s as dynamic but %s%s; change the mark, or "
        "what is asked",
        y->source, y->source, what, b.data ? b.data : "");
    base_buf_done(&b);
}

static void fix(front_solver *s, const front_fact *f, uint32_t i) {
    front_symbol *y = &s->symbol[i];
    if (y->fixed) return;
    if (y->policy != FRONT_BACKED) {
        char what[96];
        (void)snprintf(what, sizeof what, "your code specialized it to be a constant (%" PRId64 ")",
                       y->hint);
        violated(s, y, f, what);
    }
    y->fixed = true;
    s->changed = true;
    s->learnt++;
}

static bool narrow(front_solver *s, const front_fact *f, uint32_t i, int64_t min, int64_t max) {
    front_symbol *y = &s->symbol[i];
    if (min <= y->min && max >= y->max) return true;
    if (y->strict) violated(s, y, f, "not all of its range is served");
    if (min > y->min) y->min = min;
    if (max < y->max) y->max = max;
    s->changed = true;
    s->learnt++;
    if (y->min == y->max) fix(s, f, i);
    return true;
}

static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* coef * symbol + c  r  0 */
static bool learn_linear(front_solver *s, const front_fact *f, uint32_t i, int64_t coef, int64_t c,
                         rp_relation r) {
    const front_symbol *y = &s->symbol[i];
    if (coef == INT64_MIN || c == INT64_MIN) return false;
    if (r == RP_DIM_EQ) {
        fix(s, f, i);
        return true;
    }
    if (r == RP_DIM_LE)
        return coef > 0 ? narrow(s, f, i, INT64_MIN, floor_div(-c, coef))
                        : narrow(s, f, i, -floor_div(-c, -coef), INT64_MAX);
    if (c % coef != 0) return true; /* it never is */
    if (-c / coef == y->min) return narrow(s, f, i, y->min + 1, INT64_MAX);
    return -c / coef == y->max && narrow(s, f, i, INT64_MIN, y->max - 1);
}

/* symbol % k == 0 */
static bool learn_divisor(front_solver *s, const front_fact *f, uint32_t i, int64_t k) {
    front_symbol *y = &s->symbol[i];
    int64_t joined = 0;
    if (__builtin_mul_overflow(y->divisor, k / base_gcd(y->divisor, k), &joined) ||
        joined > INT64_C(1) << 31)
        return false;
    if (joined == y->divisor) return true;
    if (y->strict) violated(s, y, f, "not all of its range is served");
    y->divisor = joined;
    s->changed = true;
    s->learnt++;
    return true;
}

/* The symbol that y is as, where that is one. */
static bool as_symbol(const front_symbol *y, uint32_t *out) {
    if (y->as.n != 1 || y->as.op[0] != IR_DIM_CODE_SYMBOL) return false;
    *out = (uint32_t)y->as.k[0];
    return true;
}

/* y is y->as from now on, which is in [lo, hi]. */
static void replace(front_solver *s, const front_fact *f, front_symbol *y, int64_t lo, int64_t hi) {
    uint32_t other;
    if (as_symbol(y, &other)) { /* one of two: it has both ranges */
        front_symbol *o = &s->symbol[other];
        if (y->policy == FRONT_MARKED && o->policy == FRONT_BACKED) o->policy = FRONT_MARKED;
        (void)narrow(s, f, other, y->min, y->max);
        (void)learn_divisor(s, f, other, y->divisor);
        if (o->divisor > 1) hi = lo; /* of what a mark says not all */
    }
    y->replaced = true;
    s->changed = true;
    s->learnt++;
    if (y->strict && (lo > y->min || hi < y->max))
        violated(s, y, f, "not all of its range is served");
}

/* d == 0 as symbol i in terms of others: where it stands alone with a factor of 1 or -1, and what it then is cannot be
 * negative, nor outside of what a mark says. */
static bool replace_one(front_solver *s, const front_fact *f, ir_dim d, uint32_t i) {
    front_symbol *y = &s->symbol[i];
    uint32_t other;
    int64_t lo, hi;
    if (y->table_i == UINT32_MAX || y->policy == FRONT_UNBACKED) return false;
    ir_dim self = make_symbol(s, y), rest = ir_dim_add(s->t, d, self);
    if (rest == IR_DIM_BAD || uses(s, rest, i)) {
        rest = ir_dim_sub(s->t, self, d);
        if (rest == IR_DIM_BAD || uses(s, rest, i)) return false;
    }
    ir_dim_bounds(s->t, rest, &lo, &hi);
    if (lo < 0 || !code_of(s, rest, &y->as)) return false;
    if (y->strict && !as_symbol(y, &other) && (lo < y->min || hi > y->max)) return false;
    replace(s, f, y, lo, hi);
    return true;
}

static bool learn_equal(front_solver *s, const front_fact *f, ir_dim d) {
    for (uint32_t i = s->n_symbols; i-- > 0;)
        if (replace_one(s, f, d, i)) return true;
    return false;
}

/* d r 0, where r is EQ, NE or LE; whether the symbols have it now. */
static bool learn(front_solver *s, const front_fact *f, ir_dim d, rp_relation r) {
    ir_dim_code c;
    uint32_t symbol;
    int64_t coef, k;
    if (ir_dim_is_const(s->t, d, NULL)) return true; /* by what was learnt in this pass */
    if (!code_of(s, d, &c)) return false;
    if (ir_dim_code_linear(&c, &symbol, &coef, &k)) return learn_linear(s, f, symbol, coef, k, r);
    if (r != RP_DIM_EQ) return false;
    if (c.n == 2 && c.op[0] == IR_DIM_CODE_SYMBOL && c.op[1] == IR_DIM_CODE_MOD)
        return learn_divisor(s, f, (uint32_t)c.k[0], c.k[1]);
    return learn_equal(s, f, d);
}

static front_fact *add_fact(front_solver *s) {
    if (s->n_facts == s->cap_facts) {
        uint32_t cap = s->cap_facts ? s->cap_facts * 2 : 16;
        front_fact *p = base_realloc_array(s->fact, cap, sizeof *p);
        if (!p) {
            (void)rp_fail(s->err, RP_NOMEM, "guards of %s", s->what);
            return NULL;
        }
        s->fact = p;
        s->cap_facts = cap;
    }
    front_fact *f = &s->fact[s->n_facts++];
    *f = (front_fact){0};
    return f;
}

static front_fact *find_fact(const front_solver *s, const front_fact *f) {
    for (uint32_t i = 0; i < s->n_facts; i++) {
        front_fact *g = &s->fact[i];
        if (g->r == f->r && memcmp(&g->a, &f->a, sizeof f->a) == 0 &&
            memcmp(&g->b, &f->b, sizeof f->b) == 0)
            return g;
    }
    return NULL;
}

static void fix_all(front_solver *s, const front_fact *f, ir_dim a, ir_dim b) {
    for (uint32_t i = 0; i < s->n_symbols; i++)
        if (uses(s, a, i) || uses(s, b, i)) fix(s, f, i);
}

/* The form whose sign a r b is told by, and that relation. */
static ir_dim against_zero(front_solver *s, ir_dim a, rp_relation *r, ir_dim b) {
    ir_dim one = ir_dim_const(s->t, 1);
    switch (*r) {
    case RP_DIM_LT: *r = RP_DIM_LE; return ir_dim_add(s->t, ir_dim_sub(s->t, a, b), one);
    case RP_DIM_GT: *r = RP_DIM_LE; return ir_dim_add(s->t, ir_dim_sub(s->t, b, a), one);
    case RP_DIM_GE: *r = RP_DIM_LE; return ir_dim_sub(s->t, b, a);
    default: return ir_dim_sub(s->t, a, b);
    }
}

/* f, of a r b, as far as symbols can have it. */
static bool take_in(front_solver *s, const front_fact *f, ir_dim a, ir_dim b) {
    rp_relation zero = f->r;
    ir_dim_code c;
    ir_dim d = against_zero(s, a, &zero, b);
    /* Through the program, what was replaced in this pass is seen. */
    return code_of(s, d, &c) && learn(s, f, form_of(s, &c), zero);
}

/* Symbol i is `as`, which is enough for f: a guard of its own. */
static void pair_up(front_solver *s, const front_fact *f, uint32_t i, uint32_t as) {
    front_symbol *y = &s->symbol[i];
    y->as = (ir_dim_code){.n = 1, .op = {IR_DIM_CODE_SYMBOL}, .k = {as}};
    replace(s, f, y, y->min, y->max);
    front_fact *pair = add_fact(s);
    if (!pair) return;
    *pair = (front_fact){.b = y->as, .r = RP_DIM_EQ, .learnt = true, .must = true, .pass = s->pass};
    pair->a = (ir_dim_code){.n = 1, .op = {IR_DIM_CODE_SYMBOL}, .k = {i}};
}

/* c with what each symbol is by the words of a call, and op behind it; false where that is too long. */
static bool put_words(const front_solver *s, const ir_dim_code *c, ir_dim_code *out) {
    for (uint32_t i = 0; i < c->n; i++) {
        const front_symbol *y = c->op[i] == IR_DIM_CODE_SYMBOL ? &s->symbol[c->k[i]] : NULL;
        const ir_dim_code word = {.n = y && y->negated ? 2 : 1,
                                  .op = {y ? IR_DIM_CODE_SYMBOL : c->op[i], IR_DIM_CODE_MUL_CONST},
                                  .k = {y ? y->word : c->k[i], -1}};
        const ir_dim_code *put = y && y->rest ? &y->of : &word;
        for (uint32_t k = 0; k < put->n; k++, out->n++) {
            if (out->n == IR_DIM_CODE_MAX) return false;
            out->op[out->n] = put->op[k];
            out->k[out->n] = put->k[k];
        }
    }
    return true;
}

static bool put_op(ir_dim_code *c, ir_dim_code_op op, int64_t k) {
    if (c->n == IR_DIM_CODE_MAX) return false;
    c->op[c->n] = (uint8_t)op;
    c->k[c->n++] = k;
    return true;
}

/* Whether the stack has room for it. */
static bool fits(const ir_dim_code *c) {
    uint32_t depth = 0, most = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        depth += 1 - ir_dim_code_takes((ir_dim_code_op)c->op[i]);
        if (depth > most) most = depth;
    }
    return most <= IR_DIM_CODE_STACK;
}

/* "L['x'].size()[0] - L['n']", the caller's; NULL: no memory. */
static char *name_of_rest(const front_solver *s, const front_symbol *y, const ir_dim_code *base) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "(%s%s - (", y->negated ? "-" : "", y->source + y->negated);
    ir_dim_code_print(base, source_of, s, &b);
    base_buf_puts(&b, "))");
    if (!b.failed) return base_buf_take(&b);
    base_buf_done(&b);
    return NULL;
}

/* d <= 0 as symbol i in terms of others and of what it has beyond them, a symbol of its own: where it stands alone with a factor of -1, those
 * cannot be negative, and it has no bound, which such a sum would not have. */
static bool add_rest(front_solver *s, const front_fact *f, ir_dim d, uint32_t i) {
    front_symbol *y = &s->symbol[i], *more = &s->symbol[s->n_symbols];
    const ir_dim_code self = {.n = 1, .op = {IR_DIM_CODE_SYMBOL}, .k = {i}};
    ir_dim_code base, of = {0};
    int64_t lo, hi;
    if (y->table_i == UINT32_MAX || y->policy == FRONT_UNBACKED || y->strict || y->divisor > 1 ||
        y->max < FAR)
        return false;
    ir_dim rest = ir_dim_add(s->t, d, make_symbol(s, y));
    if (rest == IR_DIM_BAD || uses(s, rest, i)) return false;
    ir_dim_bounds(s->t, rest, &lo, &hi);
    if (lo < 0 || !code_of(s, rest, &base)) return false;
    if (!put_words(s, &base, &of) || !put_op(&of, IR_DIM_CODE_MUL_CONST, -1) ||
        !put_words(s, &self, &of) || !put_op(&of, IR_DIM_CODE_ADD, 0) || !fits(&of))
        return false;
    *more = (front_symbol){.word = UINT32_MAX,
                           .hint = y->hint - ir_dim_eval(s->t, rest, s->value),
                           .max = y->max,
                           .divisor = 1,
                           .table_i = UINT32_MAX,
                           .rest = true,
                           .of = of,
                           .leaf = UINT32_MAX /* IR_NONE */};
    y->as = base;
    if (!put_op(&y->as, IR_DIM_CODE_SYMBOL, s->n_symbols) || !put_op(&y->as, IR_DIM_CODE_ADD, 0))
        return false;
    more->source = name_of_rest(s, y, &base);
    if (!more->source) {
        (void)rp_fail(s->err, RP_NOMEM, "sizes of %s", s->what);
        return false;
    }
    (void)snprintf(more->name, sizeof more->name, "s%u", s->n_symbols++);
    s->room--;
    base_log_ch(RP_LOG_CH_DYNAMIC, false, "create_symbol %s = %" PRId64 " for %s [0, int_oo]",
                more->name, more->hint, more->source);
    replace(s, f, y, lo, INT64_MAX);
    return true;
}

/* f, of a r b, which no range has: the greater one of two sizes is the other and some more. */
static bool take_rest(front_solver *s, const front_fact *f, ir_dim a, ir_dim b) {
    rp_relation zero = f->r;
    ir_dim d = against_zero(s, a, &zero, b);
    if (zero != RP_DIM_LE || d == IR_DIM_BAD || s->room == 0) return false;
    for (uint32_t i = s->n_symbols; i-- > 0;)
        if (add_rest(s, f, d, i)) return true;
    return false;
}

/* What is enough for f, of a r b; whether some sizes are numbers then. */
static bool take_enough(front_solver *s, front_fact f, ir_dim a, ir_dim b, bool *numbers) {
    rp_relation zero = f.r;
    ir_dim d = against_zero(s, a, &zero, b);
    front_enough *e = d == IR_DIM_BAD ? NULL : front_solver_enough(s, &f, d, zero);
    for (uint32_t i = 0; e && i < s->n_symbols; i++)
        if (e[i].as != UINT32_MAX) {
            pair_up(s, &f, i, e[i].as);
        } else if (e[i].fixed) {
            fix(s, &f, i);
            *numbers = true;
        } else if (e[i].used) {
            (void)narrow(s, &f, i, e[i].min, e[i].max);
            (void)learn_divisor(s, &f, i, e[i].divisor);
        }
    base_free(e);
    return e != NULL;
}

/* a r b holds for the example, and from now on for every call of this entry. must: in the graph itself, since shapes rely on it: where
 * no symbol can have it, they have what is enough for it, or become numbers. file NULL: to be told. */
static void assume(front_solver *s, ir_dim a, rp_relation r, ir_dim b, bool must, const char *file,
                   uint32_t line) {
    front_fact f = {.r = r, .must = must, .pass = s->pass}, *kept;
    if (s->err->code != RP_OK) return; /* the trace has failed */
    /* What is not learnt here is asked again in the next pass, which knows more. */
    bool again = s->changed;
    if (!code_of(s, a, &f.a) || !code_of(s, b, &f.b)) {
        if (!must || !again) fix_all(s, NULL, a, b); /* too long to be checked at calls */
        return;
    }
    kept = find_fact(s, &f);
    if (kept && (!must || again || (kept->learnt && kept->pass == s->pass))) return;
    if (!kept) {
        if (!(kept = add_fact(s))) return;
        *kept = f;
        if (file) front_solver_told(s, file, line);
        kept->learnt = take_in(s, kept, a, b);
        if (kept->learnt) return;
        kept->postponed = must && again && !s->runs;
    }
    if (!must || again) return;
    const ptrdiff_t at = kept - s->fact;
    bool numbers = false;
    bool learnt = take_rest(s, kept, a, b) || take_enough(s, *kept, a, b, &numbers);
    kept = &s->fact[at]; /* there may be more of them */
    kept->learnt = learnt;
    if (!learnt) fix_all(s, kept, a, b);
    kept->numbers = numbers || !learnt;
}

/* --- questions ----------------------------------------------------------------------------------- */

static void log_fact(const front_solver *s, const front_fact *f) {
    base_buf text;
    if (!base_log_on(RP_LOG_CH_DYNAMIC, false)) return;
    base_buf_init(&text, 0);
    front_fact_print(s, f, &text);
    if (text.data)
        base_log_ch(RP_LOG_CH_DYNAMIC, false, "eval %s [guard added%s]", text.data,
                    f->numbers ? "; its sizes are numbers, as no symbols have it for sure" : "");
    base_buf_done(&text);
}

static bool relates(int64_t a, rp_relation r, int64_t b) {
    switch (r) {
    case RP_DIM_LT: return a < b;
    case RP_DIM_LE: return a <= b;
    case RP_DIM_EQ: return a == b;
    case RP_DIM_NE: return a != b;
    case RP_DIM_GE: return a >= b;
    case RP_DIM_GT: return a > b;
    }
    return false;
}

rp_answer front_solver_ask(void *solver, ir_dim a, rp_relation r, ir_dim b, const char *file,
                           int line) {
    static const rp_relation negated[] = {RP_DIM_GE, RP_DIM_GT, RP_DIM_NE,
                                          RP_DIM_EQ, RP_DIM_LT, RP_DIM_LE};
    front_solver *s = solver;
    if ((unsigned)r >= sizeof negated / sizeof *negated || !has_hint(s, a) || !has_hint(s, b))
        return RP_UNKNOWN;
    bool yes = relates(ir_dim_eval(s->t, a, s->value), r, ir_dim_eval(s->t, b, s->value));
    uint32_t before = s->n_facts;
    assume(s, a, yes ? r : negated[r], b, false, file, (uint32_t)line);
    if (s->n_facts > before) log_fact(s, &s->fact[before]);
    return yes ? RP_YES : RP_NO;
}

bool front_solver_example(void *solver, ir_dim d, int64_t *out) {
    front_solver *s = solver;
    if (!has_hint(s, d)) return false;
    *out = ir_dim_eval(s->t, d, s->value);
    return true;
}

void front_solver_told(void *solver, const char *file, uint32_t line) {
    front_solver *s = solver;
    for (; s->told < s->n_facts; s->told++) {
        s->fact[s->told].file = base_strdup(file);
        s->fact[s->told].line = line;
        if (s->fact[s->told].must && !s->fact[s->told].postponed) log_fact(s, &s->fact[s->told]);
    }
}

bool front_solver_assume(void *solver, ir_dim_question q, ir_dim a, ir_dim b, int64_t k) {
    front_solver *s = solver;
    if (q == IR_DIM_DIVISIBLE) {
        a = ir_dim_mod(s->t, a, k);
        b = ir_dim_const(s->t, 0);
    }
    if (a == IR_DIM_BAD || b == IR_DIM_BAD || !has_hint(s, a) || !has_hint(s, b)) return false;
    rp_relation r = q == IR_DIM_LE ? RP_DIM_LE : RP_DIM_EQ;
    if (!relates(ir_dim_eval(s->t, a, s->value), r, ir_dim_eval(s->t, b, s->value))) return false;
    assume(s, a, r, b, true, NULL, 0);
    return true;
}

/* --- facts ------------------------------------------------------------------------------------------ */

bool front_fact_holds(const front_fact *f, const int64_t *value) {
    return relates(ir_dim_code_eval(&f->a, value), f->r, ir_dim_code_eval(&f->b, value));
}

static const char *source_of(const void *solver, uint32_t i) {
    return ((const front_solver *)solver)->symbol[i].source;
}

void front_fact_print(const front_solver *s, const front_fact *f, base_buf *out) {
    static const char *const text[] = {"<", "<=", "==", "!=", ">=", ">"};
    ir_dim_code_print(&f->a, source_of, s, out);
    base_buf_printf(out, " %s ", text[f->r]);
    ir_dim_code_print(&f->b, source_of, s, out);
    if (f->file && f->line == 0) /* a setting */
        base_buf_printf(out, "  # %s", f->file);
    else if (f->file)
        base_buf_printf(out, "  # %s:%u", f->file, f->line);
}
