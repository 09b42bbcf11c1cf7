/* Inputs and results of steps by themselves, with the kernels between them where the device needs any. */
#ifndef SUPPORT_BORDER_H
#define SUPPORT_BORDER_H

#include "engine/inputs.h"

typedef struct border {
    hal_device *device;
    cache_store *store;
    plan *code;
    plan_exec *exec;
    engine_exchange x;
    engine_results results;
    engine_inputs in;
} border;

/* max_rows and row_size of b->results and the sizes of b->in.b are the caller's; all else is zero. */
void border_open(border *b, const char *device);
/* Nothing of the device is left. */
void border_close(border *b);
/* What the device has there. */
void border_read(border *b, void *to, const void *from, size_t size);

/* Tokens drawn by the kernels of a step from rows of a vocabulary, of logits of all kinds and with parameters of all kinds, on a device whose memory is its own, against
 * the host's sampler. */
void border_check_draws(const char *device, uint32_t vocab, uint32_t n_rows, uint64_t seed);

#endif
