/* The plan object, its arena layout and its invariants. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "plan/pack.h"

#define ALIGN 64

plan *plan_new(const char *name) {
    base_arena *a = base_arena_new();
    plan *p = a ? base_arena_alloc(a, sizeof *p) : NULL;
    if (!p || !(p->name = base_arena_str(a, name))) {
        base_arena_free(a);
        return NULL;
    }
    p->arena = a;
    return p;
}

void plan_free(plan *p) {
    if (p) base_arena_free(p->arena);
}

/* Bytes with every symbol at its largest. Negative coefficients count with the smallest. */
static int64_t max_bytes(const plan *p, const plan_size *s) {
    int64_t v = s->constant;
    for (uint32_t i = 0; i < s->n_terms; i++) {
        const plan_symbol *sym = &p->symbols[s->symbol[i]];
        v += s->coef[i] * (s->coef[i] < 0 ? sym->min : sym->max);
    }
    return (v + ALIGN - 1) / ALIGN * ALIGN;
}

/* Lowest offset at which `size` bytes are free of the placed values that are alive together with v. */
static int64_t first_fit(const plan *p, const uint32_t *order, uint32_t placed, const plan_value *v, int64_t size) {
    int64_t at = 0;
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < placed; i++) {
            const plan_value *o = &p->values[order[i]];
            int64_t o_size = max_bytes(p, &o->bytes);
            if (o->first > v->last || v->first > o->last) continue;
            if (at < o->offset + o_size && o->offset < at + size) {
                at = o->offset + o_size;
                moved = true;
            }
        }
    }
    return at;
}

