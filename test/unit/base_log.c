/* Status texts, error records, levels and channels of the log. */
#include "support/check.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"

static char seen[4096];
static int n_seen, n_inside, worst_inside;

static void note(void *user, rp_log_level level, const char *text) {
    (void)user;
    if (++n_inside > worst_inside) worst_inside = n_inside;
    size_t n = strlen(seen);
    if (n + strlen(text) + 8 < sizeof seen)
        (void)snprintf(seen + n, sizeof seen - n, "%d:%s|", (int)level, text);
    n_seen++;
    n_inside--;
}

static int reset(void **state) {
    (void)state;
    seen[0] = 0;
    n_seen = 0;
    rp_log_set_callback(note, NULL);
    rp_log_set_level(RP_LOG_INFO);
    return rp_log_set_channels(NULL, NULL) == RP_OK ? 0 : -1;
}

static void status_names(void **state) {
    (void)state;
    for (int i = 0; i < RP_STATUS_COUNT_; i++) {
        assert_string_not_equal(rp_status_name((rp_status)i), "unknown");
        for (int k = 0; k < i; k++)
            assert_string_not_equal(rp_status_name((rp_status)i), rp_status_name((rp_status)k));
    }
    assert_string_equal(rp_status_name((rp_status)99), "unknown");
    assert_string_equal(rp_status_name((rp_status)-1), "unknown");
    assert_int_equal(rp_status_exit_code(RP_OK), 0);
    assert_int_equal(rp_status_exit_code(RP_CONFIG), 2);
    assert_int_equal(rp_status_exit_code(RP_UNSUPPORTED), 3);
    assert_int_equal(rp_status_exit_code(RP_INVALID), 1);
}

static rp_status fail_twice(rp_error *err) {
    (void)rp_fail(err, RP_IO, "first %d\nof two lines", 1);
    return rp_fail(err, RP_NOMEM, "second");
}

static rp_status tries(rp_error *err) {
    RP_TRY(RP_OK);
    RP_TRY(fail_twice(err));
    return RP_OK;
}

static void first_failure_wins(void **state) {
    (void)state;
    rp_error err = {0};
    assert_int_equal(tries(&err), RP_NOMEM);
    assert_int_equal(err.code, RP_IO);
    assert_string_equal(err.text, "first 1 of two lines");
    assert_non_null(strstr(err.file, "base_log.c"));
    assert_true(err.line > 0);
    assert_int_equal(tries(NULL), RP_NOMEM);
}

static void long_texts_end_in_dots(void **state) {
    (void)state;
    rp_error err = {0};
    char text[2001];
    for (size_t i = 0; i < 2000; i += 2) memcpy(text + i, "\xc3\xa9", 3); /* two bytes each */
    for (size_t shift = 0; shift < 2; shift++) {
        err = (rp_error){0};
        (void)rp_fail(&err, RP_INVALID, "%s%s", shift ? "x" : "", text);
        size_t n = strlen(err.text);
        assert_in_range(n, sizeof err.text - 4, sizeof err.text - 1);
        assert_string_equal(err.text + n - 3, "...");
        assert_int_equal((unsigned char)err.text[n - 4], 0xa9); /* no half character */
    }
}

static void levels(void **state) {
    (void)state;
    base_log(RP_LOG_INFO, "a %d", 1);
    base_log(RP_LOG_DEBUG, "hidden");
    rp_log_set_level(RP_LOG_ERROR);
    base_log(RP_LOG_WARNING, "hidden");
    base_log(RP_LOG_ERROR, "two\nlines\n");
    assert_string_equal(seen, "2:a 1|0:two|0:lines|");
    rp_log_set_callback(NULL, NULL);
    base_log(RP_LOG_ERROR, "nobody listens");
    assert_int_equal(n_seen, 3);
}

static void channels(void **state) {
    (void)state;
    rp_error err = {0};
    CHECK_OK(rp_log_set_channels("recompiles, +fusion", &err), &err);
    assert_true(base_log_on(RP_LOG_CH_RECOMPILES, false));
    assert_false(base_log_on(RP_LOG_CH_RECOMPILES, true));
    assert_true(base_log_on(RP_LOG_CH_FUSION, true));
    assert_false(base_log_on(RP_LOG_CH_CACHE, false));
    base_log_ch(RP_LOG_CH_RECOMPILES, false, "x\ny");
    base_log_ch(RP_LOG_CH_RECOMPILES, true, "hidden");
    base_log_ch(RP_LOG_CH_FUSION, true, "z");
    base_log_ch(RP_LOG_CH_CACHE, false, "hidden");
    assert_string_equal(seen, "2:[recompiles] x|2:[recompiles] y|3:[fusion] z|");
    assert_int_equal(rp_log_set_channels("recompile", &err), RP_CONFIG);
    assert_string_equal(err.text, "unknown log name 'recompile'; did you mean recompiles");
    assert_true(base_log_on(RP_LOG_CH_FUSION, true)); /* a bad spec changes nothing */
    err = (rp_error){0};
    CHECK_OK(rp_log_set_channels("+all", &err), &err);
    for (int ch = 0; ch < RP_LOG_CH_COUNT_; ch++)
        assert_int_equal(
            base_log_on((rp_log_channel)ch, true) && base_log_on((rp_log_channel)ch, false),
            ch != RP_LOG_CH_BYTECODE); /* which is long, and named by those who want it */
    CHECK_OK(rp_log_set_channels("all,bytecode", &err), &err);
    for (int ch = 0; ch < RP_LOG_CH_COUNT_; ch++)
        assert_true(base_log_on((rp_log_channel)ch, false));
    CHECK_OK(rp_log_set_channels("", &err), &err);
    for (int ch = 0; ch < RP_LOG_CH_COUNT_; ch++)
        assert_false(base_log_on((rp_log_channel)ch, true) ||
                     base_log_on((rp_log_channel)ch, false));
}

static void survives_each_failure(void **state) {
    (void)state;
    size_t live = base_live();
    CHECK_OK(rp_log_set_channels("cache", NULL), &(rp_error){0});
    FOR_EACH_ALLOC_FAILURE (n) {
        n_seen = 0;
        base_log_ch(RP_LOG_CH_CACHE, false, "key %s", "k");
        assert_int_equal(n_seen, 1); /* the line or word of its loss */
        assert_int_equal(base_live(), live);
    }
}

static void *chatter(void *arg) {
    for (int i = 0; i < 500; i++) base_log(RP_LOG_INFO, "%s %d", (const char *)arg, i);
    return NULL;
}

static void one_call_at_a_time(void **state) {
    (void)state;
    pthread_t t[3];
    char name[] = "thread";
    worst_inside = 0;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, chatter, name), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(t[i], NULL), 0);
    assert_int_equal(n_seen, 1500);
    assert_int_equal(worst_inside, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names),
        cmocka_unit_test(first_failure_wins),
        cmocka_unit_test(long_texts_end_in_dots),
        cmocka_unit_test_setup(levels, reset),
        cmocka_unit_test_setup(channels, reset),
        cmocka_unit_test_setup(survives_each_failure, reset),
        cmocka_unit_test_setup(one_call_at_a_time, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
