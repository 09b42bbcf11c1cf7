/* A cache folder for fuzz targets: a new one for each input, in $TMPDIR, else in memory, removed with all that is in it. */
#ifndef FUZZ_STORE_H
#define FUZZ_STORE_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/bundle.h"
#include "cache/key.h"

#define CHECK(x) ((x) ? (void)0 : __builtin_trap())

static const base_hash128 fuzz_key = {.hi = UINT64_C(0x0123456789abcdef),
                                      .lo = UINT64_C(0xfedcba9876543210)};
#define FUZZ_HEX "0123456789abcdeffedcba9876543210"

typedef struct fuzz_store {
    char root[64];
    cache_store *cache; /* in root/cache; files beside it may be the target's */
} fuzz_store;

static inline void fuzz_store_open(fuzz_store *s) {
    char dir[96];
    const char *base = getenv("TMPDIR");
    if (!base) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    CHECK((size_t)snprintf(s->root, sizeof s->root, "%s/XXXXXX", base) < sizeof s->root);
    CHECK(mkdtemp(s->root));
    (void)snprintf(dir, sizeof dir, "%s/cache", s->root);
    CHECK(cache_store_open(dir, &s->cache, NULL) == RP_OK && !cache_store_off_reason(s->cache));
}

static inline void fuzz_store_close(fuzz_store *s) {
    cache_store_close(s->cache);
    CHECK(base_path_remove(s->root, NULL) == RP_OK);
}

static inline void fuzz_write(const fuzz_store *s, const char *name, const uint8_t *data,
                              size_t size) {
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", s->root, name);
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static inline rp_status fuzz_seen(void *user, const cache_entry *e, rp_error *err) {
    (void)err;
    CHECK(e->ok == !e->reason);
    *(size_t *)user += e->ok;
    return RP_OK;
}

/* Lists, verifies, lists again: what is left is good. How many. */
static inline size_t fuzz_verify(const fuzz_store *s) {
    size_t n[3] = {0};
    CHECK(cache_list(s->cache, false, fuzz_seen, &n[0], NULL) == RP_OK);
    CHECK(cache_list(s->cache, true, fuzz_seen, &n[1], NULL) == RP_OK);
    CHECK(cache_list(s->cache, true, fuzz_seen, &n[2], NULL) == RP_OK);
    CHECK(n[1] <= n[0] && n[2] == n[1]);
    return n[1];
}

#endif
