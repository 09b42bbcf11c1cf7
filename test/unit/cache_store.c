/* The store: round trips, every byte flipped or cut is a miss, quarantine, folders that must not be
 * used, full disks, two writers at once, listing and verifying. */
#include "support/check.h"
#include "support/heard.h"
#include "support/trees.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/temp.h"
#include "cache/bundle.h"
#include "cache/key.h"
#include "cache/store.h"
#include "reprise/cache.h"

static char root[64];
static char dir[96], src[96];
static const base_hash128 key = {0x1122334455667788, 0x99aabbccddeeff00};

static void path_in(char *out, size_t size, const char *rest) {
    (void)snprintf(out, size, "%s/%s", dir, rest);
}

static cache_store *open_store(void) {
    cache_store *s = NULL;
    rp_error err = {0};
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    return s;
}

static int fresh(void **state) {
    (void)state;
    static int n;
    (void)snprintf(dir, sizeof dir, "%s/c%d", root, n);
    (void)snprintf(src, sizeof src, "%s/src%d.so", root, n++);
    return 0;
}

static int set_up(void **state) {
    (void)state;
    /* In memory where possible: the tests write some ten thousand files. */
    if (tree_make(root, sizeof root) != 0) return -1;
    return setenv("TMPDIR", root, 1); /* what is left behind is seen */
}

static int tear_down(void **state) {
    (void)state;
    return base_path_remove(root, NULL) == RP_OK ? 0 : -1;
}

static void write_file(const char *path, const void *data, size_t size) {
    rp_error err = {0};
    CHECK_OK(base_file_write_atomic(path, data, size, &err), &err);
}

static rp_status count_entry(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)err, (void)name, (void)is_dir;
    ++*(int *)user;
    return RP_OK;
}

static int count_files(const char *rest) {
    char path[256];
    int n = 0;
    rp_error err = {0};
    path_in(path, sizeof path, rest);
    CHECK_OK(base_dir_list(path, count_entry, &n, &err), &err);
    return n;
}

static void small_objects_round_trip(void **state) {
    (void)state;
    cache_store *s = open_store();
    rp_error err = {0};
    char *out = NULL;
    size_t size = 0;
    assert_null(cache_store_off_reason(s));
    assert_string_equal(cache_store_dir(s), dir);
    assert_int_equal(cache_get(s, CACHE_PLAN, key, &out, &size, &err), RP_NOT_FOUND);
    assert_int_equal(err.text[0], 0); /* a miss is no failure */
    for (size_t n = 0; n < 70000; n = n * 3 + 1) {
        char *data = base_alloc(n);
        memset(data, (int)n, n);
        CHECK_OK(cache_put(s, CACHE_PLAN, key, data, n, &err), &err);
        CHECK_OK(cache_get(s, CACHE_PLAN, key, &out, &size, &err), &err);
        assert_int_equal(size, n);
        assert_memory_equal(out, data, n);
        assert_int_equal(out[n], 0);
        base_free(out);
        base_free(data);
    }
    /* Another kind and another key are other objects. */
    assert_int_equal(cache_get(s, CACHE_TUNING, key, &out, &size, NULL), RP_NOT_FOUND);
    base_hash128 other = {key.lo, key.hi + 1};
    assert_int_equal(cache_get(s, CACHE_PLAN, other, &out, &size, NULL), RP_NOT_FOUND);
    assert_int_equal(cache_hits(s), 11);
    assert_int_equal(cache_misses(s), 3);
    cache_store_close(s);
    s = open_store(); /* the next process finds it */
    CHECK_OK(cache_get(s, CACHE_PLAN, key, &out, &size, &err), &err);
    base_free(out);
    cache_store_close(s);
}

/* One way of looking an object up, and the file whose bytes are damaged. */
typedef struct look {
    const char *file;
    rp_status (*put)(cache_store *s);
    rp_status (*get)(cache_store *s);
    const char *quarantined;
} look;

static rp_status put_small(cache_store *s) {
    return cache_put(s, CACHE_TUNING, key, "four warps, tile 64", 19, NULL);
}
static rp_status get_small(cache_store *s) {
    char *out = NULL;
    size_t size;
    rp_status st = cache_get(s, CACHE_TUNING, key, &out, &size, NULL);
    if (st == RP_OK) assert_memory_equal(out, "four warps, tile 64", 20);
    base_free(out);
    return st;
}
static rp_status put_code(cache_store *s) {
    char *path = NULL;
    write_file(src, "\177ELF pretend", 12);
    rp_status st = cache_put_code(s, key, 5, src, &path, NULL);
    base_free(path);
    return st;
}
static rp_status get_code(cache_store *s) {
    char *path = NULL;
    rp_status st = cache_get_code(s, key, 5, &path, NULL);
    base_free(path);
    return st;
}
static rp_status put_text(cache_store *s) {
    return cache_put_text(s, key, "key_factors.json", "{\"a\": \"b\"}", NULL);
}
static rp_status get_text(cache_store *s) {
    char *out = NULL;
    rp_status st = cache_get_text(s, key, "key_factors.json", &out, NULL);
    if (st == RP_OK) assert_string_equal(out, "{\"a\": \"b\"}");
    base_free(out);
    return st;
}
enum { LARGE = 1000 };
static rp_status put_large(cache_store *s) {
    char data[LARGE];
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    memset(data, 7, sizeof data);
    rp_status st = cache_writer_open(s, CACHE_WEIGHTS, key, LARGE, &w, NULL);
    if (st == RP_OK) st = cache_writer_add(w, data, LARGE, NULL);
    if (st == RP_OK) st = cache_writer_commit(w, &m, &payload, NULL);
    cache_writer_free(w);
    base_file_unmap(&m);
    return st;
}
static rp_status get_large(cache_store *s) {
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    size_t size = 0;
    rp_status st = cache_map(s, CACHE_WEIGHTS, key, true, &m, &payload, &size, NULL);
    if (st == RP_OK) assert_int_equal(size, LARGE);
    for (size_t i = 0; i < size; i++) assert_int_equal(payload[i], 7);
    base_file_unmap(&m);
    return st;
}

#define HEX "99aabbccddeeff001122334455667788"
static look looks[] = {
    {"objects/tuning/" HEX, put_small, get_small, "quarantine/tuning-" HEX},
    {"objects/code/" HEX ".so", put_code, get_code, "quarantine/code-" HEX ".so"},
    {"objects/code/" HEX ".sum", put_code, get_code, "quarantine/code-" HEX ".so"},
    {"objects/weights/" HEX, put_large, get_large, "quarantine/weights-" HEX},
    {"plans/" HEX "/key_factors.json", put_text, get_text, "quarantine/" HEX "-key_factors.json"},
    {"plans/" HEX "/key_factors.json.xxh128", put_text, get_text,
     "quarantine/" HEX "-key_factors.json"},
};

/* Writes the bytes over the object, expects a miss and the object in quarantine. */
static void expect_miss(const look *l, cache_store *s, const char *path, const char *bytes,
                        size_t size) {
    char away[256];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, size), size);
    (void)close(fd);
    assert_int_equal(l->get(s), RP_NOT_FOUND);
    path_in(away, sizeof away, l->quarantined);
    assert_true(base_file_exists(away));
    assert_int_equal(unlink(away), 0);
    (void)snprintf(away, sizeof away, "%.*s", (int)(strrchr(l->file, '/') - l->file), l->file);
    assert_int_equal(count_files(away), 0); /* nor is there what belongs to it */
    assert_int_equal(l->get(s), RP_NOT_FOUND);
}

static void every_flipped_or_missing_byte_is_a_miss(void **state) {
    const look *l = *state;
    cache_store *s = open_store();
    rp_error err = {0};
    char path[256], *good = NULL;
    size_t size = 0;
    path_in(path, sizeof path, l->file);
    assert_int_equal(l->get(s), RP_NOT_FOUND);
    assert_int_equal(l->put(s), RP_OK);
    assert_int_equal(l->get(s), RP_OK);
    CHECK_OK(base_file_read(path, 1 << 20, &good, &size, &err), &err);
    char *bad = base_alloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        if (i) assert_int_equal(l->put(s), RP_OK); /* its other file is in quarantine, too */
        memcpy(bad, good, size);
        bad[i] = (char)(bad[i] ^ (1 << i % 8));
        expect_miss(l, s, path, bad, size);
    }
    for (size_t cut = 0; cut <= size + 1; cut++) {
        if (cut == size) continue;
        assert_int_equal(l->put(s), RP_OK);
        memcpy(bad, good, size);
        bad[size] = 0;
        expect_miss(l, s, path, bad, cut);
    }
    assert_int_equal(l->put(s), RP_OK);
    assert_int_equal(l->get(s), RP_OK);
    base_free(good);
    base_free(bad);
    cache_store_close(s);
}

