/* Dims as text, as C, and between tables.
 *
 * Grammar: sum := product (('+' | '-') product)*; product := factor (('*' | '//' | '%') factor)*;
 * factor := integer | symbol | '-' factor | '(' sum ')'. What print writes, parse reads back as
 * the same handle. */
#include <string.h>

#include "ir/dim_form.h"
#include "ir/node.h"

#define DIM_MAX_DEPTH 64

static void print_form(const ir_dims *t, ir_dim d, base_buf *out);

static bool is_symbol(const ir_dims *t, ir_dim d) {
    const dim_node *n = &t->node[d];
    return n->n == 1 && n->c == 0 && n->t[0].coef == 1 && t->atom[n->t[0].atom].kind == DIM_SYMBOL;
}

static void print_atom(const ir_dims *t, const dim_atom *a, base_buf *out);

/* A factor, with parentheses around divisions. */
static void print_factor(const ir_dims *t, ir_dim d, base_buf *out) {
    const dim_atom *a = dim_sole_atom(t, d);
    bool paren = a->kind == DIM_FLOORDIV || a->kind == DIM_MOD;
    if (paren) base_buf_putc(out, '(');
    print_atom(t, a, out);
    if (paren) base_buf_putc(out, ')');
}

static void print_atom(const ir_dims *t, const dim_atom *a, base_buf *out) {
    if (a->kind == DIM_SYMBOL) {
        base_buf_puts(out, t->sym[a->sym].name);
        return;
    }
    if (a->kind == DIM_PRODUCT) {
        print_factor(t, a->inner, out);
        base_buf_putc(out, '*');
        print_factor(t, a->other, out);
        return;
    }
    bool plain = is_symbol(t, a->inner);
    if (!plain) base_buf_putc(out, '(');
    print_form(t, a->inner, out);
    if (!plain) base_buf_putc(out, ')');
    base_buf_printf(out, "%s%lld", a->kind == DIM_FLOORDIV ? "//" : "%", (long long)a->k);
}

static void print_form(const ir_dims *t, ir_dim d, base_buf *out) {
    const dim_node *n = &t->node[d];
    for (uint32_t i = 0; i < n->n; i++) {
        const dim_atom *a = &t->atom[n->t[i].atom];
        int64_t coef = n->t[i].coef;
        bool paren = (a->kind == DIM_FLOORDIV || a->kind == DIM_MOD) && coef != 1;
        if (coef < 0)
            base_buf_putc(out, '-');
        else if (i > 0)
            base_buf_putc(out, '+');
        if (coef != 1 && coef != -1)
            base_buf_printf(out, "%llu*",
                            coef < 0 ? 0 - (unsigned long long)coef : (unsigned long long)coef);
        if (paren) base_buf_putc(out, '(');
        print_atom(t, a, out);
        if (paren) base_buf_putc(out, ')');
    }
    if (n->c != 0 || n->n == 0) base_buf_printf(out, n->n > 0 ? "%+lld" : "%lld", (long long)n->c);
}

void ir_dim_print(const ir_dims *t, ir_dim d, base_buf *out) {
    if (dim_valid(t, d))
        print_form(t, d, out);
    else
        base_buf_putc(out, '?');
}

static void print_c_atom(const ir_dims *t, const dim_atom *a, const char *array, base_buf *out) {
    long long k = (long long)a->k;
    if (a->kind == DIM_SYMBOL) {
        base_buf_printf(out, "%s[%u]", array, a->sym);
        return;
    }
    if (a->kind == DIM_PRODUCT) {
        ir_dim_print_c(t, a->inner, array, out);
        base_buf_putc(out, '*');
        ir_dim_print_c(t, a->other, array, out);
        return;
    }
    bool negative = t->node[a->inner].lo < 0;
    if (a->kind == DIM_FLOORDIV && negative) { /* C truncates: floor(x/k) = (x - (x mod k)) / k */
        base_buf_putc(out, '(');
        ir_dim_print_c(t, a->inner, array, out);
        base_buf_puts(out, "-((");
        ir_dim_print_c(t, a->inner, array, out);
        base_buf_printf(out, "%%%lldLL+%lldLL)%%%lldLL))/%lldLL", k, k, k, k);
    } else if (a->kind == DIM_FLOORDIV) {
        ir_dim_print_c(t, a->inner, array, out);
        base_buf_printf(out, "/%lldLL", k);
    } else if (negative) {
        base_buf_putc(out, '(');
        ir_dim_print_c(t, a->inner, array, out);
        base_buf_printf(out, "%%%lldLL+%lldLL)%%%lldLL", k, k, k);
    } else {
        ir_dim_print_c(t, a->inner, array, out);
        base_buf_printf(out, "%%%lldLL", k);
    }
}

