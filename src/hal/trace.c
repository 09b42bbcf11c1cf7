/* What a queue was called with, so that two runs of the same code can be compared. Copies, fills and branches are told by this room,
 * compiled graphs by those who run them; launches of either kind are theirs, and not in it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "hal/hal.h"

hal_trace *hal_trace_to(hal_device *d, hal_trace *t) {
    hal_trace *last = d->trace;
    d->trace = t;
    return last;
}

static void add(hal_trace *t, const char *name, hal_step one) {
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 16;
        hal_step *v = base_realloc_array(t->v, cap, sizeof *v);
        if (!v) {
            t->failed = true;
            return;
        }
        t->v = v;
        t->cap = cap;
    }
    one.hash = base_hash64(name, strlen(name));
    (void)snprintf(one.name, sizeof one.name, "%s", name);
    t->v[t->n++] = one;
}

void hal_trace_call(hal_device *d, const char *name) {
    if (!d->trace) return;
    d->trace->now = 0;
    add(d->trace, name, (hal_step){.kind = HAL_STEP_CALL});
}

void hal_trace_owner(hal_device *d, const hal_owner *o) {
    hal_trace *t = d->trace;
    hal_owner *v = t ? base_realloc_array(t->owner, t->n_owners + 1u, sizeof *v) : NULL;
    if (!v) {
        if (t) t->failed = true;
        o->drop(o->who);
        return;
    }
    t->owner = v;
    v[t->n_owners++] = *o;
    t->now = t->n_owners;
}

void hal_trace_value(hal_device *d, const char *what, long long value) {
    if (d->trace) add(d->trace, what, (hal_step){.kind = HAL_STEP_VALUE, .value = value});
}

void hal_trace_memory(hal_device *d, const char *what, const void *at, size_t size) {
    if (d->trace && size)
        add(d->trace, what,
            (hal_step){.kind = HAL_STEP_MEMORY, .at = at, .size = size, .owner = d->trace->now});
}

void hal_trace_copy(hal_device *d, const void *to, const void *from, size_t size) {
    if (!d->trace) return;
    hal_trace_call(d, "copy");
    hal_trace_memory(d, "where to", to, size);
    hal_trace_memory(d, "where from", from, size);
}

void hal_trace_fill(hal_device *d, const void *to, int byte, size_t size) {
    if (!d->trace) return;
    hal_trace_call(d, "fill");
    hal_trace_memory(d, "where to", to, size);
    hal_trace_value(d, "its byte", byte);
}

void hal_trace_done(hal_trace *t) {
    for (uint32_t i = 0; i < t->n_owners; i++) t->owner[i].drop(t->owner[i].who);
    base_free(t->owner);
    base_free(t->v);
    *t = (hal_trace){0};
}