/* As xxh128sum writes and checks it. */
static void a_text_has_the_line_of_its_sum(void **state) {
    (void)state;
    cache_store *s = open_store();
    rp_error err = {0};
    char path[256], *text = NULL;
    size_t size = 0;
    assert_int_equal(put_text(s), RP_OK);
    path_in(path, sizeof path, "plans/" HEX "/key_factors.json.xxh128");
    CHECK_OK(base_file_read(path, 1 << 10, &text, &size, &err), &err);
    assert_string_equal(text, "dfb6f67fb4eb81e348229605ca79ea27  key_factors.json\n");
    base_free(text);
    cache_store_close(s);
}

static void a_renamed_object_is_foreign(void **state) {
    (void)state;
    cache_store *s = open_store();
    base_hash128 other = {1, 2};
    char from[256], to[256], *out = NULL;
    size_t size;
    assert_int_equal(put_small(s), RP_OK);
    path_in(from, sizeof from, "objects/tuning/" HEX);
    path_in(to, sizeof to, "objects/tuning/00000000000000020000000000000001");
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(cache_get(s, CACHE_TUNING, other, &out, &size, NULL), RP_NOT_FOUND);
    assert_int_equal(count_files("quarantine"), 1);
    assert_int_equal(put_small(s), RP_OK);
    path_in(to, sizeof to, "objects/plan/" HEX);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(cache_get(s, CACHE_PLAN, key, &out, &size, NULL), RP_NOT_FOUND);
    assert_int_equal(count_files("quarantine"), 2);
    cache_store_close(s);
}

static void code_is_moved_in_and_tied_to_its_isa(void **state) {
    (void)state;
    cache_store *s = open_store();
    rp_error err = {0};
    char *path = NULL, *got = NULL, *bytes = NULL;
    size_t size = 0;
    write_file(src, "code", 4);
    CHECK_OK(cache_put_code(s, key, 3, src, &path, &err), &err);
    assert_false(base_file_exists(src));
    assert_int_equal(cache_get_code(s, key, 7, &got, &err), RP_NOT_FOUND);
    assert_int_equal(cache_get_code(s, key, 1, &got, &err), RP_NOT_FOUND);
    CHECK_OK(cache_get_code(s, key, 3, &got, &err), &err); /* still there */
    assert_string_equal(got, path);
    CHECK_OK(base_file_read(got, 100, &bytes, &size, &err), &err);
    assert_memory_equal(bytes, "code", 5);
    base_free(bytes);
    base_free(got);
    base_free(path);
    assert_int_equal(cache_put_code(s, key, 3, src, &path, NULL), RP_NOT_FOUND);
    cache_store_close(s);
}

/* Sizes around chunk borders, added in odd parts. */
static void large_objects_round_trip(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 65535, 65536, 65537, 400000, 5 << 20};
    cache_store *s = open_store();
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k], got = 0;
        uint8_t *data = base_alloc(n);
        for (size_t i = 0; i < n; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
        base_hash128 id = {k, 77};
        cache_writer *w = NULL;
        base_mapping m = {0}, again = {0};
        const uint8_t *payload = NULL;
        rp_error err = {0};
        CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, id, n, &w, &err), &err);
        for (size_t at = 0, part = 1; at < n; at += part, part = part * 5 % 90001 + 1) {
            if (part > n - at) part = n - at;
            CHECK_OK(cache_writer_add(w, data + at, part, &err), &err);
        }
        assert_int_equal(cache_writer_add(w, data, 1, NULL), RP_INTERNAL);
        assert_int_equal(cache_map(s, CACHE_WEIGHTS, id, true, &again, &payload, &got, NULL),
                         RP_NOT_FOUND); /* not before commit */
        CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
        cache_writer_free(w);
        assert_int_equal((uintptr_t)payload % 4096, 0);
        assert_memory_equal(payload, data, n);
        CHECK_OK(cache_map(s, CACHE_WEIGHTS, id, true, &again, &payload, &got, &err), &err);
        assert_int_equal(got, n);
        assert_int_equal((uintptr_t)payload % 4096, 0);
        assert_memory_equal(payload, data, n);
        base_file_unmap(&m);
        base_file_unmap(&again);
        base_free(data);
    }
    assert_int_equal(count_files("objects/weights"), 8);
    cache_store_close(s);
}

/* Whatever is in its folder. */
static void a_store_that_is_off_gives_nothing(void **state) {
    (void)state;
    cache_store *s = open_store();
    assert_int_equal(put_small(s), RP_OK);
    assert_int_equal(put_large(s), RP_OK);
    assert_int_equal(put_text(s), RP_OK);
    assert_int_equal(get_small(s), RP_OK);
    assert_int_equal(get_large(s), RP_OK);
    assert_int_equal(get_text(s), RP_OK);
    cache_store_detach(s, "the test says so");
    assert_int_equal(get_small(s), RP_NOT_FOUND);
    assert_int_equal(get_large(s), RP_NOT_FOUND);
    assert_int_equal(get_text(s), RP_NOT_FOUND);
    cache_store_close(s);
}

static void cut_short_while_mapped(base_mapping *m, const uint8_t *payload) {
    char path[256];
    rp_error err = {0};
    CHECK_OK(base_mapping_check(m, "it", false, &err), &err);
    path_in(path, sizeof path, "objects/weights/" HEX);
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(payload[LARGE - 1], 0); /* no signal */
    assert_int_equal(base_mapping_check(m, "it", false, &err), RP_IO);
    assert_non_null(strstr(err.text, "'it' was cut short while it was in use"));
    base_file_unmap(m);
}

/* For who made the object and for who found it. */
static void an_object_may_be_cut_short_while_mapped(void **state) {
    (void)state;
    cache_store *s = open_store();
    static const char data[LARGE] = {1};
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    size_t size = 0;
    rp_error err = {0};
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, key, LARGE, &w, &err), &err);
    CHECK_OK(cache_writer_add(w, data, LARGE, &err), &err);
    CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
    cache_writer_free(w);
    cut_short_while_mapped(&m, payload);
    CHECK_OK(put_large(s), &err);
    CHECK_OK(cache_map(s, CACHE_WEIGHTS, key, false, &m, &payload, &size, &err), &err);
    cut_short_while_mapped(&m, payload);
    cache_store_close(s);
}

static void uncommitted_writes_leave_nothing(void **state) {
    (void)state;
    cache_store *s = open_store();
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    assert_int_equal(cache_writer_open(s, CACHE_WEIGHTS, key, 100, &w, NULL), RP_OK);
    assert_int_equal(cache_writer_add(w, "abc", 3, NULL), RP_OK);
    assert_int_equal(cache_writer_commit(w, &m, &payload, NULL), RP_INTERNAL); /* 97 missing */
    cache_writer_free(w);
    cache_writer_free(NULL);
    assert_int_equal(count_files("objects/weights"), 0);
    cache_store_close(s);
}

/* A flip anywhere is found by a full check; in header and table always. */
static void large_damage_is_found(void **state) {
    (void)state;
    enum { N = 64 * 65536 + 17 };
    uint8_t *data = base_alloc(N);
    cache_store *s = open_store();
    char path[256];
    path_in(path, sizeof path, "objects/weights/" HEX);
    size_t head = 4096;
    const size_t places[] = {0, 70, head - 1, head, head + N - 1, head + N / 2};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        cache_writer *w = NULL;
        base_mapping m = {0};
        const uint8_t *payload = NULL;
        size_t size;
        rp_error err = {0};
        CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, key, N, &w, &err), &err);
        CHECK_OK(cache_writer_add(w, data, N, &err), &err);
        CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
        cache_writer_free(w);
        base_file_unmap(&m);
        CHECK_OK(cache_map(s, CACHE_WEIGHTS, key, false, &m, &payload, &size, &err), &err);
        base_file_unmap(&m);
        int fd = open(path, O_RDWR);
        char c;
        assert_int_equal(pread(fd, &c, 1, (off_t)places[i]), 1);
        c ^= 16;
        assert_int_equal(pwrite(fd, &c, 1, (off_t)places[i]), 1);
        (void)close(fd);
        bool full = places[i] >= head;
        assert_int_equal(cache_map(s, CACHE_WEIGHTS, key, full, &m, &payload, &size, NULL),
                         RP_NOT_FOUND);
        assert_false(base_file_exists(path));
    }
    base_free(data);
    cache_store_close(s);
}

