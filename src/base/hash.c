/* XXH3 through the xxhash library. The 128-bit value does not depend on how the
 * bytes were cut up or on the machine. Not for secrets. */
#define XXH_STATIC_LINKING_ONLY /* the size of XXH3_state_t, to allocate it through base */
#include "base/hash.h"

#include <assert.h>
#include <xxhash.h>

#include "base/alloc.h"

struct base_hasher {
    XXH3_state_t state;
};

base_hash128 base_hash(const void *p, size_t n) {
    XXH128_hash_t h = XXH3_128bits(n ? p : "", n);
    return (base_hash128){h.low64, h.high64};
}

uint64_t base_hash64(const void *p, size_t n) {
    return XXH3_64bits(n ? p : "", n);
}

void base_hash_hex(base_hash128 h, char out[33]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        out[i] = digits[(h.hi >> (60 - 4 * i)) & 15];
        out[16 + i] = digits[(h.lo >> (60 - 4 * i)) & 15];
    }
    out[32] = 0;
}

base_hasher *base_hasher_new(void) {
    base_hasher *h = base_alloc_aligned(sizeof *h, 64);
    if (h) (void)XXH3_128bits_reset(&h->state);
    return h;
}

void base_hasher_add(base_hasher *h, const void *p, size_t n) {
    if (n) (void)XXH3_128bits_update(&h->state, p, n);
}

base_hash128 base_hasher_digest(const base_hasher *h) {
    XXH128_hash_t d = XXH3_128bits_digest(&h->state);
    return (base_hash128){d.low64, d.high64};
}

void base_hasher_free(base_hasher *h) {
    base_free(h);
}
