/* rp_device: the first queue of a device, counted references, and memory.
 *
 * The first queue runs nothing: each client has a queue of its own on the same threads or context. */
#include "device/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "device/running.h"

struct rp_device {
    hal_device *root;
    hal_device *
        own; /* has the library's memory, which rp_device_free and captures do not know; of a GPU since it is wanted */
    pthread_mutex_t lock; /* guards own while it is made */
    pthread_mutex_t manager_lock;
    void *manager; /* of automatic graphs, by itself */
    char *name;
    hal_device_info info;
    atomic_uint refs;
    _Atomic uint64_t frees;
};

rp_status rp_device_open(const char *name, uint32_t threads, rp_device **out, rp_error *err) {
    base_error_clear(err);
    rp_status st = RP_OK;
    if (!out) return rp_fail(err, RP_INVALID, "rp_device_open: out is NULL");
    rp_device *d = base_alloc(sizeof *d);
    if (d) d->name = base_strdup(name && *name ? name : "cpu");
    if (!d || !d->name) {
        st = rp_fail(err, RP_NOMEM, "device");
        goto out;
    }
    atomic_init(&d->refs, 1);
    atomic_init(&d->frees, 0);
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_mutex_init(&d->manager_lock, NULL);
    RP_TRY_OUT(hal_open(d->name, threads, &d->root, err));
    d->root->ops->info(d->root, &d->info);
    if (d->info.unified) RP_TRY_OUT(hal_queue(d->root, &d->own, err));
    *out = d;
    return RP_OK;
out:
    if (d) hal_close(d->root);
    if (d) base_free(d->name);
    base_free(d);
    return st;
}

rp_device *rp_device_ref(rp_device *d) {
    if (d) (void)atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
    return d;
}

/* What nobody freed goes with the device. */
static void free_rest(const rp_device *d) {
    uint64_t bytes = 0, blocks = 0;
    for (void *p; (p = hal_range_any(d->root)); blocks++) {
        size_t size = hal_range_size(d->root, p);
        d->root->ops->release(d->root, p, size);
        bytes += size;
    }
    if (blocks)
        base_log(RP_LOG_WARNING,
                 "device %s was closed with %llu bytes in %llu blocks that rp_device_free never "
                 "had; they are freed now",
                 d->name, (unsigned long long)bytes, (unsigned long long)blocks);
}

void rp_device_close(rp_device *d) {
    if (!d || atomic_fetch_sub_explicit(&d->refs, 1, memory_order_acq_rel) != 1) return;
    free_rest(d);
    hal_close(d->own);
    hal_close(d->root);
    (void)pthread_mutex_destroy(&d->lock);
    (void)pthread_mutex_destroy(&d->manager_lock);
    base_free(d->name);
    base_free(d);
}

rp_status rp_device_get_info(const rp_device *d, rp_device_info *out, rp_error *err) {
    base_error_clear(err);
    if (!d) return rp_fail(err, RP_INVALID, "rp_device_get_info: device is NULL");
    rp_device_info own = {.size = sizeof own,
                          .name = d->name,
                          .description = d->info.name,
                          .threads = d->info.n_threads,
                          .host_memory = d->info.unified,
                          .allocated = hal_live_bytes(d->root)};
    return base_result_give(out, &own, sizeof own, "rp_device_info", err);
}

/* A replay would do it neither again nor at all. */
static void spoil_capture(const char *call) {
    hal_device *capturing = device_thread_this()->capturing;
    rp_error why = {0};
    if (!capturing) return;
    (void)rp_fail(&why, RP_INVALID, "%s while calls are captured; take memory by rp_call_temp",
                  call);
    hal_capture_spoil(capturing, &why);
}

hal_device *device_capturing(hal_device *queue) {
    hal_device *before = device_thread_this()->capturing;
    device_thread_this()->capturing = queue;
    return before;
}

static rp_status refuse_captured(const char *call, const char *hint, rp_error *err) {
    rp_error why = {0};
    rp_status st = rp_fail(&why, RP_INVALID,
                           "%s while calls are captured, which a replay would not repeat; %s", call,
                           hint);
    hal_capture_spoil(device_thread_this()->capturing, &why);
    return rp_fail(err, st, "%s", why.text);
}

rp_status device_check_captured(const hal_device *queue, const char *call, const char *hint,
                                rp_error *err) {
    const hal_device *capturing = device_thread_this()->capturing;
    return !capturing || capturing == queue ? RP_OK : refuse_captured(call, hint, err);
}