static void mapping_100_mb_is_quick(void **state) {
    (void)state;
    enum { N = 100 << 20 };
    uint8_t *part = base_alloc(1 << 20);
    cache_store *s = open_store();
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    size_t size;
    rp_error err = {0};
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, key, N, &w, &err), &err);
    for (int i = 0; i < 100; i++) CHECK_OK(cache_writer_add(w, part, 1 << 20, &err), &err);
    CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
    cache_writer_free(w);
    base_file_unmap(&m);
    int64_t best = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        int64_t t0 = base_now_ns();
        CHECK_OK(cache_map(s, CACHE_WEIGHTS, key, false, &m, &payload, &size, &err), &err);
        int64_t t = base_now_ns() - t0;
        if (t < best) best = t;
        base_file_unmap(&m);
    }
    printf("the header and table of 100 MB: %.2f ms\n", (double)best / 1e6);
    assert_true(best <
                20 * 1000 * 1000); /* ten times the budget: machines differ, sanitizers too */
    base_free(part);
    cache_store_close(s);
}

/* ---- folders that must not be used ---- */

/* Whoever finds no memory is told so: it is not a miss. */
static void a_text_without_memory_is_no_miss(void **state) {
    bool failed = true;
    uint32_t failures = 0;
    (void)state;
    cache_store *s = open_store();
    assert_int_equal(put_text(s), RP_OK);
    for (uint64_t n = 1; failed; n++) {
        base_alloc_fail_nth(n);
        rp_status st = get_text(s);
        failed = base_alloc_fail_nth(0);
        assert_int_equal(st, failed ? RP_NOMEM : RP_OK);
        failures += failed;
    }
    assert_true(failures > 3);
    cache_store_close(s);
}

/* Off, for a reason with this text; everything still works, nothing is stored, nothing stays in TMPDIR. */
static void expect_off(const char *text) {
    rp_error err = {0};
    cache_store *s = open_store();
    char *path = NULL;
    assert_non_null(cache_store_off_reason(s));
    if (!strstr(cache_store_off_reason(s), text)) fail_msg("reason: %s", cache_store_off_reason(s));
    assert_int_equal(put_small(s), RP_OK);
    assert_int_equal(get_small(s), RP_NOT_FOUND);
    assert_int_equal(put_text(s), RP_OK);
    assert_int_equal(get_text(s), RP_NOT_FOUND);
    assert_int_equal(put_large(s), RP_OK); /* mapped all the same */
    assert_int_equal(get_large(s), RP_NOT_FOUND);
    write_file(src, "code", 4);
    CHECK_OK(cache_put_code(s, key, 5, src, &path, &err), &err);
    assert_false(base_file_exists(src)); /* as where it is stored */
    struct stat info;
    char *slash = strrchr(path, '/');
    assert_int_equal(strncmp(path, root, strlen(root)), 0);
    assert_int_not_equal(strncmp(path, dir, strlen(dir)), 0);
    char *again = NULL; /* this handle finds it, no other does */
    CHECK_OK(cache_get_code(s, key, 5, &again, &err), &err);
    assert_string_equal(again, path);
    base_free(again);
    assert_int_equal(cache_get_code(s, key, 4, &again, NULL), RP_NOT_FOUND);
    *slash = 0;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    cache_store_close(s);
    assert_false(base_file_exists(path)); /* the private folder */
    base_free(path);
}

static void refuses_group_and_world_writable(void **state) {
    (void)state;
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, 0770), 0);
    expect_off("can be written by others (mode 770)");
    assert_int_equal(chmod(dir, 0702), 0);
    expect_off("can be written by others (mode 702)");
    assert_int_equal(chmod(dir, 0755), 0);
    cache_store_close(open_store());
    char sub[256];
    path_in(sub, sizeof sub, "objects/code");
    assert_int_equal(chmod(sub, 0777), 0);
    expect_off("objects/code can be written by others");
}

static void refuses_foreign_folders(void **state) {
    (void)state;
    if (geteuid() != 0) SKIP_TEST("only root can give a folder away");
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chown(dir, 12345, 12345), 0);
    expect_off("belongs to another user (uid 12345)");
    assert_int_equal(chmod(dir, 0777), 0); /* which a chmod of theirs would not cure */
    expect_off("give --cache-dir of your own");
}

static void a_file_in_the_way(void **state) {
    (void)state;
    write_file(dir, "x", 1);
    expect_off("cannot make folder");
    assert_int_equal(unlink(dir), 0);
}

static void unwritable_folder(void **state) {
    (void)state;
    cache_store_close(open_store());
    assert_int_equal(chmod(dir, 0500), 0);
    if (geteuid() == 0) {
        /* Root may write anyway; /proc refuses everybody. */
        (void)snprintf(dir, sizeof dir, "/proc/reprise-cache");
        expect_off("/proc/reprise-cache");
    }
}

/* 0 when what is there is read, and what is new dropped, which is said with this text; else the step that failed. */
static int only_reads(const char *text) {
    cache_store *s = NULL;
    char *path = NULL, *out = NULL;
    size_t size = 0;
    const base_hash128 other = {5, 6};
    if (cache_store_open(dir, &s, NULL) != RP_OK || cache_store_off_reason(s)) return 10;
    if (get_small(s) != RP_OK || get_text(s) != RP_OK) return 11;
    if (get_large(s) != RP_OK || get_code(s) != RP_OK) return 12;
    if (cache_store_dropped_reason(s)) return 13;
    if (cache_put(s, CACHE_PLAN, other, "new", 3, NULL) != RP_OK) return 14;
    if (cache_get(s, CACHE_PLAN, other, &out, &size, NULL) != RP_NOT_FOUND) return 15;
    const char *why = cache_store_dropped_reason(s);
    if (!why || !strstr(why, text) || cache_store_read_only_reason(s) != why) return 16;
    if (base_file_write_atomic(src, "code", 4, NULL) != RP_OK) return 17;
    if (cache_put_code(s, other, 5, src, &path, NULL) != RP_OK) return 18; /* for this one alone */
    base_free(path);
    if (cache_get_code(s, other, 5, &path, NULL) != RP_OK) return 19;
    base_free(path);
    cache_store_close(s);
    rp_cache *c = NULL;
    rp_error err = {0};
    if (rp_cache_open(dir, &c, NULL) != RP_OK) return 20;
    if (rp_cache_import(c, "bundle", NULL, NULL, &err) != RP_IO) return 21;
    if (!strstr(err.text, text)) return 22;
    rp_cache_close(c);
    return 0;
}

static void fill(void) {
    cache_store *s = open_store();
    assert_int_equal(put_small(s), RP_OK);
    assert_int_equal(put_text(s), RP_OK);
    assert_int_equal(put_large(s), RP_OK);
    assert_int_equal(put_code(s), RP_OK);
    /* for others to import */
    char bundle[256];
    cache_bundle_info info;
    rp_error err = {0};
    (void)snprintf(bundle, sizeof bundle, "%s/bundle", root);
    CHECK_OK(cache_export(s, bundle, &info, &err), &err);
    assert_int_equal(chmod(bundle, 0644), 0);
    cache_store_close(s);
}

/* Another user in a process of its own, in the test's folder, whose parents it may not see. A program of its own would
 * not continue with the other tests when it fails; neither may this. */
