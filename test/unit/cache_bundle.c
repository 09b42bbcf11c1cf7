/* Bundles: what goes out comes in, damage and foreign names are refused, failures are clean. */
#include "support/check.h"
#include "support/trees.h"

#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cache/bundle.h"

static char root[64], from[96], to[96], bundle[96], code[96];
static const base_hash128 key = {3, 4};
enum { LARGE = 2 * 65536 + 5 };
static uint8_t large[LARGE];

static cache_store *open_store(const char *dir) {
    cache_store *s = NULL;
    rp_error err = {0};
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    assert_null(cache_store_off_reason(s));
    return s;
}

static int set_up(void **state) {
    (void)state;
    if (tree_make(root, sizeof root) != 0) return -1;
    (void)snprintf(from, sizeof from, "%s/from", root);
    (void)snprintf(to, sizeof to, "%s/to", root);
    (void)snprintf(bundle, sizeof bundle, "%s/bundle", root);
    (void)snprintf(code, sizeof code, "%s/x.so", root);
    for (int i = 0; i < LARGE; i++) large[i] = (uint8_t)(i * 2654435761u >> 20);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    return base_path_remove(root, NULL) == RP_OK ? 0 : -1;
}

/* A store with one object of each kind and a text, exported. */
static void fill_and_export(void) {
    rp_error err = {0};
    char *path = NULL;
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload;
    cache_bundle_info info = {0};
    CHECK_OK(base_path_remove(from, &err), &err);
    cache_store *s = open_store(from);
    CHECK_OK(cache_put(s, CACHE_PLAN, key, "the plan", 8, &err), &err);
    CHECK_OK(cache_put(s, CACHE_TUNING, key, "", 0, &err), &err);
    CHECK_OK(base_file_write_atomic(code, "code", 4, &err), &err);
    CHECK_OK(cache_put_code(s, key, 9, code, &path, &err), &err);
    CHECK_OK(cache_put_text(s, key, "key_factors.json", "{}", &err), &err);
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, key, LARGE, &w, &err), &err);
    CHECK_OK(cache_writer_add(w, large, LARGE, &err), &err);
    CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
    cache_writer_free(w);
    base_file_unmap(&m);
    base_free(path);
    CHECK_OK(cache_export(s, bundle, &info, &err), &err);
    assert_int_equal(info.n_files, 7);
    assert_true(info.n_bytes > LARGE);
    cache_store_close(s);
}

/* How many of the five objects are found, each as it was. */
static int count_good(cache_store *s) {
    char *out = NULL;
    size_t size = 0;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    int n = 0;
    if (cache_get(s, CACHE_PLAN, key, &out, &size, NULL) == RP_OK) {
        assert_string_equal(out, "the plan");
        base_free(out);
        n++;
    }
    if (cache_get(s, CACHE_TUNING, key, &out, &size, NULL) == RP_OK) {
        assert_int_equal(size, 0);
        base_free(out);
        n++;
    }
    if (cache_get_code(s, key, 9, &out, NULL) == RP_OK) {
        base_free(out);
        n++;
    }
    if (cache_get_text(s, key, "key_factors.json", &out, NULL) == RP_OK) {
        assert_string_equal(out, "{}");
        base_free(out);
        n++;
    }
    if (cache_map(s, CACHE_WEIGHTS, key, true, &m, &payload, &size, NULL) == RP_OK) {
        assert_int_equal(size, LARGE);
        assert_memory_equal(payload, large, LARGE);
        base_file_unmap(&m);
        n++;
    }
    return n;
}

/* Files that travel, objects and what was written beside them. */
static uint32_t count_files(const char *folder) {
    tree_list l = tree_files(folder);
    uint32_t n = 0;
    for (size_t i = 0; i < l.n; i++)
        n += strncmp(l.path[i], "objects/", 8) == 0 || strncmp(l.path[i], "plans/", 6) == 0;
    tree_list_free(&l);
    return n;
}

