/* Events of a GPU, without timing. */
#include "base/alloc.h"
#include "hal/cuda/device.h"

struct hal_event {
    cuda_device *d; /* that made it */
    void *event;
};

rp_status cuda_event_new(hal_device *base, hal_event **out, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    RP_TRY(cuda_device_enter(d, err));
    hal_event *e = base_alloc(sizeof *e);
    if (!e) return rp_fail(err, RP_NOMEM, "no memory for an event");
    e->d = d;
    rp_status st = cuda_check(&d->cu, d->cu.event_new(&e->event, CUDA_EVENT_NO_TIMING),
                              "an event of the GPU", err);
    if (st == RP_OK)
        *out = e;
    else
        base_free(e);
    return st;
}

void cuda_event_free(hal_event *e) {
    if (!e) return;
    (void)e->d->cu.context_set(e->d->gpu.context);
    (void)e->d->cu.event_free(e->event);
    base_free(e);
}

rp_status cuda_event_record(hal_device *base, hal_event *e, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    if (hal_capturing(base)) return hal_refuse_captured(base, "recording an event", err);
    RP_TRY(cuda_device_enter(d, err));
    return cuda_check(&d->cu, d->cu.event_record(e->event, d->stream), "recording an event", err);
}

rp_status cuda_event_wait(hal_device *base, hal_event *e, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    if (hal_capturing(base)) return hal_refuse_captured(base, "waiting for an event", err);
    RP_TRY(cuda_device_enter(d, err));
    return cuda_check(&d->cu, d->cu.stream_wait(d->stream, e->event, 0), "waiting for an event",
                      err);
}

rp_status cuda_event_synchronize(hal_event *e, rp_error *err) {
    RP_TRY(cuda_device_enter(e->d, err));
    return cuda_check(&e->d->cu, e->d->cu.event_synchronize(e->event), "waiting for an event", err);
}
