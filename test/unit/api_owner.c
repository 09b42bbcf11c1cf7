/* The cache and the machine by the public API. */
#include "support/check.h"
#include "support/trees.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/fetch.h"
#include "model/resolve.h"
#include "reprise/reprise.h"

static char dir[256];

static int make_dir(void **state) {
    (void)state;
    return tree_make(dir, sizeof dir);
}

static bool count_entry(void *user, const rp_cache_entry *e) {
    size_t *n = user;
    assert_true(e->ok && e->size > 0 && strlen(e->key) == 32);
    return ++*n < 2;
}

static bool stop_at_once(void *user, const rp_cache_entry *e) {
    (void)e;
    ++*(size_t *)user;
    return false;
}

/* Until there were as many as are wanted. */
typedef struct shares {
    size_t n, wanted;
    uint64_t bytes;
} shares;

static bool add_share(void *user, const rp_cache_share *s) {
    shares *all = user;
    all->bytes += s->bytes;
    return ++all->n < all->wanted;
}

static void fill(void) {
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    rp_error err = {0};
    rp_engine *e = NULL;
    o.model = "synthetic:tiny";
    o.config = rp_config_new();
    o.no_capture = true;
    CHECK_OK(rp_config_set_key(o.config, "cache_dir", dir, &err), &err);
    CHECK_OK(rp_engine_open(&o, &e, &err), &err);
    rp_engine_close(e);
}

/* Listing stops when asked to; why knows the stored plan; export and import move it; prune empties. */
static void cache_life(void **state) {
    (void)state;
    rp_cache *c = NULL, *to = NULL;
    rp_error err = {0};
    size_t n = 0;
    char other[300], file[300], *text = NULL;
    uint64_t files = 0, bytes = 0, left = 1, removed = 0;
    fill();
    CHECK_OK(rp_cache_open(dir, &c, &err), &err);
    assert_null(rp_cache_off_reason(c));
    assert_string_equal(rp_cache_dir(c), dir);
    CHECK_OK(rp_cache_list(c, true, count_entry, &n, &err), &err);
    assert_int_equal(n, 2);
    n = 0;
    CHECK_OK(rp_cache_list(c, false, stop_at_once, &n, &err), &err);
    assert_int_equal(n, 1);
    shares all = {.wanted = SIZE_MAX}, two = {.wanted = 2};
    CHECK_OK(rp_cache_usage(c, add_share, &all, &err), &err);
    CHECK_OK(rp_cache_usage(c, add_share, &two, &err), &err);
    assert_true(all.n > 2 && all.bytes > 0);
    assert_int_equal(two.n, 2);
    CHECK_OK(rp_cache_why_json(c, "synthetic:tiny", NULL, &text, &err), &err);
    assert_non_null(strstr(text, "\"same_model\":true"));
    assert_non_null(strstr(text, "\"differ\":[]"));
    rp_engine_text_free(text);
    assert_int_equal(rp_cache_compare_json(c, "x", "y", &text, NULL), RP_NOT_FOUND);
    assert_int_equal(rp_cache_compare_json(c, NULL, "y", &text, NULL), RP_INVALID);
    CHECK_OK(rp_cache_why(c, "synthetic:tiny", NULL, &text, &err), &err);
    assert_non_null(strstr(text, "factors equal"));
    rp_engine_text_free(text);
    rp_compilation_config *exact = rp_config_new();
    CHECK_OK(rp_config_set(exact, "numerics=exact", &err), &err);
    CHECK_OK(rp_cache_why(c, "synthetic:tiny", exact, &text, &err), &err);
    assert_non_null(strstr(text, "numerics \"default\" -> \"exact\""));
    rp_engine_text_free(text);
    (void)snprintf(other, sizeof other, "%s/other", dir);
    (void)snprintf(file, sizeof file, "%s/bundle", dir);
    CHECK_OK(rp_cache_export(c, file, &files, &bytes, &err), &err);
    assert_true(files > 2 && bytes > 0);
    CHECK_OK(rp_cache_open(other, &to, &err), &err);
    uint64_t files_in = 0, bytes_in = 0;
    CHECK_OK(rp_cache_import(to, file, &files_in, &bytes_in, &err), &err);
    assert_true(files_in == files && bytes_in == bytes);
    CHECK_OK(rp_cache_why(to, "synthetic:tiny", NULL, &text, &err), &err);
    assert_non_null(strstr(text, "factors equal"));
    rp_engine_text_free(text);
    CHECK_OK(rp_cache_prune(to, 0, &removed, &left, &err), &err);
    assert_true(removed > 0 && left == 0);
    rp_cache_close(to);
    rp_cache_close(c);
}

