/* Objects of the cache from outside: a file that lies where an object is looked for is a miss and is put away, or all of its
 * payload can be read, and `cache verify` says the same.
 *
 * The first byte chooses: bits 0-1 the kind, bit 2 that the header is made to fit (magic, version, kind, key, checksum), bit 3
 * also its sizes, bit 4 a chunk table in front of the payload, bit 5 that the file is the factors beside a plan. */
#include <stdlib.h>

#include "base/alloc.h"
#include "cache/header.h"
#include "fuzz/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct file {
    uint8_t *data;
    size_t size;
    cache_kind kind;
    uint8_t how;
} file;

enum { FITS = 4, SIZES = 8, LARGE = 16, FACTORS = 32 };

static uint64_t get_le(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* Input: header and payload. A table goes in between. */
static void make_table(file *f) {
    size_t payload = f->size - CACHE_HEADER_SIZE, at = cache_large_offset(payload);
    uint8_t *all = calloc(1, at + payload);
    CHECK(all);
    memcpy(all, f->data, CACHE_HEADER_SIZE);
    if (payload) memcpy(all + at, f->data + CACHE_HEADER_SIZE, payload);
    for (uint64_t i = 0; i < cache_chunk_count(payload); i++) {
        size_t left = payload - i * CACHE_CHUNK;
        base_hash128 h =
            base_hash(all + at + i * CACHE_CHUNK, left < CACHE_CHUNK ? left : CACHE_CHUNK);
        cache_hash_store(h, all + CACHE_HEADER_SIZE + 16 * i);
    }
    free(f->data);
    f->data = all;
    f->size = at + payload;
}

static void make_fit(file *f) {
    cache_header h = {.kind = f->kind,
                      .payload_size = get_le(f->data + 16, 8),
                      .isa_bits = (uint32_t)get_le(f->data + 24, 4),
                      .payload_offset = (uint32_t)get_le(f->data + 28, 4),
                      .key = fuzz_key};
    size_t payload = f->size - CACHE_HEADER_SIZE, body = payload;
    if (f->how & LARGE) {
        make_table(f);
        body = f->size - CACHE_HEADER_SIZE - payload;
    }
    if (f->how & SIZES) {
        h.payload_size = payload;
        h.payload_offset = f->how & LARGE          ? (uint32_t)(f->size - payload)
                           : f->kind == CACHE_CODE ? 0
                                                   : CACHE_HEADER_SIZE;
    }
    cache_header_encode(&h, base_hash(f->data + CACHE_HEADER_SIZE, body), f->data);
}

static void place(const fuzz_store *s, const file *f) {
    static const char *const kinds[] = {"plan", "code", "weights", "tuning"};
    char name[96];
    if (f->kind == CACHE_CODE) {
        size_t n = f->size < CACHE_HEADER_SIZE ? f->size : CACHE_HEADER_SIZE;
        fuzz_write(s, "cache/objects/code/" FUZZ_HEX ".sum", f->data, n);
        fuzz_write(s, "cache/objects/code/" FUZZ_HEX ".so", f->data + n, f->size - n);
        return;
    }
    (void)snprintf(name, sizeof name, "cache/objects/%s/" FUZZ_HEX, kinds[f->kind]);
    fuzz_write(s, name, f->data, f->size);
}

static void read_all(const void *p, size_t n) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < n; i++) sum = (uint8_t)(sum + ((const uint8_t *)p)[i]);
}

static bool get_small(const fuzz_store *s, const file *f) {
    char *out = NULL;
    size_t n = 0;
    rp_status st =
        f->kind == CACHE_CODE
            ? cache_get_code(s->cache, fuzz_key, (uint32_t)get_le(f->data + 24, 4), &out, NULL)
            : cache_get(s->cache, f->kind, fuzz_key, &out, &n, NULL);
    CHECK(st == RP_OK || st == RP_NOT_FOUND);
    if (st == RP_OK) read_all(out, (f->kind == CACHE_CODE ? strlen(out) : n) + 1);
    base_free(out);
    return st == RP_OK;
}

static bool get_large(const fuzz_store *s, const file *f, bool full) {
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    size_t n = 0;
    rp_status st = cache_map(s->cache, f->kind, fuzz_key, full, &m, &payload, &n, NULL);
    CHECK(st == RP_OK || st == RP_NOT_FOUND);
    if (st == RP_OK) read_all(payload, n);
    base_file_unmap(&m);
    return st == RP_OK;
}

static void look_up(const fuzz_store *s, const file *f) {
    bool fits = (f->how & FITS) && (f->how & SIZES);
    place(s, f);
    bool listed = fuzz_verify(s) == 1;
    CHECK(!fits || listed || (f->kind == CACHE_CODE && (f->how & LARGE)));
    /* An object is good for one way of reading it at most. */
    place(s, f);
    bool small = f->size >= CACHE_HEADER_SIZE && get_small(s, f);
    place(s, f);
    bool sampled = get_large(s, f, false);
    place(s, f);
    bool large = get_large(s, f, true);
    CHECK(!(small && large) && (!large || sampled));
    if (f->kind != CACHE_CODE) CHECK(listed == (small || large));
}

static void read_factors(const fuzz_store *s, const file *f) {
    base_buf out;
    cache_key *k = cache_key_new();
    char *text = base_strndup((const char *)f->data, f->size);
    base_buf_init(&out, 1 << 20);
    CHECK(k && text && cache_key_add(k, "level", "3", NULL) == RP_OK);
    CHECK(cache_put(s->cache, CACHE_PLAN, fuzz_key, "", 0, NULL) == RP_OK);
    CHECK(cache_put_text(s->cache, fuzz_key, "key_factors.json", text, NULL) == RP_OK);
    CHECK(cache_why(s->cache, k, &out, NULL) == RP_OK);
    CHECK(cache_why_same(s->cache, k, "level", &out, NULL) == RP_OK);
    base_free(text);
    cache_key_free(k);
    base_buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t live = base_live();
    fuzz_store s;
    if (size == 0) return 0;
    file f = {.size = size - 1, .how = data[0], .kind = (cache_kind)(data[0] & 3)};
    f.data = malloc(f.size ? f.size : 1);
    CHECK(f.data);
    memcpy(f.data, data + 1, f.size);
    fuzz_store_open(&s);
    if (f.how & FACTORS) {
        read_factors(&s, &f);
    } else {
        if ((f.how & FITS) && f.size >= CACHE_HEADER_SIZE) make_fit(&f);
        if (f.size < CACHE_HEADER_SIZE) f.how &= (uint8_t)~FITS;
        look_up(&s, &f);
    }
    fuzz_store_close(&s);
    free(f.data);
    CHECK(base_live() == live);
    return 0;
}
