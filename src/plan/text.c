/* A plan as text for people. Nothing reads it back; no pointers, paths or times. */
#include <inttypes.h>
#include <string.h>

#include "plan/layout.h"

static const char *symbol_name(const void *user, uint32_t i) {
    const plan *p = user;
    return i < p->n_symbols ? p->symbols[i].name : "?";
}

static void print_size(const plan *p, const plan_size *s, base_buf *out) {
    ir_dim_code_print(s, symbol_name, p, out);
}

static void print_type(const plan *p, const plan_leaf *l, base_buf *out) {
    base_buf_printf(out, "%s[", rp_dtype_name(l->dtype));
    for (uint32_t i = 0; i < l->rank; i++) {
        if (i) base_buf_putc(out, ',');
        print_size(p, &l->dim[i], out);
    }
    base_buf_putc(out, ']');
}

static void print_leaves(const plan *p, const char *what, const plan_leaf *l, uint32_t n,
                         base_buf *out) {
    for (uint32_t i = 0; i < n; i++) {
        base_buf_printf(out, "%s %u %s: ", what, i, l[i].name);
        print_type(p, &l[i], out);
        base_buf_putc(out, '\n');
    }
}

static void print_packs(const plan *p, base_buf *out) {
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *k = &p->packs[i];
        base_buf_printf(out, "pack %u at %" PRId64 ", %" PRId64 " bytes: %s, k %" PRId64 "%s:", i,
                        k->offset, k->size, rp_dtype_name(k->dtype), k->k,
                        k->swizzled ? ", swizzled" : "");
        for (uint32_t s = 0; s < k->n_sections; s++) {
            base_buf_puts(out, s ? " |" : "");
            for (uint32_t j = 0; j < k->sections[s].n_params; j++)
                base_buf_printf(out, " %s%s", p->params[k->sections[s].params[j]].name,
                                k->sections[s].by_k >> j & 1 ? " by k" : "");
            base_buf_printf(out, " [%" PRId64 "]", k->sections[s].rows);
        }
        base_buf_putc(out, '\n');
    }
}

static void print_values(const plan *p, base_buf *out) {
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *v = &p->values[i];
        base_buf_printf(out, "value %u ", i);
        if (v->offset == PLAN_GROWS)
            base_buf_puts(out, "of its own");
        else
            base_buf_printf(out, "at %" PRId64, v->offset);
        base_buf_printf(out, ", launches %u..%u: ", v->first, v->last);
        print_size(p, &v->bytes, out);
        base_buf_puts(out, " bytes\n");
    }
}

/* "out" is written, "inout" read, too; else it is read, "unused" not even that. */
static void print_arg(const plan *p, const plan_arg *a, base_buf *out) {
    static const char *const how[] = {"unused ", "", "out ", "inout "};
    base_buf_puts(out, how[a->access & (BASE_READS | BASE_WRITES)]);
    switch (a->seg) {
    case PLAN_INPUT: base_buf_puts(out, p->inputs[a->idx].name); break;
    case PLAN_OUTPUT: base_buf_printf(out, "output:%s", p->outputs[a->idx].name); break;
    case PLAN_PARAM: base_buf_printf(out, "@%s", p->params[a->idx].name); break;
    case PLAN_STATE: base_buf_printf(out, "state:%s", p->states[a->idx].name); break;
    case PLAN_PACK: base_buf_printf(out, "pack:%u", a->idx); break;
    case PLAN_CONST: base_buf_printf(out, "record:%u", a->idx); break;
    case PLAN_ARENA: base_buf_printf(out, "%%%u", a->idx); break;
    case PLAN_SEG_COUNT_: break;
    }
}

/* What an alternative of device code has of its own. */
static void print_block(const plan_alt *a, base_buf *out) {
    if (a->threads) base_buf_printf(out, ", %u threads", a->threads);
    if (a->per_sm) base_buf_printf(out, ", %u blocks a multiprocessor", a->per_sm);
}

static void print_control(const plan *p, const plan_control *c, base_buf *out) {
    base_buf_puts(out, " runs");
    for (uint32_t i = 0; i < plan_control_count(c); i++)
        base_buf_printf(out, "%s %s (%u)", i ? "," : "", p->inner[c->inner[i]]->name, c->inner[i]);
    if (c->kind != PLAN_SCAN) return;
    base_buf_puts(out, ", times ");
    print_size(p, &c->length, out);
}

static void print_launch(const plan *p, uint32_t i, base_buf *out) {
    const plan_launch *l = &p->launches[i];
    base_buf_printf(out, "  %u %s%s(", i, l->custom ? "call " : "", l->name);
    for (uint32_t k = 0; k < l->n_args; k++) {
        base_buf_puts(out, k ? ", " : "");
        print_arg(p, &l->args[k], out);
    }
    base_buf_puts(out, ")");
    if (l->custom && strcmp(l->attrs, "{}") != 0) base_buf_printf(out, " %s", l->attrs);
    if (l->control) print_control(p, l->control, out);
    if (plan_launch_is_plain(l)) {
        base_buf_puts(out, " items ");
        print_size(p, &l->items, out);
        if (l->grain != 1) base_buf_printf(out, " grain %" PRId64, l->grain);
        if (l->threads)
            base_buf_printf(out, ", %u a block of %u threads", l->per_block, l->threads);
    }
    for (uint32_t k = 0; l->n_alts > 1 && k < l->n_alts; k++) {
        base_buf_puts(out, k ? " | " : " by rows: ");
        if (k + 1 < l->n_alts) base_buf_printf(out, "<= %" PRId64 " ", l->alts[k].max);
        bool nothing = l->alts[k].function == PLAN_NO_FUNCTION;
        base_buf_puts(out, nothing ? "nothing" : p->functions[l->alts[k].function].symbol);
        print_block(&l->alts[k], out);
    }
    if (l->no_barrier) base_buf_puts(out, ", beside the next");
    base_buf_putc(out, '\n');
}