/* Looking does not make the folder, nor does importing what is no bundle. */
static void cache_that_is_not_there(void **state) {
    (void)state;
    rp_cache *c = NULL;
    rp_error err = {0};
    char where[300], *text = NULL;
    struct stat info;
    uint64_t n;
    (void)snprintf(where, sizeof where, "%s/nowhere", dir);
    CHECK_OK(rp_cache_open(where, &c, &err), &err);
    assert_string_equal(rp_cache_dir(c), where);
    assert_non_null(strstr(rp_cache_off_reason(c), "there is no folder"));
    rp_cache *usual = NULL; /* which nobody named */
    char *before = base_strdup(getenv("REPRISE_CACHE_DIR"));
    (void)setenv("REPRISE_CACHE_DIR", where, 1);
    CHECK_OK(rp_cache_open(NULL, &usual, &err), &err);
    assert_string_equal(rp_cache_off_reason(usual), rp_cache_off_reason(c));
    assert_non_null(strstr(rp_cache_off_reason(usual), where));
    rp_cache_close(usual);
    (void)setenv("REPRISE_CACHE_DIR", before, 1);
    base_free(before);
    assert_int_equal(rp_cache_list(c, true, count_entry, &n, NULL), RP_NOT_FOUND);
    assert_int_equal(rp_cache_why(c, "synthetic:tiny", NULL, &text, NULL), RP_NOT_FOUND);
    assert_int_equal(rp_cache_prune(c, 0, &n, &n, NULL), RP_NOT_FOUND);
    assert_int_not_equal(stat(where, &info), 0);
    assert_int_equal(rp_cache_import(c, "/dev/null", &n, &n, NULL), RP_CORRUPT); /* empty */
    CHECK_OK(rp_machine_report(where, &text, &err), &err);
    assert_non_null(strstr(text, "\"exists\":false,\"writable\":true"));
    rp_free(text);
    assert_int_not_equal(stat(where, &info), 0);
    rp_cache_close(c);
}

static void cache_that_is_off(void **state) {
    (void)state;
    rp_cache *c = NULL;
    rp_error err = {0};
    char file[300];
    uint64_t n;
    CHECK_OK(rp_cache_open("/dev/null/x", &c, &err), &err);
    assert_non_null(rp_cache_off_reason(c));
    assert_int_equal(rp_cache_prune(c, 0, &n, &n, &err), RP_IO);
    assert_non_null(strstr(err.text, "the cache is off"));
    assert_int_equal(rp_cache_export(c, "x", &n, &n, NULL), RP_IO);
    (void)snprintf(file, sizeof file, "%s/bundle", dir); /* as it was exported above */
    assert_int_equal(rp_cache_import(c, file, &n, &n, &err), RP_IO);
    assert_non_null(strstr(err.text, "the cache is off"));
    assert_int_equal(rp_cache_list(NULL, false, count_entry, NULL, NULL), RP_INVALID);
    assert_int_equal(rp_cache_why(c, NULL, rp_config_new(), NULL, NULL), RP_INVALID);
    rp_cache_close(c);
    rp_cache_close(NULL);
}

/* A part of the report as text: "" for null, NULL where the part has no such word. */
static const char *said(const json_t *report, const char *part, const char *word) {
    const json_t *v = json_object_get(json_object_get(report, part), word);
    return !v ? NULL : json_is_null(v) ? "" : json_string_value(v);
}

static json_t *report_of(const char *cache_dir) {
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_machine_report(cache_dir, &text, &err), &err);
    json_t *o = json_loads(text, 0, NULL);
    rp_free(text);
    assert_non_null(o);
    return o;
}

