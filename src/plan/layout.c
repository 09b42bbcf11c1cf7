/* Greedy layout: large values first, each at the lowest offset that is free for as long as it lives. Within a
 * few per cent of the best for the graphs of a transformer, and the same on every machine. */
#include "plan/layout.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "plan/pack.h"

/* The most that is set aside for a value whatever calls want: what may become larger is as good as unbounded. */
static const int64_t MOST_RESERVED = INT64_C(1) << 34;

bool plan_symbol_range(const void *user, uint32_t i, int64_t *lo, int64_t *hi) {
    const plan *p = user;
    if (i >= p->n_symbols) return false;
    *lo = p->symbols[i].min;
    *hi = p->symbols[i].max;
    return true;
}

/* A size of up to 2^31 - 1 is one that fits an index of 32 bits, which is all that is known of it: nobody sets memory aside
 * for as many. */
static bool reserved_range(const void *user, uint32_t i, int64_t *lo, int64_t *hi) {
    if (!plan_symbol_range(user, i, lo, hi)) return false;
    if (*hi >= INT32_MAX && *lo < *hi) *hi = INT64_MAX;
    return true;
}

bool plan_value_bytes(const plan *p, const plan_value *v, int64_t *out) {
    int64_t lo, hi;
    if (!ir_dim_code_bounds(&v->bytes, reserved_range, p, &lo, &hi) || hi < 0 || hi > MOST_RESERVED)
        return false;
    *out = (hi + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    return true;
}

static int compare(const void *a, const void *b) {
    const plan_order *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

void plan_sort(plan_order *o, uint32_t n) {
    if (n > 1) qsort(o, n, sizeof *o, compare);
}

/* placed: values alive together with v, by offset; gives the lowest gap of `size` bytes. */
static int64_t first_fit(const plan *p, const int64_t *bytes, const plan_order *placed, uint32_t n,
                         int64_t size) {
    int64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const plan_value *o = &p->values[placed[i].value];
        if (o->offset >= at + size) break;
        if (o->offset + bytes[placed[i].value] > at) at = o->offset + bytes[placed[i].value];
    }
    return at;
}

/* One that grows has no bytes here. */
static rp_status sizes_of(const plan *p, int64_t *bytes, plan_order *order, rp_error *err) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (!plan_value_bytes(p, &p->values[i], &bytes[i])) bytes[i] = 0;
        if (__builtin_add_overflow(sum, bytes[i], &sum))
            return rp_fail(err, RP_UNSUPPORTED,
                           "plan %s: its values take more than %lld bytes; give its symbols a "
                           "smaller maximum",
                           p->name, (long long)(sum - bytes[i]));
        order[i] = (plan_order){-bytes[i], i};
    }
    plan_sort(order, p->n_values);
    return RP_OK;
}

rp_status plan_layout_arena(plan *p, rp_error *err) {
    rp_status st = RP_OK;
    int64_t *bytes = base_alloc_array(p->n_values + 1u, sizeof *bytes);
    plan_order *order = base_alloc_array(p->n_values + 1u, sizeof *order);
    plan_order *together = base_alloc_array(p->n_values + 1u, sizeof *together);
    if (!bytes || !order || !together) {
        st = rp_fail(err, RP_NOMEM, "layout of %u values", p->n_values);
        goto out;
    }
    RP_TRY_OUT(sizes_of(p, bytes, order, err));
    p->arena_size = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        plan_value *v = &p->values[order[i].value];
        int64_t size = bytes[order[i].value];
        uint32_t n = 0;
        for (uint32_t j = 0; j < i; j++) {
            const plan_value *o = &p->values[order[j].value];
            if (o->first > v->last || v->first > o->last || bytes[order[j].value] == 0) continue;
            together[n++] = (plan_order){o->offset, order[j].value};
        }
        plan_sort(together, n);
        v->offset = first_fit(p, bytes, together, n, size);
        if (size == 0 && !plan_value_bytes(p, v, &size)) v->offset = PLAN_GROWS;
        if (v->offset + size > p->arena_size) p->arena_size = v->offset + size;
    }
out:
    base_free(bytes);
    base_free(order);
    base_free(together);
    return st;
}

rp_status plan_layout_packs(plan *p, rp_error *err) {
    p->weights_size = 0;
    for (uint32_t i = 0; i < p->n_packs; i++) {
        plan_pack *k = &p->packs[i];
        k->size = plan_pack_bytes(k);
        if (k->size <= 0 || k->size > INT64_MAX - PLAN_ALIGN - p->weights_size)
            return rp_fail(err, RP_UNSUPPORTED, "%s weights of %lld columns cannot be packed",
                           rp_dtype_name(k->dtype), (long long)k->k);
        k->offset = p->weights_size;
        p->weights_size += (k->size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    return RP_OK;
}
