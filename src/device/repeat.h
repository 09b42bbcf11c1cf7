/* Calls of a compiled graph that are made again with other addresses, for rooms that see no more of it than its public header: what a call checks, looks up
 * and binds is then done. */
#ifndef DEVICE_REPEAT_H
#define DEVICE_REPEAT_H

#include "device/running.h"
#include "hal/hal.h"
#include "reprise/graph.h"

/* A call with what it needs, on a queue of its own, of a device that has done what it is given when it returns. One thread at a time. */
typedef struct device_repeat device_repeat;
struct device_repeat {
    /* For these buffers, which are checked as rp_compiled_run does; others of the same forms differ in `at` alone. In front of the first run. */
    rp_status (*bind)(device_repeat *r, const rp_buffer *inputs, const rp_buffer *outputs,
                      rp_error *err);
    /* Some of `at` are others than before; none that has elements is NULL. After a failure it is to be bound. */
    rp_status (*move)(device_repeat *r, rp_error *err);
    void (*free)(device_repeat *r);
    hal_device *queue;
    const hal_launch *launches; /* n, and the scratch memory that they take */
    uint32_t n;
    size_t scratch;
    void **at; /* where inputs lie, then outputs */
};

/* What a compiled graph begins with. */
typedef struct device_repeatable {
    rp_status (*repeat)(rp_compiled *c, device_repeat **out, rp_error *err); /* NULL: none can be */
} device_repeatable;

/* Not bound yet, and freed before c, to which nothing else is bound meanwhile. *out NULL where calls of c are all to be made by rp_compiled_run. */
static inline rp_status device_repeat_new(rp_compiled *c, device_repeat **out, rp_error *err) {
    const device_repeatable *r = (const device_repeatable *)(const void *)c;
    *out = NULL;
    return r->repeat ? r->repeat(c, out, err) : RP_OK;
}

static inline void device_repeat_free(device_repeat *r) {
    if (r) r->free(r);
}

rp_status device_repeat_refuse(rp_error *err) RP_MUST_USE;
/* By thread t, this one. RP_INVALID, as rp_compiled_run has it, where it captures calls. */
RP_MUST_USE static inline rp_status device_repeat_run(const device_repeat *r, device_thread *t,
                                                      rp_error *err) {
    if (t->capturing) return device_repeat_refuse(err);
    device_thread_begin(t);
    rp_status st = r->queue->ops->launch(r->queue, r->launches, r->n, r->scratch, err);
    device_thread_end(t);
    return st;
}

#endif
