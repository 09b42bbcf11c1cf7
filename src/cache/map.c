/* Large objects, mapped: [header][hash of each 64 KB chunk][zeros to a page][payload].
 *
 * Header, table and padding are always checked, so the table can be trusted. The payload is checked here only on demand: who
 * reads it checks it on the way (sums.h), which costs no reading of its own. A file that somebody cuts short later is told by
 * its mapping (base_mapping_check). */
#include "base/alloc.h"
#include "cache/priv.h"

static bool chunk_good(const uint8_t *file, const cache_header *h, uint64_t i) {
    uint64_t at = i * CACHE_CHUNK, left = h->payload_size - at;
    base_hash128 have =
        base_hash(file + h->payload_offset + at, left < CACHE_CHUNK ? left : CACHE_CHUNK);
    base_hash128 want = cache_hash_load(file + CACHE_HEADER_SIZE + 16 * i);
    return have.lo == want.lo && have.hi == want.hi;
}

static bool payload_good(const uint8_t *file, const cache_header *h) {
    uint64_t n = cache_chunk_count(h->payload_size);
    for (uint64_t i = 0; i < n; i++)
        if (!chunk_good(file, h, i)) return false;
    return true;
}

static const char *check_mapped(const cache_found *f, const base_mapping *m, bool full,
                                cache_header *h) {
    if (m->size < CACHE_HEADER_SIZE) return "shorter than its header";
    const char *why = cache_header_decode(m->data, f->kind, f->key, h);
    if (why) return why;
    uint64_t size = h->payload_size;
    if (size > m->size || cache_large_offset(size) != h->payload_offset ||
        m->size - size != h->payload_offset)
        return "its size is not the stored one";
    base_hash128 body =
        base_hash(m->data + CACHE_HEADER_SIZE, h->payload_offset - CACHE_HEADER_SIZE);
    if (!cache_header_matches(m->data, body)) return "checksum mismatch in its header";
    return !full || payload_good(m->data, h) ? NULL : "checksum mismatch";
}

rp_status cache_check_large(const cache_store *s, cache_found *f, bool full, rp_error *err) {
    char *path = NULL;
    base_mapping m = {0};
    RP_TRY(cache_object_path(s, f->kind, f->key, "", &path, err));
    f->why = cache_distrusts(path);
    rp_status st = f->why ? RP_OK : base_file_map(path, &m, err);
    base_free(path);
    RP_TRY(st);
    if (!f->why) f->why = check_mapped(f, &m, full, &f->head);
    if (f->why)
        base_file_unmap(&m);
    else
        f->file = m;
    return RP_OK;
}

/* NOLINTNEXTLINE(readability-function-size): the store's contract */
rp_status cache_map(cache_store *s, cache_kind kind, base_hash128 key, bool full_check,
                    base_mapping *file, const uint8_t **payload, size_t *payload_size,
                    rp_error *err) {
    rp_error e = {0};
    cache_found f = {.kind = kind, .key = key};
    if (atomic_load(&s->off)) return cache_note_miss(s, kind, key, "the cache is off");
    rp_status st = cache_check_large(s, &f, full_check, &e);
    RP_TRY(cache_settle(s, &f, st, &e, err));
    cache_note_hit(s, kind, key);
    *file = f.file;
    *payload = f.file.data + f.head.payload_offset;
    *payload_size = f.head.payload_size;
    return RP_OK;
}
