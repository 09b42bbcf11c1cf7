/* Programs of sizes: made from a form, checked by interval arithmetic, printed. */
#include "ir/dim_code.h"

#include <inttypes.h>
#include <string.h>

#include "ir/dim_form.h"

static const struct {
    uint8_t takes, reads_k;
} ops[] = {
#define IR_DIM_CODE_ROW(name, takes, reads) {takes, reads},
    IR_DIM_CODE_OPS(IR_DIM_CODE_ROW)
#undef IR_DIM_CODE_ROW
};

uint32_t ir_dim_code_takes(ir_dim_code_op op) {
    return ops[op].takes;
}

bool ir_dim_code_reads_k(ir_dim_code_op op) {
    return ops[op].reads_k;
}

/* --- from a form ------------------------------------------------------------------ */

bool dim_code_put(ir_dim_code *c, ir_dim_code_op op, int64_t k) {
    if (c->n == IR_DIM_CODE_MAX) return false;
    c->op[c->n] = (uint8_t)op;
    c->k[c->n++] = k;
    return true;
}

static bool put_form(const ir_dims *t, ir_dim d, ir_dim_code *c);

static bool put_atom(const ir_dims *t, const dim_atom *a, ir_dim_code *c) {
    switch (a->kind) {
    case DIM_SYMBOL: return dim_code_put(c, IR_DIM_CODE_SYMBOL, a->sym);
    case DIM_PRODUCT:
        return put_form(t, a->inner, c) && put_form(t, a->other, c) &&
               dim_code_put(c, IR_DIM_CODE_MUL, 0);
    case DIM_FLOORDIV:
        return put_form(t, a->inner, c) && dim_code_put(c, IR_DIM_CODE_FLOORDIV, a->k);
    default: return put_form(t, a->inner, c) && dim_code_put(c, IR_DIM_CODE_MOD, a->k);
    }
}

static bool put_form(const ir_dims *t, ir_dim d, ir_dim_code *c) {
    const dim_node *n = &t->node[d];
    if (n->n == 0) return dim_code_put(c, IR_DIM_CODE_CONST, n->c);
    for (uint32_t i = 0; i < n->n; i++) {
        if (!put_atom(t, &t->atom[n->t[i].atom], c)) return false;
        if (n->t[i].coef != 1 && !dim_code_put(c, IR_DIM_CODE_MUL_CONST, n->t[i].coef))
            return false;
        if (i > 0 && !dim_code_put(c, IR_DIM_CODE_ADD, 0)) return false;
    }
    return n->c == 0 || dim_code_put(c, IR_DIM_CODE_ADD_CONST, n->c);
}

/* Deepest the stack gets; UINT32_MAX for a program that takes what is not there or leaves more than one value. */
static uint32_t depth(const ir_dim_code *c) {
    uint32_t now = 0, most = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (now < ops[c->op[i]].takes) return UINT32_MAX;
        now = now - ops[c->op[i]].takes + 1;
        if (now > most) most = now;
    }
    return now <= 1 ? most : UINT32_MAX;
}

/* As the form is printed; a longer one gains by factors that are taken out. */
enum { SHORT = 15 };

static rp_status too_long(const ir_dims *t, ir_dim d, rp_error *err) {
    base_buf text;
    base_buf_init(&text, 0);
    ir_dim_print(t, d, &text);
    rp_status st = rp_fail(err, RP_UNSUPPORTED,
                           "size %s takes more than %d operations, or %d numbers at once; give "
                           "some of its symbols a value",
                           text.data && !text.failed ? text.data : "", IR_DIM_CODE_MAX,
                           IR_DIM_CODE_STACK);
    base_buf_done(&text);
    return st;
}

rp_status ir_dim_code_of(const ir_dims *t, ir_dim d, ir_dim_code *out, rp_error *err) {
    ir_dim_code c = {0}, factored = {0};
    if (!dim_valid(t, d) && t->exhausted) return rp_fail(err, RP_NOMEM, "a size");
    if (!dim_valid(t, d))
        return rp_fail(err, RP_INVALID, "a size that cannot be formed: it overflows");
    bool plain = put_form(t, d, &c) && depth(&c) <= IR_DIM_CODE_STACK;
    bool other = (!plain || c.n > SHORT) && dim_code_factored(t, d, &factored) &&
                 depth(&factored) <= IR_DIM_CODE_STACK;
    if (!plain && !other) return too_long(t, d, err);
    *out = other && (!plain || factored.n < c.n) ? factored : c;
    return RP_OK;
}

/* --- questions --------------------------------------------------------------------- */

typedef struct interval {
    int64_t lo, hi;
} interval;

