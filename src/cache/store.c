/* The store's folder: finding it, refusing what is unsafe or unusable, names, quarantine, counters.
 *
 * Opening never fails for a reason that lies in the folder: the store is off then and says why.
 * Loading code from a cache is running it, so folders that others can write to are refused. What is in
 * the files is object.c's, code.c's, map.c's and writer.c's. */
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/temp.h"
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

static bool is_of_another(const struct stat *info) {
    return info->st_uid != geteuid() && info->st_uid != 0;
}

/* Why a file or folder must not be used: who else could have written it. NULL when only this user and root could. */
static const char *distrust(const struct stat *info, char *out, size_t size) {
    if (is_of_another(info))
        (void)snprintf(out, size, "belongs to another user (uid %u)", (unsigned)info->st_uid);
    else if (info->st_mode & (S_IWGRP | S_IWOTH))
        (void)snprintf(out, size, "can be written by others (mode %03o)",
                       (unsigned)(info->st_mode & 0777));
    else
        return NULL;
    return out;
}

const char *cache_distrusts(const char *path) {
    struct stat info;
    char why[80];
    if (base_sys_fails() || stat(path, &info) != 0) return NULL; /* reading it tells why */
    if (!S_ISREG(info.st_mode)) return "is no file";
    if (!distrust(&info, why, sizeof why)) return NULL;
    return is_of_another(&info) ? "belongs to another user" : "can be written by others";
}

static const char *const folders[] = {"",
                                      "/objects",
                                      "/objects/plan",
                                      "/objects/code",
                                      "/objects/weights",
                                      "/objects/tuning",
                                      "/plans",
                                      "/quarantine",
                                      "/tmp",
                                      "/locks"};
enum { N_FOLDERS = sizeof folders / sizeof *folders };

