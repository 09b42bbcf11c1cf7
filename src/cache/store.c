/* The store's folder: finding it, refusing what is unsafe or unusable, names, quarantine, counters.
 *
 * Opening never fails for a reason that lies in the folder: the store is off then and says why.
 * Loading code from a cache is running it, so folders that others can write to are refused. What is in
 * the files is object.c's, code.c's, map.c's and writer.c's. */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/sys.h"
#include "cache/priv.h"

const char *const cache_kind_names[CACHE_KIND_COUNT_] = {"plan", "code", "weights", "tuning"};

rp_status cache_default_dir(const char *dir, char **out, rp_error *err) {
    const char *xdg = base_env_get(BASE_ENV_XDG_CACHE_HOME), *home = base_env_get(BASE_ENV_HOME);
    if (!dir || !*dir) dir = base_env_get(BASE_ENV_CACHE_DIR);
    base_buf b;
    base_buf_init(&b, 0);
    if (dir)
        base_buf_puts(&b, dir);
    else if (xdg && *xdg == '/') /* a relative one is to be ignored, says its specification */
        base_buf_printf(&b, "%s/reprise", xdg);
    else if (home)
        base_buf_printf(&b, "%s/.cache/reprise", home);
    else
        return rp_fail(
            err, RP_NOT_FOUND,
            "no cache folder: neither REPRISE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set; "
            "give --cache-dir");
    while (b.len > 1 && b.data && b.data[b.len - 1] == '/') b.data[--b.len] = 0;
    return cache_take_text(&b, out, err);
}

/* ---- is the folder fit for use? ---- */

static rp_status check_owner(const char *path, rp_error *err) {
    struct stat info;
    if (base_sys_fails() || stat(path, &info) != 0)
        return rp_fail(err, RP_IO, "cache folder %s cannot be read: %s", path,
                       base_errno_text(errno));
    if (info.st_uid != geteuid() && info.st_uid != 0)
        return rp_fail(
            err, RP_IO,
            "cache folder %s belongs to another user (uid %u); give --cache-dir of your own", path,
            (unsigned)info.st_uid);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return rp_fail(err, RP_IO,
                       "cache folder %s can be written by others (mode %03o); chmod go-w it", path,
                       (unsigned)(info.st_mode & 0777));
    return RP_OK;
}

static rp_status make_checked(const char *root, const char *sub, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s%s", root, sub);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = base_dir_make(b.data, err);
    if (st == RP_OK) st = check_owner(b.data, err);
    base_buf_done(&b);
    return st;
}

/* A page can be written: neither read-only nor full. A page that is only begun is gone on with, so that the system
 * says what stops it. */
static rp_status probe(const char *root, rp_error *err) {
    static const char zeros[CACHE_PAGE];
    base_buf b, name;
    base_buf_init(&b, 0);
    base_buf_init(&name, 0);
    base_buf_printf(&b, "%s/probe", root);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) {
        cache_temp_name(b.data, &name);
        st = base_buf_status(&name, err);
    }
    if (st == RP_OK) {
        int fd = base_sys_fails() ? -1
                                  : open(name.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || !cache_write_all(fd, zeros, sizeof zeros, 0))
            st = rp_fail(err, RP_IO, "cache folder %s cannot be written: %s", root,
                         base_errno_text(errno));
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(name.data);
        }
    }
    base_buf_done(&b);
    base_buf_done(&name);
    return st;
}

static rp_status prepare(const char *root, rp_error *err) {
    static const char *const subs[] = {"",
                                       "/objects",
                                       "/objects/plan",
                                       "/objects/code",
                                       "/objects/weights",
                                       "/objects/tuning",
                                       "/plans",
                                       "/quarantine"};
    for (size_t i = 0; i < sizeof subs / sizeof *subs; i++)
        RP_TRY(make_checked(root, subs[i], err));
    return probe(root, err);
}

rp_status cache_store_open(const char *dir, cache_store **out, rp_error *err) {
    rp_error why = {0};
    cache_store *s = base_alloc(sizeof *s);
    if (!s) return rp_fail(err, RP_NOMEM, "no memory for the cache");
    (void)pthread_mutex_init(&s->lock, NULL);
    rp_status st = cache_default_dir(dir, &s->dir, &why);
    if (st == RP_OK) st = prepare(s->dir, &why);
    if (st == RP_NOMEM) {
        cache_store_close(s);
        return rp_fail(err, RP_NOMEM, "%s", why.text);
    }
    if (st != RP_OK) {
        (void)snprintf(s->reason, sizeof s->reason, "%.390s", why.text);
        atomic_store(&s->off, true);
        base_log_ch(RP_LOG_CH_CACHE, false, "cache off: %s", s->reason);
    }
    *out = s;
    return RP_OK;
}

