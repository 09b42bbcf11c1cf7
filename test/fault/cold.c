/* Allocations and system calls of a first start fail in turn, some of each chain of functions that makes them: trace, lower,
 * compile, pack, store, capture, one token. A clean error or a start that did without; nothing leaked, nothing half-written, and
 * what is in the cache is sound.
 *
 * A run must cost milliseconds, so this program stands in for the host compiler: posix_spawn below gives back what
 * the real one made of the same source once, and fsync, whose order another test checks, waits for no disk. */
#include "support/check.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "cache/store.h"
#include "engine/engine.h"
#include "support/callers.h"
#include "support/engines.h"
#include "support/thorough.h"
#include "support/trees.h"

enum { N_OUT = 2 };
#define UNKNOWN "unknown.c"
static const char *const small[] = {"level=3",
                                    "max_num_seqs=2",
                                    "max_num_batched_tokens=8",
                                    "max_model_len=16",
                                    "threads=1",
                                    "cudagraph_mode=FULL_AND_PIECEWISE",
                                    NULL};
static int32_t expected[N_OUT];
static char work[512], full[512];  /* the cache in use, and one with all but the plan */
static char tmp[512], stored[512]; /* TMPDIR, what the compiler made */
static bool recording = true;      /* else code that the compiler has not seen is a failure */

/* ---- the compiler ------------------------------------------------------------------------------------------ */

static int out_fd, code_fd; /* of the next child */

int fsync(int fd) {
    (void)fd;
    return 0;
}

/* The work is done here, so of the actions only the pipes of src/base/spawn.c matter. */
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int new_fd) {
    (void)actions;
    if (new_fd == 1) out_fd = fd;
    if (new_fd == 3) code_fd = fd;
    return 0;
}

static bool run_real(char *const argv[]) {
    int state = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execvp("gcc", argv);
        _exit(127);
    }
    return waitpid(pid, &state, 0) == pid && state == 0;
}

static bool say_version(void) {
    static const char version[] = "gcc that remembers 1.0\n";
    return write(out_fd, version, sizeof version - 1) == sizeof version - 1;
}

/* ... SOURCE -o OBJECT */
static bool compile(char *const argv[]) {
    char name[64], path[600], *slash;
    size_t n = 0, size;
    while (argv[n]) n++;
    slash = strrchr(argv[n - 3], '/');
    *slash = 0;
    uint8_t *source = tree_read(argv[n - 3], slash + 1, &size);
    *slash = '/';
    (void)snprintf(name, sizeof name, "%016llx", (unsigned long long)base_hash64(source, size));
    (void)snprintf(path, sizeof path, "%s/%s", stored, name);
    bool is_new = access(path, R_OK) != 0;
    if (is_new && !recording) tree_write(stored, UNKNOWN, source, size);
    free(source);
    if (is_new && (!recording || !run_real(argv))) return false;
    slash = strrchr(argv[n - 1], '/');
    *slash = 0;
    uint8_t *object = is_new ? tree_read(argv[n - 1], slash + 1, &size)
                             : tree_read(stored, name, &size);
    tree_write(is_new ? stored : argv[n - 1], is_new ? name : slash + 1, object, size);
    *slash = '/';
    free(object);
    return true;
}

/* What the shell's script runs, whose words no quotes are in. */
static void take_words(char *script, char *argv[], size_t most) {
    size_t n = 0;
    char *at = strstr(script, "(exec"), *end = strstr(script, " 2>&4");
    assert_true(at && end);
    for (*end = 0; n + 1 < most && (at = strchr(at, '\'')); at = end + 1) {
        argv[n++] = at + 1;
        end = strchr(at + 1, '\'');
        *end = 0;
    }
    argv[n] = NULL;
}

/* The child only ends: a copy of this process, whose shadow is large under sanitizers, would take most of the time.
 * NOLINTNEXTLINE(readability-function-size): libc's */
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attr, char *const argv[], char *const envp[]) {
    char *words[64], *script = strdup(argv[2]);
    take_words(script, words, sizeof words / sizeof *words);
    bool good = strcmp(words[1], "--version") == 0 ? say_version() : compile(words);
    (void)path, (void)actions, (void)attr, (void)envp;
    free(script);
    assert_int_equal(write(code_fd, good ? "0\n" : "1\n", 2), 2);
    *pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
    if (*pid == 0) _exit(0);
    return *pid > 0 ? 0 : EAGAIN;
}

/* ---- one first start ------------------------------------------------------------------------------------------ */

typedef struct injector {
    const char *what;
    bool (*fail_nth)(uint64_t n);
    void (*watch)(void (*seen)(void));
} injector;
static const injector injectors[] = {{"allocation", base_alloc_fail_nth, base_alloc_watch},
                                     {"system call", base_sys_fail_nth, base_sys_watch}};

static rp_status start_once(rp_error *err) {
    int32_t out[N_OUT];
    rp_request_options r = plain_request(N_OUT);
    rp_result res = RP_RESULT_INIT;
    uint64_t id = 0;
    bool more = true;
    rp_engine *e = engine_with("synthetic:tiny,layers=1", small, err);
    if (!e) return err->code;
    r.n_prompt_ids = 3;
    rp_status st = rp_engine_submit(e, &r, &id, err);
    while (st == RP_OK && more) st = rp_engine_step(e, &more, err);
    if (st == RP_OK) st = rp_engine_result(e, id, &res, err);
    if (st == RP_OK) assert_int_equal(res.n_output_ids, N_OUT);
    if (st == RP_OK) memcpy(out, res.output_ids, sizeof out);
    rp_engine_close(e);
    if (st != RP_OK) return st;
    if (!expected[0]) memcpy(expected, out, sizeof out);
    assert_memory_equal(out, expected, sizeof out);
    return RP_OK;
}

