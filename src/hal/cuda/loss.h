/* GPUs that this process has lost.
 *
 * Some failures of a kernel or of the GPU leave its context unusable: every later call fails with the same code, whoever makes it.
 * The first that is seen is kept, in one line, for all queues of that GPU, until the last of them has gone and the driver gives a new
 * context. Drivers of today give none to a process that has lost one (an H200 with driver 580: neither when the context is released,
 * nor when it is reset, nor one of its own beside it). Thread-safe. */
#ifndef HAL_CUDA_LOSS_H
#define HAL_CUDA_LOSS_H

#include <stdbool.h>

#include "hal/cuda/api.h"

/* Whether nothing can follow a call that gave this code. */
bool cuda_loss_is(int code);

/* Another queue of that GPU: RP_DEVICE, the line, where those that there are have lost it. Each is left again, on failure too. */
rp_status cuda_loss_join(const cuda_caller *c, rp_error *err) RP_MUST_USE;
/* The driver has given c a context that works: what was before is over. */
void cuda_loss_over(const cuda_caller *c);
void cuda_loss_leave(const cuda_caller *c);

/* The GPU of c is lost by what `text` tells; the first one counts. RP_DEVICE, the line. */
rp_status cuda_loss_note(const cuda_caller *c, const char *text, rp_error *err);
/* Whether it is; then err has the line. */
bool cuda_loss_told(const cuda_caller *c, rp_error *err);

#endif
