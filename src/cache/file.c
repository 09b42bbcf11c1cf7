/* Writing files that appear whole or not at all: temporary name, write, rename. Every system call asks
 * base_sys_fails first, so fault tests reach each error path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "base/temp.h"
#include "cache/priv.h"

void cache_temp_name(const cache_store *s, const char *path, base_buf *b) {
    base_buf plain;
    base_buf_init(&plain, 0);
    base_buf_printf(&plain, "%s/tmp/%s", s->dir, strrchr(path, '/') + 1);
    if (plain.failed)
        b->failed = true;
    else
        base_temp_name(plain.data, b);
    base_buf_done(&plain);
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

static rp_status write_parts(int fd, const char *path, const cache_part *parts, size_t n, bool sync,
                             rp_error *err) {
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        RP_TRY(cache_write_at(fd, path, parts[i].data, parts[i].size, at, err));
        at += parts[i].size;
    }
    return sync && (base_sys_fails() || fsync(fd) != 0) ? fail_write(path, err) : RP_OK;
}

bool cache_move_in(const cache_store *s, const char *temp, const char *path) {
    if (base_sys_fails()) return false;
    if (rename(temp, path) == 0) return true;
    if (errno != EISDIR || !s) return false;
    cache_remove(path);
    return rename(temp, path) == 0;
}

/* RP_NOT_FOUND: a folder is missing. */
static rp_status write_once(const cache_store *s, const char *temp, const char *path,
                            const cache_part *parts, size_t n, bool sync, rp_error *err) {
    int fd = base_sys_fails() ? -1 : open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bool gone = fd < 0 && errno == ENOENT;
    if (fd < 0) {
        rp_status st = fail_write(path, err);
        return gone ? RP_NOT_FOUND : st;
    }
    rp_status st = write_parts(fd, path, parts, n, sync, err);
    if (close(fd) != 0 && st == RP_OK) st = fail_write(path, err);
    if (st == RP_OK && !cache_move_in(s, temp, path)) {
        gone = errno == ENOENT;
        st = fail_write(path, err);
        if (gone) st = RP_NOT_FOUND;
    }
    if (st != RP_OK) (void)unlink(temp); /* best effort: the first error is the story */
    return st;
}

static rp_status make_parent(const char *path, rp_error *err) {
    char *dir = base_strdup(path);
    if (!dir) return rp_fail(err, RP_NOMEM, "no memory for a path of the cache");
    *strrchr(dir, '/') = 0;
    rp_status st = base_dir_make(dir, err);
    base_free(dir);
    return st;
}

rp_status cache_file_write(const cache_store *s, const char *path, const cache_part *parts,
                           size_t n, bool sync, rp_error *err) {
    rp_error first = {0};
    base_buf temp;
    base_buf_init(&temp, 0);
    if (s)
        cache_temp_name(s, path, &temp);
    else
        base_temp_name(path, &temp);
    rp_status st = base_buf_status(&temp, &first);
    if (st == RP_OK) st = write_once(s, temp.data, path, parts, n, sync, &first);
    if (st == RP_NOT_FOUND && s) { /* a cache that somebody removed is begun again */
        first = (rp_error){0};
        st = cache_folders_make(s, &first);
        if (st == RP_OK) st = make_parent(path, &first);
        if (st == RP_OK) st = write_once(s, temp.data, path, parts, n, sync, &first);
    }
    base_buf_done(&temp);
    if (st == RP_OK) return RP_OK;
    return rp_fail(err, st == RP_NOMEM ? RP_NOMEM : RP_IO, "%s", first.text);
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
