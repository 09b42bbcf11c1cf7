/* How long launches take by the GPU's clock: an event in front of each and one behind the last. */
#include "base/alloc.h"
#include "hal/cuda/device.h"

static rp_status mark(cuda_device *d, void **event, rp_error *err) {
    RP_TRY(
        cuda_check(&d->cu, d->cu.event_new(event, CUDA_EVENT_TIMING), "an event of the GPU", err));
    return cuda_check(&d->cu, d->cu.event_record(*event, d->stream), "recording an event", err);
}

static rp_status run(cuda_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                     void **event, rp_error *err) {
    hal_device *base = &d->base;
    RP_TRY(mark(d, &event[0], err));
    for (uint32_t i = 0; i < n; i++) {
        RP_TRY(base->ops->launch(base, &list[i], 1, scratch_size, err));
        RP_TRY(mark(d, &event[i + 1], err));
    }
    return base->ops->synchronize(base, err);
}

rp_status cuda_device_time(hal_device *base, const hal_launch *list, uint32_t n,
                           size_t scratch_size, int64_t *ns, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    float ms;
    if (hal_capturing(base)) return hal_refuse_captured(base, "timing launches", err);
    RP_TRY(cuda_device_enter(d, err));
    void **event = base_alloc_array(n + 1u, sizeof *event);
    if (!event) return rp_fail(err, RP_NOMEM, "no memory for %u events", n + 1u);
    rp_status st = run(d, list, n, scratch_size, event, err);
    for (uint32_t i = 0; i < n && st == RP_OK; i++) {
        if (list[i].kind == HAL_KERNEL && list[i].items <= 0) continue; /* nothing was launched */
        st = cuda_check(&d->cu, d->cu.event_elapsed(&ms, event[i], event[i + 1]),
                        "the time between two events", err);
        if (st == RP_OK) ns[i] += (int64_t)((double)ms * 1e6);
    }
    for (uint32_t i = 0; i <= n && event[i]; i++) (void)d->cu.event_free(event[i]);
    base_free(event);
    return st;
}
