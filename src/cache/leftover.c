/* What killed writers left behind: temporary files that nobody will rename, and checksums of code that is gone. A young
 * temporary file may belong to a writer at work, here or on another machine with the same folder, so age alone
 * decides. */
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/sys.h"
#include "cache/priv.h"

enum { STALE_SECONDS = 3600 };

typedef struct sweep {
    const cache_store *s;
    const char *below; /* folder at hand, relative to the store's */
    bool code, deeper; /* it has code; its folders are looked into */
} sweep;

static rp_status sweep_folder(const sweep *w, rp_error *err);

static bool is_stale(const char *path, const char *name) {
    struct stat info;
    if (!strstr(name, ".tmp-") || base_sys_fails() || stat(path, &info) != 0) return false;
    return time(NULL) - info.st_mtime > STALE_SECONDS;
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
    if (!is_dir) {
        if (is_stale(b.data, name) || (w->code && is_widow(&b, name))) cache_remove(b.data);
    } else if (w->deeper) {
        st = sweep_folder(&(sweep){.s = w->s, .below = b.data + strlen(w->s->dir)}, err);
    }
out:
    base_buf_done(&b);
    return st;
}

static rp_status sweep_folder(const sweep *w, rp_error *err) {
    base_buf dir;
    base_buf_init(&dir, 0);
    base_buf_printf(&dir, "%s%s", w->s->dir, w->below);
    rp_status st = base_buf_status(&dir, err);
    if (st == RP_OK) st = base_dir_list(dir.data, visit, (void *)(uintptr_t)w, err);
    base_buf_done(&dir);
    return st == RP_NOT_FOUND ? RP_OK : st; /* somebody removed the folder meanwhile */
}

rp_status cache_leftovers_remove(const cache_store *s, rp_error *err) {
    const sweep all[] = {{.s = s, .below = ""},
                         {.s = s, .below = "/objects", .deeper = true},
                         {.s = s, .below = "/objects/code", .code = true},
                         {.s = s, .below = "/plans", .deeper = true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) RP_TRY(sweep_folder(&all[i], err));
    return RP_OK;
}
