/* Views, the growing buffer, numbers, edit distance, hash and map. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/number.h"
#include "base/status.h"
#include "base/str.h"
#include "support/comma.h"

static void views(void **state) {
    (void)state;
    assert_int_equal(base_str_of(NULL).len, 0);
    assert_true(base_str_eq(base_str_of("abc"), "abc"));
    assert_false(base_str_eq(base_str_of("abc"), "abcd"));
    assert_false(base_str_eq(base_str_of("abcd"), "abc"));
    assert_true(base_str_eq(base_str_of(NULL), ""));
    assert_true(base_str_prefix(base_str_of("abc"), "ab"));
    assert_false(base_str_prefix(base_str_of("a"), "ab"));
}

static void buffer_grows_and_formats(void **state) {
    (void)state;
    size_t before = base_live();
    base_buf b;
    base_buf_init(&b, 0);
    for (int i = 0; i < 1000; i++) base_buf_printf(&b, "%d,", i);
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(b.data), b.len);
    assert_memory_equal(b.data, "0,1,2,3,", 8);
    base_buf_clear(&b);
    base_buf_putc(&b, 'x');
    base_buf_puts(&b, "yz");
    base_buf_add(&b, "\0w", 2);
    assert_int_equal(b.len, 5);
    char *p = base_buf_take(&b);
    assert_memory_equal(p, "xyz\0w", 6);
    assert_null(b.data);
    base_free(p);
    p = base_buf_take(&b); /* an empty text is still a text */
    assert_string_equal(p, "");
    base_free(p);
    base_buf_done(&b);
    assert_int_equal(base_live(), before);
}

static void buffer_has_a_ceiling(void **state) {
    (void)state;
    base_buf b;
    rp_error err = {0};
    base_buf_init(&b, 5);
    base_buf_printf(&b, "%s", "12345");
    assert_false(b.failed);
    base_buf_printf(&b, "%d", 6);
    assert_true(b.failed);
    assert_string_equal(b.data, "12345");
    base_buf_clear(&b);
    base_buf_puts(&b, "1234");
    base_buf_putc(&b, '5');
    base_buf_putc(&b, '6');
    base_buf_putc(&b, '7');
    assert_int_equal(b.len, 5);
    assert_int_equal(base_buf_status(&b, &err), RP_NOMEM);
    assert_string_equal(err.text, "text does not fit in 5 bytes");
    assert_null(base_buf_take(&b));
    base_buf_done(&b);
}

static void buffer_survives_each_failure(void **state) {
    (void)state;
    size_t before = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        base_buf b;
        base_buf_init(&b, 0);
        for (int i = 0; i < 50; i++) base_buf_printf(&b, "line %d\n", i);
        bool failed = b.failed;
        char *p = base_buf_take(&b);
        assert_int_equal(p == NULL, failed);
        base_free(p);
        assert_int_equal(base_live(), before);
    }
}

static void numbers(void **state) {
    (void)state;
    int64_t i = 5;
    double d = 5;
    assert_true(base_parse_i64("-9223372036854775808", &i));
    assert_true(i == INT64_MIN);
    assert_true(base_parse_i64("+9223372036854775807", &i));
    assert_true(i == INT64_MAX);
    const char *const bad[] = {"",
                               "-",
                               "+",
                               " 1",
                               "1 ",
                               "1x",
                               "9223372036854775808",
                               "--1",
                               "0x1",
                               "-9223372036854775809",
                               "1.0",
                               "99999999999999999999999999"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        i = 77;
        assert_false(base_parse_i64(bad[k], &i));
        assert_int_equal(i, 77);
    }
    assert_true(base_parse_f64("-0x1.8p3", &d));
    assert_true(d == -12);
    assert_true(base_parse_f64("1e-3", &d));
    assert_true(d == 1e-3);
    const char *const bad_f[] = {"", " 1", "1 ", "1,5", "nan", "inf", "1e999", "x"};
    for (size_t k = 0; k < sizeof bad_f / sizeof *bad_f; k++)
        assert_false(base_parse_f64(bad_f[k], &d));
}