static void expect_only_read_as(uid_t uid, const char *text) {
    int status = 0;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        memmove(dir, dir + strlen(root) + 1, strlen(dir) - strlen(root));
        memmove(src, src + strlen(root) + 1, strlen(src) - strlen(root));
        if (chdir(root) != 0 || setenv("TMPDIR", ".", 1) != 0 || setgid(uid) != 0 ||
            setuid(uid) != 0)
            _exit(3);
        _exit(only_reads(text));
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

static void what_root_baked_is_read_by_others(void **state) {
    (void)state;
    if (geteuid() != 0) SKIP_TEST("only root can bake a cache as root");
    fill();
    assert_int_equal(chmod(root, 01777), 0); /* TMPDIR, and where code comes from */
    expect_only_read_as(12345, "cannot be written: Permission denied");
    /* A file that others could have written is not trusted, in a folder that is. */
    char path[256];
    path_in(path, sizeof path, "objects/plan");
    static const char *const files[] = {"objects/tuning/" HEX, "objects/code/" HEX ".so",
                                        "objects/weights/" HEX, "plans/" HEX "/key_factors.json"};
    static rp_status (*const get[])(cache_store *) = {get_small, get_code, get_large, get_text};
    for (size_t i = 0; i < 4; i++)
        for (int how = 0; how < 2; how++) {
            fill();
            path_in(path, sizeof path, files[i]);
            assert_int_equal(how ? chown(path, 4242, 4242) : chmod(path, 0664), 0);
            cache_store *s = open_store();
            assert_int_equal(get[i](s), RP_NOT_FOUND);
            cache_store_close(s);
        }
    assert_int_equal(chmod(root, 0700), 0);
}

/* Folders that an older version did not make are missed, not needed. */
static void a_folder_that_lacks_some_is_read(void **state) {
    (void)state;
    if (geteuid() != 0) SKIP_TEST("only root can bake a cache as root");
    char path[256];
    fill();
    path_in(path, sizeof path, "tmp");
    assert_int_equal(rmdir(path), 0);
    path_in(path, sizeof path, "locks");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(chmod(root, 01777), 0);
    expect_only_read_as(12345, "cannot make folder");
    assert_int_equal(chmod(root, 0700), 0);
}

/* Somebody removes the folder, or parts of it, while it is in use: what is put after that is there. */
static void a_removed_folder_is_made_again(void **state) {
    (void)state;
    static const char *const gone[] = {"", "objects", "tmp", "plans", "objects/weights"};
    cache_store *s = open_store();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        static rp_status (*const put[])(cache_store *) = {put_small, put_code, put_large, put_text};
        static rp_status (*const get[])(cache_store *) = {get_small, get_code, get_large, get_text};
        for (size_t k = 0; k < 4; k++) {
            char path[256];
            rp_error err = {0};
            path_in(path, sizeof path, gone[i]);
            CHECK_OK(base_path_remove(path, &err), &err);
            assert_int_equal(put[k](s), RP_OK);
            assert_int_equal(get[k](s), RP_OK);
        }
    }
    assert_null(cache_store_dropped_reason(s));
    cache_store_close(s);
}

/* No file grows beyond room bytes, as on a disk that is getting full; RLIM_INFINITY: as far as it may. */
static void disk_room(rlim_t room) {
    struct rlimit limit;
    (void)signal(SIGXFSZ, room == RLIM_INFINITY ? SIG_DFL : SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = room < limit.rlim_max ? room : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Any write to a file fails while this is on. */
static void disk_full(bool on) {
    disk_room(on ? 0 : RLIM_INFINITY);
}

static void full_at_open(void **state) {
    (void)state;
    cache_store *s = NULL;
    cache_store_close(open_store());
    base_buf heard;
    char want[600];
    heard_start(&heard, "");
    disk_full(true);
    assert_int_equal(cache_store_open(dir, &s, NULL), RP_OK);
    const char *why = cache_store_read_only_reason(s);
    for (int i = 0; i < 2; i++) assert_int_equal(put_text(s), RP_OK);
    disk_full(false);
    (void)snprintf(want, sizeof want, "what is new is not kept: %s\n", why ? why : "");
    assert_string_equal(heard.data, want); /* once */
    heard_done(&heard);
    assert_string_equal(cache_store_dropped_reason(s), why);
    assert_non_null(why);
    assert_non_null(strstr(why, "cannot be written"));
    assert_null(cache_store_off_reason(s));
    cache_store_close(s);
    assert_int_equal(count_files("tmp"), 0); /* no probe is left */
}

/* Room is made on a disk that has none. */
static void a_full_disk_is_pruned(void **state) {
    (void)state;
    cache_store *s = NULL;
    uint64_t n = 0, left = 1;
    rp_error err = {0};
    fill();
    disk_full(true);
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    rp_status st = cache_prune(s, 0, &n, &left, &err);
    disk_full(false);
    CHECK_OK(st, &err);
    assert_int_equal(n, 3);
    assert_int_equal(left, 0);
    cache_store_close(s);
}

/* A short write sets no errno; the one that follows it tells the cause. */
static void nearly_full_at_open_says_why(void **state) {
    (void)state;
    cache_store *s = NULL;
    cache_store_close(open_store());
    disk_room(100);
    errno = ENOENT;
    assert_int_equal(cache_store_open(dir, &s, NULL), RP_OK);
    const char *why = cache_store_read_only_reason(s);
    disk_room(RLIM_INFINITY);
    assert_non_null(why);
    assert_non_null(strstr(why, strerror(EFBIG)));
    cache_store_close(s);
    assert_int_equal(count_files("tmp"), 0);
}

static void full_later_drops_writes_but_reads_on(void **state) {
    (void)state;
    base_buf heard;
    cache_store *s = open_store();
    assert_int_equal(put_small(s), RP_OK);
    heard_start(&heard, "");
    disk_full(true);
    assert_int_equal(put_text(s), RP_OK);
    assert_int_equal(put_text(s), RP_OK);
    disk_full(false);
    assert_ptr_equal(strstr(heard.data, "nothing more is written to the cache: cannot write "),
                     heard.data);
    assert_ptr_equal(strchr(heard.data, '\n'), heard.data + heard.len - 1); /* said once */
    heard_done(&heard);
    assert_non_null(strstr(cache_store_dropped_reason(s), "cannot write"));
    assert_int_equal(get_small(s), RP_OK);
    assert_int_equal(get_text(s), RP_NOT_FOUND);
    assert_int_equal(put_code(s), RP_OK); /* private */
    assert_int_equal(get_code(s), RP_OK);
    cache_store_close(s);
    s = open_store(); /* space again */
    assert_int_equal(get_code(s), RP_NOT_FOUND);
    assert_null(cache_store_read_only_reason(s));
    cache_store_close(s);
}

/* The disk fills up in the middle of a large object: it ends in memory, whole. */
static void full_in_the_middle_of_a_large_object(void **state) {
    (void)state;
    enum { N = 10 * 65536 };
    cache_store *s = open_store();
    uint8_t *data = base_alloc(N);
    for (int i = 0; i < N; i++) data[i] = (uint8_t)(i / 251);
    for (int when = 0; when < 12; when++) {
        cache_writer *w = NULL;
        base_mapping m = {0};
        const uint8_t *payload = NULL;
        rp_error err = {0};
        cache_store_close(s);
        s = open_store();
        if (when == 0) disk_full(true);
        CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, key, N, &w, &err), &err);
        for (int i = 0; i < 10; i++) {
            if (when == i + 1) disk_full(true);
            CHECK_OK(cache_writer_add(w, data + i * 65536, 65536, &err), &err);
        }
        if (when == 11) disk_full(true);
        CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
        disk_full(false);
        assert_memory_equal(payload, data, N);
        cache_writer_free(w);
        base_file_unmap(&m);
        assert_int_equal(count_files("objects/weights"), 0);
        assert_int_equal(get_large(s), RP_NOT_FOUND);
    }
    base_free(data);
    cache_store_close(s);
}

/* ---- several at once ---- */

