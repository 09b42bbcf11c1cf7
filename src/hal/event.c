/* Events of devices that have done what they are given when the call returns: every one is over. */
#include "base/alloc.h"
#include "hal/device.h"

struct hal_event {
    hal_device *d;
};

rp_status hal_done_event_new(hal_device *d, hal_event **out, rp_error *err) {
    hal_event *e = base_alloc(sizeof *e);
    if (!e) return rp_fail(err, RP_NOMEM, "no memory for an event");
    e->d = d;
    *out = e;
    return RP_OK;
}

void hal_done_event_free(hal_event *e) {
    base_free(e);
}

rp_status hal_done_event_record(hal_device *d, hal_event *e, rp_error *err) {
    (void)e;
    return hal_capturing(d) ? hal_refuse_captured(d, "recording an event", err) : RP_OK;
}

rp_status hal_done_event_wait(hal_device *d, hal_event *e, rp_error *err) {
    (void)e;
    return hal_capturing(d) ? hal_refuse_captured(d, "waiting for an event", err) : RP_OK;
}

rp_status hal_done_event_synchronize(hal_event *e, rp_error *err) {
    (void)e, (void)err;
    return RP_OK;
}
