/* Child processes, the environment table, clocks. */
#include "support/check.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/temp.h"
#include "support/comma.h"

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

/* What programs say is read here, in one language. */
static void programs_speak_the_language_of_c(void **state) {
    const char *const dirs[] = {NULL, getenv("TMPDIR")};
    rp_error err = {0};
    const char *const argv[] = {"sh", "-c",
                                "echo $LC_ALL $LC_MESSAGES; env | grep -c ^LC_ALL=", NULL};
    (void)state;
    assert_non_null(dirs[1]); /* of this test */
    assert_int_equal(setenv("LC_ALL", "tr_TR.UTF-8", 1) | setenv("LC_MESSAGES", "de", 1), 0);
    for (int i = 0; i < 2; i++) {
        const base_spawn_options o = {.tmpdir = dirs[i]};
        int code = -1;
        base_buf out;
        base_buf_init(&out, 0);
        CHECK_OK(base_spawn_with(argv, &o, &out, &code, &err), &err);
        assert_string_equal(out.data, "C de\n1\n");
        base_buf_done(&out);
    }
    assert_int_equal(unsetenv("LC_ALL") | unsetenv("LC_MESSAGES"), 0);
}

/* Whatever this process ignores or has blocked, as under nohup: a program begins with no such thing, and apart from us, so
 * that Ctrl-C at a terminal reaches it through us alone. */
static void programs_begin_with_all_signals(void **state) {
    static const int numbers[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    enum { N = sizeof numbers / sizeof *numbers };
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before[N];
    sigset_t all, mask;
    rp_error err = {0};
    int code = -1;
    base_buf out;
    (void)state;
    base_buf_init(&out, 0);
    (void)sigfillset(&all);
    for (int i = 0; i < N; i++) assert_int_equal(sigaction(numbers[i], &ignore, &before[i]), 0);
    assert_int_equal(sigprocmask(SIG_BLOCK, &all, &mask), 0);
    const char *const argv[] = {"sh", "-c",
                                "grep -E '^Sig(Blk|Ign)' /proc/$$/status | tr -d '\\t'; "
                                "cut -d ' ' -f 4,5 /proc/$$/stat",
                                NULL};
    rp_status st = base_spawn(argv, &out, &code, &err);
    assert_int_equal(sigprocmask(SIG_SETMASK, &mask, NULL), 0);
    for (int i = 0; i < N; i++) assert_int_equal(sigaction(numbers[i], &before[i], NULL), 0);
    CHECK_OK(st, &err);
    assert_int_equal(code, 0);
    unsigned long long blocked = 1, ignored = 1;
    int group = -1, parent = -2; /* its leader, which tells how it ended */
    assert_int_equal(
        sscanf(out.data, "SigBlk:%llx SigIgn:%llx %d %d", &blocked, &ignored, &parent, &group), 4);
    assert_int_equal(blocked, 0);
    for (int i = 0; i < N; i++) assert_int_equal(ignored >> (numbers[i] - 1) & 1, 0);
    assert_int_equal(group, parent);
    assert_int_not_equal(group, getpgrp());
    base_buf_done(&out);
}

/* Two programs as by a shell's bar: what the first writes is what the second reads, what either says is heard. */
static void a_pair_runs_side_by_side(void **state) {
    static const struct {
        const char *first, *second, *said;
        int code;
        bool is_second;
    } cases[] = {{"echo abc", "tr a-c x-z", "xyz\n", 0, false},
                 {"echo no >&2; exit 3", "cat; exit 4", "no\n", 3, false},
                 {"echo yes", "cat; exit 4", "yes\n", 4, true},
                 {"kill -9 $$", "cat", "", 128 + 9, false},
                 {"exec 2>/dev/null; yes", "exit 5", "", 5, true}, /* nobody reads: SIGPIPE */
                 {"exec 2>/dev/null; yes", "exit 0", "", 128 + 13, false}};
    rp_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const first[] = {"sh", "-c", cases[i].first, NULL};
        const char *const second[] = {"sh", "-c", cases[i].second, NULL};
        bool is_second = !cases[i].is_second;
        const base_spawn_options o = {.into = second, .out_second = &is_second};
        const uint64_t before = base_spawn_count();
        int code = -1;
        base_buf out;
        base_buf_init(&out, 0);
        CHECK_OK(base_spawn_with(first, &o, &out, &code, &err), &err);
        assert_int_equal(code, cases[i].code);
        assert_int_equal(is_second, cases[i].is_second);
        assert_string_equal(out.data ? out.data : "", cases[i].said);
        assert_int_equal(base_spawn_count(), before + 2);
        base_buf_done(&out);
    }
    const char *const first[] = {"cat", NULL}, *const none[] = {"no-such-program", NULL};
    const base_spawn_options o = {.into = none};
    int code = -1;
    assert_int_equal(base_spawn_with(first, &o, NULL, &code, &err), RP_NOT_FOUND);
}