static void print_piece_name(const plan_piece *q, base_buf *out) {
    base_buf_printf(out, "submod_%u", q->submod);
    if (q->splitting)
        base_buf_puts(out, ", splitting");
    else
        base_buf_printf(out, ", graph %u", q->graph_index);
    if (q->distinct != q->submod) base_buf_printf(out, ", same as submod_%u", q->distinct);
}

static void print_piece(const plan *p, const plan_piece *q, base_buf *out) {
    print_piece_name(q, out);
    base_buf_puts(out, ":\n");
    for (uint32_t i = 0; i < q->n; i++) print_launch(p, q->first + i, out);
}

void plan_print(const plan *p, base_buf *out) {
    base_buf_printf(out,
                    "plan %s: %u pieces, %u compiled, %u distinct, %u launches, arena %" PRId64
                    " bytes, weights %" PRId64 " bytes\n",
                    p->name, p->n_pieces, p->n_compiled, p->n_distinct, p->n_launches,
                    p->arena_size, p->weights_size);
    for (uint32_t i = 0; i < p->n_symbols; i++)
        base_buf_printf(out, "symbol %s in [%" PRId64 ",%" PRId64 "]\n", p->symbols[i].name,
                        p->symbols[i].min, p->symbols[i].max);
    print_leaves(p, "input", p->inputs, p->n_inputs, out);
    print_leaves(p, "output", p->outputs, p->n_outputs, out);
    print_leaves(p, "param", p->params, p->n_params, out);
    print_leaves(p, "state", p->states, p->n_states, out);
    print_packs(p, out);
    print_values(p, out);
    for (uint32_t i = 0; i < p->n_pieces; i++) print_piece(p, &p->pieces[i], out);
    for (uint32_t i = 0; i < p->n_inner; i++) {
        base_buf_printf(out, "inner %u: ", i);
        plan_print(p->inner[i], out);
    }
}

/* --- schedule ---------------------------------------------------------------------- */

/* The piece in which a value is made. */
static const plan_piece *piece_of(const plan *p, const plan_value *v) {
    for (uint32_t i = 0; i < p->n_pieces; i++)
        if (v->first >= p->pieces[i].first && v->first < p->pieces[i].first + p->pieces[i].n)
            return &p->pieces[i];
    return NULL;
}

static bool overlap(const plan *p, const plan_value *v, const plan_value *w) {
    int64_t a, b;
    return plan_value_bytes(p, v, &a) && plan_value_bytes(p, w, &b) && a > 0 && b > 0 &&
           v->offset < w->offset + b && w->offset < v->offset + a;
}

/* Whether another value had the place of w before v got it. */
static bool taken_between(const plan *p, const plan_value *w, const plan_value *v) {
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *x = &p->values[i];
        if (x->first > w->last && x->last < v->first && overlap(p, x, w) && overlap(p, x, v))
            return true;
    }
    return false;
}

/* The values that had v's bytes last. */
static void print_reuse(const plan *p, const plan_value *v, base_buf *out) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *w = &p->values[i];
        if (w->last < v->first && overlap(p, v, w) && !taken_between(p, w, v))
            base_buf_printf(out, "%s %%%u", n++ ? "" : ", reuses", i);
    }
}

static void print_place(const plan *p, uint32_t i, base_buf *out) {
    const plan_value *v = &p->values[i];
    int64_t size = -1;
    if (plan_value_bytes(p, v, &size) && size == 0) return;
    if (size < 0)
        base_buf_printf(out, "  %%%u of its own = ", i);
    else
        base_buf_printf(out, "  %%%u [%" PRId64 ", %" PRId64 ") = ", i, v->offset,
                        v->offset + size);
    print_size(p, &v->bytes, out);
    base_buf_printf(out, " bytes, launches %u..%u", v->first, v->last);
    print_reuse(p, v, out);
    base_buf_putc(out, '\n');
}

void plan_print_schedule(const plan *p, bool all, base_buf *out) {
    base_buf_printf(out, "schedule of %s: %u pieces, %u launches\n", p->name, p->n_pieces,
                    p->n_launches);
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *q = &p->pieces[i];
        print_piece_name(q, out);
        base_buf_printf(out, ", launches %u..%u\n", q->first, q->first + q->n - (q->n > 0));
        for (uint32_t k = 0; k < q->n && (all || q->distinct == q->submod); k++)
            print_launch(p, q->first + k, out);
    }
    base_buf_printf(out, "arena of %s: %" PRId64 " bytes at the largest sizes\n", p->name,
                    p->arena_size);
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_piece *q = piece_of(p, &p->values[i]);
        if (all || !q || q->distinct == q->submod) print_place(p, i, out);
    }
    for (uint32_t i = 0; i < p->n_inner; i++) plan_print_schedule(p->inner[i], all, out);
}
