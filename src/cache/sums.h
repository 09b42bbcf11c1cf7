/* The sums of a large object's chunks, apart from its file: who copies or uses the payload checks it with them, chunk by
 * chunk and at the time that suits. */
#ifndef CACHE_SUMS_H
#define CACHE_SUMS_H

#include "cache/header.h"

/* Chunk i covers payload bytes [i * CACHE_CHUNK, (i + 1) * CACHE_CHUNK), the last one what is left. Chunks may be set and
 * asked for from several threads, each by one at a time. */
typedef struct cache_sums {
    uint64_t size; /* of the payload */
    uint64_t n;    /* chunks */
    base_hash128 *chunk;
} cache_sums;

/* Those of an object that cache_map gave, whose table is sound. */
rp_status cache_sums_read(const base_mapping *file, uint64_t payload_size, cache_sums *out,
                          rp_error *err) RP_MUST_USE;
/* None yet: cache_sums_set fills them in. */
rp_status cache_sums_new(uint64_t payload_size, cache_sums *out, rp_error *err) RP_MUST_USE;
void cache_sums_done(cache_sums *s); /* empty is fine */

/* Bytes of chunk i. */
size_t cache_sums_bytes(const cache_sums *s, uint64_t i);
void cache_sums_set(cache_sums *s, uint64_t i, const void *chunk);
bool cache_sums_match(const cache_sums *s, uint64_t i, const void *chunk);

#endif
