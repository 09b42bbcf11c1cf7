/* How many entries all functions over one C function have, and what is said when there are too many. */
#ifndef FRONT_LIMITS_H
#define FRONT_LIMITS_H

#include "front/front.h"

/* One more rp_jit over fn; the count lives as long as one is there. Thread-safe, all of them. */
rp_status front_limits_join(rp_jit_fn fn, rp_error *err) RP_MUST_USE;
void front_limits_leave(rp_jit_fn fn, uint32_t entries);
void front_limits_add(rp_jit_fn fn, int64_t entries);
uint64_t front_limits_count(rp_jit_fn fn);

/* A call past a limit. */
typedef struct front_limits_past {
    const front_entry *made; /* for it, not in the list */
    bool numbers;            /* which has no symbols since the function fails with some */
    bool all;                /* past the accumulated limit, too, */
    bool accumulated;        /* or past that alone */
} front_limits_past;

/* The warning of it: which limit, what differed last, the values seen, what to write to avoid it, and what becomes of further calls; of the limit of a C
 * function once for all functions over it. By turn. */
void front_limits_warn(rp_jit *f, const front_args *a, const front_limits_past *past);

#endif
