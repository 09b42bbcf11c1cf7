/* Copies the table that map.c has checked out of the file, so that later answers do not depend on the file. */
#include "cache/sums.h"

#include "base/alloc.h"

rp_status cache_sums_new(uint64_t payload_size, cache_sums *out, rp_error *err) {
    cache_sums s = {.size = payload_size, .n = cache_chunk_count(payload_size)};
    s.chunk = base_alloc_array(s.n + 1, sizeof *s.chunk);
    if (!s.chunk)
        return rp_fail(err, RP_NOMEM, "sums of %llu bytes", (unsigned long long)payload_size);
    *out = s;
    return RP_OK;
}

rp_status cache_sums_read(const base_mapping *file, uint64_t payload_size, cache_sums *out,
                          rp_error *err) {
    RP_TRY(cache_sums_new(payload_size, out, err));
    for (uint64_t i = 0; i < out->n; i++)
        out->chunk[i] = cache_hash_load(file->data + CACHE_HEADER_SIZE + 16 * i);
    return RP_OK;
}

void cache_sums_done(cache_sums *s) {
    base_free(s->chunk);
    *s = (cache_sums){0};
}

size_t cache_sums_bytes(const cache_sums *s, uint64_t i) {
    uint64_t left = s->size - i * CACHE_CHUNK;
    return left < CACHE_CHUNK ? (size_t)left : CACHE_CHUNK;
}

void cache_sums_set(cache_sums *s, uint64_t i, const void *chunk) {
    s->chunk[i] = base_hash(chunk, cache_sums_bytes(s, i));
}

bool cache_sums_match(const cache_sums *s, uint64_t i, const void *chunk) {
    base_hash128 have = base_hash(chunk, cache_sums_bytes(s, i));
    return have.lo == s->chunk[i].lo && have.hi == s->chunk[i].hi;
}
