/* A large object of the cache in memory, every byte of it checked before anybody reads it.
 *
 * The bytes are copied to huge pages, a part at a time, and each chunk is hashed while it is still in the processor's cache:
 * the copy waits for memory, so the hash hides behind it, and several threads share both. What is used is this copy, which
 * no change of the file reaches. Without huge pages the mapping serves as it is, hashed in place. */
#ifndef ENGINE_RESIDENT_H
#define ENGINE_RESIDENT_H

#include "base/file.h"
#include "base/huge.h"
#include "cache/sums.h"

typedef struct engine_resident {
    const uint8_t *data;
    size_t size;
    cache_sums sums;
    base_huge huge;
    base_mapping file; /* without huge pages; else empty */
} engine_resident;

/* Takes *file, in which the payload begins at `payload`. stored: the object came from the cache, so its own sums decide, and
 * RP_CORRUPT tells the first damaged chunk; else the sums are taken from what was packed now. */
rp_status engine_resident_load(base_mapping *file, const uint8_t *payload, size_t size, bool stored,
                               uint32_t threads, engine_resident *out, rp_error *err) RP_MUST_USE;
/* Hashes all of it again; RP_CORRUPT tells what is damaged. */
rp_status engine_resident_check(const engine_resident *r, rp_error *err) RP_MUST_USE;
/* Gives the bytes back and keeps their sums, for a copy that lies elsewhere. */
void engine_resident_drop(engine_resident *r);
void engine_resident_done(engine_resident *r); /* empty is fine */

#endif
