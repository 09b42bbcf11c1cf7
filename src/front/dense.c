/* Memory for dense copies of arguments that graphs read where it lies. It stays as long as the graphs do, so that no call is captured anew for where its
 * copies are. A tensor has a place for each size that was wanted, in steps of a quarter of a power of two. */
#include "front/front.h"

#include "base/alloc.h"
#include "device/device.h"

enum { LEAST = 256 }; /* bytes of a place */

struct front_dense_place {
    front_dense_place *next;
    void *at;
    size_t size;
    uint32_t tensor;
};

static bool round_up(size_t bytes, size_t *out) {
    size_t step = LEAST;
    while (step <= bytes / 8) step *= 2;
    if (!base_add_size(bytes, step - 1, out)) return false;
    *out = *out / step * step;
    return true;
}

static rp_status add(front_dense *d, rp_device *device, front_dense_place *p, rp_error *err) {
    front_dense_place *is = base_alloc(sizeof *is);
    if (!is) return rp_fail(err, RP_NOMEM, "a dense copy of an argument");
    rp_status st = device_alloc(device, p->size, &p->at, err);
    if (st != RP_OK) {
        base_free(is);
        return st;
    }
    if (!d->device) d->device = rp_device_ref(device);
    *is = *p;
    is->next = d->places;
    d->places = is;
    return RP_OK;
}

rp_status front_dense_take(front_dense *d, rp_device *device, uint32_t tensor, size_t bytes,
                           void **out, rp_error *err) {
    front_dense_place wanted = {.tensor = tensor}, *p = d->places;
    if (!round_up(bytes ? bytes : 1, &wanted.size))
        return rp_fail(err, RP_NOMEM, "a dense copy of an argument of %zu bytes", bytes);
    while (p && (p->tensor != tensor || p->size != wanted.size)) p = p->next;
    if (!p) {
        RP_TRY(add(d, device, &wanted, err));
        p = d->places;
    }
    *out = p->at;
    return RP_OK;
}

bool front_dense_has(const front_dense *d, const void *at) {
    const front_dense_place *p = d ? d->places : NULL;
    while (p && p->at != at) p = p->next;
    return p != NULL;
}

void front_dense_done(front_dense *d) {
    for (front_dense_place *p = d->places, *next; p; p = next) {
        next = p->next;
        device_free(d->device, p->at);
        base_free(p);
    }
    rp_device_close(d->device);
    *d = (front_dense){0};
}
