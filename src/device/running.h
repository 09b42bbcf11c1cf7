/* Whether other threads run something meanwhile: calls of a user that write memory of his, on any device, since host memory is
 * the same on all of them. */
#ifndef DEVICE_RUNNING_H
#define DEVICE_RUNNING_H

#include <stdbool.h>
#include <stdint.h>

/* Around such a call, by the same thread; one may be within another. */
void device_run_begin(void);
void device_run_end(void);

typedef struct device_moment {
    bool alone; /* no other thread was within such a call */
    uint64_t begun;
} device_moment;

device_moment device_now(void);
/* Whether this thread was alone then, and no other one has begun anything since. What a call left on a queue is not seen. */
bool device_alone_since(device_moment then);

#endif