static bool multiply(interval a, interval b, interval *out) {
    int64_t at[4];
    if (__builtin_mul_overflow(a.lo, b.lo, &at[0]) || __builtin_mul_overflow(a.lo, b.hi, &at[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &at[2]) || __builtin_mul_overflow(a.hi, b.hi, &at[3]))
        return false;
    *out = (interval){at[0], at[0]};
    for (int i = 1; i < 4; i++) {
        if (at[i] < out->lo) out->lo = at[i];
        if (at[i] > out->hi) out->hi = at[i];
    }
    return true;
}

static bool add(interval a, interval b, interval *out) {
    return !__builtin_add_overflow(a.lo, b.lo, &out->lo) &&
           !__builtin_add_overflow(a.hi, b.hi, &out->hi);
}

/* One step on the values of `top`, the first of what op takes and the place of what it leaves. */
static bool step(ir_dim_code_op op, int64_t k, interval *top) {
    switch (op) {
    case IR_DIM_CODE_ADD: return add(top[0], top[1], top);
    case IR_DIM_CODE_MUL: return multiply(top[0], top[1], top);
    case IR_DIM_CODE_ADD_CONST: return add(top[0], (interval){k, k}, top);
    case IR_DIM_CODE_MUL_CONST: return multiply(top[0], (interval){k, k}, top);
    case IR_DIM_CODE_FLOORDIV:
        if (k < 1) return false;
        *top = (interval){dim_floor(top->lo, k), dim_floor(top->hi, k)};
        return true;
    case IR_DIM_CODE_MOD:
        if (k < 1) return false;
        *top = (interval){0, k - 1};
        return true;
    default: return false;
    }
}

bool ir_dim_code_bounds(const ir_dim_code *c,
                        bool (*range)(const void *user, uint32_t i, int64_t *lo, int64_t *hi),
                        const void *user, int64_t *lo, int64_t *hi) {
    interval stack[IR_DIM_CODE_STACK] = {{0, 0}};
    uint32_t n = 0;
    if (c->n > IR_DIM_CODE_MAX) return false;
    for (uint32_t i = 0; i < c->n; i++)
        if (c->op[i] >= IR_DIM_CODE_OP_COUNT_) return false;
    if (depth(c) > IR_DIM_CODE_STACK) return false;
    for (uint32_t i = 0; i < c->n; i++) {
        int64_t k = c->k[i];
        n -= ops[c->op[i]].takes;
        if (c->op[i] == IR_DIM_CODE_CONST) {
            stack[n] = (interval){k, k};
        } else if (c->op[i] == IR_DIM_CODE_SYMBOL) {
            if (k < 0 || k >= UINT32_MAX || !range(user, (uint32_t)k, &stack[n].lo, &stack[n].hi))
                return false;
        } else if (!step((ir_dim_code_op)c->op[i], k, &stack[n])) {
            return false;
        }
        n++;
    }
    *lo = stack[0].lo;
    *hi = stack[0].hi;
    return true;
}

bool ir_dim_code_linear(const ir_dim_code *c, uint32_t *symbol, int64_t *coef, int64_t *constant) {
    uint32_t i = 1;
    if (c->n == 0 || c->op[0] != IR_DIM_CODE_SYMBOL) return false;
    int64_t a = 1, b = 0;
    if (i < c->n && c->op[i] == IR_DIM_CODE_MUL_CONST) a = c->k[i++];
    if (i < c->n && c->op[i] == IR_DIM_CODE_ADD_CONST) b = c->k[i++];
    if (i != c->n || a == 0) return false;
    *symbol = (uint32_t)c->k[0];
    *coef = a;
    *constant = b;
    return true;
}

bool ir_dim_code_is_const(const ir_dim_code *c, int64_t *out) {
    if (c->n > 1 || (c->n == 1 && c->op[0] != IR_DIM_CODE_CONST)) return false;
    *out = c->n ? c->k[0] : 0;
    return true;
}

/* --- text --------------------------------------------------------------------------- */

typedef struct printer {
    const ir_dim_code *c;
    const char *(*name)(const void *user, uint32_t i);
    const void *user;
    base_buf *out;
} printer;

/* Where the value that is made by the operation before `end` begins. */
static uint32_t begin_of(const ir_dim_code *c, uint32_t end) {
    for (uint32_t need = 1; need > 0;) need = need - 1 + ops[c->op[--end]].takes;
    return end;
}

static bool is_plain(ir_dim_code_op op) {
    return op == IR_DIM_CODE_CONST || op == IR_DIM_CODE_SYMBOL;
}

static void print_at(const printer *p, uint32_t end);

static void print_in(const printer *p, uint32_t end, bool paren) {
    if (paren) base_buf_putc(p->out, '(');
    print_at(p, end);
    if (paren) base_buf_putc(p->out, ')');
}

/* An operand of a product. */
static void print_factor(const printer *p, uint32_t end) {
    print_in(p, end,
             !is_plain((ir_dim_code_op)p->c->op[end - 1]) && p->c->op[end - 1] != IR_DIM_CODE_MUL);
}

static void print_at(const printer *p, uint32_t end) {
    uint32_t at = end - 1, left;
    int64_t k = p->c->k[at];
    switch ((ir_dim_code_op)p->c->op[at]) {
    case IR_DIM_CODE_CONST: base_buf_printf(p->out, "%" PRId64, k); break;
    case IR_DIM_CODE_SYMBOL: base_buf_puts(p->out, p->name(p->user, (uint32_t)k)); break;
    case IR_DIM_CODE_ADD:
        left = begin_of(p->c, at);
        print_at(p, left);
        if (p->c->op[at - 1] != IR_DIM_CODE_MUL_CONST || p->c->k[at - 1] >= 0)
            base_buf_putc(p->out, '+');
        print_at(p, at);
        break;
    case IR_DIM_CODE_MUL:
        print_factor(p, begin_of(p->c, at));
        base_buf_putc(p->out, '*');
        print_factor(p, at);
        break;
    case IR_DIM_CODE_ADD_CONST:
        print_at(p, at);
        base_buf_printf(p->out, "%+" PRId64, k);
        break;
    case IR_DIM_CODE_MUL_CONST:
        if (k == -1)
            base_buf_putc(p->out, '-');
        else
            base_buf_printf(p->out, "%" PRId64 "*", k);
        print_factor(p, at);
        break;
    default:
        print_in(p, at, !is_plain((ir_dim_code_op)p->c->op[at - 1]));
        base_buf_printf(p->out, "%s%" PRId64, p->c->op[at] == IR_DIM_CODE_FLOORDIV ? "//" : "%", k);
    }
}

void ir_dim_code_print(const ir_dim_code *c, const char *(*name)(const void *user, uint32_t i),
                       const void *user, base_buf *out) {
    printer p = {c, name, user, out};
    if (c->n == 0)
        base_buf_putc(out, '0');
    else
        print_at(&p, c->n);
}
