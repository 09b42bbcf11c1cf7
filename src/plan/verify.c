/* The invariants of a plan: what makes binding and running it stay inside its own memory.
 *
 * A plan may come from a file, so nothing is assumed but that arrays hold as many records as they say. What a kernel does
 * with its arguments is not seen from here: code and records are covered by the checksums of the cache. */
#include <string.h>

#include "base/alloc.h"
#include "plan/layout.h"
#include "plan/pack.h"

#define MAX_PACK_ROWS (INT64_C(1) << 40)

#define BAD(p, ...) bad(p, err, __VA_ARGS__)

static rp_status RP_PRINTF(3, 4) bad(const plan *p, rp_error *err, const char *fmt, ...) {
    base_buf b;
    va_list ap;
    va_start(ap, fmt);
    base_buf_init(&b, 0);
    base_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    rp_status st = rp_fail(err, RP_CORRUPT, "plan %s: %s", p->name, b.data ? b.data : fmt);
    base_buf_done(&b);
    return st;
}

static bool up_to_2_31(const void *user, uint32_t i, int64_t *lo, int64_t *hi) {
    const plan *p = user;
    if (!plan_symbol_range(p, i, lo, hi)) return false;
    if (*hi > INT32_MAX) *hi = *lo > INT32_MAX ? *lo : INT32_MAX;
    return true;
}

static bool smallest(const void *user, uint32_t i, int64_t *lo, int64_t *hi) {
    if (!plan_symbol_range(user, i, lo, hi)) return false;
    *hi = *lo;
    return true;
}

/* A program over the plan's symbols that no size up to 2^31 makes overflow. A product may, where symbols have no bound:
 * then for the smallest sizes; whoever brings larger buffers answers for their bytes. */
static bool size_ok(const plan *p, const plan_size *s) {
    int64_t lo, hi;
    return ir_dim_code_bounds(s, up_to_2_31, p, &lo, &hi) ||
           ir_dim_code_bounds(s, smallest, p, &lo, &hi);
}

static bool is_const(const plan_size *s, int64_t v) {
    int64_t is;
    return ir_dim_code_is_const(s, &is) && is == v;
}

static bool leaf_ok(const plan *p, const plan_leaf *l) {
    if (!l->name || (unsigned)l->dtype >= RP_DTYPE_COUNT_ || l->rank > RP_MAX_RANK ||
        !size_ok(p, &l->bytes))
        return false;
    for (uint32_t i = 0; i < l->rank; i++)
        if (!size_ok(p, &l->dim[i])) return false;
    return true;
}

static rp_status verify_leaves(const plan *p, const char *what, const plan_leaf *l, uint32_t n,
                               rp_error *err) {
    for (uint32_t i = 0; i < n; i++)
        if (!leaf_ok(p, &l[i])) return BAD(p, "%s %u is malformed", what, i);
    return RP_OK;
}

static rp_status verify_interface(const plan *p, rp_error *err) {
    for (uint32_t i = 0; i < p->n_symbols; i++)
        if (!p->symbols[i].name || p->symbols[i].min > p->symbols[i].max)
            return BAD(p, "symbol %u is malformed", i);
    RP_TRY(verify_leaves(p, "input", p->inputs, p->n_inputs, err));
    RP_TRY(verify_leaves(p, "output", p->outputs, p->n_outputs, err));
    RP_TRY(verify_leaves(p, "parameter", p->params, p->n_params, err));
    return verify_leaves(p, "state", p->states, p->n_states, err);
}

/* --- memory ------------------------------------------------------------------ */

/* How far up the arena is taken at each launch: a complete binary tree whose root is 1 and whose node i has children 2 i and
 * 2 i + 1. */
typedef struct taken {
    int64_t *all;  /* by node: at all of its launches at least */
    int64_t *most; /* .. and at the one where it is most */
} taken;

