/* The cache and the machine by the public API. */
#include "support/check.h"
#include "support/trees.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

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
    CHECK_OK(rp_cache_import(to, file, &files, NULL, &err), &err);
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
    uint64_t n;
    CHECK_OK(rp_cache_open("/dev/null/x", &c, &err), &err);
    assert_non_null(rp_cache_off_reason(c));
    assert_int_equal(rp_cache_prune(c, 0, &n, &n, &err), RP_IO);
    assert_non_null(strstr(err.text, "the cache is off"));
    assert_int_equal(rp_cache_export(c, "x", &n, &n, NULL), RP_IO);
    assert_int_equal(rp_cache_list(NULL, false, count_entry, NULL, NULL), RP_INVALID);
    assert_int_equal(rp_cache_why(c, NULL, rp_config_new(), NULL, NULL), RP_INVALID);
    rp_cache_close(c);
    rp_cache_close(NULL);
}

#define REFUSED(call, what)                                                \
    do {                                                                   \
        rp_error refused_ = {0}, *e = &refused_;                           \
        assert_int_equal(call, RP_INVALID);                                \
        if (strcmp(e->text, what) != 0) fail_msg(#call ": '%s'", e->text); \
    } while (0)
static bool no_share(void *user, const rp_cache_share *s) {
    (void)user, (void)s;
    fail_msg("a share of what is not there");
    return true;
}

/* Each argument that must be given, missing alone. */
static void what_is_missing_is_named(void **state) {
    (void)state;
    rp_cache *c = NULL;
    rp_error err = {0};
    char *text = NULL;
    uint64_t n = 0;
    CHECK_OK(rp_cache_open(dir, &c, &err), &err);
    REFUSED(rp_cache_open(dir, NULL, e), "out is NULL");
    REFUSED(rp_cache_list(NULL, false, count_entry, NULL, e), "cache and function must be given");
    REFUSED(rp_cache_list(c, false, NULL, NULL, e), "cache and function must be given");
    REFUSED(rp_cache_usage(NULL, no_share, NULL, e), "cache and function must be given");
    REFUSED(rp_cache_usage(c, NULL, NULL, e), "cache and function must be given");
    for (int json = 0; json < 2; json++) {
        rp_status (*why)(rp_cache *, const char *, rp_compilation_config *, char **, rp_error *) =
            json ? rp_cache_why_json : rp_cache_why;
        REFUSED(why(NULL, "synthetic:tiny", NULL, &text, e), "cache, model and out must be given");
        REFUSED(why(c, NULL, rp_config_new(), &text, e), "cache, model and out must be given");
        REFUSED(why(c, "synthetic:tiny", NULL, NULL, e), "cache, model and out must be given");
    }
    REFUSED(rp_cache_compare_json(NULL, "a", "b", &text, e),
            "cache, two keys and out must be given");
    REFUSED(rp_cache_compare_json(c, NULL, "b", &text, e), "cache, two keys and out must be given");
    REFUSED(rp_cache_compare_json(c, "a", NULL, &text, e), "cache, two keys and out must be given");
    REFUSED(rp_cache_compare_json(c, "a", "b", NULL, e), "cache, two keys and out must be given");
    REFUSED(rp_cache_prune(NULL, 0, &n, &n, e), "cache is NULL");
    REFUSED(rp_cache_export(NULL, "x", &n, &n, e), "cache is NULL");
    REFUSED(rp_cache_export(c, NULL, &n, &n, e), "path is NULL");
    REFUSED(rp_cache_import(NULL, "x", &n, &n, e), "cache and path must be given");
    REFUSED(rp_cache_import(c, NULL, &n, &n, e), "cache and path must be given");
    REFUSED(rp_machine_report(dir, NULL, e), "out is NULL");
    assert_null(text);
    rp_cache_close(c);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_life),        cmocka_unit_test(cache_that_is_not_there),
        cmocka_unit_test(cache_that_is_off), cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(machine),
    };
    return cmocka_run_group_tests(tests, make_dir, NULL);
}
