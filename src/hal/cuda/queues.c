#include "hal/cuda/queues.h"

#include <pthread.h>

#include "hal/cuda/guard.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_device *queues;

void cuda_queues_enter(cuda_device *d) {
    (void)pthread_mutex_lock(&lock);
    d->next = queues;
    queues = d;
    (void)pthread_mutex_unlock(&lock);
}

void cuda_queues_leave(cuda_device *d) {
    (void)pthread_mutex_lock(&lock);
    cuda_device **at = &queues;
    while (*at && *at != d) at = &(*at)->next;
    if (*at) *at = d->next;
    (void)pthread_mutex_unlock(&lock);
}

rp_status cuda_queues_capture_begin(cuda_device *d, rp_error *err) {
    int mode = cuda_guard_relax(&d->cu);
    (void)pthread_mutex_lock(&lock);
    int code = d->cu.stream_synchronize(d->stream);
    d->passed_over = code == 0;
    (void)pthread_mutex_unlock(&lock);
    cuda_guard_restore(&d->cu, mode);
    return cuda_check(&d->cu, code, "waiting for the GPU", err);
}

void cuda_queues_capture_end(cuda_device *d) {
    (void)pthread_mutex_lock(&lock);
    d->passed_over = false;
    (void)pthread_mutex_unlock(&lock);
}

void cuda_queues_wait(const cuda_device *d) {
    int mode = cuda_guard_relax(&d->cu);
    (void)pthread_mutex_lock(&lock);
    for (const cuda_device *q = queues; q; q = q->next)
        if (q->gpu.context == d->gpu.context && !q->passed_over)
            (void)q->cu.stream_synchronize(q->stream);
    (void)pthread_mutex_unlock(&lock);
    cuda_guard_restore(&d->cu, mode);
}
