/* The queues of a process that lie on GPUs, for what is taken from under all of them: memory that is unmapped does not wait for the
 * work of any stream, unlike memory that is freed. Thread-safe. */
#ifndef HAL_CUDA_QUEUES_H
#define HAL_CUDA_QUEUES_H

#include "hal/cuda/device.h"

void cuda_queues_enter(cuda_device *d);
void cuda_queues_leave(cuda_device *d); /* one that never entered is fine */
/* d waits for what it was given and is passed over until it ends its capture, which no other thread may wait for. */
rp_status cuda_queues_capture_begin(cuda_device *d, rp_error *err) RP_MUST_USE;
void cuda_queues_capture_end(cuda_device *d);
/* Until the queues of d's GPU, d among them, have done all that they were given. */
void cuda_queues_wait(const cuda_device *d);

#endif
