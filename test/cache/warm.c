/* Warm starts and cold ones in processes of their own (this program starts itself): a moved cache serves without
 * compiler and without PATH; without cache and compiler the portable kernels do; cold builds are byte-identical. On a GPU (support/elsewhere.h), whose compiler
 * is NVRTC, what of that its plans and code have a part in. */
#include "support/check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"
#include "support/elsewhere.h"
#include "support/engines.h"
#include "support/stored_cc.h"
#include "support/trees.h"
#include "trace/trace.h"

enum { N_OUT = 12 };
static char self[512], nothing[512]; /* an empty folder */

/* ---- the child: opens, generates, prints counts ---------------------------------------------------------- */

/* argv: child MODEL THREADS DEVICE. One line: traces compiles spawned children level notes own tokens... */
static int child(char **argv) {
    static const int32_t prompt[] = {10, 20, 30, 40, 50};
    const bool on_cpu = strcmp(argv[4], "device=cpu") == 0;
    /* kernels of decode steps are for whole steps that are graphs */
    const char *settings[] = {"level=3",
                              "max_num_seqs=4",
                              "max_num_batched_tokens=32",
                              "max_model_len=64",
                              NULL,
                              argv[4],
                              on_cpu ? NULL : "cudagraph_mode=FULL_AND_PIECEWISE",
                              NULL};
    int32_t out[N_OUT];
    rp_error err = {0};
    char threads[32];
    struct rusage children = {0};
    (void)snprintf(threads, sizeof threads, "threads=%s", argv[3]);
    settings[4] = threads;
    rp_engine *e = engine_with(argv[2], settings, &err);
    if (!e) {
        printf("error %s\n", err.text);
        return 1;
    }
    uint32_t n = engine_greedy(e, prompt, 5, N_OUT, out);
    const rp_config_note *notes;
    size_t n_notes = rp_config_notes(rp_engine_config(e), &notes), portable = 0, cache = 0;
    for (size_t i = 0; i < n_notes; i++) {
        portable += strstr(notes[i].reason, "portable kernels") != NULL;
        cache += strcmp(notes[i].what, "cache") == 0 && notes[i].reason[0];
    }
    char *summary = NULL;
    if (rp_engine_summary(e, &summary, &err) != RP_OK) return 1;
    const bool own = strstr(summary, "\"decode_kernels\":{\"steps\":") != NULL;
    rp_engine_text_free(summary);
    (void)getrusage(RUSAGE_CHILDREN, &children); /* any process waited for has used some pages */
    printf("%d %d %d %d %d %d %d %d", (int)trace_count(), (int)engine_count(e, "compiles"),
           (int)base_spawn_count(), children.ru_minflt > 0, (int)engine_count(e, "level"),
           (int)portable, (int)cache, own);
    for (uint32_t i = 0; i < n; i++) printf(" %d", (int)out[i]);
    printf("\n");
    rp_engine_close(e);
    return n == N_OUT ? 0 : 1;
}

/* ---- the parent ------------------------------------------------------------------------------------------------ */

typedef struct report {
    int traces, compiles, spawned, children, level, portable, cache;
    int own; /* has kernels of its own for decode steps */
    int32_t out[N_OUT];
} report;

typedef struct how {
    const char *model, *threads, *dir;
    bool bare; /* no PATH, no compiler */
} how;

/* "NAME=value" of this process's environment, or NULL. */
static char *kept_of(const char *name) {
    const char *value = getenv(name);
    const size_t n = value ? strlen(name) + strlen(value) + 2 : 0;
    char *text = value ? malloc(n) : NULL; /* until it executes */
    if (text) (void)snprintf(text, n, "%s=%s", name, value);
    return text;
}

/* A GPU's driver and compiler as this process has them: the emulated one lies in front of all libraries. Bare: the driver alone. Returns how many. */
static size_t put_gpu(bool bare, char **env) {
    static char preload[4200], none[600];
    const bool real = getenv("REPRISE_TEST_GPU") != NULL;
    const char *emulated = real ? NULL : getenv("REPRISE_NVRTC");
    char *all[] = {NULL, NULL, kept_of("LD_LIBRARY_PATH"), kept_of("CUDA_VISIBLE_DEVICES")};
    size_t n = 0;
    if (!runs_elsewhere()) return 0;
    (void)snprintf(preload, sizeof preload, "LD_PRELOAD=%s", emulated ? emulated : "");
    (void)snprintf(none, sizeof none, "REPRISE_NVRTC=%s/libnvrtc.so", nothing);
    if (emulated) all[0] = preload;
    all[1] = bare ? none : kept_of("REPRISE_NVRTC");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) env[n++] = all[i];
    return n;
}