static bool twice(void *user) {
    int *n = user;
    return ++*n < 3;
}

/* Both of a pair are in one group, which ends with it. */
static void a_pair_is_stopped(void **state) {
    const char *const first[] = {"sleep", "60", NULL};
    const char *const second[] = {"sh", "-c", "echo begun; sleep 60; echo never", NULL};
    int code = -1, asked = 0;
    rp_error err = {0};
    base_buf out;
    (void)state;
    base_buf_init(&out, 0);
    const base_spawn_options o = {.into = second, .wanted = twice, .user = &asked};
    assert_int_equal(base_spawn_with(first, &o, &out, &code, &err), RP_CANCELLED);
    assert_null(out.data ? strstr(out.data, "never") : NULL);
    base_buf_done(&out);
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

/* Two numbers from a file that may not be there yet; waits for it. */
static void read_numbers(const char *path, uint64_t *a, uint64_t *b) {
    int n = 0;
    for (int i = 0; i < 1000 && n < 2; i++) {
        FILE *f = fopen(path, "r");
        if (f) {
            n = fscanf(f, "%" SCNu64 " %" SCNu64, a, b);
            (void)fclose(f);
        }
        (void)usleep(10000);
    }
    assert_int_equal(n, 2);
}

/* This process killed, nothing asked: what a guarded program started ends as well. */
static void guarded_ones_end_with_us(void **state) {
    static const char script[] = "sh -c 'echo $$ $(cut -d \" \" -f 22 /proc/$$/stat) >%s.new; "
                                 "mv %s.new %s; sleep 60; sleep 60'; true";
    const char *tmp = getenv("REPRISE_TEST_TMP");
    char path[1024], text[4096];
    base_maker m = base_maker_self();
    int code = -1;
    rp_error err = {0};
    base_buf out;
    (void)state;
    (void)snprintf(path, sizeof path, "%s/guarded", tmp ? tmp : ".");
    (void)snprintf(text, sizeof text, script, path, path, path);
    (void)unlink(path);
    const char *const argv[] = {"sh", "-c", text, NULL};
    const base_spawn_options o = {.guarded = true};
    pid_t pid = fork();
    if (pid == 0) _exit(base_spawn_with(argv, &o, NULL, &code, &err));
    assert_true(pid > 0);
    read_numbers(path, &m.pid, &m.start);
    assert_int_equal(base_maker_fate(&m), BASE_ALIVE);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 1000 && base_maker_fate(&m) != BASE_DEAD; i++) (void)usleep(10000);
    assert_int_equal(base_maker_fate(&m), BASE_DEAD);
    (void)unlink(path);
    /* as long as we live it is as any other, and its end is its own */
    base_buf_init(&out, 0);
    const char *const quick[] = {"sh", "-c", "sleep 0.1; echo one; exit 7", NULL};
    CHECK_OK(base_spawn_with(quick, &o, &out, &code, &err), &err);
    assert_int_equal(code, 7);
    assert_string_equal(out.data, "one\n");
    base_buf_done(&out);
}