static void *write_and_read(void *arg) {
    cache_store *s = NULL;
    if (cache_store_open(dir, &s, NULL) != RP_OK) return arg;
    for (int i = 0; i < 60; i++) {
        char mine[128], text[64], *path = NULL;
        base_mapping m = {0};
        const uint8_t *payload = NULL;
        cache_writer *w = NULL;
        (void)snprintf(mine, sizeof mine, "%s/two%p-%d", root, arg, i);
        (void)snprintf(text, sizeof text, "contents");
        rp_status st = cache_put(s, CACHE_PLAN, key, text, strlen(text), NULL);
        if (st == RP_OK) st = base_file_write_atomic(mine, "same code", 9, NULL);
        if (st == RP_OK) st = cache_put_code(s, key, 1, mine, &path, NULL);
        if (st == RP_OK) st = cache_writer_open(s, CACHE_WEIGHTS, key, 8, &w, NULL);
        if (st == RP_OK) st = cache_writer_add(w, "12345678", 8, NULL);
        if (st == RP_OK) st = cache_writer_commit(w, &m, &payload, NULL);
        cache_writer_free(w);
        base_file_unmap(&m);
        base_free(path);
        path = NULL;
        char *out = NULL;
        size_t size = 0;
        if (st == RP_OK) st = cache_get(s, CACHE_PLAN, key, &out, &size, NULL);
        if (st == RP_OK && strcmp(out, "contents") != 0) st = RP_CORRUPT;
        base_free(out);
        if (st == RP_OK) st = cache_get_code(s, key, 1, &path, NULL);
        base_free(path);
        if (st == RP_OK) st = cache_map(s, CACHE_WEIGHTS, key, true, &m, &payload, &size, NULL);
        base_file_unmap(&m);
        if (st != RP_OK || cache_store_dropped_reason(s)) {
            cache_store_close(s);
            return arg;
        }
    }
    cache_store_close(s);
    return NULL;
}

static void two_writers_do_not_disturb_each_other(void **state) {
    (void)state;
    pthread_t a, b;
    int x, y;
    void *bad_a = NULL, *bad_b = NULL;
    assert_int_equal(pthread_create(&a, NULL, write_and_read, &x), 0);
    assert_int_equal(pthread_create(&b, NULL, write_and_read, &y), 0);
    assert_int_equal(pthread_join(a, &bad_a), 0);
    assert_int_equal(pthread_join(b, &bad_b), 0);
    assert_null(bad_a);
    assert_null(bad_b);
    assert_int_equal(count_files("objects/plan"), 1);
    assert_int_equal(count_files("objects/code"), 2);
    assert_int_equal(count_files("objects/weights"), 1);
    assert_int_equal(count_files("quarantine"), 0);
}

/* ---- ls and verify ---- */

typedef struct tally {
    int n, bad;
    char text[1024];
} tally;

static rp_status tally_entry(void *user, const cache_entry *e, rp_error *err) {
    tally *t = user;
    (void)err;
    t->n++;
    t->bad += !e->ok;
    assert_int_equal(strlen(e->key), 32);
    assert_true(e->mtime > 0);
    size_t len = strlen(t->text);
    (void)snprintf(t->text + len, sizeof t->text - len, "%d %llu %s\n", (int)e->kind,
                   (unsigned long long)e->size, e->ok ? "ok" : e->reason);
    return RP_OK;
}

static bool stop_at_second(void *user, const rp_cache_entry *e) {
    int *n = user;
    (void)e;
    return ++*n < 2;
}

static bool stop_at_share(void *user, const rp_cache_share *s) {
    int *n = user;
    (void)s;
    return ++*n < 3;
}

/* Who has seen enough says so, which is no failure. */
static void a_listing_may_be_stopped(void **state) {
    rp_cache *c = NULL;
    rp_error err = {0};
    int entries = 0, shares = 0;
    (void)state;
    fill();
    CHECK_OK(rp_cache_open(dir, &c, &err), &err);
    CHECK_OK(rp_cache_list(c, false, stop_at_second, &entries, &err), &err);
    assert_int_equal(entries, 2);
    CHECK_OK(rp_cache_usage(c, stop_at_share, &shares, &err), &err);
    assert_int_equal(shares, 3);
    rp_cache_close(c);
}

static void lists_and_verifies(void **state) {
    (void)state;
    cache_store *s = open_store();
    tally t = {0};
    rp_error err = {0};
    char path[256];
    assert_int_equal(put_small(s), RP_OK);
    assert_int_equal(put_code(s), RP_OK);
    assert_int_equal(put_large(s), RP_OK);
    CHECK_OK(cache_put(s, CACHE_PLAN, key, "plan", 4, &err), &err);
    CHECK_OK(cache_list(s, false, tally_entry, &t, &err), &err);
    assert_string_equal(t.text, "0 68 ok\n1 12 ok\n2 5096 ok\n3 83 ok\n");
    t = (tally){0};
    CHECK_OK(cache_list(s, true, tally_entry, &t, &err), &err);
    assert_int_equal(t.n, 4);
    assert_int_equal(t.bad, 0);
    /* Longer than its header says: listing sees it. */
    path_in(path, sizeof path, "objects/plan/" HEX);
    int longer = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(longer, "x", 1), 1);
    t = (tally){0};
    CHECK_OK(cache_list(s, false, tally_entry, &t, &err), &err);
    assert_string_equal(t.text,
                        "0 69 its size is not the stored one\n1 12 ok\n2 5096 ok\n3 83 ok\n");
    assert_int_equal(ftruncate(longer, 68), 0);
    (void)close(longer);
    /* Damage in the payload: listing does not see it, verifying does and puts it away. */
    path_in(path, sizeof path, "objects/weights/" HEX);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 5000), 1);
    (void)close(fd);
    path_in(path, sizeof path, "objects/code/" HEX ".sum");
    assert_int_equal(unlink(path), 0);
    path_in(path, sizeof path, "objects/code/nonsense");
    write_file(path, "x", 1);
    path_in(path, sizeof path, "objects/plan/0123456789abcdef0123456789abcdeg"); /* no key either */
    write_file(path, "x", 1);
    t = (tally){0};
    CHECK_OK(cache_list(s, true, tally_entry, &t, &err), &err);
    assert_string_equal(t.text,
                        "0 68 ok\n1 12 its .sum is missing\n2 5096 checksum mismatch\n3 83 ok\n");
    t = (tally){0};
    CHECK_OK(cache_list(s, true, tally_entry, &t, &err), &err);
    assert_int_equal(t.n, 2);
    assert_int_equal(count_files("quarantine"), 2);
    /* Damaged code goes, and its checksum, which is of no use alone. */
    assert_int_equal(put_code(s), RP_OK);
    path_in(path, sizeof path, "objects/code/" HEX ".so");
    assert_int_equal(truncate(path, 5), 0);
    CHECK_OK(cache_list(s, true, tally_entry, &t, &err), &err);
    path_in(path, sizeof path, "objects/code/" HEX ".sum");
    assert_false(base_file_exists(path));
    cache_store_close(s);
}

/* Memory that is short says nothing about the folder: the caller is told, and later writes are made. */
static void short_memory_is_no_broken_folder(void **state) {
    (void)state;
    cache_store *s = open_store();
    unsigned short_of = 0;
    assert_int_equal(put_small(s), RP_OK);
    FOR_EACH_ALLOC_FAILURE (n) {
        rp_status st = put_small(s);
        assert_true(st == RP_OK || st == RP_NOMEM);
        short_of += st == RP_NOMEM;
        if (cache_store_read_only_reason(s)) fail_msg("%s", cache_store_read_only_reason(s));
    }
    assert_true(short_of > 0);
    assert_int_equal(put_small(s), RP_OK);
    assert_null(cache_store_dropped_reason(s));
    cache_store_close(s);
}

