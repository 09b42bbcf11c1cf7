/* Guards as text, in torch's words: a list, and the tree that its guard managers are. */
#include <inttypes.h>

#include "base/alloc.h"
#include "front/front.h"

/* What is asked of the value at head, but for its items. */
static void put_check(const front_guards *g, uint32_t head, const char *source, base_buf *out) {
    const uint64_t *w = g->want + head;
    switch (front_kind(*w)) {
    case RP_VALUE_TENSOR:
        base_buf_printf(out, "TENSOR_MATCH: check_tensor(%s, Tensor, %s, size=[", source,
                        rp_dtype_name(front_dtype(*w)));
        for (uint32_t i = 0; i < front_rank(*w); i++) {
            if (g->mask[head + 1 + i])
                base_buf_printf(out, "%s%" PRId64, i ? ", " : "", (int64_t)w[1 + i]);
            else
                base_buf_printf(out, "%sNone", i ? ", " : "");
        }
        base_buf_puts(out, "])");
        break;
    case RP_VALUE_LIST:
    case RP_VALUE_TUPLE:
        base_buf_printf(out, "LENGTH_CHECK: len(%s) == %u", source, front_count(*w));
        break;
    case RP_VALUE_MAP:
        base_buf_printf(out, "DICT_LENGTH: len(%s) == %u", source, front_count(*w));
        break;
    default:
        if (front_kind(*w) == RP_VALUE_INT && g->mask[head + 1] == 0) { /* a symbol */
            base_buf_printf(out, "TYPE_MATCH: type(%s) == int", source);
            break;
        }
        base_buf_printf(out, "EQUALS_MATCH: %s == ", source);
        front_put_value(g->want, head, out);
    }
    base_buf_putc(out, '\n');
}

/* The size, or the integer, that is word `at`. */
static void put_size(const front_guards *g, uint32_t at, base_buf *out) {
    front_place p = front_describe(g->want, at, out);
    if (p.field == FRONT_SIZE) base_buf_printf(out, ".size()[%u]", p.index);
}

/* Ranges of sizes, then what relates several, each behind lead. */
static void put_sizes(const front_guards *g, const char *lead, base_buf *out) {
    base_buf source;
    base_buf_init(&source, 0);
    for (uint32_t i = 0; i < g->n_ranges; i++) {
        const front_range *r = &g->range[i];
        base_buf_clear(&source);
        put_size(g, r->word, &source);
        const char *name = source.data ? source.data : "";
        if (r->min > 0 || r->max != INT64_MAX) {
            base_buf_printf(out, "%s%" PRId64 " <= %s", lead, r->min, name);
            if (r->max != INT64_MAX) base_buf_printf(out, " <= %" PRId64, r->max);
            base_buf_putc(out, '\n');
        }
        if (r->divisor > 1)
            base_buf_printf(out, "%s%s%%%" PRId64 " == 0\n", lead, name, r->divisor);
    }
    base_buf_done(&source);
    for (uint32_t i = 0; i < g->sizes.n_facts; i++) {
        base_buf_puts(out, lead);
        front_fact_print(&g->sizes, &g->sizes.fact[i], out);
        base_buf_putc(out, '\n');
    }
}

void front_guards_print(const front_guards *g, base_buf *out) {
    base_buf source;
    base_buf_puts(out, "- RootGuardManager\n");
    base_buf_init(&source, 0);
    for (uint32_t i = 0; i < g->n; i++) {
        base_buf_clear(&source);
        front_place p = front_describe(g->want, i, &source);
        if (p.field != FRONT_HEAD || !source.data) continue;
        base_buf_printf(out, "  - GuardManager: source=%s\n    - ", source.data);
        put_check(g, i, source.data, out);
    }
    base_buf_done(&source);
    put_sizes(g, "  - SHAPE_ENV: ", out);
}

/* --- the tree ---------------------------------------------------------------------------- */

typedef struct branch {
    const front_guards *g;
    base_buf source; /* of the value in question */
    base_buf *out;
} branch;

static void put_depth(base_buf *out, uint32_t depth) {
    for (uint32_t i = 0; i < depth; i++) base_buf_puts(out, "| ");
    base_buf_puts(out, "+- ");
}

/* Item i of a value of `kind`, in a map behind its name at head `name`; appended to source as well. */
static void put_accessor(branch *t, rp_value_kind kind, uint32_t i, uint32_t name) {
    const uint64_t *w = t->g->want;
    size_t from = t->source.len;
    base_buf_putc(&t->source, '[');
    if (kind == RP_VALUE_MAP)
        front_put_value(w, name, &t->source);
    else
        base_buf_printf(&t->source, "%u", i);
    base_buf_putc(&t->source, ']');
    if (!t->source.data) return;
    base_buf_printf(t->out, "%s, accessed_by=%sGetItemGuardAccessor(%.*s)\n", t->source.data,
                    kind == RP_VALUE_MAP    ? "Dict"
                    : kind == RP_VALUE_LIST ? "List"
                                            : "Tuple",
                    (int)(t->source.len - from - 2), t->source.data + from + 1);
}

/* The manager of the value at head, whose line has been begun; gives the word behind the value. */
static uint32_t put_manager(branch *t, uint32_t head, uint32_t depth) {
    const uint64_t *w = t->g->want;
    rp_value_kind kind = front_kind(w[head]);
    bool items = kind == RP_VALUE_LIST || kind == RP_VALUE_TUPLE || kind == RP_VALUE_MAP;
    uint32_t at = head + 1;
    put_depth(t->out, depth);
    put_check(t->g, head, t->source.data ? t->source.data : "", t->out);
    if (!items) return front_after(w, head);
    for (uint32_t i = 0; i < front_count(w[head]); i++) {
        size_t len = t->source.len;
        uint32_t name = at;
        if (kind == RP_VALUE_MAP) at = front_after(w, name);
        put_depth(t->out, depth);
        base_buf_puts(t->out, "GuardManager: source=");
        put_accessor(t, kind, i, name);
        at = put_manager(t, at, depth + 1);
        if (t->source.data) t->source.data[t->source.len = len] = 0;
    }
    return at;
}

void front_guards_tree(const front_guards *g, base_buf *out) {
    branch t = {.g = g, .out = out};
    base_buf_init(&t.source, 0);
    base_buf_puts(&t.source, "L");
    base_buf_puts(out, "+- RootGuardManager\n| +- GuardManager: source=L\n");
    (void)put_manager(&t, 0, 2);
    put_sizes(g, "| +- LAMBDA_GUARD: ", out);
    base_buf_done(&t.source);
}