static rp_status open_own(rp_device *d, rp_error *err) {
    (void)pthread_mutex_lock(&d->lock);
    rp_status st = d->own ? RP_OK : hal_queue(d->root, &d->own, err);
    (void)pthread_mutex_unlock(&d->lock);
    return st;
}

/* Zeros are there for every queue, not only behind what the one that cleared it was given. */
static rp_status alloc_on(hal_device *queue, size_t size, void **out, rp_error *err) {
    void *p = NULL;
    if (size == 0) size = 1;
    RP_TRY(queue->ops->alloc(queue, HAL_DEVICE_MEMORY, size, &p, err));
    rp_status st = queue->ops->synchronize(queue, err);
    if (st == RP_OK)
        *out = p;
    else
        queue->ops->release(queue, p, size);
    return st;
}

rp_status device_alloc(rp_device *d, size_t size, void **out, rp_error *err) {
    if (!d->info.unified) RP_TRY(open_own(d, err));
    return alloc_on(d->own, size, out, err);
}

const hal_device *device_own(const rp_device *d) {
    return d->own;
}

void device_free(rp_device *d, void *p) {
    d->own->ops->release(d->own, p, hal_range_size(d->own, p));
}

uint64_t device_frees(const rp_device *d) {
    return atomic_load_explicit(&d->frees, memory_order_acquire);
}

rp_status rp_device_alloc(rp_device *d, size_t bytes, void **out, rp_error *err) {
    base_error_clear(err);
    if (!d || !out) return rp_fail(err, RP_INVALID, "rp_device_alloc: device or out is NULL");
    spoil_capture("rp_device_alloc");
    return alloc_on(d->root, bytes, out, err);
}

void rp_device_free(rp_device *d, void *p) {
    if (!d || !p) return;
    spoil_capture("rp_device_free");
    size_t size = hal_range_size(d->root, p);
    if (size) {
        d->root->ops->release(d->root, p, size);
        /* Behind it: who sees the number sees that p is gone. */
        (void)atomic_fetch_add_explicit(&d->frees, 1, memory_order_release);
    } else {
        base_log(RP_LOG_ERROR,
                 "rp_device_free: %p is not from rp_device_alloc of this device (%s); it is left "
                 "alone",
                 p, d->name);
    }
}

rp_status device_reserve(rp_device *d, size_t size, hal_reserved **out, rp_error *err) {
    if (!d->info.unified) RP_TRY(open_own(d, err));
    return d->own->ops->reserve(d->own, size, out, err);
}

rp_status device_commit(hal_reserved *r, size_t size, rp_error *err) {
    return r->device->ops->commit(r, size, err);
}

void device_unreserve(hal_reserved *r) {
    if (r) r->device->ops->unreserve(r);
}

bool device_reaches(const rp_device *d, const void *p) {
    return !d->root->ops->reaches || d->root->ops->reaches(d->root, p);
}

void **device_default_lock(rp_device *d) {
    (void)pthread_mutex_lock(&d->manager_lock);
    return &d->manager;
}

void device_default_unlock(rp_device *d) {
    (void)pthread_mutex_unlock(&d->manager_lock);
}

bool device_is_host(const rp_device *d) {
    return d->info.unified;
}

const char *device_name(const rp_device *d) {
    return d->name;
}

rp_status device_queue(rp_device *d, hal_device **out, rp_error *err) {
    return hal_queue(d->root, out, err);
}

hal_device *device_root(const rp_device *d) {
    return d->root;
}

static bool is_same(const char *a, const char *b) {
    return strcmp(hal_full_name(a), hal_full_name(b)) == 0;
}

rp_status device_agrees(const rp_device *d, const rp_compilation_config *cfg, rp_error *err) {
    if (rp_config_is_typed(cfg, "device") && !is_same(cfg->device, d->name))
        return rp_fail(err, RP_CONFIG,
                       "device=%s, but the device that is given was opened as %s; leave one out",
                       cfg->device, d->name);
    if (cfg->threads && cfg->threads != d->info.n_threads)
        return rp_fail(err, RP_CONFIG,
                       "threads=%lld, but the device that is given has %u; say it to "
                       "rp_device_open",
                       (long long)cfg->threads, d->info.n_threads);
    return RP_OK;
}