void ir_dim_print_c(const ir_dims *t, ir_dim d, const char *array, base_buf *out) {
    if (!dim_valid(t, d)) {
        base_buf_puts(out, "(-1LL)");
        return;
    }
    const dim_node *n = &t->node[d];
    base_buf_putc(out, '(');
    for (uint32_t i = 0; i < n->n; i++) {
        const dim_atom *a = &t->atom[n->t[i].atom];
        bool paren = a->kind != DIM_SYMBOL;
        if (i > 0) base_buf_putc(out, '+');
        if (paren) base_buf_putc(out, '(');
        print_c_atom(t, a, array, out);
        if (paren) base_buf_putc(out, ')');
        if (n->t[i].coef != 1) base_buf_printf(out, "*%lldLL", (long long)n->t[i].coef);
    }
    if (n->n == 0)
        base_buf_printf(out, "%lldLL", (long long)n->c);
    else if (n->c != 0)
        base_buf_printf(out, "%+lldLL", (long long)n->c);
    base_buf_putc(out, ')');
}

/* Reader state: one nesting counter, so that garbage cannot exhaust the stack. */
typedef struct reader {
    ir_dims *t;
    const char *p;
    int depth;
    rp_error *err;
} reader;

static void skip_spaces(reader *r) {
    while (*r->p == ' ' || *r->p == '\t') r->p++;
}

static rp_status read_sum(reader *r, ir_dim *out);

static rp_status read_number(reader *r, int64_t *out) {
    int64_t v = 0;
    for (; ir_digit(*r->p); r->p++) {
        if (v > (DIM_LIMIT - 9) / 10)
            return rp_fail(r->err, RP_INVALID, "a number in a size is too large");
        v = v * 10 + (*r->p - '0');
    }
    *out = v;
    return RP_OK;
}

static rp_status read_name(reader *r, ir_dim *out) {
    char name[256];
    size_t n = 0;
    while (ir_word_char(r->p[n])) n++;
    if (n >= sizeof name) return rp_fail(r->err, RP_INVALID, "a symbol's name is over 255 bytes");
    memcpy(name, r->p, n);
    name[n] = 0;
    uint32_t i = ir_dims_find(r->t, name);
    if (i == UINT32_MAX)
        return rp_fail(r->err, RP_INVALID,
                       "size symbol '%s' has no range; declare it: where %s in [1,1024]", name,
                       name);
    const ir_symbol *s = ir_dims_symbol(r->t, i);
    *out = ir_dim_symbol(r->t, name, s->min, s->max, s->divisor);
    r->p += n;
    return RP_OK;
}

static rp_status read_factor(reader *r, ir_dim *out) {
    rp_status st = RP_OK;
    skip_spaces(r);
    if (++r->depth > DIM_MAX_DEPTH)
        return rp_fail(r->err, RP_INVALID, "a size is nested deeper than %d", DIM_MAX_DEPTH);
    if (ir_digit(*r->p)) {
        int64_t v = 0;
        RP_TRY(read_number(r, &v));
        *out = ir_dim_const(r->t, v);
    } else if (ir_alpha(*r->p) || *r->p == '_') {
        st = read_name(r, out);
    } else if (*r->p == '-') {
        r->p++;
        RP_TRY(read_factor(r, out));
        *out = ir_dim_mul_const(r->t, *out, -1);
    } else if (*r->p == '(') {
        r->p++;
        RP_TRY(read_sum(r, out));
        skip_spaces(r);
        if (*r->p != ')') return rp_fail(r->err, RP_INVALID, "expected ')' in a size");
        r->p++;
    } else {
        return rp_fail(r->err, RP_INVALID, "expected a size (a number, a symbol or a form)");
    }
    r->depth--;
    return st;
}

