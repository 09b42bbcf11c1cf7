/* What killed processes left behind: temporary files that nobody will rename, downloads, locks, and checksums of code
 * that is gone. Names say whose they are (base/temp.h). All that is temporary is made in tmp/ and in models/; the other
 * folders are looked through by who cleans up in full. */
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/temp.h"
#include "cache/priv.h"

typedef struct sweep {
    const cache_store *s;
    const char *below;        /* folder at hand, relative to the store's */
    bool code, locks, deeper; /* it has code; locks alone; its folders are looked into */
    bool texts, flat;         /* its folders hold texts; it does, and no folders */
    bool *killed;             /* (optional) set when a lock is found whose holder was killed */
} sweep;

static rp_status sweep_folder(const sweep *w, rp_error *err);

static bool is_stale(const char *path, const char *name) {
    struct stat info;
    if (!strstr(name, BASE_TEMP_INFIX) || base_sys_fails() || lstat(path, &info) != 0) return false;
    return base_temp_is_left(name, info.st_mtime);
}

/* A lock is dropped when its holder ends; the file says who that was. */
static bool is_dropped_lock(const char *path) {
    char *text = NULL;
    size_t size = 0;
    base_maker m;
    if (base_file_read(path, 4096, &text, &size, NULL) != RP_OK) return false;
    bool dropped = base_maker_parse(text, &m) && base_maker_fate(&m) == BASE_DEAD;
    base_free(text);
    return dropped;
}

bool cache_names_lock(const char *name) {
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".lock") == 0;
}

static bool is_widow(base_buf *path, const char *name) {
    if (strlen(name) != 36 || strcmp(name + 32, ".sum") != 0) return false;
    memcpy(path->data + path->len - 4, ".so", 4); /* with its end */
    bool gone = !base_file_exists(path->data);
    memcpy(path->data + path->len - 4, ".sum", 4);
    return gone;
}

static rp_status visit(void *user, const char *name, bool is_dir, rp_error *err) {
    const sweep *w = user;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s%s/%s", w->s->dir, w->below, name);
    rp_status st = base_buf_status(&b, err);
    if (st != RP_OK) goto out;
    if (is_stale(b.data, name) || (w->code && is_widow(&b, name))) {
        cache_remove(b.data);
    } else if (!is_dir) {
        if ((w->locks || cache_names_lock(name)) && is_dropped_lock(b.data)) {
            base_lock_sweep(b.data);
            if (w->killed) *w->killed = true;
        }
    } else if (w->deeper) {
        st = sweep_folder(
            &(sweep){.s = w->s, .below = b.data + strlen(w->s->dir), .flat = w->texts}, err);
    } else if (w->flat) {
        cache_quarantine_file(w->s, b.data, "is no file");
    }
out:
    base_buf_done(&b);
    return st;
}

static rp_status sweep_folder(const sweep *w, rp_error *err) {
    rp_error why = {0};
    base_buf dir;
    base_buf_init(&dir, 0);
    base_buf_printf(&dir, "%s%s", w->s->dir, w->below);
    rp_status st = base_buf_status(&dir, &why);
    if (st == RP_OK) st = base_dir_list(dir.data, visit, (void *)(uintptr_t)w, &why);
    base_buf_done(&dir);
    /* not there, or removed meanwhile */
    return st == RP_OK || st == RP_NOT_FOUND ? RP_OK : rp_fail(err, st, "%s", why.text);
}

rp_status cache_leftovers_remove(const cache_store *s, rp_error *err) {
    const sweep all[] = {{.s = s, .below = ""},
                         {.s = s, .below = "/objects", .deeper = true},
                         {.s = s, .below = "/objects/code", .code = true},
                         {.s = s, .below = "/plans", .deeper = true, .texts = true},
                         {.s = s, .below = "/tmp"},
                         {.s = s, .below = "/models"},
                         {.s = s, .below = "/locks", .locks = true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) RP_TRY(sweep_folder(&all[i], err));
    return RP_OK;
}

void cache_scratch_sweep(void) {
    base_temp_dirs_sweep(CACHE_SCRATCH_PREFIX);
}

/* Folders for temporary files may hold a great many of others, so they are looked through only when there is a reason: who
 * is killed while it compiles leaves a lock. */
static void sweep_locks(const cache_store *s) {
    rp_error why = {0};
    bool killed = false;
    const sweep locks = {.s = s, .below = "/locks", .locks = true, .killed = &killed};
    if (sweep_folder(&locks, &why) != RP_OK)
        base_log(RP_LOG_DEBUG, "locks of killed processes stay: %s", why.text);
    if (killed) cache_scratch_sweep();
}

void cache_store_sweep(const cache_store *s) {
    static const char *const where[] = {"/tmp", "/models"};
    base_buf b;
    if (atomic_load(&s->off)) return;
    base_buf_init(&b, 0);
    for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
        base_buf_clear(&b);
        base_buf_printf(&b, "%s%s", s->dir, where[i]);
        if (!b.failed) base_temp_sweep(b.data, "");
    }
    base_buf_done(&b);
    sweep_locks(s);
}
