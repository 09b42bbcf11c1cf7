/* The 64 bytes in front of (or beside) every stored object.
 *
 *   0  magic "RPCACHE\n"        24  u32 ISA bits             48  checksum, 16 bytes
 *   8  u32 format version       28  u32 payload offset
 *  12  u32 kind                 32  key, 16 bytes (so that a renamed object is foreign)
 *  16  u64 payload size
 *
 * All little-endian. The checksum is the hash of bytes 0..47 and the hash of the body. The body is the
 * payload (offset 64, or 0 for a file of its own), or, for large objects, everything between header
 * and payload: a table with the hash of each chunk, zero-padded to a page. */
#ifndef CACHE_HEADER_H
#define CACHE_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "cache/store.h"

enum {
    CACHE_FORMAT = 1,
    CACHE_HEADER_SIZE = 64,
    CACHE_PAGE = 4096,
    CACHE_CHUNK = 65536 /* bytes of payload a table entry covers */
};

typedef struct cache_header {
    uint32_t kind, isa_bits, payload_offset;
    uint64_t payload_size;
    base_hash128 key;
} cache_header;

void cache_header_encode(const cache_header *h, base_hash128 body, uint8_t out[CACHE_HEADER_SIZE]);
/* Reads and checks all but the checksum; gives the reason why it is no header of this object, NULL
 * when it is one. */
const char *cache_header_decode(const uint8_t in[CACHE_HEADER_SIZE], cache_kind kind,
                                base_hash128 key, cache_header *out);
/* Whether the stored checksum belongs to these bytes and this body. */
bool cache_header_matches(const uint8_t in[CACHE_HEADER_SIZE], base_hash128 body);

/* Large objects: chunks of the payload, offset of the payload. */
uint64_t cache_chunk_count(uint64_t payload_size);
uint64_t cache_large_offset(uint64_t payload_size);
void cache_hash_store(base_hash128 h, uint8_t out[16]);
base_hash128 cache_hash_load(const uint8_t in[16]);

#endif