/* Raises launches v->first .. v->last to `end`, of those below a node; gives how far up they were taken at most. */
static int64_t take(taken *t, uint32_t node, uint32_t first, uint32_t n, const plan_value *v,
                    int64_t end) {
    if (first > v->last || first + (n - 1) < v->first) return 0;
    const bool within = v->first <= first && first + (n - 1) <= v->last;
    int64_t was = within ? t->most[node] : t->all[node];
    for (uint32_t i = 0; !within && i < 2; i++) {
        int64_t below = take(t, 2 * node + i, first + i * (n / 2), n / 2, v, end);
        if (below > was) was = below;
    }
    if (within && end > t->all[node]) t->all[node] = end;
    if (end > t->most[node]) t->most[node] = end;
    return was;
}

static rp_status name_sharing(const plan *p, const int64_t *bytes, uint32_t id, rp_error *err) {
    const plan_value *v = &p->values[id];
    uint32_t with = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *o = &p->values[i];
        if (i != id && o->first <= v->last && v->first <= o->last &&
            o->offset < v->offset + bytes[id] && v->offset < o->offset + bytes[i])
            with = i;
    }
    return BAD(p, "values %u and %u share memory while both live", with, id);
}

/* No two of the values alive at once share a byte. order: by offset, without those that have no bytes. */
static rp_status verify_sharing(const plan *p, const plan_order *order, uint32_t n,
                                const int64_t *bytes, rp_error *err) {
    rp_status st = RP_OK;
    uint32_t launches = 1;
    while (launches < p->n_launches) launches *= 2;
    taken t = {base_alloc_array((size_t)2 * launches, sizeof *t.all),
               base_alloc_array((size_t)2 * launches, sizeof *t.most)};
    if (!t.all || !t.most) st = rp_fail(err, RP_NOMEM, "check of %u values", n);
    for (uint32_t i = 0; st == RP_OK && i < n; i++) {
        const plan_value *v = &p->values[order[i].value];
        if (take(&t, 1, 0, launches, v, v->offset + bytes[order[i].value]) > v->offset)
            st = name_sharing(p, bytes, order[i].value, err);
    }
    base_free(t.all);
    base_free(t.most);
    return st;
}

static rp_status verify_bounds(const plan *p, int64_t *bytes, rp_error *err) {
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *v = &p->values[i];
        if (!size_ok(p, &v->bytes) || v->first > v->last ||
            (v->last >= p->n_launches && v->last > 0))
            return BAD(p, "value %u is malformed", i);
        bool grows = !plan_value_bytes(p, v, &bytes[i]);
        if (grows && v->offset != PLAN_GROWS) return BAD(p, "value %u has no bounded size", i);
        if (grows) bytes[i] = 0;
        if (grows) continue;
        if (v->offset < 0 || v->offset % PLAN_ALIGN || v->offset > INT64_MAX - bytes[i] ||
            v->offset + bytes[i] > p->arena_size)
            return BAD(p, "value %u lies outside the arena", i);
    }
    return RP_OK;
}

static bool fills_arena(const plan *p, const int64_t *bytes) {
    int64_t end = 0;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->values[i].offset + bytes[i] > end) end = p->values[i].offset + bytes[i];
    return end == p->arena_size;
}

static rp_status verify_values(const plan *p, rp_error *err) {
    rp_status st = RP_OK;
    int64_t *bytes = base_alloc_array(p->n_values + 1u, sizeof *bytes);
    plan_order *order = base_alloc_array(p->n_values + 1u, sizeof *order);
    uint32_t n = 0;
    if (!bytes || !order) {
        st = rp_fail(err, RP_NOMEM, "check of %u values", p->n_values);
        goto out;
    }
    RP_TRY_OUT(verify_bounds(p, bytes, err));
    for (uint32_t i = 0; i < p->n_values; i++)
        if (bytes[i] > 0) order[n++] = (plan_order){p->values[i].offset, i};
    plan_sort(order, n);
    RP_TRY_OUT(verify_sharing(p, order, n, bytes, err));
    if (!fills_arena(p, bytes)) st = BAD(p, "the arena is larger than its values");
out:
    base_free(bytes);
    base_free(order);
    return st;
}

