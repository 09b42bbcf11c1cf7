/* Guards: made of a solver, checked, told. */
#include <inttypes.h>

#include "base/alloc.h"
#include "front/front.h"

/* --- making --------------------------------------------------------------------------------- */

static void add_range(front_guards *g, const front_symbol *y) {
    if (y->min <= 0 && y->max == INT64_MAX && y->divisor == 1) return;
    int64_t min = y->negated ? -y->max : y->min, max = y->negated ? -y->min : y->max;
    g->range[g->n_ranges++] = (front_range){y->word, min, max, y->divisor};
}

/* One word is another. */
static bool is_pair(const front_guards *g, const front_symbol *y) {
    if (!y->replaced || y->as.n != 1 || y->as.op[0] != IR_DIM_CODE_SYMBOL) return false;
    const front_symbol *other = &g->sizes.symbol[y->as.k[0]];
    return !y->rest && !other->rest && y->negated == other->negated;
}

static void add_symbol(front_guards *g, const front_symbol *y) {
    g->has_rest = g->has_rest || y->rest;
    if (y->fixed || y->rest) return; /* its word has a mask, or it has none */
    g->mask[y->word] = 0;
    add_range(g, y);
    if (!is_pair(g, y)) return;
    uint32_t *pair = g->pair[g->n_pairs++];
    pair[0] = y->word;
    pair[1] = g->sizes.symbol[y->as.k[0]].word;
}

/* What a replacement by a form says is a fact of the solver, too; such a fact is checked as it is. */
static bool is_open(const front_guards *g, const front_fact *f) {
    if (!f->learnt) return true;
    if (f->r != RP_DIM_EQ) return false;
    for (uint32_t i = 0; i < g->sizes.n_symbols; i++)
        if (g->sizes.symbol[i].replaced &&
            (g->sizes.symbol[i].fixed || !is_pair(g, &g->sizes.symbol[i])))
            return true;
    return false;
}

rp_status front_guards_make(front_guards *g, const front_args *a, front_solver *s, rp_error *err) {
    g->sizes = *s;
    *s = (front_solver){0};
    uint32_t n = g->sizes.n_symbols;
    g->n = a->n;
    g->hash = a->hash;
    g->want = base_alloc_array(a->n, sizeof *g->want);
    g->mask = base_alloc_array(a->n, sizeof *g->mask);
    g->range = base_alloc_array(n + 1u, sizeof *g->range);
    g->pair = base_alloc_array(n + 1u, sizeof *g->pair);
    g->fact = base_alloc_array(g->sizes.n_facts + 1u, sizeof *g->fact);
    g->value = base_alloc_array(n + 1u, sizeof *g->value);
    if (!g->want || !g->mask || !g->range || !g->pair || !g->fact || !g->value)
        return rp_fail(err, RP_NOMEM, "guards of %s", g->sizes.what);
    memcpy(g->want, a->word, a->n * sizeof *g->want);
    memset(g->mask, 0xff, a->n * sizeof *g->mask);
    for (uint32_t i = 0; i < n; i++) add_symbol(g, &g->sizes.symbol[i]);
    g->exact = true;
    for (uint32_t i = 0; i < a->n; i++) g->exact = g->exact && g->mask[i] == UINT64_MAX;
    for (uint32_t i = 0; i < g->sizes.n_facts; i++)
        if (is_open(g, &g->sizes.fact[i])) g->fact[g->n_open++] = i;
    return RP_OK;
}

void front_guards_done(front_guards *g) {
    front_solver_done(&g->sizes);
    base_free(g->want);
    base_free(g->mask);
    base_free(g->range);
    base_free(g->pair);
    base_free(g->fact);
    base_free(g->value);
}

/* --- checking -------------------------------------------------------------------------------- */

static bool in_range(const front_range *r, int64_t v) {
    return v >= r->min && v <= r->max && (r->divisor == 1 || v % r->divisor == 0);
}

static void read_values(front_guards *g, const front_args *a) {
    for (uint32_t i = 0; i < g->sizes.n_symbols; i++)
        g->value[i] = front_symbol_value(&g->sizes.symbol[i], a->word);
}

