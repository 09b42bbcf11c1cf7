/* Bundles from outside, as `cache import` takes them: one clear line or files of the store, nothing beside it, nothing
 * half-written; what then verifies leaves and enters again. The first byte says whether the rest is a bundle or what a bundle
 * compresses, so that inputs get past zstd's checksum. */
#include <ftw.h>
#include <zstd.h>

#include "base/alloc.h"
#include "fuzz/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t n_files;
static size_t root_length;

/* All files lie where a store has them. */
static int look(const char *path, const struct stat *info, int type, struct FTW *at) {
    static const char *const places[] = {"/cache/objects/plan/",    "/cache/objects/code/",
                                         "/cache/objects/weights/", "/cache/objects/tuning/",
                                         "/cache/plans/",           "/cache/quarantine/"};
    bool known = strcmp(path + root_length, "/in") == 0;
    (void)info;
    (void)at;
    CHECK(type == FTW_F || type == FTW_D);
    if (type == FTW_D) return 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        known |= strncmp(path + root_length, places[i], strlen(places[i])) == 0;
    CHECK(known && !strstr(path + root_length, ".tmp-"));
    n_files++;
    return 0;
}

static void look_around(const fuzz_store *s) {
    n_files = 0;
    root_length = strlen(s->root);
    CHECK(nftw(s->root, look, 8, FTW_PHYS) == 0);
}

/* The factors beside plans are read, too. */
static void ask_why(const fuzz_store *s) {
    base_buf out;
    cache_key *k = cache_key_new();
    base_buf_init(&out, 1 << 20);
    CHECK(k && cache_key_add(k, "level", "3", NULL) == RP_OK);
    CHECK(cache_why(s->cache, k, &out, NULL) == RP_OK);
    CHECK(cache_why_same(s->cache, k, "level", &out, NULL) == RP_OK);
    cache_key_free(k);
    base_buf_done(&out);
}

static void import(const fuzz_store *s) {
    char path[96];
    rp_error err = {0};
    cache_bundle_info in = {0}, out = {0};
    (void)snprintf(path, sizeof path, "%s/in", s->root);
    rp_status st = cache_import(s->cache, path, &in, &err);
    if (st != RP_OK)
        CHECK((st == RP_CORRUPT || st == RP_UNSUPPORTED) && err.code == st && err.text[0] &&
              !strchr(err.text, '\n'));
    look_around(s);
    CHECK(st != RP_OK || n_files - 1 <= in.n_files); /* a name may come twice */
    (void)fuzz_verify(s);
    ask_why(s);
    CHECK(cache_export(s->cache, path, &out, NULL) == RP_OK);
    CHECK(cache_import(s->cache, path, &in, NULL) == RP_OK);
    CHECK(in.n_files == out.n_files && in.n_bytes == out.n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t live = base_live();
    fuzz_store s;
    if (size == 0) return 0;
    fuzz_store_open(&s);
    if (data[0] % 2) {
        size_t cap = ZSTD_compressBound(size - 1);
        uint8_t *packed = malloc(cap);
        CHECK(packed);
        size_t n = ZSTD_compress(packed, cap, data + 1, size - 1, 1);
        CHECK(!ZSTD_isError(n));
        fuzz_write(&s, "in", packed, n);
        free(packed);
    } else {
        fuzz_write(&s, "in", data + 1, size - 1);
    }
    import(&s);
    fuzz_store_close(&s);
    CHECK(base_live() == live);
    return 0;
}