/* A section's parameters are the matrices that it says it packs. */
static bool section_ok(const plan *p, const plan_pack *k, const plan_section *s) {
    if (s->n_params < 1 || s->n_params > 4 || s->rows < 1 || s->rows > MAX_PACK_ROWS ||
        s->by_k >> s->n_params)
        return false;
    for (uint32_t j = 0; j < s->n_params; j++) {
        if (s->params[j] >= p->n_params) return false;
        const plan_leaf *l = &p->params[s->params[j]];
        uint32_t by_k = s->by_k >> j & 1;
        if (l->dtype != k->dtype || l->rank != 2 || !is_const(&l->dim[by_k], s->rows) ||
            !is_const(&l->dim[1 - by_k], k->k) || (by_k && rp_dtype_is_quant(k->dtype)))
            return false;
    }
    return true;
}

static rp_status verify_packs(const plan *p, rp_error *err) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *k = &p->packs[i];
        bool ok = (unsigned)k->dtype < RP_DTYPE_COUNT_ && k->n_sections > 0;
        for (uint32_t s = 0; ok && s < k->n_sections; s++) ok = section_ok(p, k, &k->sections[s]);
        if (!ok || k->offset != offset || k->size <= 0 || k->size != plan_pack_bytes(k))
            return BAD(p, "packed weights %u are malformed", i);
        if (offset > INT64_MAX - k->size - PLAN_ALIGN)
            return BAD(p, "packed weights %u are too large", i);
        offset += (k->size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    return offset == p->weights_size
               ? RP_OK
               : BAD(p, "its weights are not %lld bytes", (long long)p->weights_size);
}

static rp_status verify_tables(const plan *p, rp_error *err) {
    for (uint32_t i = 0; i < p->n_consts; i++)
        if (!p->consts[i].data) return BAD(p, "record %u has no bytes", i);
    for (uint32_t i = 0; i < p->n_functions; i++) {
        const plan_function *f = &p->functions[i];
        if ((f->module != PLAN_BUILTIN && f->module >= p->n_modules) || !f->symbol || !*f->symbol)
            return BAD(p, "function %u has no module or name", i);
    }
    for (uint32_t i = 0; i < p->n_dim_maps; i++)
        for (uint32_t j = 0; j < p->dim_maps[i].n; j++)
            if (p->dim_maps[i].map[j] >= p->n_symbols)
                return BAD(p, "symbol map %u is out of range", i);
    return RP_OK;
}

/* --- launches and pieces ------------------------------------------------------- */

static uint32_t seg_count(const plan *p, plan_seg s) {
    switch (s) {
    case PLAN_INPUT: return p->n_inputs;
    case PLAN_OUTPUT: return p->n_outputs;
    case PLAN_PARAM: return p->n_params;
    case PLAN_STATE: return p->n_states;
    case PLAN_PACK: return p->n_packs;
    case PLAN_CONST: return p->n_consts;
    case PLAN_ARENA: return p->n_values;
    case PLAN_SEG_COUNT_: break;
    }
    return 0;
}

static rp_status verify_alts(const plan *p, uint32_t li, rp_error *err) {
    const plan_launch *l = &p->launches[li];
    for (uint32_t i = 0; i < l->n_alts; i++) {
        bool nothing = l->alts[i].function == PLAN_NO_FUNCTION;
        if ((!nothing && l->alts[i].function >= p->n_functions) || l->alts[i].scratch < 0)
            return BAD(p, "launch %u has no function %u", li, l->alts[i].function);
        if (l->alts[i].threads > 1024 || (l->threads && l->alts[i].scratch > UINT32_MAX))
            return BAD(p, "launch %u has blocks of %u threads with %lld bytes", li,
                       l->alts[i].threads, (long long)l->alts[i].scratch);
        if (i > 0 && l->alts[i].max <= l->alts[i - 1].max)
            return BAD(p, "launch %u: its variants are not in order", li);
    }
    return RP_OK;
}