static void numbers_ignore_the_locale(void **state) {
    (void)state;
    char text[16], *end = NULL;
    double d = 0;
    rp_error err = {0};
    base_buf b;
    base_buf_init(&b, 0);
    comma_begin();
    assert_true(base_parse_f64("1.5", &d));
    assert_true(d == 1.5);
    base_buf_printf(&b, "%.1f", d);
    (void)base_snprintf(text, sizeof text, "%a", d);
    assert_true(base_strtod("2.5;", &end) == 2.5 && *end == ';');
    assert_true(base_strtof("0x1.8p+1f", &end) == 3.0f && *end == 'f');
    (void)rp_fail(&err, RP_INVALID, "p = %g", d);
    double theirs = strtod("1,5", NULL); /* the process has its own again */
    comma_end();
    assert_true(theirs == 1.5);
    assert_string_equal(b.data, "1.5");
    assert_string_equal(text, "0x1.8p+0");
    assert_string_equal(err.text, "p = 1.5");
    base_buf_done(&b);
}

static void distances(void **state) {
    (void)state;
    assert_int_equal(base_str_distance("kitten", "sitting"), 3);
    assert_int_equal(base_str_distance("", "abc"), 3);
    assert_int_equal(base_str_distance("abc", ""), 3);
    assert_int_equal(base_str_distance("abc", "abc"), 0);
    const char *const names[] = {"level", "backend", "cudagraph_mode"};
    assert_string_equal(base_str_nearest("levle", names, 3), "level");
    assert_string_equal(base_str_nearest("cudagraphmode", names, 3), "cudagraph_mode");
    assert_null(base_str_nearest("zzzzzz", names, 3));
    static const char *const alike[] = {"threada", "threadb", "threads", "threadc"};
    assert_string_equal(base_str_nearest("threadx", alike, 4), "threada"); /* the first of equals */
    assert_string_equal(base_str_nearest("threads", alike, 4), "threads");
    char huge[5000];
    memset(huge, 'a', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    assert_null(base_str_nearest(huge, names, 3));
}

static void hashes(void **state) {
    (void)state;
    char hex[33];
    base_hash_hex(base_hash("", 0), hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f"); /* published XXH3-128 of "" */
    assert_true(base_hash(NULL, 0).lo == base_hash("", 0).lo);
    unsigned char data[5000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * i >> 3);
    base_hash128 whole = base_hash(data, sizeof data);
    base_hasher *h = base_hasher_new();
    for (size_t at = 0, step = 1; at < sizeof data; at += step, step = step * 3 % 700 + 1)
        base_hasher_add(h, data + at, step < sizeof data - at ? step : sizeof data - at);
    base_hash128 parts = base_hasher_digest(h);
    assert_true(whole.lo == parts.lo && whole.hi == parts.hi);
    data[4999] ^= 1;
    base_hash128 other = base_hash(data, sizeof data);
    assert_true(other.lo != whole.lo && other.hi != whole.hi);
    base_hasher_free(h);
    base_hasher_free(NULL);
}

static void map_keeps_everything(void **state) {
    (void)state;
    size_t before = base_live();
    base_map *m = base_map_new();
    uint64_t v = 3;
    assert_false(base_map_get(m, "x", 1, &v));
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t key = i * 977;
        CHECK_OK(base_map_put(m, &key, sizeof key, i, NULL), &(rp_error){0});
    }
    CHECK_OK(base_map_put(m, "", 0, 1234, NULL), &(rp_error){0});
    for (uint64_t i = 0; i < 5000; i += 2) {
        uint64_t key = i * 977;
        CHECK_OK(base_map_put(m, &key, sizeof key, i + 1000000, NULL), &(rp_error){0});
    }
    assert_int_equal(base_map_count(m), 5001);
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t key = i * 977;
        assert_true(base_map_get(m, &key, sizeof key, &v));
        assert_int_equal(v, i % 2 ? i : i + 1000000);
    }
    assert_true(base_map_get(m, NULL, 0, &v));
    assert_int_equal(v, 1234);
    assert_false(base_map_get(m, "absent", 6, &v));
    base_map_free(m);
    base_map_free(NULL);
    assert_int_equal(base_live(), before);
}

