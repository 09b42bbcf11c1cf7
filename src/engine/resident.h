/* A large object of the cache in memory, every byte of it checked before anybody reads it.
 *
 * The bytes are copied, a part at a time, and each chunk is hashed while it is still in the processor's cache: the copy waits for
 * memory, so the hash hides behind it, and several threads share both. What is used is this copy, which no change of the
 * file reaches. It goes to huge pages, without which the mapping serves as it is, hashed in place; or to the memory of
 * a device that is not the host's. */
#ifndef ENGINE_RESIDENT_H
#define ENGINE_RESIDENT_H

#include "base/file.h"
#include "base/huge.h"
#include "cache/sums.h"
#include "hal/hal.h"

typedef struct engine_resident {
    const uint8_t *data; /* NULL: on a device, or dropped */
    size_t size;
    cache_sums sums;
    base_huge huge;
    base_mapping file; /* without huge pages; else empty */
} engine_resident;

typedef struct engine_resident_source {
    const uint8_t *payload; /* in the file */
    size_t size;
    bool
        stored; /* the object came from the cache, so its own sums decide; else they are taken from what was packed now */
    uint32_t threads;
    hal_device *device; /* (optional) that has room for size bytes at to */
    void *to;
} engine_resident_source;

/* Takes *file. RP_CORRUPT tells the first damaged chunk. */
rp_status engine_resident_load(base_mapping *file, const engine_resident_source *s,
                               engine_resident *out, rp_error *err) RP_MUST_USE;
/* Hashes all of it again; RP_CORRUPT tells what is damaged. */
rp_status engine_resident_check(const engine_resident *r, rp_error *err) RP_MUST_USE;
void engine_resident_done(engine_resident *r); /* empty is fine */

#endif