static rp_status verify_custom(const plan *p, uint32_t li, rp_error *err) {
    const plan_launch *l = &p->launches[li];
    if (!l->custom) return RP_OK;
    if (l->n_args < 1 || l->n_args > PLAN_MAX_CUSTOM_ARGS || !l->operands)
        return BAD(p, "launch %u: custom op %s takes 1 to %u arguments, not %u", li, l->custom,
                   PLAN_MAX_CUSTOM_ARGS, l->n_args);
    if (!l->attrs) return BAD(p, "launch %u: %s has no text of attributes", li, l->custom);
    for (uint32_t i = 0; i < l->n_args; i++)
        if (!leaf_ok(p, &l->operands[i]))
            return BAD(p, "launch %u: operand %u of %s is malformed", li, i, l->custom);
    return RP_OK;
}

/* Every symbol of an inner plan is one of p with no less than its range. */
static bool symbols_fit(const plan *p, const plan *in) {
    for (uint32_t i = 0; i < in->n_symbols; i++) {
        const plan_symbol *s = &in->symbols[i];
        uint32_t k = 0;
        while (k < p->n_symbols && strcmp(p->symbols[k].name, s->name) != 0) k++;
        if (k == p->n_symbols || p->symbols[k].min < s->min || p->symbols[k].max > s->max)
            return false;
    }
    return true;
}

static bool control_fits(const plan *p, const plan_control *c, uint32_t which) {
    bool asks = c->kind == PLAN_WHILE && which == 1;
    if (c->inner[which] >= p->n_inner) return false;
    const plan *in = p->inner[c->inner[which]];
    uint32_t n_in = c->n_operands - (c->kind == PLAN_COND), n_out = asks ? 1 : c->n_results;
    return in->n_inputs == n_in && in->n_outputs == n_out && symbols_fit(p, in) &&
           in->n_params + in->n_states + in->n_packs == 0;
}

static rp_status verify_control(const plan *p, uint32_t li, rp_error *err) {
    const plan_launch *l = &p->launches[li];
    const plan_control *c = l->control;
    if (!c) return RP_OK;
    bool loops = c->kind == PLAN_WHILE || c->kind == PLAN_SCAN;
    bool ok = (unsigned)c->kind < PLAN_CONTROL_COUNT_ && !l->custom && c->n_operands <= 64 &&
              c->n_results <= 64 && c->n_operands >= (c->kind == PLAN_COND) &&
              c->carried <= c->n_results && c->carried <= c->n_operands &&
              c->sliced <= c->n_operands - c->carried && (loops || c->carried + c->sliced == 0) &&
              size_ok(p, &c->length) &&
              l->n_args == c->n_operands + c->n_results + plan_control_work(c);
    for (uint32_t i = 0; ok && i < plan_control_count(c); i++) ok = control_fits(p, c, i);
    return ok ? RP_OK : BAD(p, "launch %u does not fit the plans that it runs", li);
}

/* What launch li may do with argument i. written: of each value, whether an earlier launch wrote it. */
static rp_status verify_access(const plan *p, uint32_t li, uint32_t i, const bool *written,
                               rp_error *err) {
    const plan_arg *a = &p->launches[li].args[i];
    if (a->access > (BASE_READS | BASE_WRITES))
        return BAD(p, "launch %u, argument %u is used in no known way", li, i);
    if (a->access & BASE_WRITES &&
        (a->seg == PLAN_PARAM || a->seg == PLAN_PACK || a->seg == PLAN_CONST))
        return BAD(p, "launch %u writes argument %u, which nothing may write", li, i);
    if (a->access == BASE_READS && a->seg == PLAN_ARENA && !written[a->idx])
        return BAD(p, "launch %u reads value %u, which nothing has written", li, a->idx);
    return RP_OK;
}