static void exec_child(const how *h, const char *out) {
    static char dir[600], tmp[600], none[600];
    (void)snprintf(dir, sizeof dir, "REPRISE_CACHE_DIR=%s", h->dir);
    (void)snprintf(tmp, sizeof tmp, "TMPDIR=%s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    (void)snprintf(none, sizeof none, "PATH=%s", nothing);
    static char path[4200];
    (void)snprintf(path, sizeof path, "PATH=%s", getenv("PATH"));
    char *env[16] = {dir, tmp, h->bare ? none : path};
    size_t n = 3 + put_gpu(h->bare, env + 3);
    char *const usual[] = {kept_of("REPRISE_CC"), kept_of("CC_KEPT")};
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !h->bare; i++)
        if (usual[i]) env[n++] = usual[i];
    char *argv[] = {self,
                    (char[]){"child"},
                    (char *)(uintptr_t)h->model,
                    (char *)(uintptr_t)h->threads,
                    runs_elsewhere() ? (char[]){"device=cuda:0"} : (char[]){"device=cpu"},
                    NULL};
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, 1) < 0) _exit(126);
    (void)execve(self, argv, env);
    _exit(127);
}

static pid_t start_child(const how *h, const char *out) {
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) exec_child(h, out);
    assert_true(pid > 0);
    return pid;
}

static report finish_child(const how *h, pid_t pid, const char *dir, const char *name) {
    char *text, *at;
    size_t size;
    int status = 0;
    report r;
    assert_true(waitpid(pid, &status, 0) == pid);
    text = (char *)tree_read(dir, name, &size);
    text[size] = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("child with %s: status %x: %s", h->model, (unsigned)status, text);
    at = text;
    int *const field[] = {&r.traces, &r.compiles, &r.spawned, &r.children,
                          &r.level,  &r.portable, &r.cache,   &r.own};
    for (size_t i = 0; i < sizeof field / sizeof *field; i++) *field[i] = (int)strtol(at, &at, 10);
    for (int i = 0; i < N_OUT; i++) r.out[i] = (int32_t)strtol(at, &at, 10);
    free(text);
    return r;
}

static report run_child(const how *h) {
    char dir[600], out[640];
    (void)snprintf(dir, sizeof dir, "%s", tree_new("out"));
    (void)snprintf(out, sizeof out, "%s/said", dir);
    return finish_child(h, start_child(h, out), dir, "said");
}

static char cold_dir[640];

static void check_warm(const char *model, bool own) {
    char moved[660];
    (void)snprintf(cold_dir, sizeof cold_dir, "%s", tree_new("cold"));
    report cold = run_child(&(how){model, "1", cold_dir, false});
    assert_int_equal(cold.traces, 2);
    assert_int_equal(cold.own, own);
    assert_true(cold.compiles > 0);
    if (runs_elsewhere()) { /* the compiler is a library */
        assert_int_equal(cold.spawned, 0);
    } else {
        assert_true(cold.spawned > cold.compiles); /* and one asks for the version */
        assert_true(cold.children);
    }
    assert_int_equal(cold.level, 3);
    (void)snprintf(moved, sizeof moved, "%s-moved", cold_dir);
    tree_remove(moved);
    assert_int_equal(rename(cold_dir, moved), 0);
    report warm = run_child(&(how){model, "1", moved, true});
    assert_int_equal(warm.traces, 0);
    assert_int_equal(warm.compiles, 0);
    assert_int_equal(warm.spawned, 0);
    if (!runs_elsewhere()) assert_int_equal(warm.children, 0); /* a driver may have some */
    assert_int_equal(warm.level, 3);
    assert_int_equal(warm.portable, 0);
    assert_int_equal(warm.own, cold.own);
    assert_memory_equal(warm.out, cold.out, sizeof cold.out);
}