static void map_survives_each_failure(void **state) {
    (void)state;
    size_t before = base_live();
    FOR_EACH_ALLOC_FAILURE (n) {
        base_map *m = base_map_new();
        rp_error err = {0};
        uint64_t put = 0, v;
        for (uint64_t i = 0; m && i < 100; i++, put++)
            if (base_map_put(m, &i, sizeof i, i, &err) != RP_OK) break;
        if (m && put < 100) assert_int_equal(err.code, RP_NOMEM);
        if (m) assert_int_equal(base_map_count(m), put);
        for (uint64_t i = 0; i < put; i++) assert_true(base_map_get(m, &i, sizeof i, &v) && v == i);
        base_map_free(m);
        assert_int_equal(base_live(), before);
    }
}

/* A message that does not fit ends in dots behind its last whole character, though it has none. */
static void messages_are_cut_between_characters(void **state) {
    (void)state;
    for (size_t start = 470; start < 480; start++) {
        char text[600];
        rp_error err = {0};
        memset(text, 'a', start);
        memset(text + start, 0x80, sizeof text - 1 - start);
        text[start] = '\xf0';
        text[sizeof text - 1] = 0;
        assert_int_equal(rp_fail(&err, RP_INVALID, "%s", text), RP_INVALID);
        size_t whole = start < sizeof err.text - 4 ? start : sizeof err.text - 4;
        assert_int_equal(strlen(err.text), whole + 3);
        assert_string_equal(err.text + whole, "...");
        assert_memory_equal(err.text, text, whole);
    }
    char fits[480], rest[600];
    struct {
        char before[600]; /* as if there were a character */
        rp_error err;
    } e = {{0}, {0}};
    memset(fits, 'a', sizeof fits - 1);
    fits[sizeof fits - 1] = 0;
    (void)rp_fail(&e.err, RP_INVALID, "%s", fits);
    assert_string_equal(e.err.text, fits);
    memset(&e, 0x80, sizeof e);
    memset(rest, 0x80, sizeof rest - 1);
    rest[sizeof rest - 1] = 0;
    e.err.code = RP_OK;
    (void)rp_fail(&e.err, RP_INVALID, "%s", rest);
    assert_string_equal(e.err.text, "...");
}

static void words_differ_in_case_alone(void **state) {
    (void)state;
    assert_true(base_same_word("INDUCTOR", "inductor") && base_same_word("", ""));
    assert_true(base_same_word("az[AZ`", "AZ[az`"));
    assert_false(base_same_word("[", "{") || base_same_word("@", "`") ||
                 base_same_word("a", "ab") || base_same_word("ab", "a"));
    assert_false(base_same_word("\xc4", "\xe4")); /* a letter of Latin-1 is none here */
    assert_true(base_same_start("one, two", "ONE", 3) && base_same_start("a", "B", 0));
    assert_false(base_same_start("one", "on", 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views),
        cmocka_unit_test(buffer_grows_and_formats),
        cmocka_unit_test(buffer_has_a_ceiling),
        cmocka_unit_test(buffer_survives_each_failure),
        cmocka_unit_test(numbers),
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(words_differ_in_case_alone),
        cmocka_unit_test(distances),
        cmocka_unit_test(hashes),
        cmocka_unit_test(messages_are_cut_between_characters),
        cmocka_unit_test(map_keeps_everything),
        cmocka_unit_test(map_survives_each_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