static void what_goes_out_comes_in(void **state) {
    (void)state;
    rp_error err = {0};
    cache_bundle_info info = {0};
    uint64_t bytes = 0;
    fill_and_export();
    tree_list l = tree_files(from);
    for (size_t i = 0; i < l.n; i++) {
        size_t size;
        if (strncmp(l.path[i], "objects/", 8) != 0 && strncmp(l.path[i], "plans/", 6) != 0)
            continue;
        free(tree_read(from, l.path[i], &size));
        bytes += size;
    }
    tree_list_free(&l);
    CHECK_OK(base_path_remove(to, &err), &err);
    cache_store *s = open_store(to);
    assert_int_equal(count_good(s), 0);
    CHECK_OK(cache_import(s, bundle, &info, &err), &err);
    assert_int_equal(info.n_files, 7);
    assert_int_equal(info.n_bytes, bytes);
    assert_int_equal(count_good(s), 5);
    CHECK_OK(cache_import(s, bundle, NULL, &err), &err); /* again: replaced */
    assert_int_equal(count_good(s), 5);
    CHECK_OK(base_path_remove(bundle, &err), &err);
    assert_int_equal(cache_import(s, bundle, NULL, &err), RP_NOT_FOUND);
    cache_store_close(s);
}

/* What lies in the folders beside the objects stays there: no import would take it. */
static void only_objects_travel(void **state) {
    static const char *const strays[] = {"objects/code/notes.txt", "objects/plan/README",
                                         "objects/weights/00000000000000000000000000000001.old"};
    (void)state;
    rp_error err = {0};
    cache_bundle_info info = {0};
    fill_and_export();
    for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
        char path[192];
        (void)snprintf(path, sizeof path, "%s/%s", from, strays[i]);
        CHECK_OK(base_file_write_atomic(path, "x", 1, &err), &err);
    }
    CHECK_OK(base_path_remove(to, &err), &err);
    cache_store *a = open_store(from), *b = open_store(to);
    CHECK_OK(cache_export(a, bundle, &info, &err), &err);
    assert_int_equal(info.n_files, 7);
    CHECK_OK(cache_import(b, bundle, NULL, &err), &err);
    assert_int_equal(count_good(b), 5);
    cache_store_close(a);
    cache_store_close(b);
}

static rp_status no_temporary(void *user, const char *name, bool is_dir, rp_error *err) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", (const char *)user, name);
    if (strstr(name, ".tmp-")) fail_msg("left behind: %s", path);
    return is_dir ? base_dir_list(path, no_temporary, path, err) : RP_OK;
}

/* Cut anywhere: refused. Flipped anywhere: refused, or what came in is right. */
static void damage_is_never_imported_as_good(void **state) {
    (void)state;
    rp_error err = {0};
    char *good = NULL;
    size_t size = 0;
    fill_and_export();
    CHECK_OK(base_file_read(bundle, 1 << 24, &good, &size, &err), &err);
    char *bad = base_alloc(size + 1);
    size_t step = size / 400 + 1;
    for (size_t i = 0; i < size; i += i < 200 || i + 200 > size ? 1 : step) {
        CHECK_OK(base_path_remove(to, &err), &err);
        cache_store *s = open_store(to);
        CHECK_OK(base_file_write_atomic(bundle, good, i, &err), &err);
        rp_status st = cache_import(s, bundle, NULL, &err);
        assert_true(st == RP_CORRUPT);
        assert_true(count_good(s) <= 5);
        memcpy(bad, good, size);
        bad[i] = (char)(bad[i] ^ (1 << i % 8));
        CHECK_OK(base_file_write_atomic(bundle, bad, size, &err), &err);
        err = (rp_error){0};
        st = cache_import(s, bundle, NULL, &err);
        if (st != RP_OK) assert_int_not_equal(err.text[0], 0);
        err = (rp_error){0};
        assert_true(count_good(s) <= 5);
        CHECK_OK(base_dir_list(to, no_temporary, to, &err), &err);
        cache_store_close(s);
    }
    base_free(good);
    base_free(bad);
}

