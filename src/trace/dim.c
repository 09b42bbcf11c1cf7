/* Sizes of the tensor API: symbols, arithmetic, questions.
 *
 * A number stays a number until it meets a symbol. A size that cannot be made has n = INT64_MIN; the graph that
 * it was to be of has failed then. */
#include "base/log.h"
#include "base/str.h"
#include "trace/record.h"

#define INVALID INT64_MIN

static rp_dim invalid(rp_graph *g) {
    return (rp_dim){g, INVALID};
}

/* A form of g as a size: without the graph where it is a number. */
static rp_dim from_ir(rp_graph *g, ir_dim d) {
    int64_t v;
    if (d == IR_DIM_BAD) return invalid(g);
    if (ir_dim_is_const(ir_graph_dims(g->ir), d, &v)) return (rp_dim){NULL, v};
    return (rp_dim){g, (int64_t)(g->id & 0x7fffffff) << 32 | d};
}

/* The form that d, a size of a graph, is there; IR_DIM_BAD where it is invalid, or was kept from another graph at this place. */
static ir_dim form_of(rp_dim d) {
    if (d.n < 0 || !d.graph->ir || d.n >> 32 != (d.graph->id & 0x7fffffff)) return IR_DIM_BAD;
    return (ir_dim)(d.n & 0xffffffff);
}

rp_dim trace_dim_out(rp_graph *g, ir_dim d) {
    return from_ir(g, d);
}

ir_dim trace_dim(rp_graph *g, rp_dim d) {
    if (!d.graph) return ir_dim_const(ir_graph_dims(g->ir), d.n);
    bool kept = d.n != INVALID && form_of(d) == IR_DIM_BAD;
    rp_graph *in = g->ir ? g : trace_current();
    if (kept && in && trace_ready(in))
        (void)rp_fail(&in->err, RP_INVALID,
                      "a size that was kept from an earlier call is used in graph @%s; ask for it "
                      "anew (rp_tensor_dim)",
                      ir_graph_name(in->ir));
    else if (d.graph != g && trace_ready(g))
        (void)rp_fail(&g->err, RP_INVALID,
                      "a size of graph @%s is used in graph @%s; make the symbol there, too",
                      ir_graph_name(d.graph->ir), ir_graph_name(g->ir));
    return d.graph == g ? form_of(d) : IR_DIM_BAD;
}

/* --- symbols -------------------------------------------------------------------- */

static void put_bound(base_buf *b, int64_t v) {
    if (v == INT64_MIN || v == INT64_MAX)
        base_buf_puts(b, v < 0 ? "-inf" : "inf");
    else
        base_buf_printf(b, "%lld", (long long)v);
}

static void put_range(base_buf *b, int64_t min, int64_t max) {
    base_buf_putc(b, '[');
    put_bound(b, min);
    base_buf_putc(b, ',');
    put_bound(b, max);
    base_buf_putc(b, ']');
}

static rp_dim refuse_symbol(rp_graph *g, const char *name, int64_t min, int64_t max) {
    const ir_dims *t = ir_graph_dims(g->ir);
    uint32_t i = name ? ir_dims_find(t, name) : UINT32_MAX;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "symbol '%.80s' in ", name ? name : "");
    put_range(&b, min, max);
    if (min > max) {
        base_buf_puts(&b, ": the least value is above the greatest; give [min, max]");
    } else if (ir_dims_exhausted(t)) {
        base_buf_puts(&b, ": out of memory");
    } else if (i != UINT32_MAX) {
        base_buf_puts(&b, ": it is in ");
        put_range(&b, ir_dims_symbol(t, i)->min, ir_dims_symbol(t, i)->max);
        base_buf_puts(&b, " already; give one name one range");
    } else {
        base_buf_puts(&b,
                      ": a name is a letter or _, then letters, digits and _, 63 bytes at most; a "
                      "bound is at most 2^61, or INT64_MAX for none");
    }
    (void)rp_fail(&g->err, ir_dims_refusal(t), "%s", b.failed ? "out of memory" : b.data);
    base_buf_done(&b);
    return invalid(g);
}

rp_dim rp_symbol(rp_graph *g, const char *name, int64_t min, int64_t max) {
    if (!trace_ready(g)) return invalid(g);
    ir_dims *t = ir_graph_dims(g->ir);
    uint32_t before = ir_dims_symbol_count(t);
    ir_dim d = name ? ir_dim_symbol(t, name, min, max, 1) : IR_DIM_BAD;
    if (d == IR_DIM_BAD) return refuse_symbol(g, name, min, max);
    if (ir_dims_symbol_count(t) > before)
        base_log_ch(RP_LOG_CH_DYNAMIC, false, "create_symbol %s in [%lld, %lld] for %s", name,
                    (long long)min, (long long)max, ir_graph_name(g->ir));
    return from_ir(g, d);
}

