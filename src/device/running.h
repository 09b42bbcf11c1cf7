/* Whether other threads run something meanwhile: calls of a user that write memory of his, on any device, since host memory is
 * the same on all of them. */
#ifndef DEVICE_RUNNING_H
#define DEVICE_RUNNING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "hal/hal.h"

/* What threads have begun and ended; of a line's own in the cache, so that calls of several do not wait for each other. */
typedef struct device_line {
    _Atomic uint64_t begun, ended;
    char rest[64 - 2 * sizeof(uint64_t)];
} device_line;

/* What there is to know of a thread; capturing: of whichever device. */
typedef struct device_thread {
    hal_device *capturing; /* the queue whose calls it captures (device_capturing); NULL: none */
    device_line *line;     /* where it counts; NULL: nowhere yet */
    uint64_t begun, ended; /* by it */
    bool shared;           /* others count there, too */
} device_thread;
device_thread *device_thread_this(void);
void device_thread_join(device_thread *t); /* gives it a line */

/* Before what it writes afterwards is seen, the count is. The only thread of a line needs no locked instruction for it where stores are seen in their order. */
static inline void device_count(_Atomic uint64_t *n, uint64_t own, bool shared) {
#ifdef __x86_64__
    if (!shared) {
        atomic_store_explicit(n, own, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst); /* nor does the compiler move them */
        return;
    }
#else
    (void)own;
    (void)shared;
#endif
    (void)atomic_fetch_add(n, 1);
}

/* Around such a call of the thread; one may be within another. */
static inline void device_thread_begin(device_thread *t) {
    if (!t->line) device_thread_join(t);
    device_count(&t->line->begun, ++t->begun, t->shared);
}
static inline void device_thread_end(device_thread *t) {
    device_count(&t->line->ended, ++t->ended, t->shared);
}
static inline void device_run_begin(void) {
    device_thread_begin(device_thread_this());
}
static inline void device_run_end(void) {
    device_thread_end(device_thread_this());
}

/* Whether this thread captures calls. */
static inline bool device_captures(void) {
    return device_thread_this()->capturing != NULL;
}

typedef struct device_moment {
    bool alone; /* no other thread was within such a call */
    uint64_t begun;
} device_moment;

device_moment device_now(void);
/* Whether this thread was alone then, and no other one has begun anything since. What a call left on a queue is not seen. */
bool device_alone_since(device_moment then);

#endif
