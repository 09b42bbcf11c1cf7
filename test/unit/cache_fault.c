/* Every allocation and every system call of the store fails in turn: a clean error or a miss, nothing
 * leaked, nothing half-written, and the store works afterwards. */
#include "support/check.h"
#include "support/trees.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cache/key.h"

static char root[64], dir[96], code[96];
static const base_hash128 key = {3, 4};
enum { LARGE = 3 * 65536 + 5 };
static uint8_t large[LARGE];

static int set_up(void **state) {
    (void)state;
    for (int i = 0; i < LARGE; i++) large[i] = (uint8_t)(i / 7);
    if (tree_make(root, sizeof root) != 0) return -1;
    (void)snprintf(dir, sizeof dir, "%s/cache", root);
    (void)snprintf(code, sizeof code, "%s/new.so", root);
    return setenv("TMPDIR", root, 1);
}

static int tear_down(void **state) {
    (void)state;
    return base_path_remove(root, NULL) == RP_OK ? 0 : -1;
}

/* ---- steps: each may miss, but what it finds must be right ---- */

static rp_status do_put(cache_store *s, rp_error *err) {
    return cache_put(s, CACHE_PLAN, key, "the plan", 8, err);
}

static rp_status do_get(cache_store *s, rp_error *err) {
    char *out = NULL;
    size_t size = 0;
    rp_status st = cache_get(s, CACHE_PLAN, key, &out, &size, err);
    if (st == RP_OK) assert_string_equal(out, "the plan");
    base_free(out);
    return st == RP_NOT_FOUND ? RP_OK : st;
}

static rp_status do_put_code(cache_store *s, rp_error *err) {
    char *path = NULL;
    rp_status st = cache_put_code(s, key, 9, code, &path, err);
    if (st == RP_OK) assert_int_equal(access(path, R_OK), 0);
    base_free(path);
    return st;
}

static rp_status do_get_code(cache_store *s, rp_error *err) {
    char *path = NULL;
    rp_status st = cache_get_code(s, key, 9, &path, err);
    if (st == RP_OK) assert_int_equal(access(path, R_OK), 0);
    base_free(path);
    return st == RP_NOT_FOUND ? RP_OK : st;
}

static rp_status do_write(cache_store *s, rp_error *err) {
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    rp_status st = cache_writer_open(s, CACHE_WEIGHTS, key, LARGE, &w, err);
    for (size_t at = 0; st == RP_OK && at < LARGE; at += 50000)
        st = cache_writer_add(w, large + at, LARGE - at < 50000 ? LARGE - at : 50000, err);
    if (st == RP_OK) st = cache_writer_commit(w, &m, &payload, err);
    if (st == RP_OK) assert_memory_equal(payload, large, LARGE);
    cache_writer_free(w);
    base_file_unmap(&m);
    return st;
}

static rp_status do_map(cache_store *s, rp_error *err) {
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    size_t size = 0;
    rp_status st = cache_map(s, CACHE_WEIGHTS, key, false, &m, &payload, &size, err);
    if (st == RP_OK) assert_int_equal(size, LARGE);
    if (st == RP_OK) assert_memory_equal(payload, large, LARGE);
    base_file_unmap(&m);
    return st == RP_NOT_FOUND ? RP_OK : st;
}

static rp_status do_texts(cache_store *s, rp_error *err) {
    char *out = NULL;
    rp_status st = cache_put_text(s, key, "key_factors.json", "{\"a\": \"1\"}", err);
    if (st == RP_OK) st = cache_get_text(s, key, "key_factors.json", &out, err);
    if (st == RP_OK) assert_string_equal(out, "{\"a\": \"1\"}");
    base_free(out);
    return st == RP_NOT_FOUND ? RP_OK : st;
}

static rp_status see_entry(void *user, const cache_entry *e, rp_error *err) {
    (void)user, (void)err;
    return strlen(e->key) == 32 ? RP_OK : RP_INTERNAL;
}

static rp_status do_verify(cache_store *s, rp_error *err) {
    return cache_list(s, true, see_entry, NULL, err);
}

static rp_status do_why(cache_store *s, rp_error *err) {
    base_buf out;
    char hex[33], *json = NULL, *all = NULL, *model = NULL, *settings = NULL;
    base_hash_hex(key, hex);
    base_buf_init(&out, 0);
    cache_key *k = cache_key_new();
    rp_status st = k ? RP_OK : rp_fail(err, RP_NOMEM, "no memory");
    if (st == RP_OK) st = cache_key_add(k, "a", "2", err);
    if (st == RP_OK) st = cache_key_addf(k, err, "b", "%d", 7);
    if (st == RP_OK) st = cache_key_json(k, &json, err);
    if (st == RP_OK) st = cache_why(s, k, &out, err);
    if (st == RP_OK) st = cache_why_json(s, k, "a", &all, err);
    if (st == RP_OK) st = cache_about(s, hex, &model, &settings, err);
    base_free(all);
    base_free(model);
    base_free(settings);
    base_free(json);
    base_buf_done(&out);
    cache_key_free(k);
    return st;
}