/* --- arithmetic ------------------------------------------------------------------ */

rp_dim rp_dim_const(int64_t n) {
    return (rp_dim){NULL, n};
}

static void put_dim(base_buf *b, rp_dim d) {
    if (d.n == INVALID || (d.graph && form_of(d) == IR_DIM_BAD))
        base_buf_putc(b, '?');
    else if (d.graph)
        ir_dim_print(ir_graph_dims(d.graph->ir), form_of(d), b);
    else
        base_buf_printf(b, "%lld", (long long)d.n);
}

/* a op b cannot be made: the graph fails, where there is one. */
static rp_dim refuse(rp_graph *g, rp_dim a, const char *op, rp_dim b, const char *why) {
    base_buf text;
    if (!g || !trace_ready(g)) return invalid(g);
    base_buf_init(&text, 0);
    base_buf_puts(&text, "size (");
    put_dim(&text, a);
    base_buf_printf(&text, ") %s (", op);
    put_dim(&text, b);
    base_buf_printf(&text, "): %s", why);
    (void)rp_fail(&g->err, ir_dims_refusal(ir_graph_dims(g->ir)), "%s",
                  text.failed ? "out of memory" : text.data);
    base_buf_done(&text);
    return invalid(g);
}

#define TOO_LARGE "it overflows, or has too many terms"

typedef ir_dim (*join_fn)(ir_dims *t, ir_dim a, ir_dim b);

static bool join_numbers(join_fn join, int64_t a, int64_t b, int64_t *out) {
    return !(join == ir_dim_add   ? __builtin_add_overflow(a, b, out)
             : join == ir_dim_sub ? __builtin_sub_overflow(a, b, out)
                                  : __builtin_mul_overflow(a, b, out));
}

static rp_dim join(rp_dim a, const char *op, rp_dim b, join_fn fn) {
    rp_graph *g = a.graph ? a.graph : b.graph;
    int64_t n;
    if (a.n == INVALID || b.n == INVALID) return invalid(g);
    if (!g) return join_numbers(fn, a.n, b.n, &n) ? (rp_dim){NULL, n} : invalid(NULL);
    if (!trace_ready(g)) return invalid(g);
    ir_dim x = trace_dim(g, a), y = trace_dim(g, b);
    ir_dim d = fn(ir_graph_dims(g->ir), x, y);
    return d == IR_DIM_BAD ? refuse(g, a, op, b, TOO_LARGE) : from_ir(g, d);
}

rp_dim(rp_dim_add)(rp_dim a, rp_dim b) {
    return join(a, "+", b, ir_dim_add);
}

rp_dim(rp_dim_sub)(rp_dim a, rp_dim b) {
    return join(a, "-", b, ir_dim_sub);
}

rp_dim(rp_dim_mul)(rp_dim a, rp_dim b) {
    return join(a, "*", b, ir_dim_mul);
}

static rp_dim divide(rp_dim a, const char *op, int64_t k,
                     ir_dim (*fn)(ir_dims *t, ir_dim a, int64_t k)) {
    rp_dim by = {NULL, k};
    if (a.n == INVALID) return a;
    if (k < 1) return refuse(a.graph, a, op, by, "a size is divided by positive numbers alone");
    if (!a.graph) {
        int64_t rest = a.n % k, below = rest < 0;
        return (rp_dim){NULL, fn == ir_dim_mod ? rest + below * k : a.n / k - below};
    }
    if (!trace_ready(a.graph)) return invalid(a.graph);
    ir_dim d = fn(ir_graph_dims(a.graph->ir), trace_dim(a.graph, a), k);
    return d == IR_DIM_BAD ? refuse(a.graph, a, op, by, TOO_LARGE) : from_ir(a.graph, d);
}

rp_dim(rp_dim_floordiv)(rp_dim a, int64_t k) {
    return divide(a, "//", k, ir_dim_floordiv);
}

rp_dim(rp_dim_mod)(rp_dim a, int64_t k) {
    return divide(a, "%", k, ir_dim_mod);
}

rp_dim(rp_dim_ceildiv)(rp_dim a, int64_t k) {
    return rp_dim_floordiv(k < 1 ? a : rp_dim_add(a, k - 1), k);
}

/* --- questions ---------------------------------------------------------------------- */

bool rp_dim_is_const(rp_dim a, int64_t *out) {
    if (a.graph || a.n == INVALID) return false;
    if (out) *out = a.n;
    return true;
}

