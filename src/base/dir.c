/* Folders: making, listing in name order, removing. Symbolic links are never
 * followed when removing. File contents are file.c's. Thread-safe. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"

static rp_status fail_path(rp_error *err, const char *verb, const char *path) {
    int code = errno;
    return rp_fail(err, base_errno_status(code), "cannot %s folder '%s': %s", verb, path,
                   base_errno_text(code));
}

static rp_status make_one(const char *path, rp_error *err) {
    struct stat info;
    if (!base_sys_fails()) {
        if (mkdir(path, 0755) == 0) return RP_OK;
        if (errno == EEXIST && stat(path, &info) == 0) {
            if (S_ISDIR(info.st_mode)) return RP_OK;
            errno = ENOTDIR;
        }
    }
    return fail_path(err, "make", path);
}

rp_status base_dir_make(const char *path, rp_error *err) {
    rp_status st = RP_OK;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return RP_OK;
    char *copy = base_strdup(path);
    if (!copy) return rp_fail(err, RP_NOMEM, "out of memory for the path '%s'", path);
    for (char *p = copy + (*copy == '/'); *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        /* a parent that exists may refuse mkdir (read-only file system): ask first */
        if (stat(copy, &info) != 0 || !S_ISDIR(info.st_mode)) RP_TRY_OUT(make_one(copy, err));
        *p = '/';
    }
    st = make_one(copy, err);
out:
    base_free(copy);
    return st;
}

typedef struct entry {
    struct entry *next;
    const char *name;
    bool is_dir;
} entry;

static int by_name(const void *a, const void *b) {
    const entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static bool entry_is_dir(DIR *dir, const struct dirent *d) {
    struct stat info;
    if (d->d_type != DT_UNKNOWN) return d->d_type == DT_DIR;
    return fstatat(dirfd(dir), d->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

static rp_status read_entries(const char *path, base_arena *arena, entry **out, size_t *out_n,
                              rp_error *err) {
    rp_status st = RP_OK;
    entry *head = NULL;
    size_t n = 0;
    DIR *dir = base_sys_fails() ? NULL : opendir(path);
    if (!dir) return fail_path(err, "read", path);
    for (;;) {
        errno = 0;
        const struct dirent *d = base_sys_fails() ? NULL : readdir(dir);
        if (!d) {
            if (errno) st = fail_path(err, "read", path);
            break;
        }
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        entry *e = base_arena_alloc(arena, sizeof *e);
        const char *name = e ? base_arena_str(arena, d->d_name) : NULL;
        if (!name) {
            st = rp_fail(err, RP_NOMEM, "out of memory listing '%s'", path);
            break;
        }
        *e = (entry){head, name, entry_is_dir(dir, d)};
        head = e;
        n++;
    }
    (void)closedir(dir);
    *out = head;
    *out_n = n;
    return st;
}

rp_status base_dir_list(const char *path, base_dir_fn fn, void *user, rp_error *err) {
    rp_status st;
    entry *head = NULL, **sorted;
    size_t n = 0;
    base_arena *arena = base_arena_new();
    if (!arena) return rp_fail(err, RP_NOMEM, "out of memory listing '%s'", path);
    RP_TRY_OUT(read_entries(path, arena, &head, &n, err));
    sorted = base_arena_array(arena, n, sizeof *sorted);
    if (!sorted) {
        st = rp_fail(err, RP_NOMEM, "out of memory listing '%s'", path);
        goto out;
    }
    size_t i = 0;
    for (entry *e = head; e; e = e->next) sorted[i++] = e;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (i = 0; i < n; i++) RP_TRY_OUT(fn(user, sorted[i]->name, sorted[i]->is_dir, err));
out:
    base_arena_free(arena);
    return st;
}

static rp_status remove_entry(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)is_dir;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/%s", (const char *)user, name);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = base_path_remove(b.data, err);
    base_buf_done(&b);
    return st;
}

rp_status base_path_remove(const char *path, rp_error *err) {
    if (base_sys_fails()) return fail_path(err, "remove", path);
    if (unlink(path) == 0 || errno == ENOENT) return RP_OK;
    struct stat info;
    int code = errno;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return rp_fail(err, base_errno_status(code), "cannot remove '%s': %s", path,
                       base_errno_text(code));
    }
    RP_TRY(base_dir_list(path, remove_entry, (void *)(uintptr_t)path, err));
    if (base_sys_fails() || (rmdir(path) != 0 && errno != ENOENT))
        return fail_path(err, "remove", path);
    return RP_OK;
}
