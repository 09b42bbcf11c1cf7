/* Writing files that appear whole or not at all: temporary name, write, rename. Every system call asks
 * base_sys_fails first, so fault tests reach each error path. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/sys.h"
#include "cache/priv.h"

void cache_temp_name(const char *path, base_buf *b) {
    static _Atomic uint64_t serial;
    base_buf_printf(b, "%s.tmp-%ld-%" PRIu64, path, (long)getpid(), atomic_fetch_add(&serial, 1));
}

static rp_status fail_write(const char *path, rp_error *err) {
    return rp_fail(err, RP_IO, "cannot write %s: %s", path, base_errno_text(errno));
}

bool cache_write_all(int fd, const void *data, size_t size, uint64_t offset) {
    const char *p = data;
    while (size) {
        ssize_t n = base_sys_fails() ? -1 : pwrite(fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = ENOSPC; /* no reason given: there is no other */
        if (n <= 0) return false;
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

rp_status cache_write_at(int fd, const char *path, const void *data, size_t size, uint64_t offset,
                         rp_error *err) {
    return cache_write_all(fd, data, size, offset) ? RP_OK : fail_write(path, err);
}

rp_status cache_file_write(const char *path, const cache_part *parts, size_t n, bool sync,
                           rp_error *err) {
    rp_status st;
    uint64_t at = 0;
    int fd = -1;
    base_buf temp;
    base_buf_init(&temp, 0);
    cache_temp_name(path, &temp);
    RP_TRY_OUT(base_buf_status(&temp, err));
    fd = base_sys_fails() ? -1 : open(temp.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        st = fail_write(path, err);
        goto out;
    }
    for (size_t i = 0; i < n && st == RP_OK; i++) {
        st = cache_write_at(fd, path, parts[i].data, parts[i].size, at, err);
        at += parts[i].size;
    }
    if (st == RP_OK && sync && (base_sys_fails() || fsync(fd) != 0)) st = fail_write(path, err);
    if (close(fd) != 0 && st == RP_OK) st = fail_write(path, err);
    if (st == RP_OK && (base_sys_fails() || rename(temp.data, path) != 0))
        st = fail_write(path, err);
    if (st != RP_OK) (void)unlink(temp.data); /* best effort: the first error is the story */
out:
    base_buf_done(&temp);
    return st;
}

void cache_remove(const char *path) {
    rp_status st = base_path_remove(path, NULL);
    (void)st;
}

rp_status cache_take_text(base_buf *b, char **out, rp_error *err) {
    char *text = base_buf_take(b);
    if (!text) return rp_fail(err, RP_NOMEM, "no memory for a text of the cache");
    *out = text;
    return RP_OK;
}