/* A folder that is there must be safe. One that is missing is made; *missing: it cannot be. */
static rp_status prepare_one(const char *path, bool *missing, rp_error *err) {
    struct stat info;
    char why[80];
    *missing = false;
    if (base_sys_fails() || stat(path, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return rp_fail(err, RP_IO, "cache folder %s cannot be read: %s", path,
                           base_errno_text(errno));
        *missing = true;
    }
    if (*missing || !S_ISDIR(info.st_mode)) {
        RP_TRY(base_dir_make(path, err));
        *missing = false;
        return RP_OK;
    }
    if (!distrust(&info, why, sizeof why)) return RP_OK;
    return rp_fail(err, RP_IO, "cache folder %s %s; %s", path, why,
                   is_of_another(&info) ? "give --cache-dir of your own" : "chmod go-w it");
}

/* *err of RP_OK with *bare: some folders are missing and cannot be made, so nothing can be stored; it says why. */
static rp_status prepare(const char *root, bool *bare, rp_error *err) {
    rp_status st = RP_OK;
    base_buf b;
    base_buf_init(&b, 0);
    for (size_t i = 0; i < N_FOLDERS; i++) {
        bool missing = false;
        rp_error why = {0};
        base_buf_clear(&b);
        base_buf_printf(&b, "%s%s", root, folders[i]);
        RP_TRY_OUT(base_buf_status(&b, err));
        st = prepare_one(b.data, &missing, &why);
        if (st == RP_OK) continue;
        if (!*bare) *err = why;
        if (!missing || i == 0 || st == RP_NOMEM) goto out;
        *bare = true;
    }
    st = RP_OK;
out:
    base_buf_done(&b);
    return st;
}

rp_status cache_folders_make(const cache_store *s, rp_error *err) {
    bool bare = false;
    rp_error why = {0};
    rp_status st = prepare(s->dir, &bare, &why);
    if (st == RP_OK && bare) st = RP_IO;
    return st == RP_OK ? RP_OK : rp_fail(err, st, "%s", why.text);
}

static int open_probe(const char *path) {
    return base_sys_fails() ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* A page can be written: neither read-only nor full. A page that is only begun is gone on with, so that the system
 * says what stops it. */
static rp_status probe(const cache_store *s, rp_error *err) {
    static const char zeros[CACHE_PAGE];
    base_buf name;
    base_buf_init(&name, 0);
    cache_temp_name(s, "/probe", &name);
    rp_status st = base_buf_status(&name, err);
    if (st == RP_OK) {
        int fd = open_probe(name.data);
        if (fd < 0 && errno == ENOENT && cache_folders_make(s, NULL) == RP_OK)
            fd = open_probe(name.data); /* somebody removed it all meanwhile */
        if (fd < 0 || !cache_write_all(fd, zeros, sizeof zeros, 0))
            st = rp_fail(err, RP_IO, "cache folder %s cannot be written: %s", s->dir,
                         base_errno_text(errno));
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(name.data);
        }
    }
    base_buf_done(&name);
    return st;
}

static bool is_disabled(void) {
    return strcmp(base_env_or_default(BASE_ENV_DISABLE_COMPILE_CACHE), "1") == 0;
}

rp_status cache_store_open(const char *dir, cache_store **out, rp_error *err) {
    rp_error why = {0};
    bool bare = false;
    cache_store *s = base_alloc(sizeof *s);
    if (!s) return rp_fail(err, RP_NOMEM, "no memory for the cache");
    (void)pthread_mutex_init(&s->lock, NULL);
    rp_status st = cache_default_dir(dir, &s->dir, &why);
    if (st == RP_OK && is_disabled())
        st = rp_fail(&why, RP_UNSUPPORTED, "%s=1 switches the cache off",
                     base_env_source(BASE_ENV_DISABLE_COMPILE_CACHE));
    if (st == RP_OK) st = prepare(s->dir, &bare, &why);
    if (st == RP_NOMEM) {
        cache_store_close(s);
        return rp_fail(err, RP_NOMEM, "%s", why.text);
    }
    if (st != RP_OK || bare) {
        (void)snprintf(s->reason, sizeof s->reason, "%.390s", why.text);
        atomic_store(st != RP_OK ? &s->off : &s->full, true);
        base_log_ch(RP_LOG_CH_CACHE, false, "cache %s: %s", st != RP_OK ? "off" : "only read",
                    s->reason);
    }
    *out = s;
    return RP_OK;
}

rp_status cache_store_open_scratch(cache_store *s, cache_store **out, rp_error *err) {
    rp_status st = RP_OK;
    base_buf name;
    cache_store *own = base_alloc(sizeof *own);
    if (!own) return rp_fail(err, RP_NOMEM, "no memory for the cache");
    (void)pthread_mutex_init(&own->lock, NULL);
    (void)snprintf(own->reason, sizeof own->reason, "its code is of no further use");
    atomic_store(&own->off, true);
    base_buf_init(&name, 0);
    if (cache_writable(s)) {
        cache_temp_name(s, "/code", &name);
        RP_TRY_OUT(cache_take_text(&name, &own->private_dir, err));
        RP_TRY_OUT(base_dir_make(own->private_dir, err));
    }
    *out = own;
    own = NULL;
out:
    base_buf_done(&name);
    cache_store_close(own);
    return st;
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
    return atomic_load(&s->off) ? s->reason : NULL;
}

const char *cache_store_read_only_reason(cache_store *s) {
    return cache_writable(s) ? NULL : s->reason;
}

const char *cache_store_dropped_reason(const cache_store *s) {
    return atomic_load(&s->dropped) ? s->reason : NULL;
}

void cache_tell_off(const char *why) {
    static atomic_uint_fast64_t last;
    const uint64_t hash = base_hash64(why, strlen(why)) | 1;
    if (atomic_exchange(&last, hash) == hash) return;
    base_log(RP_LOG_WARNING, "running uncached: %s", why);
}

void cache_store_detach(cache_store *s, const char *why) {
    (void)pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->off)) {
        (void)snprintf(s->reason, sizeof s->reason, "%.390s", why);
        atomic_store(&s->off, true);
        cache_tell_off(s->reason);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

/* Reading needs no such question, so a start that finds everything does not ask it. */
bool cache_writable(cache_store *s) {
    if (!atomic_load(&s->asked) && !atomic_load(&s->off) && !atomic_load(&s->full)) {
        rp_error why = {0};
        (void)pthread_mutex_lock(&s->lock);
        if (!atomic_load(&s->asked) && probe(s, &why) == RP_IO) {
            (void)snprintf(s->reason, sizeof s->reason, "%.390s", why.text);
            atomic_store(&s->full, true);
        }
        atomic_store(&s->asked, why.code != RP_NOMEM);
        (void)pthread_mutex_unlock(&s->lock);
    }
    return !atomic_load(&s->off) && !atomic_load(&s->full);
}

bool cache_takes(cache_store *s) {
    if (cache_writable(s)) return true;
    if (!atomic_exchange(&s->dropped, true) && !atomic_load(&s->off))
        base_log(RP_LOG_WARNING, "what is new is not kept: %s", s->reason);
    return false;
}

void cache_write_failed(cache_store *s, const rp_error *err) {
    (void)pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->off) && !atomic_load(&s->full)) {
        (void)snprintf(s->reason, sizeof s->reason, "%.390s", err->text);
        atomic_store(&s->full, true);
        base_log(RP_LOG_WARNING, "nothing more is written to the cache: %s", s->reason);
    }
    atomic_store(&s->dropped, true);
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

rp_status cache_private_dir(cache_store *s, const char **out, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&s->lock);
    if (!s->private_dir) st = base_temp_dir(CACHE_PRIVATE_PREFIX, &s->private_dir, err);
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

void cache_quarantine_file(const cache_store *s, const char *path, const char *why) {
    const char *name = strrchr(path, '/') + 1, *folder = name - 1;
    while (folder[-1] != '/') folder--;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/quarantine/%.*s-%s", s->dir, (int)(name - 1 - folder), folder, name);
    if (!b.failed && !base_sys_fails() && rename(path, b.data) == 0)
        base_log(RP_LOG_WARNING, "cache file %s moved to quarantine: %s", folder, why);
    else if (base_path_remove(path, NULL) == RP_OK)
        base_log(RP_LOG_WARNING, "cache file %s removed: %s", folder, why);
    else
        base_log(RP_LOG_WARNING, "cache file %s is passed over: %s", folder, why);
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