/* Sets the time of last use, in seconds ago. */
static void age(const char *rest, int seconds) {
    char path[256];
    struct timespec t[2];
    path_in(path, sizeof path, rest);
    (void)clock_gettime(CLOCK_REALTIME, &t[0]);
    t[0].tv_sec -= seconds;
    t[1] = t[0];
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* Each look-up of an object is a hit or a miss, which the log tells with its kind and key; texts are none. */
static void lookups_are_counted(void **state) {
    static rp_status (*const get[])(cache_store *) = {get_small, get_code, get_large};
    static rp_status (*const put[])(cache_store *) = {put_small, put_code, put_large};
    static const char *const name[] = {"tuning", "code", "weights"};
    cache_store *s = open_store();
    base_buf heard;
    (void)state;
    heard_start(&heard, "cache");
    for (uint64_t i = 0; i < 3; i++) {
        char line[80];
        assert_int_equal(get[i](s), RP_NOT_FOUND);
        assert_int_equal(cache_misses(s), i + 1);
        assert_int_equal(cache_hits(s), 2 * i);
        (void)snprintf(line, sizeof line, "miss %s/" HEX ": not stored\n", name[i]);
        CHECK_HEARD(&heard, line);
        assert_int_equal(put[i](s), RP_OK);
        assert_int_equal(cache_hits(s), 2 * i);
        for (uint64_t n = 1; n <= 2; n++) {
            assert_int_equal(get[i](s), RP_OK);
            assert_int_equal(cache_hits(s), 2 * i + n);
        }
        (void)snprintf(line, sizeof line, "hit %s/" HEX "\n", name[i]);
        CHECK_HEARD(&heard, line);
        assert_int_equal(cache_misses(s), i + 1);
    }
    assert_int_equal(put_text(s), RP_OK);
    assert_int_equal(get_text(s), RP_OK);
    assert_int_equal(cache_hits(s), 6);
    heard_done(&heard);
    cache_store_close(s);
}

/* A store that is off takes nothing, and who opened it knows. */
static void what_is_off_warns_of_nothing(void **state) {
    base_buf heard;
    (void)state;
    assert_int_equal(setenv("REPRISE_DISABLE_COMPILE_CACHE", "1", 1), 0);
    heard_start(&heard, "");
    cache_store *s = open_store();
    (void)put_small(s);
    (void)put_code(s);
    (void)put_text(s);
    assert_non_null(cache_store_off_reason(s));
    if (heard.len) fail_msg("%s", heard.data);
    cache_store_close(s);
    heard_done(&heard);
    assert_int_equal(unsetenv("REPRISE_DISABLE_COMPILE_CACHE"), 0);
}

/* What goes first is what was used longest ago: reading is using. */
static void what_is_read_is_young(void **state) {
    static const struct {
        const char *file;
        rp_status (*put)(cache_store *), (*get)(cache_store *);
    } all[] = {{"objects/tuning/" HEX, put_small, get_small},
               {"objects/code/" HEX ".so", put_code, get_code},
               {"objects/weights/" HEX, put_large, get_large}};
    cache_store *s = open_store();
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct stat info;
        struct timespec now;
        char path[256];
        assert_int_equal(all[i].put(s), RP_OK);
        age(all[i].file, 5000);
        assert_int_equal(all[i].get(s), RP_OK);
        path_in(path, sizeof path, all[i].file);
        assert_int_equal(stat(path, &info), 0);
        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec - info.st_mtim.tv_sec > 4000) fail_msg("%s is as old as before", path);
    }
    cache_store_close(s);
}

static void prunes_what_was_used_longest_ago(void **state) {
    (void)state;
    cache_store *s = open_store();
    rp_error err = {0};
    uint64_t n = 0, left = 0;
    char path[256];
    assert_int_equal(put_small(s), RP_OK);
    assert_int_equal(put_code(s), RP_OK);
    assert_int_equal(put_large(s), RP_OK);
    assert_int_equal(put_text(s), RP_OK);
    CHECK_OK(cache_put(s, CACHE_PLAN, key, "plan", 4, &err), &err);
    path_in(path, sizeof path, "quarantine/x");
    write_file(path, "x", 1);
    age("objects/tuning/" HEX, 500);
    age("objects/code/" HEX ".so", 400);
    age("objects/weights/" HEX, 300);
    age("objects/plan/" HEX, 200);
    CHECK_OK(cache_prune(s, 1 << 20, &n, &left, &err), &err);
    assert_int_equal(n, 0);
    assert_int_equal(left, 83 + 12 + 5096 + 68);
    assert_int_equal(count_files("quarantine"), 0);
    assert_int_equal(get_small(s), RP_OK); /* used now: the youngest */
    CHECK_OK(cache_prune(s, 5200, &n, &left, &err), &err);
    assert_int_equal(n, 2); /* code and weights */
    assert_int_equal(count_files("objects/code"), 0);
    assert_int_equal(get_large(s), RP_NOT_FOUND);
    assert_int_equal(get_small(s), RP_OK);
    assert_int_equal(get_text(s), RP_NOT_FOUND); /* handle and source go with the code */
    assert_int_equal(put_text(s), RP_OK);
    CHECK_OK(cache_prune(s, 83, &n, &left, &err), &err);
    assert_int_equal(left, 83);
    assert_int_equal(count_files("plans"), 0); /* its texts go with the plan */
    CHECK_OK(cache_prune(s, 0, &n, &left, &err), &err);
    assert_int_equal(left, 0);
    assert_int_equal(count_files("objects/tuning"), 0);
    cache_store_close(s);
}

/* Of those that were used in one second the first names go first, whatever their kinds and sizes. */
static void prunes_equal_ages_by_name(void **state) {
    static const struct {
        cache_kind kind;
        base_hash128 key;
    } all[] = {{CACHE_TUNING, {.hi = 5, .lo = 1}}, {CACHE_PLAN, {.hi = 5, .lo = 0}},
               {CACHE_PLAN, {.hi = 0, .lo = 9}},   {CACHE_TUNING, {.hi = 7, .lo = 7}},
               {CACHE_PLAN, {.hi = 6, .lo = 2}},   {CACHE_TUNING, {.hi = 0, .lo = 10}}};
    static const int order[] = {2, 5, 1, 0, 4, 3};
    enum { N = sizeof all / sizeof *all };
    const struct timespec t[2] = {{1000000000, 0}, {1000000000, 0}};
    rp_error err = {0};
    uint64_t n = 0, left = 0;
    cache_store *s = open_store();
    (void)state;
    for (int i = 0; i < N; i++) {
        char path[256], hex[33], rest[80];
        CHECK_OK(cache_put(s, all[i].kind, all[i].key, "0123456789", (size_t)(i + 1), &err), &err);
        base_hash_hex(all[i].key, hex);
        (void)snprintf(rest, sizeof rest, "objects/%s/%s",
                       all[i].kind == CACHE_PLAN ? "plan" : "tuning", hex);
        path_in(path, sizeof path, rest);
        assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
    }
    CHECK_OK(cache_prune(s, UINT64_MAX, &n, &left, &err), &err);
    for (int i = 0; i < N; i++) {
        char *out = NULL;
        size_t size = 0;
        const uint64_t all_of = left;
        CHECK_OK(cache_prune(s, all_of, &n, &left, &err), &err); /* all that there is has room */
        assert_int_equal(n, 0);
        CHECK_OK(cache_prune(s, all_of - 1, &n, &left, &err), &err);
        assert_int_equal(n, 1);
        assert_true(left < all_of);
        const int gone = order[i];
        assert_int_equal(cache_get(s, all[gone].kind, all[gone].key, &out, &size, &err),
                         RP_NOT_FOUND);
    }
    assert_int_equal(left, 0);
    cache_store_close(s);
}

/* More than the list that it sorts begins with: the oldest go, whatever their names. */
/* Texts of no object are dear to make again, and go with all else alone. */
static void texts_of_no_object_stay_until_all_goes(void **state) {
    (void)state;
    cache_store *s = open_store();
    rp_error err = {0};
    uint64_t n = 0, left = 0;
    assert_int_equal(put_text(s), RP_OK);
    CHECK_OK(cache_prune(s, UINT64_MAX, &n, &left, &err), &err);
    assert_int_equal(get_text(s), RP_OK);
    CHECK_OK(cache_prune(s, 1, &n, &left, &err), &err);
    assert_int_equal(get_text(s), RP_OK);
    assert_int_equal(n, 0);
    CHECK_OK(cache_prune(s, 0, &n, &left, &err), &err);
    assert_int_equal(get_text(s), RP_NOT_FOUND);
    cache_store_close(s);
}