/* Neither a closed output nor one without end keeps a program beyond its time; what it keeps of the latter has a ceiling. */
static void late_ones_end_whatever_they_say(void **state) {
    static const char *const scripts[] = {"exec >/dev/null 2>&1; sleep 60",
                                          "timeout --foreground 40 yes spam >&2",
                                          "exec >&- 2>&-; trap '' TERM; sleep 60; sleep 60"};
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        const char *const argv[] = {"sh", "-c", scripts[i], NULL};
        bool late = false;
        const base_spawn_options o = {.limit_ns = INT64_C(200000000), .out_late = &late};
        int64_t t0 = base_now_ns();
        int code = -1;
        rp_error err = {0};
        base_buf out;
        base_buf_init(&out, 10000);
        assert_int_equal(base_spawn_with(argv, &o, &out, &code, &err), RP_CANCELLED);
        assert_true(late);
        assert_true(base_now_ns() - t0 < 30 * INT64_C(1000000000));
        assert_true(out.len <= 10000);
        base_buf_done(&out);
    }
}

/* A program ends when it has ended, not what it leaves behind. */
static void who_is_left_behind_is_not_waited_for(void **state) {
    const char *const argv[] = {"sh", "-c", "sleep 40 & echo $!; exit 3", NULL};
    int64_t t0 = base_now_ns();
    int code = -1;
    rp_error err = {0};
    base_buf out;
    (void)state;
    base_buf_init(&out, 0);
    CHECK_OK(base_spawn(argv, &out, &code, &err), &err);
    assert_int_equal(code, 3);
    assert_true(base_now_ns() - t0 < 30 * INT64_C(1000000000));
    assert_int_equal(kill((pid_t)strtol(out.data, NULL, 10), SIGKILL), 0);
    base_buf_done(&out);
}

/* A process that is stopped, as by Ctrl-Z, past the deadline of a program that has ended in time. */
static void who_was_stopped_finds_what_has_ended(void **state) {
    const char *const argv[] = {"sleep", "0.2", NULL};
    int status = -1;
    (void)state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool late = false;
        const base_spawn_options o = {.limit_ns = 2 * INT64_C(1000000000), .out_late = &late};
        int code = -1;
        rp_error err = {0};
        _exit(base_spawn_with(argv, &o, NULL, &code, &err) == RP_OK && code == 0 ? 0 : 1);
    }
    (void)usleep(100000);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    (void)usleep(2500000);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void reap_all(int number) {
    const int before = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    errno = before;
}

/* Servers ignore SIGCHLD, or reap whatever child there is: how a program ended is known all the same. */
static void codes_are_known_whoever_reaps(void **state) {
    struct sigaction before;
    const struct sigaction how[] = {{.sa_handler = SIG_IGN},
                                    {.sa_handler = reap_all},
                                    {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT}};
    const char *const first[] = {"sh", "-c", "echo a; sleep 0.05; exit 3", NULL};
    const char *const second[] = {"sh", "-c", "cat; exit 4", NULL};
    const char *const slow[] = {"sleep", "60", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        rp_status st[4];
        int code[3] = {-1, -1, -1}, asked = 0;
        rp_error err = {0};
        base_buf out;
        base_buf_init(&out, 0);
        assert_int_equal(sigaction(SIGCHLD, &how[i], &before), 0);
        st[0] = base_spawn(first, &out, &code[0], &err);
        st[1] = base_spawn_with(first, &(base_spawn_options){.into = second}, &out, &code[1], &err);
        st[2] =
            base_spawn_with(second, &(base_spawn_options){.guarded = true}, &out, &code[2], &err);
        st[3] = base_spawn_while(slow, twice, &asked, NULL, &(int){0}, &(rp_error){0});
        assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
        for (int k = 0; k < 3; k++) CHECK_OK(st[k], &err);
        assert_int_equal(st[3], RP_CANCELLED);
        assert_int_equal(code[0], 3);
        assert_int_equal(code[1], 3);
        assert_int_equal(code[2], 4);
        assert_string_equal(out.data, "a\na\n");
        base_buf_done(&out);
    }
}

/* Whatever words a program is given, they are its words. */
static void words_arrive_as_they_are(void **state) {
    static const char *const words[] = {"printf", "%s|", "it's", "$HOME `x` \\", "", "a\nb",
                                        "''",     "*",   NULL};
    int code = -1;
    rp_error err = {0};
    base_buf out;
    (void)state;
    base_buf_init(&out, 0);
    CHECK_OK(base_spawn(words, &out, &code, &err), &err);
    assert_int_equal(code, 0);
    assert_string_equal(out.data, "it's|$HOME `x` \\||a\nb|''|*|");
    base_buf_done(&out);
}