static void a_moved_cache_is_warm_without_compiler(void **state) {
    (void)state;
    check_warm("synthetic:tiny", false);
    if (runs_elsewhere()) check_warm("synthetic:tiny-32", true);
}

static void the_same_for_the_real_model(void **state) {
    const char *path = getenv("REPRISE_TEST_MODEL");
    (void)state;
    if (!path) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
    check_warm(path, false);
}

static void no_compiler_and_nothing_cached(void **state) {
    char dir[600];
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("with"));
    report with = run_child(&(how){"synthetic:tiny", "1", dir, false});
    (void)snprintf(dir, sizeof dir, "%s", tree_new("without"));
    report without = run_child(&(how){"synthetic:tiny", "1", dir, true});
    assert_int_equal(without.compiles, 0);
    assert_int_equal(without.spawned, 0);
    assert_int_equal(without.level, 0);
    assert_int_equal(without.portable, 1);
    assert_memory_equal(without.out, with.out, sizeof with.out);
    /* Where the compiler is back, the portable plan does not stand in its way. */
    report again = run_child(&(how){"synthetic:tiny", "1", dir, false});
    assert_int_equal(again.level, 3);
    assert_int_equal(again.portable, 0);
    assert_true(again.compiles > 0);
}

/* A compiler of its own in dir, which calls the one of before as $CC_KEPT. */
static void wrap_cc(const char *dir, const char *script, char *path, size_t size) {
    (void)setenv("CC_KEPT", getenv("REPRISE_CC"), 1);
    tree_write(dir, "cc", script, strlen(script));
    (void)snprintf(path, size, "%s/cc", dir);
    assert_int_equal(chmod(path, 0700), 0);
    (void)setenv("REPRISE_CC", path, 1);
}

static void unwrap_cc(void) {
    (void)setenv("REPRISE_CC", getenv("CC_KEPT"), 1);
    (void)unsetenv("CC_KEPT");
}

/* ---- law 9 ----------------------------------------------------------------------------------------------------- */

static void cold_builds_on_a_gpu_are_identical(void **state) {
    static const char *const models[] = {"synthetic:tiny-32", "synthetic:tiny,layers=5"};
    char a[600], b[600];
    (void)state;
    for (size_t i = 0; i < (getenv("REPRISE_TEST_GPU") ? 2 : 1); i++) {
        (void)snprintf(a, sizeof a, "%s", tree_new("one"));
        report x = run_child(&(how){models[i], "1", a, false});
        (void)snprintf(b, sizeof b, "%s", tree_new("two-of-a-longer-name"));
        report y = run_child(&(how){models[i], "2", b, false});
        assert_true(x.compiles > 0);
        assert_int_equal(x.compiles, y.compiles);
        assert_memory_equal(x.out, y.out, sizeof x.out);
        assert_true(tree_same(a, b) > 5);
    }
}

static void cold_builds_are_identical(void **state) {
    char a[600], b[600];
    (void)state;
    assert_int_equal(unsetenv("REPRISE_CC"), 0); /* the compiler itself, twice */
    (void)snprintf(a, sizeof a, "%s", tree_new("one"));
    report x = run_child(&(how){"synthetic:tiny,layers=5", "1", a, false});
    (void)snprintf(b, sizeof b, "%s", tree_new("two-of-a-longer-name"));
    (void)setenv("TMPDIR", tree_new("tmp-of-another-name"), 1);
    report y = run_child(&(how){"synthetic:tiny,layers=5", "2", b, false});
    assert_int_equal(x.compiles, y.compiles);
    assert_memory_equal(x.out, y.out, sizeof x.out);
    stored_cc_install();
    /* plan, weights, texts, and code with its checksum for three pieces and the head */
    assert_true(tree_same(a, b) >= 2 + 4 * 2 + 2);
}

/* Eight processes fill one folder at the same time: one traces and compiles, the others load, and what is left is whole
 * and the same as from one alone. */
