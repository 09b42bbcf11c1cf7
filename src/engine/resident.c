/* Threads take parts of 2 MB (a huge page) in turn; within a part, chunk after chunk. */
#include "engine/resident.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/parts.h"

_Static_assert(HAL_PART % CACHE_CHUNK == 0, "a part has whole chunks");

typedef struct loader {
    engine_resident *r;
    const base_mapping *file;
    const engine_resident_source *s;
    atomic_uint_fast64_t bad; /* the lowest damaged chunk; sums.n: none */
} loader;

static void note_bad(loader *l, uint64_t i) {
    uint_fast64_t was = atomic_load(&l->bad);
    while (i < was && !atomic_compare_exchange_weak(&l->bad, &was, i)) {
    }
}

static void check_chunk(loader *l, uint64_t i, const void *at) {
    if (!l->s->stored)
        cache_sums_set(&l->r->sums, i, at);
    else if (!cache_sums_match(&l->r->sums, i, at))
        note_bad(l, i);
}

/* n bytes from offset on, to at; in place where at is NULL. */
static void load_bytes(void *user, void *at, size_t offset, size_t n) {
    loader *l = user;
    for (size_t done = 0; done < n; done += CACHE_CHUNK) {
        uint64_t i = (offset + done) / CACHE_CHUNK;
        const uint8_t *from = l->s->payload + offset + done;
        if (at) from = memcpy((uint8_t *)at + done, from, cache_sums_bytes(&l->r->sums, i));
        check_chunk(l, i, from);
    }
    /* Never in memory twice. */
    if (at) base_mapping_drop(l->file, (size_t)(l->s->payload - l->file->data) + offset, n);
}

static void load_part(void *user, uint32_t thread, uint64_t part) {
    const loader *l = user;
    size_t offset = (size_t)part * HAL_PART, left = l->s->size - offset;
    uint8_t *to = l->r->huge.data;
    (void)thread;
    load_bytes(user, to ? to + offset : NULL, offset, left < HAL_PART ? left : HAL_PART);
}

static rp_status load_all(loader *l, rp_error *err) {
    const engine_resident_source *s = l->s;
    const hal_source bytes = {load_bytes, l, s->size, s->threads};
    if (s->device)
        RP_TRY(s->device->ops->upload(s->device, s->to, &bytes, err));
    else
        base_parts((s->size + HAL_PART - 1) / HAL_PART, s->threads, load_part, l);
    uint64_t bad = atomic_load(&l->bad), n = l->r->sums.n;
    if (bad == n) return RP_OK;
    return rp_fail(err, RP_CORRUPT, "checksum mismatch in chunk %llu of %llu",
                   (unsigned long long)bad, (unsigned long long)n);
}

rp_status engine_resident_load(base_mapping *file, const engine_resident_source *s,
                               engine_resident *out, rp_error *err) {
    engine_resident r = {.data = s->payload, .size = s->size};
    rp_error why = {0};
    rp_status st;
    loader l = {.r = &r, .file = file, .s = s};
    if (!s->device && base_huge_alloc(s->size, &r.huge, &why) != RP_OK)
        base_log(RP_LOG_DEBUG, "packed weights stay in the mapped file: %s", why.text);
    RP_TRY_OUT(s->stored ? cache_sums_read(file, s->size, &r.sums, err)
                         : cache_sums_new(s->size, &r.sums, err));
    atomic_init(&l.bad, r.sums.n);
    RP_TRY_OUT(load_all(&l, err));
    if (s->device) {
        r.data = NULL;
    } else if (r.huge.data) {
        r.data = r.huge.data;
    } else {
        r.file = *file;
        *file = (base_mapping){0};
    }
    *out = r;
    r = (engine_resident){0};
out:
    base_file_unmap(file);
    engine_resident_done(&r);
    return st;
}

rp_status engine_resident_check(const engine_resident *r, rp_error *err) {
    uint64_t n_bad = 0, first = 0;
    for (uint64_t i = r->sums.n; i-- > 0;)
        if (!cache_sums_match(&r->sums, i, r->data + i * CACHE_CHUNK)) {
            n_bad++;
            first = i;
        }
    if (n_bad == 0) return RP_OK;
    return rp_fail(err, RP_CORRUPT, "%llu of %llu chunks are damaged in memory, the first is %llu",
                   (unsigned long long)n_bad, (unsigned long long)r->sums.n,
                   (unsigned long long)first);
}

void engine_resident_done(engine_resident *r) {
    cache_sums_done(&r->sums);
    base_huge_free(&r->huge);
    base_file_unmap(&r->file);
    *r = (engine_resident){0};
}
