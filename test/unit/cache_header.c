/* Headers of objects: the bytes of one, what is no header of an object, sums over every byte, and where payloads lie. */
#include "support/check.h"

#include "base/alloc.h"
#include "cache/header.h"
#include "cache/sums.h"

static const base_hash128 key = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)},
                          body = {5, 6};

static void encoded(uint8_t out[CACHE_HEADER_SIZE]) {
    const cache_header h = {.kind = CACHE_PLAN,
                            .isa_bits = 0x80000001,
                            .payload_offset = CACHE_PAGE,
                            .payload_size = UINT64_C(0x1122334455667788),
                            .key = key};
    cache_header_encode(&h, body, out);
}

/* Files of one machine are read on any. */
static void a_header_is_these_bytes(void **state) {
    static const uint8_t want[] = {'R',  'P',  'C',        'A',  'C',  'H',  'E',  '\n', 1,    0,
                                   0,    0,    CACHE_PLAN, 0,    0,    0,    0x88, 0x77, 0x66, 0x55,
                                   0x44, 0x33, 0x22,       0x11, 1,    0,    0,    0x80, 0,    0x10,
                                   0,    0,    0xef,       0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                                   0x10, 0x32, 0x54,       0x76, 0x98, 0xba, 0xdc, 0xfe};
    uint8_t bytes[CACHE_HEADER_SIZE];
    cache_header h;
    (void)state;
    encoded(bytes);
    assert_memory_equal(bytes, want, sizeof want);
    assert_null(cache_header_decode(bytes, CACHE_PLAN, key, &h));
    assert_int_equal(h.kind, CACHE_PLAN);
    assert_true(h.isa_bits == 0x80000001 && h.payload_size == UINT64_C(0x1122334455667788));
    assert_int_equal(h.payload_offset, CACHE_PAGE);
    assert_true(h.key.lo == key.lo && h.key.hi == key.hi);
}

static void refused(uint8_t bytes[CACHE_HEADER_SIZE], cache_kind kind, base_hash128 of,
                    const char *why) {
    cache_header h;
    const char *said = cache_header_decode(bytes, kind, of, &h);
    if (!said || strcmp(said, why) != 0) fail_msg("'%s', not '%s'", said ? said : "", why);
}

static void other_headers_are_refused(void **state) {
    uint8_t bytes[CACHE_HEADER_SIZE];
    (void)state;
    for (int i = 0; i < 12; i++) {
        encoded(bytes);
        bytes[i] ^= 1;
        refused(bytes, CACHE_PLAN, key,
                i < 8 ? "not an object of this cache" : "another format version");
    }
    encoded(bytes);
    refused(bytes, CACHE_CODE, key, "an object of another kind");
    refused(bytes, CACHE_PLAN, (base_hash128){key.lo ^ 1, key.hi}, "an object of another key");
    refused(bytes, CACHE_PLAN, (base_hash128){key.lo, key.hi ^ 1}, "an object of another key");
    refused(bytes, CACHE_PLAN, (base_hash128){key.hi, key.lo}, "an object of another key");
}

static void every_byte_is_summed(void **state) {
    uint8_t bytes[CACHE_HEADER_SIZE];
    (void)state;
    encoded(bytes);
    assert_true(cache_header_matches(bytes, body));
    assert_false(cache_header_matches(bytes, (base_hash128){body.lo ^ 1, body.hi}));
    assert_false(cache_header_matches(bytes, (base_hash128){body.lo, body.hi ^ 1}));
    for (int i = 0; i < CACHE_HEADER_SIZE; i++) {
        bytes[i] ^= 0x10;
        if (cache_header_matches(bytes, body)) fail_msg("byte %d is not summed", i);
        bytes[i] ^= 0x10;
    }
}

/* A table of 16 bytes a chunk in front, in whole pages. */
static void payloads_begin_behind_their_sums(void **state) {
    static const uint64_t fits = (CACHE_PAGE - CACHE_HEADER_SIZE) / 16; /* chunks of a page */
    (void)state;
    assert_int_equal(cache_chunk_count(0), 0);
    assert_int_equal(cache_chunk_count(1), 1);
    assert_int_equal(cache_chunk_count(CACHE_CHUNK), 1);
    assert_int_equal(cache_chunk_count(CACHE_CHUNK + 1), 2);
    assert_int_equal(cache_large_offset(1), CACHE_PAGE);
    assert_int_equal(cache_large_offset(fits * CACHE_CHUNK), CACHE_PAGE);
    assert_int_equal(cache_large_offset(fits * CACHE_CHUNK + 1), 2 * CACHE_PAGE);
}

/* A chunk is as it was where all 128 bits of its sum are, the last one as far as it goes. */
static void chunks_match_by_all_of_their_sum(void **state) {
    enum { LAST = 1000 };
    rp_error err = {0};
    cache_sums s = {0};
    (void)state;
    uint8_t *data = base_alloc(CACHE_CHUNK);
    assert_non_null(data);
    for (size_t i = 0; i < CACHE_CHUNK; i++) data[i] = (uint8_t)(i * 7);
    CHECK_OK(cache_sums_new(CACHE_CHUNK + LAST, &s, &err), &err);
    assert_int_equal(s.n, 2);
    for (uint64_t i = 0; i < 2; i++) {
        const size_t bytes = cache_sums_bytes(&s, i);
        assert_int_equal(bytes, i ? LAST : CACHE_CHUNK);
        cache_sums_set(&s, i, data);
        const base_hash128 right = s.chunk[i];
        for (int bit = 0; bit < 128; bit++) {
            s.chunk[i] = right;
            *(bit < 64 ? &s.chunk[i].lo : &s.chunk[i].hi) ^= UINT64_C(1) << bit % 64;
            assert_false(cache_sums_match(&s, i, data));
        }
        s.chunk[i] = right;
        assert_true(cache_sums_match(&s, i, data));
        data[bytes - 1] ^= 1;
        assert_false(cache_sums_match(&s, i, data));
        data[bytes - 1] ^= 1;
        if (bytes < CACHE_CHUNK) data[bytes] ^= 1; /* behind it */
        assert_true(cache_sums_match(&s, i, data));
    }
    cache_sums_done(&s);
    base_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_these_bytes),
        cmocka_unit_test(other_headers_are_refused),
        cmocka_unit_test(every_byte_is_summed),
        cmocka_unit_test(chunks_match_by_all_of_their_sum),
        cmocka_unit_test(payloads_begin_behind_their_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
