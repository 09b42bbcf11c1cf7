#include "autograph/before.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

enum { MOST = 64 << 20, CHUNK = 256 << 10 };

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

void autograph_before_keep(autograph_before *b, const void *at, size_t size, uint32_t number,
                           bool copied) {
    rp_error none = {0};
    autograph_was was = {.at = at, .size = size, .number = number, .copied = copied};
    if (!b->device || size == 0 || size > MOST - b->bytes || !has_room(b)) return;
    if (autograph_memory_new(b->device, size, false, &was.copy, &none) != RP_OK) return;
    if (b->queue->ops->copy(b->queue, was.copy->data, at, size, &none) == RP_OK) {
        b->v[b->n++] = was;
        b->bytes += size;
    } else {
        autograph_memory_unref(was.copy);
    }
}

/* host: of two chunks. */
static rp_status compare(hal_device *q, const autograph_was *was, char *host, bool *out,
                         rp_error *err) {
    *out = true;
    for (size_t done = 0, n; done < was->size && *out; done += n) {
        n = was->size - done < CHUNK ? was->size - done : CHUNK;
        RP_TRY(q->ops->copy(q, host, (const char *)was->at + done, n, err));
        RP_TRY(q->ops->copy(q, host + CHUNK, (const char *)was->copy->data + done, n, err));
        RP_TRY(q->ops->synchronize(q, err));
        *out = memcmp(host, host + CHUNK, n) == 0;
    }
    return RP_OK;
}

rp_status autograph_was_same(const autograph_before *b, const autograph_was *was, bool *out,
                             rp_error *err) {
    if (device_is_host(b->device)) {
        *out = memcmp(was->at, was->copy->data, was->size) == 0;
        return RP_OK;
    }
    char *host = base_alloc(2 * (size_t)CHUNK);
    if (!host) return rp_fail(err, RP_NOMEM, "what memory was before a call");
    rp_status st = compare(b->queue, was, host, out, err);
    base_free(host);
    return st;
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
    base_free(b->v);
    *b = (autograph_before){0};
}
