#include "autograph/before.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

enum { MOST = 64 << 20, CHUNK = 256 << 10, LINE = 64 };

void autograph_before_open(autograph_before *b, rp_device *d, hal_device *queue) {
    b->device = d;
    b->queue = queue;
}

static bool has_room(autograph_before *b) {
    uint32_t cap = b->cap ? b->cap * 2 : 4;
    if (b->n < b->cap) return true;
    autograph_was *v = base_realloc_array(b->v, cap, sizeof *v);
    if (!v) return false;
    b->v = v;
    b->cap = cap;
    return true;
}

/* Now, so that what is kept can be compared when memory is short. */
static bool has_host(autograph_before *b) {
    if (!b->host && !device_is_host(b->device)) b->host = base_alloc(2 * (size_t)CHUNK);
    return b->host || device_is_host(b->device);
}

void autograph_before_keep(autograph_before *b, const void *at, size_t size, uint32_t number,
                           bool copied) {
    rp_error none = {0};
    autograph_was was = {.at = at, .size = size, .number = number, .copied = copied};
    if (!b->device || size == 0 || size > MOST - b->bytes || !has_room(b) || !has_host(b)) return;
    if (autograph_memory_new(b->device, size, false, &was.copy, &none) != RP_OK) return;
    if (b->queue->ops->copy(b->queue, was.copy->data, at, size, &none) == RP_OK) {
        b->v[b->n++] = was;
        b->bytes += size;
    } else {
        autograph_memory_unref(was.copy);
    }
}

/* n bytes of both from `done` on, as the host reads them. */
static rp_status read_both(const autograph_before *b, const autograph_was *was, size_t done,
                           size_t n, const char *out[2], rp_error *err) {
    const char *both[2] = {(const char *)was->at + done, (const char *)was->copy->data + done};
    for (int i = 0; i < 2; i++) {
        out[i] = b->host ? b->host + i * CHUNK : both[i];
        if (b->host) RP_TRY(b->queue->ops->copy(b->queue, b->host + i * CHUNK, both[i], n, err));
    }
    return b->host ? b->queue->ops->synchronize(b->queue, err) : RP_OK;
}

static size_t at_most(size_t n, size_t most) {
    return n < most ? n : most;
}

rp_status autograph_was_same(const autograph_before *b, const autograph_was *was, bool *out,
                             rp_error *err) {
    bool same = true;
    for (size_t done = 0, n; done < was->size && same; done += n) {
        const char *both[2];
        n = at_most(was->size - done, CHUNK);
        RP_TRY(read_both(b, was, done, n, both, err));
        same = memcmp(both[0], both[1], n) == 0;
    }
    *out = same;
    return RP_OK;
}

/* Bytes from `at` on whose lines are all alike, or all not. */
static size_t stretch(const char *const both[2], size_t at, size_t n, bool alike) {
    size_t end = at;
    while (end < n && (memcmp(both[0] + end, both[1] + end, at_most(n - end, LINE)) == 0) == alike)
        end += at_most(n - end, LINE);
    return end - at;
}

static rp_status put_back(const autograph_before *b, const autograph_was *was, size_t done,
                          size_t n, rp_error *err) {
    const char *both[2];
    char *at = (char *)(uintptr_t)was->at + done;
    const char *copy = (const char *)was->copy->data + done;
    RP_TRY(read_both(b, was, done, n, both, err));
    for (size_t i = 0; i < n;) {
        i += stretch(both, i, n, true);
        size_t other = stretch(both, i, n, false);
        if (other) RP_TRY(b->queue->ops->copy(b->queue, at + i, copy + i, other, err));
        i += other;
    }
    return RP_OK;
}

rp_status autograph_was_put_back(const autograph_before *b, const autograph_was *was,
                                 rp_error *err) {
    for (size_t done = 0, n; done < was->size; done += n) {
        n = at_most(was->size - done, CHUNK);
        RP_TRY(put_back(b, was, done, n, err));
    }
    return RP_OK;
}

rp_status autograph_before_check(const autograph_before *b, bool copies, rp_error *err) {
    for (uint32_t i = 0; i < b->n; i++) {
        bool same = true;
        if (copies || !b->v[i].copied) RP_TRY(autograph_was_same(b, &b->v[i], &same, err));
        if (!same)
            return rp_fail(err, RP_UNSUPPORTED,
                           "tensor %u of the arguments is written; give it as rp_value_state",
                           b->v[i].number);
    }
    return RP_OK;
}

void autograph_before_done(autograph_before *b) {
    for (uint32_t i = 0; i < b->n; i++) autograph_memory_unref(b->v[i].copy);
    base_free(b->host);
    base_free(b->v);
    *b = (autograph_before){0};
}
