/* How fast the device reads the packed weights where it does nothing else: no decode step, which reads each once, is faster. */
#ifndef ENGINE_READ_LIMIT_H
#define ENGINE_READ_LIMIT_H

#include "cache/store.h"
#include "hal/hal.h"

typedef struct engine_read_limit_options {
    hal_device *device;
    cache_store *store; /* of the kernel that a GPU reads with */
    const char *arch;   /* of a GPU; "": the device's memory is the host's */
    const void *data;   /* memory that the device reads, aligned to 64 */
    size_t size;
} engine_read_limit_options;

/* Gigabytes (10^9) a second, the fastest of several passes; 0 where there is nothing to read. One thread at a time. */
rp_status engine_read_limit(const engine_read_limit_options *o, double *out,
                            rp_error *err) RP_MUST_USE;

#endif