static rp_status verify_order(const plan *p, rp_error *err) {
    rp_status st = RP_OK;
    bool *written = base_alloc_array(p->n_values + 1u, sizeof *written);
    if (!written) return rp_fail(err, RP_NOMEM, "check of %u values", p->n_values);
    for (uint32_t li = 0; st == RP_OK && li < p->n_launches; li++) {
        const plan_launch *l = &p->launches[li];
        for (uint32_t i = 0; i < l->n_args; i++)
            if (l->args[i].seg == PLAN_ARENA && l->args[i].access & BASE_WRITES)
                written[l->args[i].idx] = true;
        for (uint32_t i = 0; st == RP_OK && i < l->n_args; i++)
            st = verify_access(p, li, i, written, err);
    }
    base_free(written);
    return st;
}

static rp_status verify_launch(const plan *p, uint32_t li, rp_error *err) {
    const plan_launch *l = &p->launches[li];
    bool has_code = l->n_alts > 0 && l->n_alts <= PLAN_MAX_ALTS &&
                    (l->dim_map < p->n_dim_maps || l->dim_map == PLAN_NUMBERS);
    if (!l->name || !size_ok(p, &l->rows) || !size_ok(p, &l->items) || l->grain < 1 ||
        (plan_launch_is_plain(l) ? !has_code : l->n_alts > 0))
        return BAD(p, "launch %u is malformed", li);
    if (l->threads > 1024 || !l->threads != !l->per_block)
        return BAD(p, "launch %u has blocks of %u threads for %u items", li, l->threads,
                   l->per_block);
    RP_TRY(verify_alts(p, li, err));
    for (uint32_t i = 0; i < l->n_args; i++) {
        const plan_arg *a = &l->args[i];
        if (a->idx >= seg_count(p, a->seg))
            return BAD(p, "launch %u, argument %u is out of range", li, i);
        if (a->seg == PLAN_ARENA && (li < p->values[a->idx].first || li > p->values[a->idx].last))
            return BAD(p, "launch %u uses value %u outside its life", li, a->idx);
    }
    for (uint32_t i = 0; i < l->n_numbers; i++)
        if (!plan_launch_is_plain(l) || !size_ok(p, &l->numbers[i]))
            return BAD(p, "launch %u: number %u is malformed", li, i);
    RP_TRY(verify_custom(p, li, err));
    return verify_control(p, li, err);
}

static rp_status verify_pieces(const plan *p, rp_error *err) {
    uint32_t at = 0, compiled = 0, distinct = 0;
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        const plan_piece *q = &p->pieces[i];
        if (q->first != at || q->n > p->n_launches - at)
            return BAD(p, "piece %u has launches out of order", i);
        at += q->n;
        if (q->submod != i || q->distinct > i || p->pieces[q->distinct].distinct != q->distinct ||
            p->pieces[q->distinct].splitting != q->splitting ||
            q->graph_index != (q->splitting ? UINT32_MAX : compiled))
            return BAD(p, "piece %u is not numbered as its place says", i);
        compiled += !q->splitting;
        distinct += !q->splitting && q->distinct == i;
    }
    if (at != p->n_launches || compiled != p->n_compiled || distinct != p->n_distinct)
        return BAD(p, "its pieces do not add up to %u launches, %u compiled, %u distinct",
                   p->n_launches, p->n_compiled, p->n_distinct);
    return RP_OK;
}

rp_status plan_verify(const plan *p, rp_error *err) {
    for (uint32_t i = 0; i < p->n_inner; i++) RP_TRY(plan_verify(p->inner[i], err));
    RP_TRY(verify_interface(p, err));
    RP_TRY(verify_tables(p, err));
    RP_TRY(verify_packs(p, err));
    RP_TRY(verify_values(p, err));
    for (uint32_t i = 0; i < p->n_launches; i++) RP_TRY(verify_launch(p, i, err));
    RP_TRY(verify_order(p, err));
    return verify_pieces(p, err);
}