void cache_store_close(cache_store *s) {
    if (!s) return;
    if (s->private_dir) cache_remove(s->private_dir);
    base_free(s->private_dir);
    base_free(s->dir);
    (void)pthread_mutex_destroy(&s->lock);
    base_free(s);
}

const char *cache_store_dir(const cache_store *s) {
    return s->dir ? s->dir : "";
}

const char *cache_store_off_reason(const cache_store *s) {
    return cache_writable(s) ? NULL : s->reason;
}

bool cache_writable(const cache_store *s) {
    return !atomic_load(&s->off) && !atomic_load(&s->full);
}

void cache_write_failed(cache_store *s, const rp_error *err) {
    (void)pthread_mutex_lock(&s->lock);
    if (cache_writable(s)) {
        (void)snprintf(s->reason, sizeof s->reason, "%.390s", err->text);
        atomic_store(&s->full, true);
        base_log(RP_LOG_WARNING, "nothing more is written to the cache: %s", s->reason);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- names ---- */

rp_status cache_object_path(const cache_store *s, cache_kind kind, base_hash128 key,
                            const char *suffix, char **out, rp_error *err) {
    char hex[33];
    base_buf b;
    base_hash_hex(key, hex);
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/objects/%s/%s%s", s->dir, cache_kind_names[kind], hex, suffix);
    return cache_take_text(&b, out, err);
}

static rp_status make_private(char **out, rp_error *err) {
    const char *tmp = base_env_get(BASE_ENV_TMPDIR);
    char *path = NULL;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/reprise-XXXXXX", tmp ? tmp : "/tmp");
    RP_TRY(cache_take_text(&b, &path, err));
    if (base_sys_fails() || !mkdtemp(path)) {
        int code = errno;
        base_free(path);
        return rp_fail(err, RP_IO, "no private folder for code can be made in %s: %s; set TMPDIR",
                       tmp ? tmp : "/tmp", base_errno_text(code));
    }
    *out = path;
    return RP_OK;
}

rp_status cache_private_dir(cache_store *s, const char **out, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&s->lock);
    if (!s->private_dir) st = make_private(&s->private_dir, err);
    *out = s->private_dir;
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

const char *cache_private_made(cache_store *s) {
    (void)pthread_mutex_lock(&s->lock);
    const char *dir = s->private_dir;
    (void)pthread_mutex_unlock(&s->lock);
    return dir;
}

void cache_quarantine_file(cache_store *s, const char *path, const char *why) {
    const char *name = strrchr(path, '/') + 1, *folder = name - 1;
    while (folder[-1] != '/') folder--;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/quarantine/%.*s-%s", s->dir, (int)(name - 1 - folder), folder, name);
    base_log(RP_LOG_WARNING, "cache file %s moved to quarantine: %s", folder, why);
    if (b.failed || base_sys_fails() || rename(path, b.data) != 0) (void)unlink(path);
    base_buf_done(&b);
}

void cache_quarantine(cache_store *s, cache_kind kind, base_hash128 key, const char *why) {
    char *path = NULL;
    if (cache_object_path(s, kind, key, kind == CACHE_CODE ? ".so" : "", &path, NULL) != RP_OK)
        return;
    cache_quarantine_file(s, path, why);
    base_free(path);
    if (kind != CACHE_CODE || cache_object_path(s, kind, key, ".sum", &path, NULL) != RP_OK) return;
    cache_remove(path); /* of no use without the file it describes */
    base_free(path);
}

/* ---- counters ---- */

void cache_note_hit(cache_store *s, cache_kind kind, base_hash128 key) {
    char hex[33], *path = NULL;
    atomic_fetch_add(&s->hits, 1);
    /* The time of the file is the time of its last use: see prune.c. */
    const char *suffix = kind == CACHE_CODE ? ".so" : "";
    if (cache_object_path(s, kind, key, suffix, &path, NULL) == RP_OK)
        (void)utimensat(AT_FDCWD, path, NULL, 0);
    base_free(path);
    if (!base_log_on(RP_LOG_CH_CACHE, false)) return;
    base_hash_hex(key, hex);
    base_log_ch(RP_LOG_CH_CACHE, false, "hit %s/%s", cache_kind_names[kind], hex);
}

rp_status cache_note_miss(cache_store *s, cache_kind kind, base_hash128 key, const char *why) {
    char hex[33];
    atomic_fetch_add(&s->misses, 1);
    if (base_log_on(RP_LOG_CH_CACHE, false)) {
        base_hash_hex(key, hex);
        base_log_ch(RP_LOG_CH_CACHE, false, "miss %s/%s: %s", cache_kind_names[kind], hex,
                    why ? why : "not stored");
    }
    return RP_NOT_FOUND;
}

uint64_t cache_hits(const cache_store *s) {
    return atomic_load(&s->hits);
}

uint64_t cache_misses(const cache_store *s) {
    return atomic_load(&s->misses);
}