/* With descriptors as low as there are. */
static void runs_without_a_standard_stream(void **state) {
    const char *const argv[] = {"sh", "-c", "echo one; echo two >&2; cat; exit 7", NULL};
    (void)state;
    for (int first = 0; first < 6; first++) {
        pid_t pid = fork();
        if (pid == 0) {
            int code = -1;
            rp_error err = {0};
            base_buf out;
            base_buf_init(&out, 0);
            for (int fd = first; fd < 10; fd++) (void)close(fd);
            rp_status st = base_spawn(argv, &out, &code, &err);
            _exit(st == RP_OK && code == 7 && strcmp(out.data, "one\ntwo\n") == 0 ? 0 : 1);
        }
        int ended = -1;
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &ended, 0), pid);
        if (ended != 0) fail_msg("with free descriptors from %d", first);
    }
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

static void programs_run_without_an_environment(void **state) {
    (void)state;
    rp_error err = {0};
    int code = -1;
    char **kept = environ;
    const char *const argv[] = {"/bin/sh", "-c", "exit 7", NULL};
    environ = NULL; /* as clearenv leaves it */
    rp_status st = base_spawn(argv, NULL, &code, &err);
    environ = kept;
    CHECK_OK(st, &err);
    assert_int_equal(code, 7);
}

