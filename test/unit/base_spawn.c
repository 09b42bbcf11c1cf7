/* Child processes, the environment table, clocks. */
#include "support/check.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/file.h"
#include "base/spawn.h"

static void runs_and_captures(void **state) {
    (void)state;
    rp_error err = {0};
    int code = -1;
    base_buf out;
    base_buf_init(&out, 0);
    uint64_t before = base_spawn_count();
    const char *const argv[] = {"sh", "-c", "echo one; echo two >&2; cat; exit 7", NULL};
    CHECK_OK(base_spawn(argv, &out, &code, &err), &err);
    assert_int_equal(code, 7);
    assert_string_equal(out.data, "one\ntwo\n");
    const char *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
    CHECK_OK(base_spawn(killed, NULL, &code, &err), &err);
    assert_int_equal(code, 128 + 9);
    assert_int_equal(base_spawn_count(), before + 2);
    base_buf_done(&out);
}

static bool twice(void *user) {
    int *n = user;
    return ++*n < 3;
}

/* What the program started ends with it, also what does not listen. */
static void stops_when_not_wanted(void **state) {
    (void)state;
    rp_error err = {0};
    int code = -1, asked = 0;
    int64_t t0 = base_now_ns();
    base_buf out;
    base_buf_init(&out, 0);
    const char *const argv[] = {"sh", "-c", "echo begun; sleep 60 & sleep 60; echo never", NULL};
    assert_int_equal(base_spawn_while(argv, twice, &asked, &out, &code, &err), RP_CANCELLED);
    assert_non_null(strstr(err.text, "sh' was stopped"));
    assert_int_equal(asked, 3);
    assert_string_equal(out.data, "begun\n");
    const char *const deaf[] = {"sh", "-c", "trap '' TERM; sleep 60; sleep 60", NULL};
    err = (rp_error){0};
    assert_int_equal(base_spawn_while(deaf, twice, &asked, NULL, &code, &err), RP_CANCELLED);
    assert_true(base_now_ns() - t0 < 40 * INT64_C(1000000000));
    const char *const quick[] = {"sh", "-c", "exit 3", NULL};
    asked = -100;
    err = (rp_error){0};
    CHECK_OK(base_spawn_while(quick, twice, &asked, NULL, &code, &err), &err);
    assert_int_equal(code, 3);
    base_buf_done(&out);
}

static bool kill_all(void *user) {
    (void)user;
    base_spawn_kill_all();
    return true;
}

/* As in a signal handler, from which this process would not come back: what runs ends, deaf or not, children too. */
static void all_can_be_killed(void **state) {
    (void)state;
    rp_error err = {0};
    int code = -1;
    int64_t t0 = base_now_ns();
    base_spawn_kill_all(); /* nothing runs */
    const char *const argv[] = {"sh", "-c", "trap '' TERM INT; sleep 60 & sleep 60", NULL};
    CHECK_OK(base_spawn_while(argv, kill_all, NULL, NULL, &code, &err), &err);
    assert_int_equal(code, 128 + 9);
    assert_true(base_now_ns() - t0 < 40 * INT64_C(1000000000));
}

static void large_output_meets_the_ceiling(void **state) {
    (void)state;
    rp_error err = {0};
    int code = -1;
    base_buf out;
    base_buf_init(&out, 1000);
    const char *const argv[] = {"head", "-c", "300000", "/dev/zero", NULL};
    CHECK_OK(base_spawn(argv, &out, &code, &err), &err);
    assert_int_equal(code, 0);
    assert_true(out.failed);
    base_buf_done(&out);
}

static void nothing_starts_without_path(void **state) {
    (void)state;
    rp_error err = {0};
    int code = -1;
    char *path = base_strdup(getenv("PATH"));
    uint64_t before = base_spawn_count();
    const char *const argv[] = {"sh", "-c", "true", NULL};
    (void)unsetenv("PATH");
    rp_status st = base_spawn(argv, NULL, &code, &err);
    (void)setenv("PATH", path, 1);
    assert_int_equal(st, RP_NOT_FOUND);
    assert_string_equal(err.text, "no program 'sh' in PATH");
    assert_int_equal(base_spawn_count(), before);
    assert_null(base_find_program("no-such-program-here"));
    assert_null(base_find_program("/etc/passwd"));
    assert_null(base_find_program(""));
    char *sh = base_find_program("sh");
    assert_non_null(sh);
    base_free(sh);
    base_free(path);
}

static void survives_each_failure(void **state) {
    (void)state;
    size_t live = base_live();
    int n_failed = 0;
    const char *const argv[] = {"echo", "hi", NULL};
    for (int kind = 0; kind < 2; kind++) {
        for (uint64_t n = 1, more = 1; more; n++) {
            int code = -1;
            rp_error err = {0};
            base_buf out;
            base_buf_init(&out, 0);
            (void)(kind ? base_sys_fail_nth(n) : base_alloc_fail_nth(n));
            rp_status st = base_spawn(argv, &out, &code, &err);
            more = kind ? base_sys_fail_nth(0) : base_alloc_fail_nth(0);
            assert_int_equal(st == RP_OK, code == 0);
            assert_int_equal(st == RP_OK, err.text[0] == 0);
            n_failed += st != RP_OK || out.failed;
            if (st == RP_OK && !out.failed) assert_string_equal(out.data, "hi\n");
            base_buf_done(&out);
            assert_int_equal(base_live(), live);
        }
    }
    assert_true(n_failed >= 4);
}

static void environment_table(void **state) {
    (void)state;
    size_t n = 0;
    const base_env_info *t = base_env_table(&n);
    assert_int_equal(n, BASE_ENV_COUNT_);
    for (size_t i = 0; i < n; i++) {
        assert_true(t[i].name[0] && t[i].help[0]);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(t[i].name, t[k].name);
    }
    (void)setenv("REPRISE_ISA", "avx2", 1);
    assert_string_equal(base_env_get(BASE_ENV_ISA), "avx2");
    (void)setenv("REPRISE_ISA", "", 1);
    assert_null(base_env_get(BASE_ENV_ISA));
    (void)unsetenv("REPRISE_ISA");
    assert_null(base_env_get(BASE_ENV_ISA));
}

static void clocks(void **state) {
    (void)state;
    int64_t a = base_now_ns(), age = base_process_age_ns();
    (void)usleep(20000);
    int64_t passed = base_now_ns() - a, older = base_process_age_ns() - age;
    assert_true(passed >= 20000000 && passed < 5000000000);
    assert_true(older >= 20000000 && older < 5000000000);
    assert_true(age >= 0 && age < INT64_C(600000000000)); /* this program runs for seconds */
    uint64_t before = base_peak_rss();
    char *p = base_alloc(64 << 20);
    memset(p, 1, 64 << 20);
    assert_in_range(base_peak_rss() - before, 40 << 20, 200 << 20);
    base_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_captures),
        cmocka_unit_test(stops_when_not_wanted),
        cmocka_unit_test(all_can_be_killed),
        cmocka_unit_test(large_output_meets_the_ceiling),
        cmocka_unit_test(nothing_starts_without_path),
        cmocka_unit_test(survives_each_failure),
        cmocka_unit_test(environment_table),
        cmocka_unit_test(clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
