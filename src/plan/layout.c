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

/* placed: values alive together with v that end above `at`, by offset; gives the lowest gap of `size` bytes from there. */
static int64_t first_fit(const plan *p, const int64_t *bytes, const plan_order *placed, uint32_t n,
                         int64_t at, int64_t size) {
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

/* --- what has its place ------------------------------------------------------------ */

/* Two complete binary trees in arrays, whose root is 1 and whose node i has children 2 i and 2 i + 1. One is over all values by the
 * first launch that uses them, and finds those that live in a range of launches. The other is over launches, and knows for
 * each how far up from 0 no value fits: where much lives at once, most of it need not be looked at. */
typedef struct placed {
    plan *p;
    const int64_t *bytes;
    int64_t least;        /* bytes of the smallest value; a gap of less is none */
    plan_order *by_first; /* all values */
    uint32_t *rank;       /* by value: where it is in by_first */
    uint32_t n_values;    /* a power of two */
    uint32_t *until;      /* by node of values: one behind the last launch of any that is placed */
    int64_t *top;         /* .. and where the highest ends */
    uint32_t n_launches;  /* a power of two */
    int64_t *full;        /* by node of launches: nothing fits below in any of them */
    int64_t *fullest;     /* the most of `full` of its own and of what is below */
} placed;

static void placed_done(placed *x) {
    base_free(x->by_first);
    base_free(x->rank);
    base_free(x->until);
    base_free(x->top);
    base_free(x->full);
    base_free(x->fullest);
}

static uint32_t power_of_two(uint32_t n) {
    uint32_t most = 1;
    while (most < n) most *= 2;
    return most;
}

static rp_status placed_init(placed *x, plan *p, const int64_t *bytes, rp_error *err) {
    uint32_t last = 0;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->values[i].last > last) last = p->values[i].last;
    *x = (placed){.p = p,
                  .bytes = bytes,
                  .least = INT64_MAX,
                  .n_values = power_of_two(p->n_values),
                  .n_launches = power_of_two(last + 1)};
    x->by_first = base_alloc_array(p->n_values + 1u, sizeof *x->by_first);
    x->rank = base_alloc_array(p->n_values + 1u, sizeof *x->rank);
    x->until = base_alloc_array((size_t)2 * x->n_values, sizeof *x->until);
    x->top = base_alloc_array((size_t)2 * x->n_values, sizeof *x->top);
    x->full = base_alloc_array((size_t)2 * x->n_launches, sizeof *x->full);
    x->fullest = base_alloc_array((size_t)2 * x->n_launches, sizeof *x->fullest);
    if (!x->by_first || !x->rank || !x->until || !x->top || !x->full || !x->fullest)
        return rp_fail(err, RP_NOMEM, "layout of %u values", p->n_values);
    for (uint32_t i = 0; i < p->n_values; i++) {
        x->by_first[i] = (plan_order){p->values[i].first, i};
        if (bytes[i] > 0 && bytes[i] < x->least) x->least = bytes[i];
    }
    plan_sort(x->by_first, p->n_values);
    for (uint32_t i = 0; i < p->n_values; i++) x->rank[x->by_first[i].value] = i;
    return RP_OK;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* A node and its launches: the first of them and how many. */
typedef struct branch {
    uint32_t node, first, n;
} branch;

static branch half_of(branch b, uint32_t i) {
    return (branch){2 * b.node + i, b.first + i * (b.n / 2), b.n / 2};
}

static bool is_apart(branch b, const plan_value *v) {
    return b.first > v->last || b.first + (b.n - 1) < v->first;
}

static bool is_within(branch b, const plan_value *v) {
    return v->first <= b.first && b.first + (b.n - 1) <= v->last;
}

/* Below this v does not fit. */
static int64_t full_below(placed *x, branch b, const plan_value *v) {
    x->p->steps++;
    if (is_apart(b, v)) return 0;
    if (is_within(b, v)) return x->fullest[b.node];
    return larger(x->full[b.node],
                  larger(full_below(x, half_of(b, 0), v), full_below(x, half_of(b, 1), v)));
}

/* v ends at `end`. below: what is full in all of the branch as far as the nodes above it know. */
static void fill(placed *x, branch b, int64_t below, const plan_value *v, int64_t end) {
    x->p->steps++;
    int64_t *full = &x->full[b.node], *fullest = &x->fullest[b.node];
    below = larger(below, *full);
    if (is_apart(b, v) || v->offset - larger(below, *fullest) >= x->least) return;
    if (is_within(b, v) && v->offset - below < x->least) {
        *full = larger(*full, end);
        *fullest = larger(*fullest, *full);
    } else if (b.n > 1) {
        const int64_t *of = &x->full[2 * b.node], *most = &x->fullest[2 * b.node];
        fill(x, half_of(b, 0), below, v, end);
        fill(x, half_of(b, 1), below, v, end);
        *full = larger(*full, of[0] < of[1] ? of[0] : of[1]);
        *fullest = larger(*full, larger(most[0], most[1]));
    }
}

static void place(placed *x, uint32_t value) {
    const plan_value *v = &x->p->values[value];
    const int64_t end = v->offset + x->bytes[value];
    for (uint32_t at = x->n_values + x->rank[value]; at > 0; at /= 2) {
        if (x->until[at] <= v->last) x->until[at] = v->last + 1;
        x->top[at] = larger(x->top[at], end);
    }
    fill(x, (branch){1, 0, x->n_launches}, 0, v, end);
}

/* Adds to out the values that live together with v and end above `above`. b: of values by their first launch. */
static void find(placed *x, branch b, const plan_value *v, int64_t above, plan_order *out,
                 uint32_t *n) {
    x->p->steps++;
    if (x->until[b.node] <= v->first || x->top[b.node] <= above) return;
    if (x->by_first[b.first].key > v->last) return;
    if (b.n > 1) {
        find(x, half_of(b, 0), v, above, out, n);
        find(x, half_of(b, 1), v, above, out, n);
        return;
    }
    const uint32_t value = x->by_first[b.first].value;
    out[(*n)++] = (plan_order){x->p->values[value].offset, value};
}

rp_status plan_layout_arena(plan *p, rp_error *err) {
    rp_status st = RP_OK;
    placed x = {0};
    int64_t *bytes = base_alloc_array(p->n_values + 1u, sizeof *bytes);
    plan_order *order = base_alloc_array(p->n_values + 1u, sizeof *order);
    plan_order *together = base_alloc_array(p->n_values + 1u, sizeof *together);
    if (!bytes || !order || !together) {
        st = rp_fail(err, RP_NOMEM, "layout of %u values", p->n_values);
        goto out;
    }
    RP_TRY_OUT(sizes_of(p, bytes, order, err));
    RP_TRY_OUT(placed_init(&x, p, bytes, err));
    p->arena_size = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        plan_value *v = &p->values[order[i].value];
        int64_t size = bytes[order[i].value];
        uint32_t n = 0;
        if (size == 0) {
            v->offset = plan_value_bytes(p, v, &size) ? 0 : PLAN_GROWS;
            continue;
        }
        int64_t from = full_below(&x, (branch){1, 0, x.n_launches}, v);
        find(&x, (branch){1, 0, x.n_values}, v, from, together, &n);
        plan_sort(together, n);
        v->offset = first_fit(p, bytes, together, n, from, size);
        place(&x, order[i].value);
        p->arena_size = larger(p->arena_size, v->offset + size);
    }
out:
    placed_done(&x);
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
