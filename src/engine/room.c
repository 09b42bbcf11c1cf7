#include "engine/room.h"

#include "base/host.h"

/* More than the machine has is not asked for: a system that promises it ends the process later. */
static rp_status take(hal_device *d, hal_memory kind, size_t size, void **out, rp_error *err) {
    hal_device_info info;
    d->ops->info(d, &info);
    if ((info.unified || kind == HAL_MAPPED_MEMORY) && size > base_memory_size())
        return rp_fail(err, RP_NOMEM, "the machine has less memory");
    return d->ops->alloc(d, kind, size, out, err);
}

static bool fits(hal_device *d, hal_memory kind, size_t size) {
    void *probe = NULL;
    if (take(d, kind, size, &probe, NULL) != RP_OK) return false;
    d->ops->release(d, probe, size);
    return true;
}

bool engine_room_fits(hal_device *d, const engine_room *room) {
    return fits(d, room->kind, room->size);
}

rp_status engine_room_refuse(hal_device *d, const engine_room *room, rp_error *err) {
    const double each = (double)room->size / (double)room->value;
    int64_t value = room->value;
    while (value > 1) {
        value /= 2;
        if (fits(d, room->kind, (size_t)(each * (double)value))) break;
    }
    return rp_fail(err, RP_NOMEM, "no memory for %s: %.1f MB at %s=%lld; %s=%lld needs less",
                   room->what, (double)room->size / 1e6, room->setting, (long long)room->value,
                   room->setting, (long long)(value > 1 ? value / 2 : 1));
}

rp_status engine_room_take(hal_device *d, const engine_room *room, void **out, rp_error *err) {
    rp_error why = {0};
    rp_status st = take(d, room->kind, room->size, out, &why);
    if (st == RP_OK) return RP_OK;
    if (st != RP_NOMEM) return rp_fail(err, st, "%s", why.text);
    return engine_room_refuse(d, room, err);
}
