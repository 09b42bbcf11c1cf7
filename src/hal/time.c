/* How long launches take, each by itself. */
#include "base/clock.h"
#include "hal/hal.h"

rp_status hal_time(hal_device *d, const hal_launch *list, uint32_t n, size_t scratch_size,
                   int64_t *ns, rp_error *err) {
    if (d->ops->time) return d->ops->time(d, list, n, scratch_size, ns, err);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t t0 = base_now_ns();
        RP_TRY(d->ops->launch(d, &list[i], 1, scratch_size, err));
        RP_TRY(d->ops->synchronize(d, err));
        ns[i] += base_now_ns() - t0;
    }
    return RP_OK;
}
