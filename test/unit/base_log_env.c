/* REPRISE_LOGS in programs that set no callback. The log is decided once a process, so each case has its own. */
#include "support/check.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"

static char printed[1024], heard[256];

static void hear(void *user, rp_log_level level, const char *text) {
    (void)user, (void)level;
    (void)strncat(heard, text, sizeof heard - strlen(heard) - 1);
}

static void speak(void) {
    base_log(RP_LOG_INFO, "info");
    base_log_ch(RP_LOG_CH_CACHE, false, "a key\nand more");
    base_log_ch(RP_LOG_CH_CACHE, true, "details");
    base_log_ch(RP_LOG_CH_FUSION, false, "groups");
    base_log(RP_LOG_WARNING, "a warning");
}

static void with_callback(void) {
    rp_log_set_callback(hear, NULL);
    speak();
    if (strcmp(heard, "info[cache] a key[cache] and morea warning") != 0) _exit(3);
}

static void with_null(void) {
    rp_log_set_callback(NULL, NULL);
    speak();
}

static void with_level(void) {
    rp_log_set_level(RP_LOG_INFO);
    speak();
}

static void with_channels(void) {
    if (rp_log_set_channels("fusion", NULL) != RP_OK) _exit(4);
    speak();
}

static void later_callback(void) {
    base_log(RP_LOG_ERROR, "early");
    rp_log_set_callback(hear, NULL);
    speak();
    if (!strstr(heard, "[cache] a key")) _exit(5);
}

/* What standard error gets from a process with this REPRISE_LOGS. */
static const char *stderr_of(const char *logs, void (*program)(void)) {
    int ends[2], status = 0;
    size_t n = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (logs ? setenv("REPRISE_LOGS", logs, 1) : unsetenv("REPRISE_LOGS")) _exit(9);
        if (dup2(ends[1], 2) < 0) _exit(9);
        program();
        _exit(0);
    }
    (void)close(ends[1]);
    while (n < sizeof printed - 1 && (got = read(ends[0], printed + n, sizeof printed - 1 - n)) > 0)
        n += (size_t)got;
    printed[n] = 0;
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return printed;
}

static void silent_without_it(void **state) {
    (void)state;
    assert_string_equal(stderr_of(NULL, speak), "");
    assert_string_equal(stderr_of("", speak), "");
    assert_string_equal(stderr_of(NULL, with_level), "");
    assert_string_equal(stderr_of(NULL, with_channels), "");
}

static void asked_for(void **state) {
    (void)state;
    assert_string_equal(stderr_of("cache", speak),
                        "[cache] a key\n[cache] and more\nreprise: warning: a warning\n");
    assert_string_equal(
        stderr_of("+cache", speak),
        "[cache] a key\n[cache] and more\n[cache] details\nreprise: warning: a warning\n");
    assert_string_equal(stderr_of("cash", speak),
                        "reprise: warning: REPRISE_LOGS is ignored: unknown log name 'cash'; did "
                        "you mean cache\nreprise: warning: a warning\n");
}

static void the_program_decides(void **state) {
    (void)state;
    assert_string_equal(stderr_of("cache", with_callback), "");
    assert_string_equal(stderr_of("cache", with_null), "");
    assert_string_equal(stderr_of("cache", later_callback), "reprise: error: early\n");
    assert_non_null(strstr(stderr_of("cache", with_level), "info\n[cache] a key\n"));
    assert_string_equal(stderr_of("cache", with_channels),
                        "[fusion] groups\nreprise: warning: a warning\n");
}

static void note(void *user, base_str name, const char *near) {
    base_buf_printf(user, "%.*s: %s\n", (int)name.len, name.ptr, near ? near : "nothing");
}

/* Names that are nobody's are told with the whole name that is near. */
static void strangers_have_a_nearest_name(void **state) {
    char logs[] = "REPRISE_LOGZ=1", far[] = "REPRISE_ZZZZZZZZZZZZ=1", test[] = "REPRISE_TEST_X=1",
         own[] = "REPRISE_LOGS=", other[] = "LOGS=1", *all[] = {logs, far, test, own, other, NULL};
    char **was = environ;
    base_buf b;
    (void)state;
    base_buf_init(&b, 0);
    environ = all;
    base_env_strangers(note, &b);
    environ = was;
    assert_string_equal(b.data, "REPRISE_LOGZ: REPRISE_LOGS\nREPRISE_ZZZZZZZZZZZZ: nothing\n");
    base_buf_done(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_without_it),
        cmocka_unit_test(asked_for),
        cmocka_unit_test(the_program_decides),
        cmocka_unit_test(strangers_have_a_nearest_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