/* What has no word. */
static bool rests_hold(const front_guards *g) {
    for (uint32_t i = 0; i < g->sizes.n_symbols && g->has_rest; i++) {
        const front_symbol *y = &g->sizes.symbol[i];
        const front_range r = {.min = y->fixed ? y->hint : y->min,
                               .max = y->fixed ? y->hint : y->max,
                               .divisor = y->divisor};
        if (y->rest && !in_range(&r, g->value[i])) return false;
    }
    return true;
}

static bool sizes_hold(front_guards *g, const front_args *a) {
    for (uint32_t i = 0; i < g->n_ranges; i++)
        if (!in_range(&g->range[i], (int64_t)a->word[g->range[i].word])) return false;
    for (uint32_t i = 0; i < g->n_pairs; i++)
        if (a->word[g->pair[i][0]] != a->word[g->pair[i][1]]) return false;
    if (g->n_open == 0 && !g->has_rest) return true;
    read_values(g, a);
    if (!rests_hold(g)) return false;
    for (uint32_t i = 0; i < g->n_open; i++)
        if (!front_fact_holds(&g->sizes.fact[g->fact[i]], g->value)) return false;
    return true;
}

static bool words_hold(const front_guards *g, const front_args *a) {
    enum { AT_ONCE = 4 };
    const uint64_t *want = g->want, *mask = g->mask, *word = a->word;
    uint32_t i = 0;
    if (g->exact && g->hash != a->hash) return false;
    if (g->exact) return memcmp(want, word, g->n * sizeof *want) == 0;
    for (; i + AT_ONCE <= g->n; i += AT_ONCE) {
        uint64_t differs = (want[i] ^ word[i]) & mask[i];
        differs |= (want[i + 1] ^ word[i + 1]) & mask[i + 1];
        differs |= (want[i + 2] ^ word[i + 2]) & mask[i + 2];
        differs |= (want[i + 3] ^ word[i + 3]) & mask[i + 3];
        if (differs) return false;
    }
    for (; i < g->n; i++)
        if ((want[i] ^ word[i]) & mask[i]) return false;
    return true;
}

bool front_guards_hold(front_guards *g, const front_args *a) {
    return g->n == a->n && words_hold(g, a) && sizes_hold(g, a);
}

/* --- telling ---------------------------------------------------------------------------------- */

/* Names of c10::ScalarType, as torch prints them; ours where it has none. */
static const char *scalar_type(rp_dtype t) {
    static const char *const name[RP_DTYPE_COUNT_] = {
        [RP_DTYPE_F32] = "Float",
        [RP_DTYPE_F16] = "Half",
        [RP_DTYPE_BF16] = "BFloat16",
        [RP_DTYPE_F64] = "Double",
        [RP_DTYPE_I64] = "Long",
        [RP_DTYPE_I32] = "Int",
        [RP_DTYPE_I16] = "Short",
        [RP_DTYPE_I8] = "Char",
        [RP_DTYPE_U8] = "Byte",
        [RP_DTYPE_BOOL] = "Bool",
        [RP_DTYPE_F8E4M3FN] = "Float8_e4m3fn",
        [RP_DTYPE_F8E5M2] = "Float8_e5m2",
    };
    return name[t] ? name[t] : rp_dtype_name(t);
}

static void put_head(const char *source, uint64_t want, uint64_t is, base_buf *out) {
    if (front_kind(want) != front_kind(is))
        base_buf_printf(out, "type(%s) == %s", source, front_type_name(want));
    else if (front_kind(want) == RP_VALUE_TENSOR && front_dtype(want) != front_dtype(is))
        base_buf_printf(out, "tensor '%s' dtype mismatch. expected %s, actual %s", source,
                        scalar_type(front_dtype(want)), scalar_type(front_dtype(is)));
    else if (front_kind(want) == RP_VALUE_TENSOR && front_rank(want) != front_rank(is))
        base_buf_printf(out, "tensor '%s' rank mismatch. expected %u, actual %u", source,
                        front_rank(want), front_rank(is));
    else if (front_kind(want) == RP_VALUE_TENSOR)
        base_buf_printf(out, "tensor '%s' state mismatch. expected %d, actual %d", source,
                        front_is_state(want), front_is_state(is));
    else
        base_buf_printf(out, "len(%s) == %u", source, front_count(want));
}

