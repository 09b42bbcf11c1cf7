/* Encodes, decodes and checks object headers. Pure functions on bytes; whatever they are given, they
 * never read outside of it. */
#include "cache/header.h"

#include <string.h>

static const uint8_t magic[8] = {'R', 'P', 'C', 'A', 'C', 'H', 'E', '\n'};

static void put_le(uint8_t *p, uint64_t v, int n) {
    for (int i = 0; i < n; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_le(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

void cache_hash_store(base_hash128 h, uint8_t out[16]) {
    put_le(out, h.lo, 8);
    put_le(out + 8, h.hi, 8);
}

base_hash128 cache_hash_load(const uint8_t in[16]) {
    return (base_hash128){get_le(in, 8), get_le(in + 8, 8)};
}

static base_hash128 checksum(const uint8_t *head, base_hash128 body) {
    uint8_t all[CACHE_HEADER_SIZE];
    memcpy(all, head, 48);
    cache_hash_store(body, all + 48);
    return base_hash(all, sizeof all);
}

void cache_header_encode(const cache_header *h, base_hash128 body, uint8_t out[CACHE_HEADER_SIZE]) {
    memcpy(out, magic, 8);
    put_le(out + 8, CACHE_FORMAT, 4);
    put_le(out + 12, h->kind, 4);
    put_le(out + 16, h->payload_size, 8);
    put_le(out + 24, h->isa_bits, 4);
    put_le(out + 28, h->payload_offset, 4);
    cache_hash_store(h->key, out + 32);
    cache_hash_store(checksum(out, body), out + 48);
}

const char *cache_header_decode(const uint8_t in[CACHE_HEADER_SIZE], cache_kind kind,
                                base_hash128 key, cache_header *out) {
    if (memcmp(in, magic, 8) != 0) return "not an object of this cache";
    if (get_le(in + 8, 4) != CACHE_FORMAT) return "another format version";
    if (get_le(in + 12, 4) != (uint64_t)kind) return "an object of another kind";
    base_hash128 k = cache_hash_load(in + 32);
    if (k.lo != key.lo || k.hi != key.hi) return "an object of another key";
    *out = (cache_header){.kind = (uint32_t)kind,
                          .payload_size = get_le(in + 16, 8),
                          .isa_bits = (uint32_t)get_le(in + 24, 4),
                          .payload_offset = (uint32_t)get_le(in + 28, 4),
                          .key = k};
    return NULL;
}

bool cache_header_matches(const uint8_t in[CACHE_HEADER_SIZE], base_hash128 body) {
    base_hash128 want = checksum(in, body), have = cache_hash_load(in + 48);
    return want.lo == have.lo && want.hi == have.hi;
}

uint64_t cache_chunk_count(uint64_t payload_size) {
    return payload_size / CACHE_CHUNK + (payload_size % CACHE_CHUNK != 0);
}

uint64_t cache_large_offset(uint64_t payload_size) {
    uint64_t end = CACHE_HEADER_SIZE + 16 * cache_chunk_count(payload_size);
    return (end + CACHE_PAGE - 1) / CACHE_PAGE * CACHE_PAGE;
}