static rp_status do_prune(cache_store *s, rp_error *err) {
    uint64_t n, left;
    return cache_prune(s, 100, &n, &left, err);
}

static const struct {
    const char *name;
    rp_status (*run)(cache_store *s, rp_error *err);
} steps[] = {{"put", do_put},           {"get", do_get},       {"put code", do_put_code},
             {"get code", do_get_code}, {"write", do_write},   {"map", do_map},
             {"texts", do_texts},       {"verify", do_verify}, {"why", do_why},
             {"prune", do_prune}};
enum { N_STEPS = sizeof steps / sizeof *steps };

static rp_status no_temporary(void *user, const char *name, bool is_dir, rp_error *err) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", (const char *)user, name);
    if (strstr(name, ".tmp-")) fail_msg("left behind: %s", path);
    return is_dir ? base_dir_list(path, no_temporary, path, err) : RP_OK;
}

/* Private folders and unlinked files live in root, which is TMPDIR. */
static rp_status no_private(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)user, (void)is_dir, (void)err;
    if (strncmp(name, "reprise-", 8) == 0) fail_msg("left behind in TMPDIR: %s", name);
    return RP_OK;
}

static cache_store *open_good(void) {
    cache_store *s = NULL;
    rp_error err = {0};
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    assert_null(cache_store_off_reason(s));
    assert_null(cache_store_read_only_reason(s)); /* asked now: the steps are counted without it */
    CHECK_OK(base_file_write_atomic(code, "code", 4, &err), &err);
    return s;
}

/* The step while its n-th call fails, for every n, on a filled and on an empty store. */
static void fail_each(size_t step, bool (*fail_nth)(uint64_t), bool filled) {
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        rp_error err = {0}, e = {0};
        size_t live = base_live();
        CHECK_OK(base_path_remove(dir, &e), &e);
        cache_store *s = open_good();
        for (size_t i = 0; filled && i + 1 < N_STEPS; i++) CHECK_OK(steps[i].run(s, &e), &e);
        if (filled) CHECK_OK(base_file_write_atomic(code, "code", 4, &e), &e);
        size_t files = tree_open_files();
        (void)fail_nth(n);
        rp_status st = steps[step].run(s, &err);
        fired = fail_nth(0);
        if (st != RP_OK && (st != err.code || !err.text[0]))
            fail_msg("%s, call %d: %s without a text", steps[step].name, (int)n,
                     rp_status_name(st));
        if (!fired) CHECK_OK(st, &err);
        assert_int_equal(tree_open_files(), files);
        cache_store_close(s);
        assert_int_equal(base_live(), live);
        CHECK_OK(base_dir_list(dir, no_temporary, dir, &e), &e);
        CHECK_OK(base_dir_list(root, no_private, NULL, &e), &e);
        /* Whatever happened, the next process works and finds nothing wrong. */
        s = open_good();
        for (size_t i = 0; i < N_STEPS; i++) CHECK_OK(steps[i].run(s, &e), &e);
        cache_store_close(s);
        assert_true(n < 400);
    }
}

static void every_failure_is_clean(void **state) {
    (void)state;
    size_t live = base_live();
    for (size_t i = 0; i < N_STEPS; i++)
        for (int filled = 0; filled < 2; filled++) {
            fail_each(i, base_alloc_fail_nth, filled);
            fail_each(i, base_sys_fail_nth, filled);
        }
    assert_int_equal(base_live(), live);
}

static void opening_fails_cleanly(void **state) {
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        bool (*fail_nth)(uint64_t) = kind ? base_sys_fail_nth : base_alloc_fail_nth;
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            cache_store *s = NULL;
            rp_error err = {0}, e = {0};
            CHECK_OK(base_path_remove(dir, &e), &e);
            size_t live = base_live(), files = tree_open_files();
            (void)fail_nth(n);
            rp_status st = cache_store_open(dir, &s, &err);
            fired = fail_nth(0);
            if (kind) { /* a folder that does not work is no error */
                CHECK_OK(st, &err);
                if (fired) assert_non_null(cache_store_read_only_reason(s));
                CHECK_OK(do_write(s, &err), &err);
            } else if (fired) {
                assert_int_equal(st, RP_NOMEM);
                assert_null(s);
            }
            cache_store_close(s);
            assert_int_equal(base_live(), live);
            assert_int_equal(tree_open_files(), files);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failure_is_clean),
        cmocka_unit_test(opening_fails_cleanly),
    };
    return cmocka_run_group_tests_name("cache_fault", tests, set_up, tear_down);
}