/* Writes a bundle of `n` raw bytes whose stream is as it should be; the error of importing it. */
static rp_status import_raw(cache_store *s, const char *raw, size_t n, rp_error *err) {
    char packed[600];
    size_t packed_size = ZSTD_compress(packed, sizeof packed, raw, n, 1);
    assert_false(ZSTD_isError(packed_size));
    CHECK_OK(base_file_write_atomic(bundle, packed, packed_size, err), err);
    *err = (rp_error){0};
    return cache_import(s, bundle, NULL, err);
}

/* Each way to be no bundle has its line; nothing that is said of one names another. */
static void damage_is_told_apart(void **state) {
    enum { HEAD = 12 };
    static const char head[HEAD + 1] = "RPBUNDLE\x01";
    char raw[300] = {0}, want[200], *good = NULL;
    rp_error err = {0};
    size_t size = 0;
    (void)state;
    CHECK_OK(base_path_remove(to, &err), &err);
    cache_store *s = open_store(to);
#define SAYS(code, form)                                                             \
    do {                                                                             \
        (void)snprintf(want, sizeof want, form, bundle);                             \
        assert_int_equal(st, code);                                                  \
        if (strcmp(err.text, want) != 0) fail_msg("'%s', not '%s'", err.text, want); \
    } while (0)
    memcpy(raw, head, HEAD);
    rp_status st = import_raw(s, raw, HEAD + 12, &err); /* no file, then the end */
    CHECK_OK(st, &err);
    st = import_raw(s, raw, HEAD, &err);
    SAYS(RP_CORRUPT, "%s is cut short; export it again");
    raw[8] = 9;
    st = import_raw(s, raw, HEAD + 12, &err);
    SAYS(RP_UNSUPPORTED, "%s has bundle version 9, known is 1; export it again");
    raw[8] = 0;
    st = import_raw(s, raw, HEAD + 12, &err);
    SAYS(RP_UNSUPPORTED, "%s has bundle version 0, known is 1; export it again");
    raw[8] = 1;
    raw[3] = 'X';
    st = import_raw(s, raw, HEAD + 12, &err);
    SAYS(RP_CORRUPT, "%s is no cache bundle");
    raw[3] = head[3];
    raw[HEAD + 1] = 4; /* a name of 1024 bytes */
    st = import_raw(s, raw, HEAD + 12, &err);
    SAYS(RP_CORRUPT, "%s holds a name of 1024 bytes; it is no bundle of ours");
    raw[HEAD + 1] = 0;
    st = import_raw(s, raw, HEAD + 13, &err); /* more behind the end */
    SAYS(RP_CORRUPT, "%s is damaged at its end");
    /* the same where a whole buffer was read with the end */
    enum { BUFFER = 1 << 17 }; /* of bundle.c */
    static char large_raw[3 * BUFFER];
    static const char name[] = "objects/tuning/00000000000000000000000000000001";
    const size_t contents = BUFFER - HEAD - 12 - (sizeof name - 1) - 12;
    for (int more = 0; more < 2; more++) {
        memset(large_raw, 0, sizeof large_raw);
        memcpy(large_raw, head, HEAD);
        large_raw[HEAD] = sizeof name - 1;
        for (int i = 0; i < 4; i++) large_raw[HEAD + 4 + i] = (char)(contents >> (8 * i));
        memcpy(large_raw + HEAD + 12, name, sizeof name - 1);
        st = import_raw(s, large_raw, BUFFER + (more ? 7 : 0), &err);
        if (more)
            SAYS(RP_CORRUPT, "%s is damaged at its end; files taken ahead of that: 1");
        else
            CHECK_OK(st, &err);
    }
    fill_and_export();
    CHECK_OK(base_file_read(bundle, 1 << 24, &good, &size, &err), &err);
    CHECK_OK(base_file_write_atomic(bundle, good, size / 2, &err), &err);
    err = (rp_error){0};
    st = cache_import(s, bundle, NULL, &err);
    SAYS(RP_CORRUPT, "%s is cut short; export it again");
    /* More behind the whole of it: a byte, and the same bundle once more. */
    for (size_t more = 1; more <= size; more += size - 1) {
        char *longer = base_alloc(size + more);
        assert_non_null(longer);
        memcpy(longer, good, size);
        memcpy(longer + size, good, more);
        CHECK_OK(base_file_write_atomic(bundle, longer, size + more, &err), &err);
        err = (rp_error){0};
        st = cache_import(s, bundle, NULL, &err);
        assert_int_equal(st, RP_CORRUPT);
        if (!strstr(err.text, "is damaged at its end")) fail_msg("%s", err.text);
        base_free(longer);
    }
#undef SAYS
    base_free(good);
    cache_store_close(s);
}

