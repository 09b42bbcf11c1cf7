/* Content hashes (XXH3-128) used in cache keys and checksums. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct base_hash128 {
    uint64_t lo, hi;
} base_hash128;

base_hash128 base_hash(const void *p, size_t n);
uint64_t base_hash64(const void *p, size_t n);
/* v joins h; for tables in memory, not for what is stored. */
static inline uint64_t base_hash_mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ (h >> 29);
}
/* 32 lower-case hex digits and a NUL. */
void base_hash_hex(base_hash128 h, char out[33]);

/* Incremental form. */
typedef struct base_hasher base_hasher;
base_hasher *base_hasher_new(void); /* NULL when memory is exhausted */
void base_hasher_add(base_hasher *h, const void *p, size_t n);
base_hash128 base_hasher_digest(const base_hasher *h);
void base_hasher_free(base_hasher *h);

#endif
