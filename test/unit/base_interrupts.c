/* Signals end system calls before they are done, and calls do a part of what they were asked: nobody who reads or writes may notice. */
#include "support/check.h"
#include "support/trees.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "base/target.h"
#include "cache/bundle.h"
#include "cache/store.h"

enum { MOST = 1000, SIZE = 150 * 1000 + 7 };
static bool unsteady;
static int full_at; /* calls of pwrite until there is once no room; 0: there is */
static uint32_t drawn;
static int interrupted;

/* One call in two is interrupted, by no pattern that calls in turns would meet. */
static bool interrupts(size_t *size) {
    if (!unsteady) return false;
    if (*size > MOST) *size = MOST;
    drawn = drawn * 1664525 + 1013904223;
    if (drawn >> 31) return false;
    interrupted++;
    errno = EINTR;
    return true;
}

/* In place of those of libc. */
ssize_t read(int fd, void *to, size_t size) {
    return interrupts(&size) ? -1 : syscall(SYS_read, fd, to, size);
}

ssize_t write(int fd, const void *from, size_t size) {
    return interrupts(&size) ? -1 : syscall(SYS_write, fd, from, size);
}

ssize_t pread(int fd, void *to, size_t size, off_t at) {
    return interrupts(&size) ? -1 : syscall(SYS_pread64, fd, to, size, at);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    if (full_at && --full_at == 0) {
        errno = ENOSPC;
        return -1;
    }
    return interrupts(&size) ? -1 : syscall(SYS_pwrite64, fd, from, size, at);
}

int poll(struct pollfd *fds, nfds_t n, int timeout) {
    size_t size = 0;
    return interrupts(&size) ? -1 : (int)syscall(SYS_poll, fds, n, timeout);
}

pid_t waitpid(pid_t pid, int *state, int options) {
    size_t size = 0;
    return interrupts(&size) ? -1 : (pid_t)syscall(SYS_wait4, pid, state, options, NULL);
}

static uint8_t *data;
static char root[96], path[128], dir[128], to[128];

static void begin(void) {
    unsteady = true;
    drawn = 1;
    interrupted = 0;
}

static void end(int least) {
    unsteady = false;
    if (interrupted < least) fail_msg("%d interrupts; %d were wanted", interrupted, least);
}

static void check_file(void) {
    char *out = NULL;
    size_t size = 0;
    rp_error err = {0};
    begin();
    CHECK_OK(base_file_read(path, 1 << 20, &out, &size, &err), &err);
    end(SIZE / MOST / 2);
    assert_int_equal(size, SIZE);
    assert_memory_equal(out, data, SIZE);
    base_free(out);
    assert_int_equal(unlink(path), 0);
}

static void files_are_whole(void **state) {
    rp_error err = {0};
    (void)state;
    begin();
    CHECK_OK(base_file_write(path, data, SIZE, &err), &err);
    end(SIZE / MOST / 2);
    check_file();
    begin();
    CHECK_OK(base_file_write_atomic(path, data, SIZE, &err), &err);
    end(SIZE / MOST / 2);
    check_file();
}

static void targets_are_whole(void **state) {
    base_target *t = NULL;
    rp_error err = {0};
    (void)state;
    CHECK_OK(base_target_open(path, "a file", 0644, &t, &err), &err);
    begin();
    CHECK_OK(base_target_write(t, data, SIZE, &err), &err);
    end(SIZE / MOST / 2);
    CHECK_OK(base_target_close(t, RP_OK, &err), &err);
    check_file();
}

static void output_is_whole(void **state) {
    const char *const argv[] = {
        "sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done; exit 3", NULL};
    base_buf out;
    rp_error err = {0};
    int code = -1;
    bool late = false;
    size_t want = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) want += (size_t)snprintf(NULL, 0, "%d\n", i);
    base_buf_init(&out, 0);
    begin();
    CHECK_OK(base_spawn_with(
                 argv, &(base_spawn_options){.limit_ns = INT64_C(60000000000), .out_late = &late},
                 &out, &code, &err),
             &err);
    end(4);
    assert_int_equal(code, 3);
    assert_false(late);
    assert_int_equal(out.len, want);
    base_buf_done(&out);
}

static void check_large(cache_store *s, base_hash128 key) {
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    size_t size = 0;
    rp_error err = {0};
    CHECK_OK(cache_map(s, CACHE_WEIGHTS, key, true, &m, &payload, &size, &err), &err);
    assert_int_equal(size, SIZE);
    assert_memory_equal(payload, data, SIZE);
    base_file_unmap(&m);
}

static void objects_and_bundles_are_whole(void **state) {
    static const base_hash128 small = {1, 2}, large = {3, 4};
    cache_store *s = NULL;
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    cache_bundle_info info = {0};
    char *out = NULL;
    size_t size = 0;
    rp_error err = {0};
    (void)state;
    begin();
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    CHECK_OK(cache_put(s, CACHE_PLAN, small, data, 5000, &err), &err);
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, large, SIZE, &w, &err), &err);
    CHECK_OK(cache_writer_add(w, data, SIZE, &err), &err);
    CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
    cache_writer_free(w);
    base_file_unmap(&m);
    check_large(s, large);
    CHECK_OK(cache_export(s, path, &info, &err), &err);
    cache_store_close(s);
    CHECK_OK(cache_store_open(to, &s, &err), &err);
    CHECK_OK(cache_import(s, path, &info, &err), &err);
    check_large(s, large);
    CHECK_OK(cache_get(s, CACHE_PLAN, small, &out, &size, &err), &err);
    end(SIZE / MOST);
    assert_int_equal(size, 5000);
    assert_memory_equal(out, data, size);
    base_free(out);
    cache_store_close(s);
}

/* What was written goes to another place, where the rest is. */
static void a_full_disk_is_left_with_all(void **state) {
    cache_store *s = NULL;
    cache_writer *w = NULL;
    base_mapping m = {0};
    const uint8_t *payload = NULL;
    rp_error err = {0};
    (void)state;
    CHECK_OK(cache_store_open(dir, &s, &err), &err);
    CHECK_OK(cache_writer_open(s, CACHE_WEIGHTS, (base_hash128){5, 6}, SIZE, &w, &err), &err);
    begin();
    for (size_t at = 0; at < SIZE; at += 30000) {
        if (at == 90000) full_at = 20;
        CHECK_OK(cache_writer_add(w, data + at, SIZE - at < 30000 ? SIZE - at : 30000, &err), &err);
    }
    CHECK_OK(cache_writer_commit(w, &m, &payload, &err), &err);
    end(SIZE / MOST);
    assert_int_equal(full_at, 0);
    assert_memory_equal(payload, data, SIZE);
    cache_writer_free(w);
    base_file_unmap(&m);
    cache_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_whole), cmocka_unit_test(targets_are_whole),
        cmocka_unit_test(output_is_whole), cmocka_unit_test(objects_and_bundles_are_whole),
        cmocka_unit_test(a_full_disk_is_left_with_all)};
    (void)snprintf(root, sizeof root, "%s", tree_new("interrupts"));
    (void)snprintf(path, sizeof path, "%s/file", root);
    (void)snprintf(dir, sizeof dir, "%s/from", root);
    (void)snprintf(to, sizeof to, "%s/to", root);
    data = malloc(SIZE);
    assert_non_null(data);
    for (int i = 0; i < SIZE; i++) data[i] = (uint8_t)(i * 2654435761u >> 20);
    int failed = cmocka_run_group_tests_name("base_interrupts", tests, NULL, NULL);
    free(data);
    return failed;
}