static void prunes_among_many(void **state) {
    enum { N = 150, KEPT = 10 };
    (void)state;
    cache_store *s = open_store();
    rp_error err = {0};
    uint64_t n = 0, left = 0;
    for (int i = 0; i < N; i++) {
        const base_hash128 k = {(uint64_t)i * 77, 1};
        char name[64] = "objects/plan/";
        CHECK_OK(cache_put(s, CACHE_PLAN, k, "plan", 4, &err), &err);
        base_hash_hex(k, name + strlen(name));
        age(name, 1000 + i * 37 % N);
    }
    CHECK_OK(cache_prune(s, 1 << 20, &n, &left, &err), &err);
    assert_int_equal(n, 0);
    assert_int_equal(left, N * 68);
    CHECK_OK(cache_prune(s, KEPT * 68, &n, &left, &err), &err);
    assert_int_equal(n, N - KEPT);
    assert_int_equal(left, KEPT * 68);
    for (int i = 0; i < N; i++) {
        const base_hash128 k = {(uint64_t)i * 77, 1};
        char hex[33], path[256], name[64];
        base_hash_hex(k, hex);
        (void)snprintf(name, sizeof name, "objects/plan/%s", hex);
        path_in(path, sizeof path, name);
        assert_int_equal(access(path, F_OK) == 0, i * 37 % N < KEPT);
    }
    cache_store_close(s);
}

/* A name as a writer gives it: <rest>.tmp-<maker>-7. */
static void temp_in(char *out, size_t size, const char *rest, base_maker m) {
    base_buf b;
    base_buf_init(&b, 0);
    base_maker_put(&m, &b);
    (void)snprintf(out, size, "%s/%s.tmp-%s-7", dir, rest, b.data);
    base_buf_done(&b);
}

/* A process that has ended and been waited for. */
static base_maker dead_maker(void) {
    base_maker m;
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        m = base_maker_self();
        _exit(write(fds[1], &m, sizeof m) != sizeof m);
    }
    assert_int_equal(read(fds[0], &m, sizeof m), sizeof m);
    assert_true(waitpid(pid, &status, 0) == pid);
    (void)close(fds[0]);
    (void)close(fds[1]);
    return m;
}

/* A writer that was killed leaves a temporary name where it wrote, gone at the next start, however young; one at work
 * keeps its own, and another machine's counts as at work for an hour. */
static void clears_what_killed_writers_left(void **state) {
    (void)state;
    static const char *const where[] = {"tmp/" HEX, "models/m.gguf", "objects/weights/" HEX,
                                        "plans/" HEX "/key_factors.json"};
    cache_store *s = open_store();
    base_maker self = base_maker_self(), dead = dead_maker(), reused = self, far = self;
    rp_error err = {0};
    uint64_t n = 0, left = 0;
    tally t = {0};
    char path[640], old[600];
    reused.start--;
    far.host ^= 2;
    assert_int_equal(base_maker_fate(&self), BASE_ALIVE);
    assert_int_equal(base_maker_fate(&dead), BASE_DEAD);
    assert_int_equal(base_maker_fate(&reused), BASE_DEAD); /* its number is another's now */
    assert_int_equal(base_maker_fate(&far), BASE_UNKNOWN);
    assert_int_equal(put_text(s), RP_OK);
    path_in(path, sizeof path, "models");
    assert_int_equal(mkdir(path, 0755), 0);
    for (int how = 0; how < 3; how++) { /* at a start, and both ways to clear in full */
        size_t n_where = how == 0 ? 2 : 4;
        for (size_t i = 0; i < n_where; i++) {
            const base_maker gone[] = {dead, reused, far};
            const base_maker there[] = {self, far};
            for (size_t k = 0; k < 3; k++) {
                temp_in(path, sizeof path, where[i], gone[k]);
                if (i == 1) /* a download is a folder */
                    assert_int_equal(mkdir(path, 0755), 0);
                else
                    write_file(path, "x", 1);
            }
            age(path + strlen(dir) + 1, 4000);
            (void)snprintf(old, sizeof old, "%.500s-young", path);
            write_file(old, "x", 1);
            temp_in(path, sizeof path, where[i], self);
            write_file(path, "x", 1);
            if (how == 0)
                cache_store_sweep(s);
            else if (how == 1)
                CHECK_OK(cache_prune(s, 1 << 20, &n, &left, &err), &err);
            else
                CHECK_OK(cache_list(s, true, tally_entry, &t, &err), &err);
            for (size_t k = 0; k < 3; k++) {
                temp_in(path, sizeof path, where[i], gone[k]);
                if (base_file_exists(path)) fail_msg("still there: %s", path);
            }
            for (size_t k = 0; k < 2; k++) {
                temp_in(path, sizeof path, where[i], there[k]);
                if (k == 1) (void)snprintf(path, sizeof path, "%s", old);
                if (!base_file_exists(path)) fail_msg("removed: %s", path);
                assert_int_equal(unlink(path), 0);
            }
        }
    }
    path_in(path, sizeof path, "objects/code/" HEX ".sum"); /* its code is gone */
    write_file(path, "x", 1);
    CHECK_OK(cache_prune(s, 1 << 20, &n, &left, &err), &err);
    assert_int_equal(count_files("objects/code"), 0);
    assert_int_equal(get_text(s), RP_OK);
    cache_store_close(s);
}

/* A compiler that was killed leaves its lock in the store, and scratch where nobody looks at each start: the lock is the sign. */
static void a_left_lock_tells_of_scratch(void **state) {
    (void)state;
    cache_store *s = open_store();
    const base_maker dead = dead_maker(), self = base_maker_self();
    const base_maker *const of[] = {&self, &dead};
    char lock[256], scratch[256];
    path_in(lock, sizeof lock, "locks/code-" HEX);
    for (int killed = 0; killed < 2; killed++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_maker_put(&dead, &b);
        (void)snprintf(scratch, sizeof scratch, "%s/reprise-cc.tmp-%s-0", root, b.data);
        if (!base_file_exists(scratch)) assert_int_equal(mkdir(scratch, 0700), 0);
        base_buf_clear(&b);
        base_maker_put(of[killed], &b);
        write_file(lock, b.data, b.len);
        base_buf_done(&b);
        cache_store_sweep(s);
        assert_int_equal(base_file_exists(lock), !killed);
        assert_int_equal(base_file_exists(scratch), !killed);
    }
    cache_store_close(s);
}

/* A folder where an object belongs, with something in it, for which the good object is moved away. */
static void block(const look *l) {
    char path[256], inside[300];
    path_in(path, sizeof path, l->file);
    if (base_file_exists(path)) assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    (void)snprintf(inside, sizeof inside, "%s/in it", path);
    write_file(inside, "x", 1);
}

static bool is_blocked(const look *l) {
    char path[256];
    path_in(path, sizeof path, l->file);
    return base_file_exists(path);
}

/* Whoever looks it up, verifies or writes first: the folder goes, and nothing stays unwritten for it. */
static void a_folder_in_its_place_is_damage(void **state) {
    (void)state;
    for (int how = 0; how < 3; how++) {
        for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
            const look *l = &looks[i];
            bool is_text = l->get == get_text;
            rp_error err = {0};
            tally t = {0};
            fresh(NULL);
            cache_store *s = open_store();
            for (int times = 0; times < 2; times++) { /* the second finds one in quarantine */
                assert_int_equal(l->put(s), RP_OK);
                block(l);
                if (how == 0) assert_int_equal(l->get(s), RP_NOT_FOUND);
                if (how == 1) CHECK_OK(cache_list(s, true, tally_entry, &t, &err), &err);
                if (how == 1) assert_int_equal(t.bad, is_text ? 0 : times + 1);
                if (how == 1) assert_false(is_blocked(l));
                if (how == 1) assert_int_equal(l->get(s), RP_NOT_FOUND);
                assert_int_equal(l->put(s), RP_OK);
                assert_null(cache_store_read_only_reason(s));
                assert_int_equal(l->get(s), RP_OK);
            }
            cache_store_close(s);
        }
    }
}

/* The header of code that is gone. */
static void a_folder_for_a_header_goes(void **state) {
    (void)state;
    cache_store *s = open_store();
    rp_error err = {0};
    tally t = {0};
    block(&looks[2]);
    CHECK_OK(cache_list(s, true, tally_entry, &t, &err), &err);
    assert_int_equal(count_files("objects/code"), 0);
    cache_store_close(s);
}

