/* Which launches wait for the ones in front: those that touch memory which one of these writes, or write what one touches.
 *
 * A launch without a barrier behind it runs beside the next one, so that a launch is compared with all since the last barrier. Values
 * that lie in the same bytes of the arena, one after the other in time, are the same memory here. What is given at bind does
 * not overlap (reprise/graph.h). Calls of the host, and launches that run plans, are alone. */
#include "base/alloc.h"
#include "plan/layout.h"

enum { MOST_TOGETHER = 16 }; /* so that a long plan takes a time that is linear in its launches */

/* The bytes of the arena of each value; start == end: none, or of its own. */
typedef struct range {
    int64_t start, end;
} range;

static bool is_same(const range *at, const plan_arg *a, const plan_arg *b) {
    if (a->seg != b->seg) return false;
    if (a->idx == b->idx) return true;
    return a->seg == PLAN_ARENA && at[a->idx].start < at[b->idx].end &&
           at[b->idx].start < at[a->idx].end;
}

static bool conflict(const range *at, const plan_launch *a, const plan_launch *b) {
    for (uint32_t i = 0; i < a->n_args; i++)
        for (uint32_t k = 0; k < b->n_args; k++) {
            const plan_arg *x = &a->args[i], *y = &b->args[k];
            if (!x->access || !y->access || !((x->access | y->access) & BASE_WRITES)) continue;
            if (is_same(at, x, y)) return true;
        }
    return false;
}

static void find(plan *p, const range *at) {
    uint32_t first = 0; /* behind the last barrier */
    for (uint32_t i = 0; i < p->n_launches; i++) {
        const plan_launch *next = &p->launches[i + 1];
        bool apart = i + 1 < p->n_launches && i - first < MOST_TOGETHER &&
                     plan_launch_is_plain(&p->launches[i]) && plan_launch_is_plain(next);
        for (uint32_t k = first; apart && k <= i; k++) apart = !conflict(at, &p->launches[k], next);
        p->launches[i].no_barrier = apart;
        if (!apart) first = i + 1;
    }
}

rp_status plan_find_barriers(plan *p, rp_error *err) {
    for (uint32_t i = 0; i < p->n_inner; i++) RP_TRY(plan_find_barriers(p->inner[i], err));
    range *at = base_alloc_array(p->n_values + 1u, sizeof *at);
    if (!at) return rp_fail(err, RP_NOMEM, "barriers of %u launches", p->n_launches);
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plan_value *v = &p->values[i];
        int64_t bytes = 0;
        at[i] = (range){0, 0};
        if (v->offset != PLAN_GROWS && plan_value_bytes(p, v, &bytes))
            at[i] = (range){v->offset, v->offset + bytes};
    }
    find(p, at);
    base_free(at);
    return RP_OK;
}
