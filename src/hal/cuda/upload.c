/* Bytes to the memory of a GPU: each thread fills one of its two slots of pinned memory while the other is on its way,
 * so that making the bytes, which includes reading and checking them, hides behind the copy or the copy behind it.
 * Pinning takes longer than the copy of as many bytes, so the slots are few, small, and kept for the next upload. */
#include <stdatomic.h>

#include "hal/cuda/device.h"

typedef struct upload {
    cuda_device *d;
    const hal_source *from;
    uint64_t to;
    uint64_t n_sent[BASE_PARTS_THREADS];
    atomic_int code; /* the first that is not 0 */
} upload;

static int send_part(upload *u, uint32_t thread, uint64_t part) {
    const cuda_driver *cu = &u->d->cu;
    const cuda_staging *s = &u->d->staging;
    uint32_t slot = (uint32_t)(u->n_sent[thread]++ % CUDA_SLOTS);
    void *sent = s->sent[thread][slot];
    char *at = (char *)s->memory + ((size_t)thread * CUDA_SLOTS + slot) * HAL_PART;
    size_t offset = (size_t)part * HAL_PART, n = hal_part_size(u->from, part);
    int code = cu->context_set(u->d->gpu.context);
    if (code == 0) code = cu->event_synchronize(sent); /* at once where nothing was recorded */
    if (code) return code;
    u->from->fill(u->from->user, at, offset, n);
    code = cu->copy_in(u->to + offset, at, n, u->d->stream);
    return code ? code : cu->event_record(sent, u->d->stream);
}

static void take_part(void *user, uint32_t thread, uint64_t part) {
    upload *u = user;
    int none = 0, code = atomic_load(&u->code) ? 0 : send_part(u, thread, part);
    if (code) (void)atomic_compare_exchange_strong(&u->code, &none, code);
}

void cuda_staging_close(cuda_device *d) {
    cuda_staging *s = &d->staging;
    for (uint32_t i = 0; i < BASE_PARTS_THREADS; i++)
        for (uint32_t k = 0; k < CUDA_SLOTS; k++)
            if (s->sent[i][k]) (void)d->cu.event_free(s->sent[i][k]);
    if (s->memory) (void)d->cu.host_free(s->memory);
    *s = (cuda_staging){0};
}

static int make_slots(cuda_device *d, uint32_t threads) {
    cuda_staging *s = &d->staging;
    int code =
        d->cu.host_alloc(&s->memory, (size_t)threads * CUDA_SLOTS * HAL_PART, CUDA_HOST_PORTABLE);
    for (uint32_t i = 0; i < threads; i++)
        for (uint32_t k = 0; k < CUDA_SLOTS; k++)
            if (code == 0) code = d->cu.event_new(&s->sent[i][k], CUDA_EVENT_NO_TIMING);
    s->threads = threads;
    return code;
}

static rp_status open_staging(cuda_device *d, uint32_t threads, rp_error *err) {
    if (threads <= d->staging.threads) return RP_OK;
    cuda_staging_close(d);
    rp_status st = cuda_check(&d->cu, make_slots(d, threads), "pinned memory", err);
    if (st != RP_OK) cuda_staging_close(d);
    return st;
}

rp_status cuda_device_upload(hal_device *base, void *to, const hal_source *from, rp_error *err) {
    cuda_device *d = (cuda_device *)base;
    uint64_t n = hal_part_count(from);
    uint32_t threads = from->threads ? from->threads : 1;
    upload u = {.d = d, .from = from, .to = (uint64_t)(uintptr_t)to};
    if (threads > BASE_PARTS_THREADS) threads = BASE_PARTS_THREADS;
    if (threads > n) threads = (uint32_t)n;
    if (n == 0) return RP_OK;
    if (hal_capturing(base)) return hal_refuse_captured(base, "an upload", err);
    RP_TRY(cuda_device_enter(d, err));
    RP_TRY(open_staging(d, threads, err));
    base_parts(n, threads, take_part, &u);
    int none = 0, code = d->cu.stream_synchronize(d->stream);
    (void)atomic_compare_exchange_strong(&u.code, &none, code);
    return cuda_check(&d->cu, atomic_load(&u.code), "a copy to the GPU", err);
}