/* What is not there has a reason, what is there has none. */
static void machine_says_why_not(void **state) {
    static const char *const parts[][2] = {
        {"compiler", "path"}, {"gpu", "name"}, {"nvrtc", "path"}};
    char *path = base_strdup(getenv("PATH")), under[300], nothing[256], absent[300];
    (void)state;
    (void)snprintf(nothing, sizeof nothing, "%s", tree_new("nothing"));
    (void)snprintf(absent, sizeof absent, "%s/libnvrtc.so", nothing);
    for (int empty = 0; empty < 2; empty++) {
        if (empty) (void)setenv("PATH", nothing, 1);
        (void)setenv("REPRISE_NVRTC", absent, 1);
        json_t *o = report_of(dir);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const char *there = said(o, parts[i][0], parts[i][1]),
                       *why = said(o, parts[i][0], "reason");
            if (!there || (*there != 0) == (why && *why != 0))
                fail_msg("%s: '%s', '%s'", parts[i][0], there ? there : "(none)",
                         why ? why : "(none)");
        }
        if (empty) {
            assert_string_equal(said(o, "compiler", "path"), "");
            assert_string_equal(said(o, "compiler", "version"), "");
            assert_non_null(
                strstr(said(o, "compiler", "reason"), "no C compiler (no cc, gcc or clang in "));
        }
        assert_non_null(strstr(said(o, "nvrtc", "reason"), absent));
        json_decref(o);
    }
    (void)setenv("PATH", path, 1);
    (void)unsetenv("REPRISE_NVRTC");
    base_free(path);
    (void)snprintf(under, sizeof under, "%s/not/there", dir); /* could be made */
    json_t *o = report_of(under);
    assert_string_equal(said(o, "cache", "dir"), under);
    assert_string_equal(said(o, "cache", "reason"), "");
    assert_true(json_is_false(json_object_get(json_object_get(o, "cache"), "exists")));
    assert_true(json_is_true(json_object_get(json_object_get(o, "cache"), "writable")));
    json_decref(o);
    o = report_of("/dev/null/under");
    assert_string_equal(said(o, "cache", "reason"), "it is not there and cannot be made");
    assert_true(json_is_false(json_object_get(json_object_get(o, "cache"), "writable")));
    json_decref(o);
}

static void machine(void **state) {
    (void)state;
    rp_error err = {0};
    char *text = NULL;
    CHECK_OK(rp_machine_report(dir, &text, &err), &err);
    json_t *o = json_loads(text, 0, NULL);
    const char *best = NULL, *at = NULL;
    int writable = 0, found = 0;
    assert_int_equal(json_unpack(o, "{s:{s:s},s:{s:s,s:b},s:{s:b}}", "cpu", "isa_best", &best,
                                 "cache", "dir", &at, "writable", &writable, "model", "found",
                                 &found),
                     0);
    assert_non_null(json_object_get(json_object_get(o, "compiler"), "path"));
    assert_non_null(json_object_get(json_object_get(o, "nvrtc"), "path"));
    assert_int_equal(found, 0);
    assert_true(json_array_size(json_object_get(json_object_get(o, "cpu"), "isa_granted")) >= 1);
    assert_string_equal(at, dir);
    assert_true(writable);
    json_decref(o);
    rp_free(text);
    double a = rp_process_age_ms();
    (void)usleep(30000);
    assert_true(rp_process_age_ms() > a + 5.0);
}

/* The model is looked for in models/ of the folder that is named and of the one that is usual, and nowhere else. */
static void machine_finds_the_model(void **state) {
    char named[256], usual[256], home[300], path[700];
    const model_package *p = model_package_find("smollm2");
    rp_error err = {0};
    (void)state;
    (void)snprintf(named, sizeof named, "%s", tree_new("named"));
    (void)snprintf(usual, sizeof usual, "%s", tree_new("usual"));
    (void)snprintf(home, sizeof home, "%s/reprise", usual);
    char *before = base_strdup(getenv("REPRISE_CACHE_DIR"));
    (void)unsetenv("REPRISE_CACHE_DIR");
    (void)unsetenv("REPRISE_MODELS");
    (void)setenv("XDG_CACHE_HOME", usual, 1);
    for (int where = 0; where < 4; where++) { /* bit 0: in the usual folder, 1: in the named one */
        char models[2][320];
        const char *folder[2] = {home, named};
        for (int k = 0; k < 2; k++) {
            (void)snprintf(models[k], sizeof models[k], "%s/models", folder[k]);
            CHECK_OK(base_dir_make(models[k], &err), &err);
            if (!(where & 1 << k)) continue;
            tree_write(models[k], p->file, "", 0);
            (void)snprintf(path, sizeof path, "%s/%s", models[k], p->file);
            assert_int_equal(truncate(path, (off_t)p->size), 0); /* no byte of it is there */
        }
        json_t *o = report_of(named), *model = json_object_get(o, "model");
        (void)snprintf(path, sizeof path, "%s/%s", models[where != 1], p->file);
        assert_int_equal(json_is_true(json_object_get(model, "found")), where > 0);
        assert_string_equal(said(o, "model", "path"), path);
        json_decref(o);
        for (int k = 0; k < 2; k++) tree_remove(models[k]);
    }
    (void)unsetenv("XDG_CACHE_HOME");
    if (before) (void)setenv("REPRISE_CACHE_DIR", before, 1);
    base_free(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_life),        cmocka_unit_test(cache_that_is_not_there),
        cmocka_unit_test(cache_that_is_off), cmocka_unit_test(machine_says_why_not),
        cmocka_unit_test(machine),           cmocka_unit_test(machine_finds_the_model),
    };
    return cmocka_run_group_tests(tests, make_dir, NULL);
}