/* ---- what must hold after each -------------------------------------------------------------------------------- */

static rp_status see(void *user, const cache_entry *e, rp_error *err) {
    if (!e->ok) fail_msg("%s: object %s: %s", (const char *)user, e->key, e->reason);
    (void)err;
    return RP_OK;
}

static void check_folders(const char *when) {
    char unknown[600];
    rp_error err = {0};
    cache_store *s = NULL;
    (void)snprintf(unknown, sizeof unknown, "%s/%s", stored, UNKNOWN);
    if (access(unknown, F_OK) == 0) fail_msg("%s: other code than without it", when);
    tree_no_temporaries(work);
    tree_list left = tree_files(tmp);
    if (left.n) fail_msg("%s: left in TMPDIR: %s", when, left.path[0]);
    tree_list_free(&left);
    CHECK_OK(cache_store_open(work, &s, &err), &err);
    CHECK_OK(cache_list(s, true, see, (void *)(uintptr_t)when, &err), &err);
    cache_store_close(s);
}

static void check_status(const char *when, rp_status st, const rp_error *err) {
    if (st == RP_OK) return;
    if (err->code != st || !err->text[0])
        fail_msg("%s: %s without a text", when, rp_status_name(st));
    if (strchr(err->text, '\n')) fail_msg("%s: more than a line: %s", when, err->text);
    if (st == RP_INTERNAL || st == RP_INVALID || st == RP_CONFIG || st == RP_CORRUPT)
        fail_msg("%s: %s: %s", when, rp_status_name(st), err->text);
}

/* Nothing is stored, or code and weights are and the plan is not. */
static void put_cache(bool filled) {
    if (filled)
        tree_copy(full, work);
    else
        tree_remove(work);
}

/* The calls of a start when none fails. The first of a process also looks for old scratch. */
static callers calls_of_a_start(const injector *in, bool filled) {
    rp_error err = {0};
    put_cache(filled);
    CHECK_OK(start_once(&err), &err);
    put_cache(filled);
    callers_watch(in->watch, THOROUGH() ? 7 : filled ? 3 : 4);
    CHECK_OK(start_once(&err), &err);
    return callers_seen(in->watch);
}

/* Threads that meet at other moments make some calls more or fewer. */
#define VARIES 16

/* Whether the nth call failed. */
static bool one_failure_is_clean(const injector *in, bool filled, uint64_t nth, uint64_t all,
                                 bool *tolerated) {
    char when[64];
    rp_error err = {0};
    put_cache(filled);
    size_t live = base_live(), files = tree_open_files();
    (void)snprintf(when, sizeof when, "%s %d of %d", in->what, (int)nth, (int)all);
    (void)in->fail_nth(nth);
    rp_status st = start_once(&err);
    const bool fired = in->fail_nth(0);
    if (!fired && nth + VARIES <= all) fail_msg("%s: did not fail", when);
    if (!fired) CHECK_OK(st, &err);
    check_status(when, st, &err);
    if (base_live() != live) fail_msg("%s: %d leaked", when, (int)(base_live() - live));
    if (tree_open_files() != files) fail_msg("%s: a file stays open", when);
    check_folders(when);
    *tolerated = fired && st == RP_OK;
    return fired;
}

/* Of each chain of functions some calls (support/callers.h). With stored code most are those of a first start, too. */
static void every_failure_is_clean(const injector *in, bool filled) {
    const callers c = calls_of_a_start(in, filled);
    int n_failed = 0, n_tolerated = 0;
    for (size_t i = 0; i < c.n; i++) {
        bool tolerated = false;
        n_failed += one_failure_is_clean(in, filled, c.nth[i], c.all, &tolerated);
        n_tolerated += tolerated;
    }
    printf("%d of %d %ss failed, %d of them not needed\n", n_failed, (int)c.all, in->what,
           n_tolerated);
    callers_done(&c);
}

static void allocations_of_a_first_start(void **state) {
    (void)state;
    every_failure_is_clean(&injectors[0], false);
}

static void system_calls_of_a_first_start(void **state) {
    (void)state;
    every_failure_is_clean(&injectors[1], false);
}

static void allocations_with_stored_code(void **state) {
    (void)state;
    every_failure_is_clean(&injectors[0], true);
}

static void system_calls_with_stored_code(void **state) {
    (void)state;
    every_failure_is_clean(&injectors[1], true);
}

/* A full cache loses its plans. */
static void fill(void) {
    rp_error err = {0};
    CHECK_OK(start_once(&err), &err);
    tree_list l = tree_files(work);
    for (size_t i = 0; i < l.n; i++) {
        char path[1200];
        (void)snprintf(path, sizeof path, "%s/%s", work, l.path[i]);
        if (strncmp(l.path[i], "objects/plan/", 13) == 0) tree_remove(path);
    }
    assert_true(l.n > 0);
    tree_list_free(&l);
    tree_copy(work, full);
    recording = false;
}

static int set_up(void **state) {
    (void)state;
    (void)snprintf(work, sizeof work, "%s", tree_new("cache"));
    (void)snprintf(full, sizeof full, "%s", tree_new("full"));
    (void)snprintf(tmp, sizeof tmp, "%s", tree_new("tmp"));
    (void)snprintf(stored, sizeof stored, "%s", tree_new("stored"));
    if (setenv("REPRISE_CACHE_DIR", work, 1) != 0 || setenv("TMPDIR", tmp, 1) != 0) return -1;
    if (setenv("REPRISE_CC", "/bin/sh", 1) != 0) return -1; /* any program that is there */
    fill();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(system_calls_of_a_first_start),
        cmocka_unit_test(allocations_of_a_first_start),
        cmocka_unit_test(system_calls_with_stored_code),
        cmocka_unit_test(allocations_with_stored_code),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
