/* Streaming text: never half a character, never a part of a stop string. */
#include "support/check.h"

#include "base/alloc.h"
#include "model/detok.h"
#include "model/utf8.h"

#define BAD "\xef\xbf\xbd"

/* Pushes bytes one by one and expects the text after each, then after the flush. */
static void streams(const char *bytes, const char *const *after, const char *end) {
    rp_error err = {0};
    model_tokenizer *t = NULL;
    model_detok d;
    base_buf out = {0};
    CHECK_OK(model_tokenizer_bytes_new(259, &t, &err), &err);
    model_detok_init(&d, t, false);
    for (size_t i = 0; bytes[i]; i++) {
        CHECK_OK(model_detok_push(&d, (uint8_t)bytes[i], &out, &err), &err);
        if (after) assert_string_equal(out.data ? out.data : "", after[i]);
        assert_int_equal(model_utf8_valid(out.data, out.len), out.len);
    }
    for (int i = 0; i < 2; i++) { /* nothing is left for another */
        CHECK_OK(model_detok_flush(&d, &out, &err), &err);
        assert_string_equal(out.data, end);
    }
    model_detok_done(&d);
    model_tokenizer_free(t);
    base_buf_done(&out);
}

static void characters_come_whole(void **state) {
    (void)state;
    streams("a\xe2\x82\xac!", (const char *[]){"a", "a", "a", "a\xe2\x82\xac", "a\xe2\x82\xac!"},
            "a\xe2\x82\xac!");
    streams("\xf0\x9f\x98\x80", (const char *[]){"", "", "", "\xf0\x9f\x98\x80"},
            "\xf0\x9f\x98\x80");
    streams("\xf0\x9f", NULL, BAD);      /* the end comes too early */
    streams("\xf0\x9fz", NULL, BAD "z"); /* one mark for the part that was good */
    streams("\xff\xe2z\x80", NULL, BAD BAD "z" BAD);
    streams("\xe2\xe2\x82\xac", NULL, BAD "\xe2\x82\xac");
    streams("\xed\xa0\x80", NULL, BAD BAD BAD);
}

static void random_bytes_stay_utf8(void **state) {
    (void)state;
    char bytes[65];
    srand(7);
    for (int round = 0; round < 2000; round++) {
        size_t n = 0;
        base_buf want = {0};
        for (; n < 64; n++) {
            static const char some[] = "a\x80\xbf\xc3\xe2\x82\xac\xf0\x9f\x98\xed\xf4";
            bytes[n] = some[(size_t)rand() % (sizeof some - 1)];
        }
        bytes[n] = 0;
        /* the same text decoded at once */
        for (size_t at = 0, len; at < n; at += len) {
            if (model_utf8_step(bytes + at, n - at, &len) == MODEL_UTF8_CHAR)
                base_buf_add(&want, bytes + at, len);
            else
                base_buf_puts(&want, BAD);
        }
        streams(bytes, NULL, want.data);
        base_buf_done(&want);
    }
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    rp_error err = {0};
    model_tokenizer *t = NULL;
    model_detok d;
    base_buf out = {0};
    CHECK_OK(model_tokenizer_bytes_new(300, &t, &err), &err);
    model_detok_init(&d, t, false);
    CHECK_OK(model_detok_push(&d, 0xe2, &out, &err), &err);
    CHECK_OK(model_detok_push(&d, 299, &out, &err), &err);
    uint64_t before = base_alloc_count();
    for (int i = 0; i < 100; i++) {
        base_buf_clear(&out);
        CHECK_OK(model_detok_push(&d, (uint32_t)(i * 3), &out, &err), &err);
    }
    assert_int_equal(base_alloc_count(), before);
    base_buf_clear(&out);
    assert_int_equal(model_detok_push(&d, 300, &out, &err), RP_INVALID);
    model_detok_done(&d);
    model_tokenizer_free(t);
    base_buf_done(&out);
}

/* Pushes text in parts ('/' separates them) and expects what is shown after each part, and which is hit, or NULL. */
static void stops(const char *const *strings, size_t n, const char *parts, const char *shown,
                  const char *hit) {
    rp_error err = {0};
    model_stop s;
    base_buf out = {0};
    CHECK_OK(model_stop_init(&s, strings, n, &err), &err);
    while (*parts) {
        size_t len = strcspn(parts, "/");
        CHECK_OK(model_stop_push(&s, (base_str){parts, len}, &out, &err), &err);
        base_buf_putc(&out, '/');
        parts += len + (parts[len] == '/');
    }
    assert_int_equal(s.hit, hit != NULL);
    if (hit) assert_string_equal(strings[s.which], hit);
    CHECK_OK(model_stop_flush(&s, &out, &err), &err);
    assert_string_equal(out.data, shown);
    model_stop_done(&s);
    base_buf_done(&out);
}

static void stop_strings(void **state) {
    (void)state;
    const char *end[] = {"END", "\n\n"};
    stops(end, 2, "abc", "abc/", NULL);
    stops(end, 2, "ab/E/N/D/xyz",
          "ab////"
          "/",
          "END");
    stops(end, 2, "ab/E/N/X/y", "ab///ENX/y/", NULL);
    stops(end, 2, "a\n/b/\n\nc", "a/\nb//", "\n\n");
    stops(end, 2, "EEND", "E/", "END");
    stops(end, 2, "ab/EN", "ab//EN", NULL); /* the end frees what was held back */
    stops(NULL, 0, "ab/cd", "ab/cd/", NULL);
    /* complete is complete, whatever may have begun before it */
    const char *two[] = {"abcd", "bc"};
    stops(two, 2, "xab/c/d", "x/a//", "bc");
    const char *rep[] = {"aab"};
    stops(rep, 1, "a/a/a/b", "//a//", "aab");
    rp_error err = {0};
    model_stop s;
    CHECK_OK(model_stop_init(&s, two, 2, &err), &err);
    assert_int_equal(s.max_len, 4); /* of the longest, for which room is made */
    model_stop_done(&s);
    const char *empty[] = {"a", ""}, *bad[] = {"\xe2\x82"};
    assert_int_equal(model_stop_init(&s, empty, 2, &err), RP_CONFIG);
    assert_string_equal(err.text, "stop string 2 is empty: leave it out");
    assert_int_equal(model_stop_init(&s, bad, 1, NULL), RP_CONFIG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(random_bytes_stay_utf8),
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(stop_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