static void put_name(const uint64_t *want, const char *source, front_place p, base_buf *out) {
    base_buf_printf(out, "list(%s.keys())[%u] == ", source, p.index);
    uint32_t head = p.head + 1;
    for (uint32_t i = 0; i < p.index; i++) head = front_after(want, front_after(want, head));
    front_put_value(want, head, out);
}

/* The guard of word i. */
static void put_word(const front_guards *g, const front_args *a, uint32_t i, base_buf *out) {
    base_buf source;
    base_buf_init(&source, 0);
    front_place p = front_describe(g->want, i, &source);
    const char *name = source.data ? source.data : "L";
    bool text = p.field == FRONT_HEAD && front_kind(g->want[i]) == RP_VALUE_STRING &&
                front_kind(a->word[i]) == RP_VALUE_STRING; /* of another length */
    switch (text ? FRONT_LITERAL : p.field) {
    case FRONT_HEAD: put_head(name, g->want[i], a->word[i], out); break;
    case FRONT_SIZE:
        base_buf_printf(
            out, "tensor '%s' size mismatch at index %u. expected %" PRId64 ", actual %" PRId64,
            name, p.index, (int64_t)g->want[i], (int64_t)a->word[i]);
        break;
    case FRONT_NAME: put_name(g->want, name, p, out); break;
    case FRONT_LITERAL:
        base_buf_printf(out, "%s == ", name);
        front_put_value(g->want, p.head, out);
        break;
    }
    base_buf_done(&source);
}

static uint32_t first_word(const front_guards *g, const front_args *a) {
    uint32_t n = g->n < a->n ? g->n : a->n;
    for (uint32_t i = 0; i < n; i++)
        if ((g->want[i] ^ a->word[i]) & g->mask[i]) return i;
    return UINT32_MAX;
}

/* A bound or a divisor that nobody asked for: of a mark, or of what a symbol may be. False where n has both. */
static bool put_range(const front_symbol *y, int64_t n, base_buf *out) {
    const bool in = n >= y->min && n <= y->max;
    if (y->fixed && (!y->rest || n == y->hint)) return false;
    if (!y->fixed && in && n % y->divisor == 0) return false;
    if (y->fixed)
        base_buf_printf(out, "%s == %" PRId64, y->source, y->hint);
    else if (in)
        base_buf_printf(out, "%s%%%" PRId64 " == 0", y->source, y->divisor);
    else
        base_buf_printf(out, "%" PRId64 " <= %s", y->min, y->source);
    if (!y->fixed && !in && y->max != INT64_MAX) base_buf_printf(out, " <= %" PRId64, y->max);
    return true;
}

uint32_t front_guards_why(front_guards *g, const front_args *a, base_buf *out) {
    uint32_t at = first_word(g, a);
    if (at != UINT32_MAX) {
        put_word(g, a, at, out);
        return at;
    }
    read_values(g, a);
    for (uint32_t i = 0; i < g->sizes.n_facts; i++) {
        const front_fact *f = &g->sizes.fact[i];
        uint32_t symbol;
        int64_t coef, k, number;
        if (front_fact_holds(f, g->value)) continue;
        front_fact_print(&g->sizes, f, out);
        bool one = ir_dim_code_linear(&f->a, &symbol, &coef, &k) &&
                   ir_dim_code_is_const(&f->b, &number);
        return one ? g->sizes.symbol[symbol].word : UINT32_MAX;
    }
    for (uint32_t i = 0; i < g->sizes.n_symbols; i++) {
        const front_symbol *y = &g->sizes.symbol[i];
        if (put_range(y, g->value[i], out)) return y->word;
    }
    return UINT32_MAX;
}