void rp_dim_bounds(rp_dim a, int64_t *min, int64_t *max) {
    if (a.graph && form_of(a) != IR_DIM_BAD) {
        ir_dim_bounds(ir_graph_dims(a.graph->ir), form_of(a), min, max);
        return;
    }
    bool none = a.graph || a.n == INVALID; /* of an invalid size */
    *min = none ? INT64_MIN : a.n;
    *max = none ? INT64_MAX : a.n;
}

static rp_answer answer(ir_tri t, bool negate) {
    if (t == IR_UNKNOWN) return RP_UNKNOWN;
    return (t == IR_TRUE) != negate ? RP_YES : RP_NO;
}

static rp_answer compare(const ir_dims *t, ir_dim x, rp_relation r, ir_dim y) {
    switch (r) {
    case RP_DIM_LT: return answer(ir_dim_le(t, y, x), true);
    case RP_DIM_LE: return answer(ir_dim_le(t, x, y), false);
    case RP_DIM_EQ: return answer(ir_dim_eq(t, x, y), false);
    case RP_DIM_NE: return answer(ir_dim_eq(t, x, y), true);
    case RP_DIM_GE: return answer(ir_dim_le(t, y, x), false);
    case RP_DIM_GT: return answer(ir_dim_le(t, x, y), true);
    }
    return RP_UNKNOWN;
}

/* By ranges alone: nothing is assumed. */
static rp_answer known(const rp_graph *g, ir_dim x, rp_relation r, ir_dim y) {
    ir_dims *t = ir_graph_dims(g->ir);
    ir_dim_assume_fn fn;
    void *user;
    ir_dims_get_assume(t, &fn, &user);
    ir_dims_set_assume(t, NULL, NULL);
    rp_answer out = compare(t, x, r, y);
    ir_dims_set_assume(t, fn, user);
    return out;
}

rp_answer(rp_dim_compare)(rp_dim a, rp_relation r, rp_dim b) {
    rp_graph *g = a.graph ? a.graph : b.graph;
    if (a.n == INVALID || b.n == INVALID) return RP_UNKNOWN;
    if (!g) {
        bool yes = r == RP_DIM_LT   ? a.n < b.n
                   : r == RP_DIM_LE ? a.n <= b.n
                   : r == RP_DIM_EQ ? a.n == b.n
                   : r == RP_DIM_NE ? a.n != b.n
                   : r == RP_DIM_GE ? a.n >= b.n
                                    : a.n > b.n;
        return yes ? RP_YES : RP_NO;
    }
    if (!trace_ready(g)) return RP_UNKNOWN;
    return known(g, trace_dim(g, a), r, trace_dim(g, b));
}

static const char *relation_text(rp_relation r) {
    static const char *const text[] = {"<", "<=", "==", "!=", ">=", ">"};
    return (unsigned)r < sizeof text / sizeof *text ? text[r] : "?";
}

static void put_bounds(base_buf *b, rp_dim d) {
    int64_t min, max;
    if (rp_dim_is_const(d, NULL)) return;
    rp_dim_bounds(d, &min, &max);
    base_buf_puts(b, "; ");
    put_dim(b, d);
    base_buf_puts(b, " is in ");
    put_range(b, min, max);
}

bool rp_dim_ask(rp_dim a, rp_relation r, rp_dim b, const char *file, int line) {
    rp_graph *g = a.graph ? a.graph : b.graph;
    rp_answer known = rp_dim_compare(a, r, b);
    base_buf text;
    if (!g || !trace_ready(g)) return known == RP_YES;
    if (known == RP_UNKNOWN && g->oracle) {
        known = g->oracle->ask(g->oracle->user, trace_dim(g, a), r, trace_dim(g, b), file, line);
        if (g->err.code != RP_OK) g->blamed = true; /* it names the line */
        if (known != RP_UNKNOWN) return known == RP_YES;
    }
    base_buf_init(&text, 0);
    put_dim(&text, a);
    base_buf_printf(&text, " %s ", relation_text(r));
    put_dim(&text, b);
    if (known == RP_UNKNOWN) {
        put_bounds(&text, a);
        put_bounds(&text, b);
        (void)rp_fail(&g->err, text.failed ? RP_NOMEM : RP_INVALID,
                      "%s:%d: not known: %s; narrow the range of the symbols, or ask "
                      "rp_dim_compare, which has a third answer",
                      file, line, text.failed ? "out of memory" : text.data);
        g->blamed = true;
    } else if (!text.failed) {
        base_log_ch(RP_LOG_CH_DYNAMIC, false, "eval %s: %s at %s:%d of %s", text.data,
                    known == RP_YES ? "yes" : "no", file, line, ir_graph_name(g->ir));
    }
    base_buf_done(&text);
    return known == RP_YES;
}
