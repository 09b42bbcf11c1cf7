/* A list: there is a copy for each tensor that is read in its file layout, and a few more. */
#include "engine/uploads.h"

#include <string.h>

#include "base/alloc.h"

typedef struct upload {
    uint64_t key;
    void *at;
    size_t size;
} upload;

struct engine_uploads {
    hal_device *d;
    upload *v;
    uint32_t n, cap;
    size_t bytes;
};

rp_status engine_uploads_new(hal_device *d, engine_uploads **out, rp_error *err) {
    engine_uploads *u = base_alloc(sizeof *u);
    if (!u) return rp_fail(err, RP_NOMEM, "weights of the device");
    u->d = d;
    *out = u;
    return RP_OK;
}

void engine_uploads_free(engine_uploads *u) {
    if (!u) return;
    for (uint32_t i = 0; i < u->n; i++) u->d->ops->release(u->d, u->v[i].at, u->v[i].size);
    base_free(u->v);
    base_free(u);
}

static rp_status grow(engine_uploads *u, rp_error *err) {
    if (u->n < u->cap) return RP_OK;
    uint32_t cap = u->cap ? 2 * u->cap : 64;
    upload *v = base_realloc_array(u->v, cap, sizeof *v);
    if (!v) return rp_fail(err, RP_NOMEM, "%u weights of the device", cap);
    u->v = v;
    u->cap = cap;
    return RP_OK;
}

static void fill_from(void *user, void *at, size_t offset, size_t n) {
    memcpy(at, (const char *)user + offset, n);
}

static rp_status bring(hal_device *d, void *to, const void *data, size_t size, rp_error *err) {
    hal_device_info info;
    if (size < HAL_PART) return d->ops->copy(d, to, data, size, err);
    d->ops->info(d, &info);
    hal_source s = {fill_from, (void *)(uintptr_t)data, size, info.n_threads};
    return d->ops->upload(d, to, &s, err);
}

rp_status engine_uploads_get(engine_uploads *u, uint64_t key, const void *data, size_t size,
                             void **out, rp_error *err) {
    void *at = NULL;
    for (uint32_t i = 0; i < u->n; i++)
        if (u->v[i].key == key) {
            *out = u->v[i].at;
            return RP_OK;
        }
    RP_TRY(grow(u, err));
    RP_TRY(u->d->ops->alloc(u->d, HAL_DEVICE_MEMORY, size, &at, err));
    u->v[u->n++] = (upload){key, at, size};
    u->bytes += size;
    if (data) RP_TRY(bring(u->d, at, data, size, err));
    *out = at;
    return RP_OK;
}

hal_device *engine_uploads_device(const engine_uploads *u) {
    return u->d;
}

bool engine_uploads_at(const engine_uploads *u, uint32_t i, void **at, size_t *size) {
    if (i >= u->n) return false;
    *at = u->v[i].at;
    *size = u->v[i].size;
    return true;
}

size_t engine_uploads_bytes(const engine_uploads *u) {
    return u->bytes;
}