/* Large values first, so that small ones fill the gaps; ties by number, so that the result is the same everywhere. */
static rp_status layout_arena(plan *p, rp_error *err) {
    uint32_t *order = base_alloc_array(p->n_values + 1u, sizeof *order);
    int64_t *size = base_alloc_array(p->n_values + 1u, sizeof *size);
    if (!order || !size) {
        base_free(order);
        base_free(size);
        return rp_fail(err, RP_NOMEM, "layout of %u values", p->n_values);
    }
    for (uint32_t i = 0; i < p->n_values; i++) {
        uint32_t at = i;
        size[i] = max_bytes(p, &p->values[i].bytes);
        for (; at > 0 && size[order[at - 1]] < size[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    p->arena_size = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        plan_value *v = &p->values[order[i]];
        v->offset = first_fit(p, order, i, v, size[order[i]]);
        if (v->offset + size[order[i]] > p->arena_size) p->arena_size = v->offset + size[order[i]];
    }
    base_free(order);
    base_free(size);
    return RP_OK;
}

static rp_status layout_packs(plan *p, rp_error *err) {
    p->weights_size = 0;
    for (uint32_t i = 0; i < p->n_packs; i++) {
        plan_pack *k = &p->packs[i];
        k->size = plan_pack_bytes(k);
        if (k->size < 0) return rp_fail(err, RP_UNSUPPORTED, "%s weights of %lld columns cannot be packed",
                                        rp_dtype_name(k->dtype), (long long)k->k);
        k->offset = p->weights_size;
        p->weights_size += (k->size + ALIGN - 1) / ALIGN * ALIGN;
    }
    return RP_OK;
}

rp_status plan_seal(plan *p, rp_error *err) {
    RP_TRY(layout_arena(p, err));
    RP_TRY(layout_packs(p, err));
    return plan_verify(p, err);
}

/* --- invariants ---------------------------------------------------------- */

static bool size_ok(const plan *p, const plan_size *s) {
    if (s->n_terms > GEN_AFFINE_TERMS) return false;
    for (uint32_t i = 0; i < s->n_terms; i++)
        if (s->symbol[i] >= p->n_symbols) return false;
    return true;
}

static uint32_t seg_count(const plan *p, plan_seg s) {
    switch (s) {
    case PLAN_INPUT: return p->n_inputs;
    case PLAN_OUTPUT: return p->n_outputs;
    case PLAN_PARAM: return p->n_params;
    case PLAN_STATE: return p->n_states;
    case PLAN_PACK: return p->n_packs;
    case PLAN_CONST: return p->n_consts;
    case PLAN_ARENA: return p->n_values;
    default: return 0;
    }
}

static rp_status verify_launch(const plan *p, uint32_t li, rp_error *err) {
    const plan_launch *l = &p->launches[li];
    if (!size_ok(p, &l->rows) || !size_ok(p, &l->items) || l->grain < 1 || l->n_alts > PLAN_MAX_ALTS ||
        (!l->custom && (l->n_alts == 0 || l->dim_map >= p->n_dim_maps)))
        return rp_fail(err, RP_CORRUPT, "plan %s: launch %u is malformed", p->name, li);
    for (uint32_t i = 0; i < l->n_alts; i++)
        if (l->alts[i].function >= p->n_functions || l->alts[i].scratch < 0)
            return rp_fail(err, RP_CORRUPT, "plan %s: launch %u has no function %u", p->name, li, l->alts[i].function);
    for (uint32_t i = 0; i < l->n_args; i++) {
        const plan_arg *a = &l->args[i];
        if (a->idx >= seg_count(p, a->seg))
            return rp_fail(err, RP_CORRUPT, "plan %s: launch %u, argument %u is out of range", p->name, li, i);
        if (a->seg == PLAN_ARENA && (li < p->values[a->idx].first || li > p->values[a->idx].last))
            return rp_fail(err, RP_CORRUPT, "plan %s: launch %u uses value %u outside its life", p->name, li, a->idx);
    }
    return RP_OK;
}

static rp_status verify_values(const plan *p, rp_error *err) {
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *v = &p->values[i];
        if (!size_ok(p, &v->bytes) || v->first > v->last)
            return rp_fail(err, RP_CORRUPT, "plan %s: value %u is malformed", p->name, i);
        int64_t size = max_bytes(p, &v->bytes);
        if (size < 0 || v->offset < 0 || v->offset > p->arena_size - size)
            return rp_fail(err, RP_CORRUPT, "plan %s: value %u lies outside the arena", p->name, i);
        for (uint32_t j = 0; j < i; j++) {
            const plan_value *o = &p->values[j];
            bool together = o->first <= v->last && v->first <= o->last;
            if (together && o->offset < v->offset + size && v->offset < o->offset + max_bytes(p, &o->bytes))
                return rp_fail(err, RP_CORRUPT, "plan %s: values %u and %u share memory while both live", p->name, j, i);
        }
    }
    return RP_OK;
}

static rp_status verify_tables(const plan *p, rp_error *err) {
    for (uint32_t i = 0; i < p->n_functions; i++)
        if (p->functions[i].module != PLAN_BUILTIN && p->functions[i].module >= p->n_modules)
            return rp_fail(err, RP_CORRUPT, "plan %s: function %u has no module", p->name, i);
    for (uint32_t i = 0; i < p->n_dim_maps; i++)
        for (uint32_t j = 0; j < p->dim_maps[i].n; j++)
            if (p->dim_maps[i].map[j] >= p->n_symbols)
                return rp_fail(err, RP_CORRUPT, "plan %s: symbol map %u is out of range", p->name, i);
    for (uint32_t i = 0; i < p->n_packs; i++)
        for (uint32_t s = 0; s < p->packs[i].n_sections; s++)
            for (uint32_t j = 0; j < p->packs[i].sections[s].n_params; j++)
                if (p->packs[i].sections[s].n_params > 4 || p->packs[i].sections[s].params[j] >= p->n_params)
                    return rp_fail(err, RP_CORRUPT, "plan %s: packed weights %u have no parameter", p->name, i);
    for (uint32_t i = 0; i < p->n_pieces; i++)
        if (p->pieces[i].first > p->n_launches || p->pieces[i].n > p->n_launches - p->pieces[i].first)
            return rp_fail(err, RP_CORRUPT, "plan %s: piece %u has launches out of range", p->name, i);
    return RP_OK;
}

rp_status plan_verify(const plan *p, rp_error *err) {
    RP_TRY(verify_tables(p, err));
    RP_TRY(verify_values(p, err));
    for (uint32_t i = 0; i < p->n_launches; i++) RP_TRY(verify_launch(p, i, err));
    return RP_OK;
}
