/* Whole reads, read-only maps and atomic writes. Every system call that can fail
 * asks base_sys_fails first, so fault tests reach each error path; closing and
 * unlinking on an error path does not. Folders are dir.c's. Thread-safe. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/temp.h"

static rp_status fail_path(rp_error *err, const char *verb, const char *path) {
    int code = errno;
    return rp_fail(err, base_errno_status(code), "cannot %s '%s': %s", verb, path,
                   base_errno_text(code));
}

static rp_status open_file(const char *path, int flags, int *out_fd, struct stat *out_st,
                           rp_error *err) {
    int fd = base_sys_fails() ? -1 : open(path, flags | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_path(err, "open", path);
    rp_status st = RP_OK;
    /* opened without blocking, so that a pipe nobody writes to cannot hang us; read blocking */
    if (base_sys_fails() || fstat(fd, out_st) != 0 || fcntl(fd, F_SETFL, flags) != 0)
        st = fail_path(err, "read", path);
    else if (S_ISDIR(out_st->st_mode))
        st = rp_fail(err, RP_INVALID, "'%s' is a folder; give a file", path);
    if (st == RP_OK)
        *out_fd = fd;
    else
        (void)close(fd);
    return st;
}

/* Reads to the end whatever fstat said: files in /proc claim size 0. */
static rp_status read_to_end(int fd, const char *path, size_t max_size, base_buf *b,
                             rp_error *err) {
    for (;;) {
        char part[16384];
        ssize_t n = base_sys_fails() ? -1 : read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_path(err, "read", path);
        if (n == 0) return RP_OK;
        if ((size_t)n > max_size - b->len)
            return rp_fail(err, RP_INVALID, "'%s' is larger than the limit of %zu bytes", path,
                           max_size);
        base_buf_add(b, part, (size_t)n);
        RP_TRY(base_buf_status(b, err));
    }
}

rp_status base_file_read(const char *path, size_t max_size, char **out, size_t *out_size,
                         rp_error *err) {
    rp_status st;
    int fd = -1;
    struct stat info = {0};
    base_buf b;
    base_buf_init(&b, 0);
    RP_TRY_OUT(open_file(path, O_RDONLY, &fd, &info, err));
    RP_TRY_OUT(read_to_end(fd, path, max_size, &b, err));
    size_t size = b.len;
    char *data = base_buf_take(&b);
    if (!data) {
        st = rp_fail(err, RP_NOMEM, "out of memory for '%s'", path);
        goto out;
    }
    *out = data;
    *out_size = size;
out:
    if (fd >= 0) (void)close(fd);
    base_buf_done(&b);
    return st;
}

rp_status base_file_map(const char *path, base_mapping *out, rp_error *err) {
    int fd = -1;
    struct stat info = {0};
    RP_TRY(open_file(path, O_RDONLY, &fd, &info, err));
    rp_status st = RP_OK;
    base_mapping m = {0};
    if (!S_ISREG(info.st_mode)) {
        st = rp_fail(err, RP_INVALID, "'%s' is not a regular file", path);
    } else if (info.st_size > 0) {
        m.size = (size_t)info.st_size;
        void *p = base_sys_fails() ? MAP_FAILED : mmap(NULL, m.size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            st = fail_path(err, "map", path);
        } else {
            m.data = p;
            m.guard = base_guard_up(p, m.size, fd);
            fd = -1; /* the guard's now */
        }
    }
    if (fd >= 0) (void)close(fd);
    if (st == RP_OK) *out = m;
    return st;
}

rp_status base_mapping_check(const base_mapping *m, const char *path, bool times, rp_error *err) {
    return base_guard_check(m->guard, path, times, err);
}

void base_file_unmap(base_mapping *m) {
    base_guard_down(m->guard);
    /* munmap takes a plain pointer; nothing is written through it */
    if (m->data) (void)munmap((void *)(uintptr_t)m->data, m->size);
    *m = (base_mapping){0};
}

void base_mapping_drop(const base_mapping *m, size_t offset, size_t size) {
    if (!m->data || offset >= m->size) return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t end = size < m->size - offset ? offset + size : m->size;
    size_t first = (offset + page - 1) / page * page;
    if (end < m->size) end = end / page * page; /* a shared page is still needed */
    if (first < end)
        (void)madvise((void *)(uintptr_t)(m->data + first), end - first, MADV_DONTNEED);
}

static rp_status write_all(int fd, const char *path, const char *data, size_t size, rp_error *err) {
    while (size) {
        ssize_t n = base_sys_fails() ? -1 : write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_path(err, "write", path);
        data += n;
        size -= (size_t)n;
    }
    return RP_OK;
}

rp_status base_file_write(const char *path, const void *data, size_t size, rp_error *err) {
    int fd = base_sys_fails() ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return fail_path(err, "create", path);
    rp_status st = write_all(fd, path, data, size, err);
    if (close(fd) != 0 && st == RP_OK) st = fail_path(err, "write", path);
    if (st != RP_OK) (void)unlink(path); /* best effort: the first error is the story */
    return st;
}

rp_status base_file_write_atomic(const char *path, const void *data, size_t size, rp_error *err) {
    rp_status st;
    int fd = -1;
    base_buf b;
    base_buf_init(&b, 0);
    base_temp_name(path, &b);
    RP_TRY_OUT(base_buf_status(&b, err));
    fd = base_sys_fails() ? -1 : open(b.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        st = fail_path(err, "create", path);
        goto out;
    }
    st = write_all(fd, path, data, size, err);
    if (st == RP_OK && (base_sys_fails() || fsync(fd) != 0)) st = fail_path(err, "write", path);
    if (close(fd) != 0 && st == RP_OK) st = fail_path(err, "write", path);
    if (st == RP_OK && (base_sys_fails() || rename(b.data, path) != 0))
        st = fail_path(err, "create", path);
    if (st != RP_OK) (void)unlink(b.data); /* best effort: the first error is the story */
out:
    base_buf_done(&b);
    return st;
}

bool base_file_exists(const char *path) {
    struct stat info = {0};
    return !base_sys_fails() && stat(path, &info) == 0;
}