static rp_status read_product(reader *r, ir_dim *out) {
    RP_TRY(read_factor(r, out));
    for (;;) {
        ir_dim b;
        int64_t k = 0;
        skip_spaces(r);
        char op = *r->p;
        if (op == '/' && r->p[1] != '/')
            return rp_fail(r->err, RP_INVALID, "sizes divide with '//' only");
        if (op != '*' && op != '/' && op != '%') return RP_OK;
        r->p += op == '/' ? 2 : 1;
        RP_TRY(read_factor(r, &b));
        if (op == '*') {
            *out = ir_dim_mul(r->t, *out, b);
        } else {
            if (!ir_dim_is_const(r->t, b, &k) || k < 1)
                return rp_fail(r->err, RP_INVALID, "a size divides by positive constants only");
            *out = op == '/' ? ir_dim_floordiv(r->t, *out, k) : ir_dim_mod(r->t, *out, k);
        }
    }
}

static rp_status read_sum(reader *r, ir_dim *out) {
    RP_TRY(read_product(r, out));
    for (;;) {
        ir_dim b;
        skip_spaces(r);
        char op = *r->p;
        if (op != '+' && op != '-') return RP_OK;
        r->p++;
        RP_TRY(read_product(r, &b));
        *out = op == '+' ? ir_dim_add(r->t, *out, b) : ir_dim_sub(r->t, *out, b);
    }
}

rp_status ir_dim_parse(ir_dims *t, const char **text, ir_dim *out, rp_error *err) {
    reader r = {.t = t, .p = *text, .err = err};
    ir_dim d = IR_DIM_BAD;
    RP_TRY(read_sum(&r, &d));
    if (d == IR_DIM_BAD && ir_dims_exhausted(t)) return rp_fail(err, RP_NOMEM, "sizes");
    if (d == IR_DIM_BAD)
        return rp_fail(err, RP_INVALID, "a size overflows, or has more than %d terms or %d factors",
                       DIM_MAX_TERMS, DIM_MAX_FACTORS);
    *out = d;
    *text = r.p;
    return RP_OK;
}

static ir_dim import_symbol(ir_dims *dst, const ir_dims *src, uint32_t sym) {
    if (src == dst->import_from && sym < dst->n_import && dst->import_by[sym] != IR_DIM_BAD)
        return dst->import_by[sym];
    const ir_symbol *s = &src->sym[sym];
    const int64_t hint = s->hint;
    uint32_t i = ir_dims_find(dst, s->name);
    if (i != UINT32_MAX) s = &dst->sym[i]; /* its own range there may be narrower */
    ir_dim d = ir_dim_symbol(dst, s->name, s->min, s->max, s->divisor);
    if (i == UINT32_MAX && d != IR_DIM_BAD) ir_dims_set_hint(dst, dst->n_sym - 1, hint);
    return d;
}

ir_dim ir_dim_import_symbol(ir_dims *dst, const ir_dims *src, const char *name) {
    uint32_t sym = ir_dims_find(src, name);
    return sym == UINT32_MAX ? IR_DIM_BAD : import_symbol(dst, src, sym);
}

static ir_dim import_atom(ir_dims *dst, const ir_dims *src, const dim_atom *a) {
    if (a->kind != DIM_SYMBOL) {
        ir_dim inner = ir_dim_import(dst, src, a->inner);
        if (a->kind == DIM_PRODUCT)
            return ir_dim_mul(dst, inner, ir_dim_import(dst, src, a->other));
        return a->kind == DIM_FLOORDIV ? ir_dim_floordiv(dst, inner, a->k)
                                       : ir_dim_mod(dst, inner, a->k);
    }
    return import_symbol(dst, src, a->sym);
}

ir_dim ir_dim_import(ir_dims *dst, const ir_dims *src, ir_dim d) {
    if (!dim_valid(src, d)) return IR_DIM_BAD;
    if (dst == src) return d;
    const dim_node *n = &src->node[d];
    ir_dim sum = ir_dim_const(dst, n->c);
    for (uint32_t i = 0; i < n->n; i++) {
        ir_dim a = import_atom(dst, src, &src->atom[n->t[i].atom]);
        sum = ir_dim_add(dst, sum, ir_dim_mul_const(dst, a, n->t[i].coef));
    }
    return sum;
}

void ir_dims_set_import(ir_dims *dst, const ir_dims *src, const ir_dim *by, uint32_t n) {
    dst->import_from = by ? src : NULL;
    dst->import_by = by;
    dst->n_import = n;
}

bool ir_dims_has_import(const ir_dims *dst, const ir_dims *src) {
    return src == dst->import_from;
}