/* What is not known of an object is no error: it is listed without. */
static void an_object_may_be_nameless(void **state) {
    cache_store *s = open_store();
    rp_error err = {0};
    char *model = (char *)"-", *settings = (char *)"-";
    (void)state;
    CHECK_OK(cache_about(s, HEX, &model, &settings, &err), &err); /* not there at all */
    assert_null(model);
    assert_null(settings);
    CHECK_OK(cache_put_text(s, key, "model", "a model", &err), &err);
    CHECK_OK(cache_about(s, HEX, &model, &settings, &err), &err);
    assert_string_equal(model, "a model");
    assert_null(settings);
    base_free(model);
    CHECK_OK(cache_about(s, "no key", &model, &settings, &err), &err);
    assert_null(model);
    assert_null(settings);
    cache_store_close(s);
}

/* Every file counts once, under one name. */
static void counts_what_the_folder_takes(void **state) {
    (void)state;
    cache_store *s = open_store();
    cache_share got[CACHE_SHARE_COUNT_];
    base_maker self = base_maker_self(), dead = dead_maker();
    uint64_t code = 0, weights = 0;
    rp_error err = {0};
    char path[640], line[64] = "code " HEX "\nweights 4711\n";
    assert_int_equal(put_small(s), RP_OK);
    assert_int_equal(put_code(s), RP_OK);
    CHECK_OK(cache_put_text(s, key, CACHE_PARTS, line, &err), &err);
    path_in(path, sizeof path, "quarantine/plan-x");
    write_file(path, "12345", 5);
    path_in(path, sizeof path, "models");
    assert_int_equal(mkdir(path, 0755), 0);
    path_in(path, sizeof path, "models/m.gguf");
    write_file(path, "123456", 6);
    path_in(path, sizeof path, "models/m.gguf.lock"); /* counts nowhere */
    write_file(path, "123", 3);
    temp_in(path, sizeof path, "models/m.gguf", dead); /* a download */
    assert_int_equal(mkdir(path, 0755), 0);
    (void)strcat(path, "/part");
    write_file(path, "1234567", 7);
    temp_in(path, sizeof path, "tmp/" HEX, self);
    write_file(path, "12345678", 8);
    temp_in(path, sizeof path, "../reprise-cc", dead); /* TMPDIR is the folder above */
    assert_int_equal(mkdir(path, 0755), 0);
    (void)strcat(path, "/piece.c");
    write_file(path, "123456789", 9);
    CHECK_OK(cache_usage(s, got, &err), &err);
    CHECK_OK(cache_plan_parts(s, "00000000000000000000000000000007", &code, &weights, &err), &err);
    assert_true(code == 0 && weights == 0); /* a plan that lost its list, and what is no key */
    CHECK_OK(cache_plan_parts(s, "none", &code, &weights, &err), &err);
    CHECK_OK(cache_plan_parts(s, HEX, &code, &weights, &err), &err);
    assert_int_equal(got[CACHE_TUNING].n_files, 1);
    assert_int_equal(got[CACHE_CODE].n_files, 2);
    assert_int_equal(got[CACHE_CODE].bytes, code + 64);
    assert_int_equal(weights, 4711);
    assert_int_equal(got[CACHE_SHARE_TEXTS].n_files, 2);
    static const struct {
        int kind;
        uint64_t files, bytes;
    } want[] = {
        {CACHE_PLAN, 0, 0},         {CACHE_WEIGHTS, 0, 0},         {CACHE_SHARE_QUARANTINE, 1, 5},
        {CACHE_SHARE_MODELS, 1, 6}, {CACHE_SHARE_LEFTOVERS, 1, 7}, {CACHE_SHARE_WORKING, 1, 8}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_int_equal(got[want[i].kind].n_files, want[i].files);
        assert_int_equal(got[want[i].kind].bytes, want[i].bytes);
    }
    /* and that of others */
    assert_true(got[CACHE_SHARE_SCRATCH].n_files >= 1 && got[CACHE_SHARE_SCRATCH].bytes >= 9);
    if (geteuid() == 0) { /* that of other users is theirs */
        uint64_t bytes = got[CACHE_SHARE_SCRATCH].bytes;
        *strrchr(path, '/') = 0;
        assert_int_equal(chown(path, 1, (gid_t)-1), 0);
        CHECK_OK(cache_usage(s, got, &err), &err);
        assert_true(got[CACHE_SHARE_SCRATCH].bytes < bytes);
        assert_int_equal(chown(path, 0, (gid_t)-1), 0);
    }
    cache_store_close(s);
}

static void default_folder_follows_the_environment(void **state) {
    (void)state;
    char *out = NULL;
    rp_error err = {0};
    (void)setenv("REPRISE_CACHE_DIR", "/a/b/", 1);
    (void)setenv("XDG_CACHE_HOME", "/xdg", 1);
    (void)setenv("HOME", "/home/me", 1);
    CHECK_OK(cache_default_dir("/given", &out, &err), &err);
    assert_string_equal(out, "/given");
    base_free(out);
    CHECK_OK(cache_default_dir(NULL, &out, &err), &err);
    assert_string_equal(out, "/a/b");
    base_free(out);
    (void)unsetenv("REPRISE_CACHE_DIR");
    CHECK_OK(cache_default_dir("", &out, &err), &err);
    assert_string_equal(out, "/xdg/reprise");
    base_free(out);
    (void)setenv("XDG_CACHE_HOME", "relative", 1);
    CHECK_OK(cache_default_dir(NULL, &out, &err), &err);
    assert_string_equal(out, "/home/me/.cache/reprise");
    base_free(out);
    (void)unsetenv("HOME");
    (void)unsetenv("XDG_CACHE_HOME");
    assert_int_equal(cache_default_dir(NULL, &out, &err), RP_NOT_FOUND);
    cache_store *s = NULL;
    assert_int_equal(cache_store_open(NULL, &s, NULL), RP_OK);
    assert_non_null(strstr(cache_store_off_reason(s), "HOME"));
    assert_string_equal(cache_store_dir(s), "");
    assert_int_equal(put_large(s), RP_OK);
    cache_store_close(s);
}

#define T(fn) \
    { #fn, fn, fresh, NULL, NULL }
#define BYTES(i)                                                            \
    {                                                                       \
        "every_flipped_or_missing_byte_is_a_miss (" #i ")",                 \
            every_flipped_or_missing_byte_is_a_miss, fresh, NULL, &looks[i] \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        T(small_objects_round_trip),
        BYTES(0),
        BYTES(1),
        BYTES(2),
        BYTES(3),
        BYTES(4),
        BYTES(5),
        T(a_text_has_the_line_of_its_sum),
        T(a_renamed_object_is_foreign),
        T(code_is_moved_in_and_tied_to_its_isa),
        T(large_objects_round_trip),
        T(a_store_that_is_off_gives_nothing),
        T(an_object_may_be_cut_short_while_mapped),
        T(uncommitted_writes_leave_nothing),
        T(large_damage_is_found),
        T(mapping_100_mb_is_quick),
        T(a_text_without_memory_is_no_miss),
        T(refuses_group_and_world_writable),
        T(refuses_foreign_folders),
        T(a_file_in_the_way),
        T(unwritable_folder),
        T(what_root_baked_is_read_by_others),
        T(a_folder_that_lacks_some_is_read),
        T(a_removed_folder_is_made_again),
        T(full_at_open),
        T(a_full_disk_is_pruned),
        T(nearly_full_at_open_says_why),
        T(full_later_drops_writes_but_reads_on),
        T(full_in_the_middle_of_a_large_object),
        T(two_writers_do_not_disturb_each_other),
        T(a_listing_may_be_stopped),
        T(lists_and_verifies),
        T(short_memory_is_no_broken_folder),
        T(lookups_are_counted),
        T(what_is_read_is_young),
        T(what_is_off_warns_of_nothing),
        T(prunes_what_was_used_longest_ago),
        T(prunes_equal_ages_by_name),
        T(texts_of_no_object_stay_until_all_goes),
        T(prunes_among_many),
        T(clears_what_killed_writers_left),
        T(a_left_lock_tells_of_scratch),
        T(a_folder_in_its_place_is_damage),
        T(a_folder_for_a_header_goes),
        T(an_object_may_be_nameless),
        T(counts_what_the_folder_takes),
        T(default_folder_follows_the_environment),
    };
    return cmocka_run_group_tests_name("cache_store", tests, set_up, tear_down);
}
