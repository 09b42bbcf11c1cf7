/* Bytes to the memory of a GPU: each thread fills one of its two buffers of pinned memory while the other is on its way,
 * so that making the bytes, which includes reading and checking them, hides behind the copy or the copy behind it. */
#include <stdatomic.h>

#include "base/parts.h"
#include "hal/cuda/device.h"

enum { BUFFERS = 2 };

typedef struct upload {
    const cuda_device *d;
    const hal_source *from;
    uint64_t to;
    char *memory; /* pinned: BUFFERS parts a thread */
    void *sent[BASE_PARTS_THREADS][BUFFERS];
    uint64_t n_sent[BASE_PARTS_THREADS];
    uint32_t threads;
    atomic_int code; /* the first that is not 0 */
} upload;

static int send_part(upload *u, uint32_t thread, uint64_t part) {
    const cuda_driver *cu = &u->d->cu;
    uint32_t which = (uint32_t)(u->n_sent[thread]++ % BUFFERS);
    void *sent = u->sent[thread][which];
    char *at = u->memory + ((size_t)thread * BUFFERS + which) * HAL_PART;
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

static int open_buffers(upload *u) {
    const cuda_driver *cu = &u->d->cu;
    void *memory = NULL;
    int code = cu->host_alloc(&memory, (size_t)u->threads * BUFFERS * HAL_PART, CUDA_HOST_PORTABLE);
    u->memory = memory;
    for (uint32_t i = 0; i < u->threads; i++)
        for (uint32_t k = 0; k < BUFFERS; k++)
            if (code == 0) code = cu->event_new(&u->sent[i][k], CUDA_EVENT_NO_TIMING);
    return code;
}

static void close_buffers(upload *u) {
    for (uint32_t i = 0; i < u->threads; i++)
        for (uint32_t k = 0; k < BUFFERS; k++)
            if (u->sent[i][k]) (void)u->d->cu.event_free(u->sent[i][k]);
    if (u->memory) (void)u->d->cu.host_free(u->memory);
}

rp_status cuda_device_upload(hal_device *base, void *to, const hal_source *from, rp_error *err) {
    const cuda_device *d = (const cuda_device *)base;
    uint64_t n = hal_part_count(from);
    upload u = {.d = d, .from = from, .to = (uint64_t)(uintptr_t)to, .threads = from->threads};
    if (u.threads > BASE_PARTS_THREADS) u.threads = BASE_PARTS_THREADS;
    if (u.threads > n) u.threads = (uint32_t)n;
    if (n == 0) return RP_OK;
    if (u.threads == 0) u.threads = 1;
    RP_TRY(cuda_device_enter(d, err));
    atomic_init(&u.code, open_buffers(&u));
    base_parts(n, u.threads, take_part, &u);
    int none = 0, code = d->cu.stream_synchronize(d->stream);
    (void)atomic_compare_exchange_strong(&u.code, &none, code);
    close_buffers(&u);
    return cuda_check(&d->cu, atomic_load(&u.code), "a copy to the GPU", err);
}
