/* What a file is called after its bytes are on disk: a name that appears, by rename or link, belongs to bytes that fsync
 * has seen as they are. This program stands in for fsync and rename and compares. */
#include "support/check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "cache/store.h"
#include "support/trees.h"

enum { MAX_SEEN = 64 };
static struct {
    ino_t ino;
    base_hash128 bytes;
} seen[MAX_SEEN];
static size_t n_seen, n_named;
static const char *unsynced; /* the first name that came too early */

static base_hash128 hash_of(int fd) {
    struct stat st = {0};
    uint8_t part[4096];
    base_hasher *h = base_hasher_new();
    (void)fstat(fd, &st);
    for (off_t at = 0; at < st.st_size;) {
        ssize_t n = pread(fd, part, sizeof part, at);
        if (n <= 0) break;
        base_hasher_add(h, part, (size_t)n);
        at += n;
    }
    base_hash128 out = base_hasher_digest(h);
    base_hasher_free(h);
    return out;
}

/* The file is opened again: it may be open for writing only. */
int fsync(int fd) {
    struct stat st;
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(again >= 0 && fstat(again, &st) == 0 && n_seen < MAX_SEEN);
    seen[n_seen].ino = st.st_ino;
    seen[n_seen++].bytes = hash_of(again);
    return close(again);
}

static bool is_synced(const char *path) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool found = false;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (fd >= 0) (void)close(fd);
        return true;
    }
    base_hash128 now = hash_of(fd);
    for (size_t i = 0; i < n_seen; i++)
        found |= seen[i].ino == st.st_ino && seen[i].bytes.lo == now.lo &&
                 seen[i].bytes.hi == now.hi;
    (void)close(fd);
    return found;
}

int rename(const char *from, const char *to) {
    n_named++;
    if (!unsynced && !is_synced(from)) unsynced = strdup(to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void check_synced(size_t at_least) {
    if (unsynced) fail_msg("%s was named before its bytes were on disk", unsynced);
    assert_true(n_named >= at_least);
    n_named = n_seen = 0;
}

/* ---- everything that must survive a loss of power ---------------------------------------------------------- */

static const base_hash128 key = {3, 4};
static char dir[256];

static cache_store *open_store(void) {
    cache_store *s = NULL;
    rp_error err = {0};
    (void)snprintf(dir, sizeof dir, "%s", tree_new("cache"));
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    n_named = n_seen = 0;
    return s;
}

static void small_objects(void **state) {
    rp_error err = {0};
    (void)state;
    cache_store *s = open_store();
    CHECK_OK(cache_put(s, CACHE_PLAN, key, "the plan", 8, &err), &err);
    cache_store_close(s);
    check_synced(1);
}

static void code(void **state) {
    rp_error err = {0};
    char *path = NULL, made[512];
    (void)state;
    cache_store *s = open_store();
    (void)snprintf(made, sizeof made, "%s/new.so", tree_new("made"));
    CHECK_OK(base_file_write_atomic(made, "code", 4, &err), &err);
    check_synced(1);
    CHECK_OK(cache_put_code(s, key, 9, made, &path, &err), &err);
    base_free(path);
    cache_store_close(s);
    check_synced(2); /* itself and its header */
}

static void large_objects(void **state) {
    static uint8_t bytes[3 * 65536 + 5];
    rp_error err = {0};
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload;
    (void)state;
    cache_store *s = open_store();
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, key, sizeof bytes, &w, &err), &err);
    CHECK_OK(cache_writer_add(w, bytes, sizeof bytes, &err), &err);
    CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
    cache_writer_free(w);
    base_file_unmap(&m);
    cache_store_close(s);
    check_synced(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_objects),
        cmocka_unit_test(code),
        cmocka_unit_test(large_objects),
    };
    return cmocka_run_group_tests_name("cache_sync", tests, NULL, NULL);
}
