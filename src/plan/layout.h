/* Where values lie in the arena and packs in the weights object. */
#ifndef PLAN_LAYOUT_H
#define PLAN_LAYOUT_H

#include "plan/plan.h"

/* Every value and pack starts at a multiple of this: a cache line and the widest vector. */
#define PLAN_ALIGN 64

/* The range of symbol i of a plan (user), for ir_dim_code_bounds; false when there is none. */
bool plan_symbol_range(const void *user, uint32_t i, int64_t *lo, int64_t *hi);

/* Bytes of v at the largest symbols, rounded up to PLAN_ALIGN; false when that is negative, not bounded (as is a symbol of up to
 * 2^31 - 1), or more than is set aside for a value that may stay small. */
bool plan_value_bytes(const plan *p, const plan_value *v, int64_t *out);

/* Ascending by key, ties by value. */
typedef struct plan_order {
    int64_t key;
    uint32_t value;
} plan_order;
void plan_sort(plan_order *o, uint32_t n);
/* Sets the offsets and arena_size: PLAN_GROWS for what plan_value_bytes has no size for. */
rp_status plan_layout_arena(plan *p, rp_error *err) RP_MUST_USE;
/* Sets offsets and sizes of the packs and weights_size. */
rp_status plan_layout_packs(plan *p, rp_error *err) RP_MUST_USE;
/* Sets `read` of the params of p and of the plans within it, whose indices are right. */
void plan_mark_read(plan *p);
/* Sets no_barrier of its launches and of those of the plans within it, whose values have their offsets. */
rp_status plan_find_barriers(plan *p, rp_error *err) RP_MUST_USE;

#endif