static void cold_starts_at_once(void **state) {
    enum { N = 8 };
    static const char *const names[N] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    int traces = 0, compiles = 0;
    char alone[600], dir[600], out_dir[600], out[640];
    pid_t pid[N];
    (void)state;
    (void)snprintf(alone, sizeof alone, "%s", tree_new("alone"));
    report want = run_child(&(how){"synthetic:tiny", "1", alone, false});
    (void)snprintf(dir, sizeof dir, "%s", tree_new("together"));
    (void)snprintf(out_dir, sizeof out_dir, "%s", tree_new("said"));
    const how h = {"synthetic:tiny", "1", dir, false};
    for (int i = 0; i < N; i++) {
        (void)snprintf(out, sizeof out, "%s/%s", out_dir, names[i]);
        pid[i] = start_child(&h, out);
    }
    for (int i = 0; i < N; i++) {
        report r = finish_child(&h, pid[i], out_dir, names[i]);
        assert_memory_equal(r.out, want.out, sizeof r.out);
        assert_int_equal(r.cache, 0);
        traces += r.traces;
        compiles += r.compiles;
    }
    assert_int_equal(traces, want.traces);
    assert_int_equal(compiles, want.compiles);
    (void)tree_same(alone, dir);
    report warm = run_child(&(how){"synthetic:tiny", "1", dir, true});
    assert_int_equal(warm.traces, 0);
    assert_memory_equal(warm.out, want.out, sizeof warm.out);
}

/* Kills whoever compiles first, once: the others do not wait for the dead. */
static void a_killed_start_holds_nobody_up(void **state) {
    enum { N = 3 };
    static const char killer[] =
        "#!/bin/sh\n"
        "case $1 in --version) exec \"$CC_KEPT\" --version ;; esac\n"
        "who=$PPID\n" /* behind the shells between */
        "while [ \"$(cat /proc/$who/comm)\" = sh ]; do who=$(cut -d' ' -f4 /proc/$who/stat); done\n"
        "mkdir \"${0%/*}/once\" 2>/dev/null && { kill -9 $who; sleep 1; }\n"
        "exec \"$CC_KEPT\" \"$@\"\n";
    char dir[600], out_dir[600], out[640], cc[640];
    pid_t pid[N];
    int killed = 0, traces = 0;
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("alive"));
    report want = run_child(&(how){"synthetic:tiny", "1", dir, false});
    (void)snprintf(out_dir, sizeof out_dir, "%s", tree_new("killed"));
    wrap_cc(out_dir, killer, cc, sizeof cc);
    (void)snprintf(dir, sizeof dir, "%s", tree_new("shared"));
    const how h = {"synthetic:tiny", "1", dir, false};
    for (int i = 0; i < N; i++) {
        (void)snprintf(out, sizeof out, "%s/%c", out_dir, 'a' + i);
        pid[i] = start_child(&h, out);
    }
    for (int i = 0; i < N; i++) {
        siginfo_t info;
        char name[2] = {(char)('a' + i), 0};
        assert_int_equal(waitid(P_PID, (id_t)pid[i], &info, WEXITED | WNOWAIT), 0);
        if (info.si_code == CLD_KILLED) {
            killed++;
            assert_true(waitpid(pid[i], NULL, 0) == pid[i]);
            continue;
        }
        report r = finish_child(&h, pid[i], out_dir, name);
        assert_memory_equal(r.out, want.out, sizeof r.out);
        traces += r.traces;
    }
    assert_int_equal(killed, 1);
    assert_int_equal(traces, want.traces); /* one of the others */
    unwrap_cc();
    tree_no_temporaries(dir);
}

/* Whoever compiles loses the whole folder each time: the start ends well, uncached in the end. */
static void a_folder_that_is_removed_meanwhile(void **state) {
    static const char remover[] = "#!/bin/sh\n"
                                  "case $1 in --version) exec \"$CC_KEPT\" --version ;; esac\n"
                                  "rm -rf \"$REPRISE_CACHE_DIR\"\n"
                                  "exec \"$CC_KEPT\" \"$@\"\n";
    char dir[600], bin[600], cc[640];
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("kept"));
    report want = run_child(&(how){"synthetic:tiny", "1", dir, false});
    (void)snprintf(bin, sizeof bin, "%s", tree_new("remover"));
    wrap_cc(bin, remover, cc, sizeof cc);
    (void)snprintf(dir, sizeof dir, "%s", tree_new("removed"));
    report r = run_child(&(how){"synthetic:tiny", "1", dir, false});
    unwrap_cc();
    assert_memory_equal(r.out, want.out, sizeof r.out);
    assert_int_equal(r.level, 3);
    assert_int_equal(r.cache, 1);
}