static void foreign_names_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"../escaped",
                                        "/tmp/escaped",
                                        "objects/code/../../../escaped",
                                        "objects/code/evil.so",
                                        "plans/00000000000000000000000000000001/../../../escaped",
                                        "plans/00000000000000000000000000000001/.hidden",
                                        "probe",
                                        "objects/plan/00000000000000000000000000000001/x",
                                        "objects/code/00000000000000000000000000000001",
                                        "plans/00000000000000000000000000000001/a.tmp-0-1-2-3",
                                        "plans/00000000000000000000000000000001/a b",
                                        "plans/00000000000000000000000000000001",
                                        "objects/tuning/0000000000000000000000000000000G",
                                        "objects/tuning/00000000000000000000000000000001|x",
                                        "plans/00000000000000000000000000000001/a|x"}; /* | is 0 */
    rp_error err = {0};
    CHECK_OK(base_path_remove(to, &err), &err);
    cache_store *s = open_store(to);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char raw[300] = "RPBUNDLE\x01", escaped[96];
        size_t n = 12, len = strlen(names[i]);
        raw[n] = (char)len;
        raw[n + 4] = 1; /* one byte of contents */
        memcpy(raw + n + 12, names[i], len);
        char *zero = memchr(raw + n + 12, '|', len);
        if (zero) *zero = 0;
        raw[n + 12 + len] = 'x';
        n += 12 + len + 1 + 12;
        if (import_raw(s, raw, n, &err) != RP_CORRUPT) fail_msg("took %s", names[i]);
        assert_non_null(strstr(err.text, "that no cache has"));
        err = (rp_error){0};
        (void)snprintf(escaped, sizeof escaped, "%s/escaped", root);
        assert_false(base_file_exists(escaped));
    }
    cache_store_close(s);
}

static void every_failure_is_clean(void **state) {
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        bool (*fail_nth)(uint64_t) = mode & 1 ? base_sys_fail_nth : base_alloc_fail_nth;
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            rp_error err = {0}, e = {0};
            size_t live = base_live();
            fill_and_export();
            CHECK_OK(base_path_remove(to, &e), &e);
            cache_store *a = open_store(from), *b = open_store(to);
            (void)fail_nth(n);
            rp_status st = mode & 2 ? cache_import(b, bundle, NULL, &err)
                                    : cache_export(a, bundle, NULL, &err);
            fired = fail_nth(0);
            if (st != RP_OK) assert_int_not_equal(err.text[0], 0);
            if (!fired) CHECK_OK(st, &err);
            /* Not every call is needed, but what is said to have worked has. */
            if (st == RP_OK && !(mode & 2)) CHECK_OK(cache_import(b, bundle, NULL, &e), &e);
            if (st == RP_OK) assert_int_equal(count_good(b), 5);
            if (st == RP_OK) assert_int_equal(count_files(to), 7);
            assert_true(count_good(b) <= 5);
            cache_store_close(a);
            cache_store_close(b);
            assert_int_equal(base_live(), live);
            CHECK_OK(base_dir_list(root, no_temporary, root, &e), &e);
            assert_true(n < 400);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_out_comes_in),
        cmocka_unit_test(only_objects_travel),
        cmocka_unit_test(damage_is_never_imported_as_good),
        cmocka_unit_test(damage_is_told_apart),
        cmocka_unit_test(foreign_names_are_refused),
        cmocka_unit_test(every_failure_is_clean),
    };
    return cmocka_run_group_tests_name("cache_bundle", tests, set_up, tear_down);
}