static void survives_each_failure(void **state) {
    (void)state;
    size_t live = base_live();
    int n_failed = 0;
    const char *const argv[] = {"echo", "hi", NULL};
    for (int kind = 0; kind < 4; kind++) {
        const base_spawn_options o = {.guarded = kind >= 2};
        for (uint64_t n = 1, more = 1; more; n++) {
            int code = -1;
            rp_error err = {0};
            base_buf out;
            base_buf_init(&out, 0);
            (void)(kind % 2 ? base_sys_fail_nth(n) : base_alloc_fail_nth(n));
            rp_status st = base_spawn_with(argv, &o, &out, &code, &err);
            more = kind % 2 ? base_sys_fail_nth(0) : base_alloc_fail_nth(0);
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

static void try_value(const char *name, const char *value, bool accepted) {
    rp_error err = {0};
    (void)setenv(name, value, 1);
    rp_status st = base_env_check(&err);
    (void)unsetenv(name);
    if ((st == RP_OK) != accepted) fail_msg("%s=%s: '%s'", name, value, err.text);
    if (accepted) return;
    assert_int_equal(st, RP_CONFIG);
    if (!strstr(err.text, name) || !strstr(err.text, value)) fail_msg("%s", err.text);
}

/* The same of those that take seconds. */
static void accepted_seconds(void **state) {
    static const char *const good[] = {"0", "0.5", "20", "1e6"};
    static const char *const bad[] = {"soon", "-1", "1e7", "3s", "nan", " "};
    size_t n = 0, found = 0;
    int64_t ns = 0;
    const base_env_info *t = base_env_table(&n);
    (void)state;
    comma_begin(); /* of which the texts of the environment know nothing */
    for (size_t i = 0; i < n; i++) {
        if (strcmp(t[i].accepted, "seconds") != 0) continue;
        for (size_t j = 0; j < sizeof good / sizeof *good; j++) try_value(t[i].name, good[j], true);
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) try_value(t[i].name, bad[j], false);
        CHECK_OK(base_env_seconds((base_env_id)i, &ns, NULL), &(rp_error){0});
        assert_true(ns == (int64_t)atof(t[i].deflt) * 1000000000);
        found++;
    }
    comma_end();
    assert_true(found > 0);
}

/* Of each variable that takes words: those, in any case, and neither a part of one nor more than one. */
static void accepted_words(void **state) {
    (void)state;
    size_t n = 0;
    const base_env_info *t = base_env_table(&n);
    for (size_t i = 0; i < n; i++) {
        char words[128], other[64], *rest = NULL;
        if (!strchr(t[i].accepted, ',')) continue;
        (void)snprintf(words, sizeof words, "%s", t[i].accepted);
        try_value(t[i].name, t[i].accepted, false);
        try_value(t[i].name, ",", false);
        for (char *w = strtok_r(words, ", ", &rest); w; w = strtok_r(NULL, ", ", &rest)) {
            try_value(t[i].name, w, true);
            (void)snprintf(other, sizeof other, "%sx", w);
            try_value(t[i].name, other, false);
            other[strlen(w) - 1] = 0;
            if (*other) try_value(t[i].name, other, false);
            for (char *c = w; *c; c++)
                if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
            try_value(t[i].name, w, true);
        }
    }
}

/* Folders in their order; an empty one is where we are, as for a shell. */
static void programs_are_found_along_the_path(void **state) {
    (void)state;
    static const struct {
        const char *path, *found;
    } cases[] = {{"a:b", "a/tool"},  {"b:a", "b/tool"},     {"none:b", "b/tool"},
                 {":b", "./tool"},   {"none::b", "./tool"}, {"none:", "./tool"},
                 {"none", NULL},     {"dir:a", "a/tool"},   {"plain:b", "b/tool"},
                 {"a/:b", "a//tool"}};
    char *path = base_strdup(getenv("PATH")), *here = base_strdup(getenv("REPRISE_TEST_TMP"));
    rp_error err = {0};
    char back[512];
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir(here), 0);
    CHECK_OK(base_dir_make("dir/tool", &err), &err);
    static const char *const files[] = {"a/tool", "b/tool", "plain/tool", "tool"};
    for (int i = 0; i < 4; i++) {
        char dir[16];
        (void)snprintf(dir, sizeof dir, "%.*s", (int)strcspn(files[i], "/"), files[i]);
        if (strchr(files[i], '/')) CHECK_OK(base_dir_make(dir, &err), &err);
        CHECK_OK(base_file_write_atomic(files[i], "#!/bin/sh\n", 10, &err), &err);
        assert_int_equal(chmod(files[i], i == 2 ? 0644 : 0755), 0);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)setenv("PATH", cases[i].path, 1);
        char *found = base_find_program("tool");
        if ((found == NULL) != (cases[i].found == NULL) ||
            (found && strcmp(found, cases[i].found) != 0))
            fail_msg("PATH=%s: %s", cases[i].path, found ? found : "nothing");
        base_free(found);
    }
    (void)setenv("PATH", path, 1);
    assert_int_equal(chdir(back), 0);
    base_free(path);
    base_free(here);
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
    /* In the units of the other counter that the kernel keeps, up to what it adds late. */
    struct rusage use;
    assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
    assert_in_range(base_peak_rss(), ((uint64_t)use.ru_maxrss << 10) - (1 << 20),
                    ((uint64_t)use.ru_maxrss << 10) + (1 << 20));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_captures),
        cmocka_unit_test(programs_speak_the_language_of_c),
        cmocka_unit_test(a_pair_runs_side_by_side),
        cmocka_unit_test(a_pair_is_stopped),
        cmocka_unit_test(programs_begin_with_all_signals),
        cmocka_unit_test(stops_when_not_wanted),
        cmocka_unit_test(guarded_ones_end_with_us),
        cmocka_unit_test(late_ones_end_whatever_they_say),
        cmocka_unit_test(who_is_left_behind_is_not_waited_for),
        cmocka_unit_test(who_was_stopped_finds_what_has_ended),
        cmocka_unit_test(codes_are_known_whoever_reaps),
        cmocka_unit_test(words_arrive_as_they_are),
        cmocka_unit_test(runs_without_a_standard_stream),
        cmocka_unit_test(all_can_be_killed),
        cmocka_unit_test(large_output_meets_the_ceiling),
        cmocka_unit_test(nothing_starts_without_path),
        cmocka_unit_test(programs_run_without_an_environment),
        cmocka_unit_test(survives_each_failure),
        cmocka_unit_test(environment_table),
        cmocka_unit_test(accepted_words),
        cmocka_unit_test(accepted_seconds),
        cmocka_unit_test(programs_are_found_along_the_path),
        cmocka_unit_test(clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
