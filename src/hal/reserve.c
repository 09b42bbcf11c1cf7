/* Reserved addresses where memory is the host's: pages come when they are touched, commit only says how far it may go. */
#include "base/alloc.h"
#include "base/reserve.h"
#include "hal/device.h"

rp_status hal_memory_reserve(hal_device *d, size_t size, hal_reserved **out, rp_error *err) {
    hal_reserved *r = base_alloc(sizeof *r);
    if (!r) return rp_fail(err, RP_NOMEM, "no memory for a range of addresses");
    *r = (hal_reserved){.device = d, .size = size};
    rp_status st = base_reserve(size, &r->at, err);
    if (st == RP_OK) {
        st = hal_memory_enter(d, r->at, 0, "reserved memory", err);
        if (st != RP_OK) base_unreserve(r->at, size);
    }
    if (st == RP_OK)
        *out = r;
    else
        base_free(r);
    return st;
}

rp_status hal_memory_commit(hal_reserved *r, size_t size, rp_error *err) {
    RP_TRY(hal_reserved_fits(r, size, err));
    if (size <= r->committed) return RP_OK;
    RP_TRY(hal_memory_grow(r->device, r->at, r->committed, size, err));
    r->committed = size;
    return RP_OK;
}

void hal_memory_unreserve(hal_reserved *r) {
    if (!r) return;
    hal_memory_leave(r->device, r->at, r->committed);
    base_unreserve(r->at, r->size);
    base_free(r);
}

rp_status hal_reserved_fits(const hal_reserved *r, size_t size, rp_error *err) {
    return size <= r->size ? RP_OK
                           : rp_fail(err, RP_INTERNAL, "%zu bytes of a reserved range that has %zu",
                                     size, r->size);
}
