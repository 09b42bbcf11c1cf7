/* Einstein summation as products of two operands at a time, from the left: what neither the result nor a later operand has is summed
 * as soon as it can be. */
#include <string.h>

#include "trace/record.h"

/* Letters of the axes of a value, in order. */
typedef struct letters {
    char at[RP_MAX_RANK];
    uint32_t n;
} letters;

typedef struct equation {
    const char *text;
    letters in[RP_EINSUM_OPERANDS], out;
    uint32_t n;
} equation;

static bool fail(rp_graph *g, const equation *e, const char *what) {
    if (trace_ready(g)) (void)rp_fail(&g->err, RP_INVALID, "einsum: \"%.80s\": %s", e->text, what);
    return false;
}

static int find(const letters *l, char c) {
    for (uint32_t i = 0; i < l->n; i++)
        if (l->at[i] == c) return (int)i;
    return -1;
}

static bool has(const letters *l, char c) {
    return find(l, c) >= 0;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char unread[] = "letters, commas and -> are all it takes";

/* --- the text -------------------------------------------------------------------- */

static bool read_letters(rp_graph *g, const equation *e, const char **p, letters *out) {
    for (; **p; ++*p) {
        if (**p == ' ') continue;
        if (!is_letter(**p)) break;
        if (has(out, **p)) return fail(g, e, "a letter stands twice in one term");
        if (out->n == RP_MAX_RANK) return fail(g, e, "a term has too many axes");
        out->at[out->n++] = **p;
    }
    return true;
}

/* Without "->": the letters of one operand alone, in alphabetical order, as numpy. */
static void imply_result(equation *e) {
    for (int c = 'A'; c <= 'z'; c++) {
        uint32_t times = 0;
        for (uint32_t i = 0; i < e->n; i++) times += is_letter((char)c) && has(&e->in[i], (char)c);
        if (times == 1 && e->out.n < RP_MAX_RANK) e->out.at[e->out.n++] = (char)c;
    }
}

static bool read_result(rp_graph *g, equation *e, const char *p) {
    if (!*p) {
        imply_result(e);
        return true;
    }
    if (p[0] != '-' || p[1] != '>') return fail(g, e, unread);
    p += 2;
    if (!read_letters(g, e, &p, &e->out)) return false;
    if (*p) return fail(g, e, "the result is letters alone");
    for (uint32_t i = 0; i < e->out.n; i++) {
        bool known = false;
        for (uint32_t k = 0; k < e->n; k++) known = known || has(&e->in[k], e->out.at[i]);
        if (!known) return fail(g, e, "the result has a letter of no operand");
    }
    return true;
}

static bool parse(rp_graph *g, equation *e, const rp_tensor *x, uint32_t n) {
    const char *p = e->text;
    do {
        if (e->n > 0) p++; /* the comma; the first term may have no letter */
        if (e->n == n) return fail(g, e, "it has more terms than there are operands");
        if (!read_letters(g, e, &p, &e->in[e->n])) return false;
        if (*p && *p != ',' && *p != '-') return fail(g, e, unread);
        if (e->in[e->n].n != rp_tensor_shape(x[e->n]).rank)
            return fail(g, e, "a term has other axes than its operand");
        e->n++;
    } while (*p == ',');
    if (e->n < n) return fail(g, e, "it has fewer terms than there are operands");
    return read_result(g, e, p);
}

/* --- values ----------------------------------------------------------------------- */

/* Sums what neither of two has. */
static rp_tensor sum_lone(rp_tensor x, letters *of, const letters *a, const letters *b) {
    for (uint32_t i = of->n; i-- > 0;) {
        if (has(a, of->at[i]) || has(b, of->at[i])) continue;
        x = rp_sum(x, (int)i, false);
        memmove(of->at + i, of->at + i + 1, of->n - i - 1);
        of->n--;
    }
    return x;
}

/* x with the axes of `to`, in that order; those that it has not are 1. */
static rp_tensor arrange(rp_tensor x, const letters *of, const letters *to) {
    int axes[RP_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < to->n; i++)
        if (has(of, to->at[i])) axes[n++] = find(of, to->at[i]);
    x = rp_permute(x, axes, n);
    for (uint32_t i = 0; i < to->n; i++)
        if (!has(of, to->at[i])) x = rp_unsqueeze(x, (int)i);
    return x;
}

/* The product of a and b, with the letters of `to`, in any order: *have. Of f16 and bf16 it is f32, whether something is summed or not. */
static rp_tensor product(rp_tensor a, const letters *la, rp_tensor b, const letters *lb,
                         const letters *to, letters *have) {
    rp_dot_dims d = {0};
    *have = (letters){0};
    for (uint32_t i = 0; i < la->n; i++) {
        const int other = find(lb, la->at[i]);
        if (other < 0) continue;
        const bool kept = has(to, la->at[i]);
        const uint32_t k = kept ? d.n_batch++ : d.n_contract++;
        (kept ? d.a_batch : d.a_contract)[k] = (int)i;
        (kept ? d.b_batch : d.b_contract)[k] = other;
        if (kept) have->at[have->n++] = la->at[i];
    }
    if (d.n_contract == 0) {
        *have = *to;
        return rp_mul(trace_core(arrange(a, la, to)), trace_core(arrange(b, lb, to)));
    }
    for (uint32_t i = 0; i < la->n; i++)
        if (!has(lb, la->at[i]) && have->n < RP_MAX_RANK) have->at[have->n++] = la->at[i];
    for (uint32_t i = 0; i < lb->n; i++)
        if (!has(la, lb->at[i]) && have->n < RP_MAX_RANK) have->at[have->n++] = lb->at[i];
    return rp_dot_general(a, b, &d);
}

/* What the result or an operand from `first` on has, of the letters of a and b. */
static bool find_wanted(const equation *e, uint32_t first, const letters *a, const letters *b,
                        letters *out) {
    const letters *const from[] = {a, b};
    *out = (letters){0};
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; i < from[k]->n; i++) {
            const char c = from[k]->at[i];
            bool wanted = has(&e->out, c);
            for (uint32_t j = first; j < e->n; j++) wanted = wanted || has(&e->in[j], c);
            if (!wanted || has(out, c)) continue;
            if (out->n == RP_MAX_RANK) return false;
            out->at[out->n++] = c;
        }
    return true;
}

rp_tensor rp_einsum(const char *text, const rp_tensor *x, uint32_t n) {
    equation e = {.text = text};
    rp_graph *g = n && x ? x[0].graph : trace_current();
    if (!text || !x) return trace_null(g, !text ? "the equation of einsum" : "operands of einsum");
    if (!trace_ready(g)) return trace_bad(g);
    if (n < 1 || n > RP_EINSUM_OPERANDS) {
        (void)rp_fail(&g->err, RP_INVALID, "einsum: %u operands; it takes 1 to %d", n,
                      RP_EINSUM_OPERANDS);
        return trace_bad(g);
    }
    if (!parse(g, &e, x, n)) return trace_bad(g);
    rp_tensor y = x[0];
    letters have = e.in[0];
    for (uint32_t i = 1; i < n; i++) {
        letters a = have, b = e.in[i], to;
        rp_tensor other = x[i];
        if (!find_wanted(&e, i + 1, &a, &b, &to)) {
            (void)fail(g, &e, "a product on the way has too many axes");
            return trace_bad(g);
        }
        y = sum_lone(y, &a, &b, &to);
        other = sum_lone(other, &b, &a, &to);
        y = product(y, &a, other, &b, &to, &have);
    }
    y = sum_lone(y, &have, &e.out, &e.out);
    return arrange(y, &have, &e.out);
}