/* ---- folders that cannot be used ----------------------------------------------------------------------------------- */

static void check_uncached(const char *dir, const report *want, const char *what) {
    report r = run_child(&(how){"synthetic:tiny", "1", dir, false});
    if (r.cache != 1) fail_msg("%s: %d notes say that the cache is not used", what, r.cache);
    assert_int_equal(r.level, 3);
    assert_true(r.compiles > 0);
    assert_memory_equal(r.out, want->out, sizeof r.out);
}

static void unusable_folders_run_uncached(void **state) {
    char dir[600], path[700];
    report want;
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("usable"));
    want = run_child(&(how){"synthetic:tiny", "1", dir, false});
    assert_int_equal(want.cache, 0);
    /* a file where the folder should be */
    tree_write(dir, "file", "x", 1);
    (void)snprintf(path, sizeof path, "%s/file", dir);
    check_uncached(path, &want, "a file");
    check_uncached("/proc/reprise", &want, "unwritable");
    /* others can write to it */
    (void)snprintf(path, sizeof path, "%s", tree_new("open"));
    assert_int_equal(chmod(path, 0777), 0);
    check_uncached(path, &want, "writable by others");
    tree_list l = tree_files(path);
    assert_int_equal(l.n, 0);
    tree_list_free(&l);
    /* somebody else's */
    if (geteuid() == 0) {
        (void)snprintf(path, sizeof path, "%s", tree_new("foreign"));
        assert_int_equal(chown(path, 4242, 4242), 0);
        check_uncached(path, &want, "foreign");
    }
    if (access("/dev/full", W_OK) == 0) check_uncached("/dev/full", &want, "a device");
}

/* ---- full disk --------------------------------------------------------------------------------------------------- */

/* RLIMIT_FSIZE stops writes as a full disk does; SIGXFSZ is inherited as ignored. */
static void a_full_disk_costs_speed_only(void **state) {
    static const char many[] =
        "synthetic:tiny,layers=64"; /* weights of more bytes than any compiler output */
    char dir[600];
    struct rlimit old, small = {1500000, 1500000};
    (void)state;
    (void)snprintf(dir, sizeof dir, "%s", tree_new("ample"));
    report want = run_child(&(how){many, "1", dir, false});
    (void)snprintf(dir, sizeof dir, "%s", tree_new("full"));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    report r = run_child(&(how){many, "1", dir, false}); /* code fits, weights do not */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_memory_equal(r.out, want.out, sizeof r.out);
    assert_int_equal(r.level, 3);
    tree_no_temporaries(dir);
    report after = run_child(&(how){many, "1", dir, false});
    assert_memory_equal(after.out, want.out, sizeof r.out);
    assert_int_equal(after.cache, 0);
}

static int set_up(void **state) {
    (void)state;
    stored_cc_install();
    (void)snprintf(nothing, sizeof nothing, "%s", tree_new("nothing"));
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 4 && strcmp(argv[1], "child") == 0) return child(argv);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moved_cache_is_warm_without_compiler),
        cmocka_unit_test(the_same_for_the_real_model),
        cmocka_unit_test(no_compiler_and_nothing_cached),
        cmocka_unit_test(cold_builds_are_identical),
        cmocka_unit_test(cold_starts_at_once),
        cmocka_unit_test(a_killed_start_holds_nobody_up),
        cmocka_unit_test(a_folder_that_is_removed_meanwhile),
        cmocka_unit_test(unusable_folders_run_uncached),
        cmocka_unit_test(a_full_disk_costs_speed_only),
    };
    const struct CMUnitTest on_gpu[] = {
        cmocka_unit_test(a_moved_cache_is_warm_without_compiler),
        cmocka_unit_test(cold_builds_on_a_gpu_are_identical),
        cmocka_unit_test(the_same_for_the_real_model), /* from here on, not where it is emulated */
        cmocka_unit_test(cold_starts_at_once),
    };
    if (runs_elsewhere())
        return _cmocka_run_group_tests("warm", on_gpu, getenv("REPRISE_TEST_GPU") ? 4 : 2, set_up,
                                       NULL);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
