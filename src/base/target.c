/* Targets: a file gets its name at the end, what is no file is written to where it is. */
#include "base/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/temp.h"

struct base_target {
    int fd;
    char *label;   /* as the user wrote it, for messages */
    char *path;    /* the file that is replaced; NULL: written to directly */
    base_buf temp; /* its name until then */
    mode_t mode;
};

static rp_status fail_target(const base_target *t, rp_error *err) {
    return rp_fail(err, errno == ENOENT ? RP_NOT_FOUND : RP_IO, "cannot write %s: %s", t->label,
                   base_errno_text(errno));
}

static rp_status open_directly(base_target *t, const char *path, int flags, rp_error *err) {
    if (!base_sys_fails()) t->fd = open(path, O_WRONLY | O_CLOEXEC | flags, t->mode);
    return t->fd >= 0 ? RP_OK : fail_target(t, err);
}

static rp_status open_stdout(base_target *t, const char *what, rp_error *err) {
    t->fd = base_sys_fails() ? -1 : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (t->fd < 0) return fail_target(t, err);
    if (!isatty(t->fd)) return RP_OK;
    return rp_fail(err, RP_INVALID,
                   "standard output is a terminal, and %s is no text; send it to a file or a pipe",
                   what);
}

/* path is a regular file, or nothing yet. */
static rp_status open_beside(base_target *t, const char *path, rp_error *err) {
    t->path = base_strdup(path);
    if (!t->path) return rp_fail(err, RP_NOMEM, "no memory for the path '%s'", path);
    base_temp_name(path, &t->temp);
    RP_TRY(base_buf_status(&t->temp, err));
    if (!base_sys_fails())
        t->fd = open(t->temp.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, t->mode);
    return t->fd >= 0 ? RP_OK : fail_target(t, err);
}

static rp_status open_path(base_target *t, const char *path, rp_error *err) {
    struct stat info;
    char real[PATH_MAX];
    if (base_sys_fails() || stat(path, &info) != 0) {
        if (errno != ENOENT) return fail_target(t, err);
        /* A link to nothing: the kernel knows where that is. */
        return lstat(path, &info) == 0 ? open_directly(t, path, O_CREAT, err)
                                       : open_beside(t, path, err);
    }
    if (!S_ISREG(info.st_mode)) return open_directly(t, path, 0, err);
    t->mode = info.st_mode & 0777;
    if (base_sys_fails() || !realpath(path, real)) return fail_target(t, err);
    return open_beside(t, real, err);
}

rp_status base_target_open(const char *path, const char *what, mode_t mode, base_target **out,
                           rp_error *err) {
    bool standard = strcmp(path, "-") == 0;
    base_target *t = base_alloc(sizeof *t);
    if (!t) return rp_fail(err, RP_NOMEM, "no memory to write '%s'", path);
    *t = (base_target){.fd = -1, .mode = mode};
    base_buf_init(&t->temp, 0);
    t->label = base_strdup(standard ? "standard output" : path);
    rp_status st = !t->label  ? rp_fail(err, RP_NOMEM, "no memory for the path '%s'", path)
                   : standard ? open_stdout(t, what, err)
                              : open_path(t, path, err);
    if (st != RP_OK) return base_target_close(t, st, NULL);
    *out = t;
    return RP_OK;
}

rp_status base_target_write(base_target *t, const void *data, size_t size, rp_error *err) {
    const char *at = data;
    while (size) {
        ssize_t n = base_sys_fails() ? -1 : write(t->fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_target(t, err);
        at += n;
        size -= (size_t)n;
    }
    return RP_OK;
}

rp_status base_target_close(base_target *t, rp_status st, rp_error *err) {
    if (!t) return st;
    if (st == RP_OK && t->path && (base_sys_fails() || fsync(t->fd) != 0)) st = fail_target(t, err);
    if (t->fd >= 0 && close(t->fd) != 0 && st == RP_OK) st = fail_target(t, err);
    if (st == RP_OK && t->path && (base_sys_fails() || rename(t->temp.data, t->path) != 0))
        st = fail_target(t, err);
    if (st != RP_OK && t->fd >= 0 && t->path) (void)unlink(t->temp.data);
    base_buf_done(&t->temp);
    base_free(t->path);
    base_free(t->label);
    base_free(t);
    return st;
}
