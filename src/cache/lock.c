/* One maker of an object at a time, among all processes with this folder: see base/lock.h. */
#include <stdio.h>

#include "base/alloc.h"
#include "cache/priv.h"

enum { PATIENCE_MS = 2 * 60 * 1000, WEIGHTS_PATIENCE_MS = 15 * 60 * 1000 };

static bool is_there(const cache_store *s, cache_kind kind, base_hash128 key) {
    char *path = NULL;
    const char *suffix = kind == CACHE_CODE ? ".so" : "";
    bool there = cache_object_path(s, kind, key, suffix, &path, NULL) == RP_OK &&
                 base_file_exists(path);
    base_free(path);
    return there;
}

rp_status cache_lock_take(cache_store *s, const cache_lock_options *o, base_lock **out, bool *again,
                          rp_error *err) {
    char hex[33], what[64];
    base_buf path;
    *out = NULL;
    *again = false;
    if (!cache_writable(s)) return RP_OK;
    base_hash_hex(o->key, hex);
    (void)snprintf(what, sizeof what, "%s %.12s", cache_kind_names[o->kind], hex);
    base_buf_init(&path, 0);
    base_buf_printf(&path, "%s/locks/%s-%s", s->dir, cache_kind_names[o->kind], hex);
    rp_status st = base_buf_status(&path, err);
    if (st == RP_OK) {
        const base_lock_options l = {.path = path.data,
                                     .what = what,
                                     .patience_ms = o->kind == CACHE_WEIGHTS ? WEIGHTS_PATIENCE_MS
                                                                             : PATIENCE_MS,
                                     .wanted = o->wanted,
                                     .user = o->user};
        st = base_lock_take(&l, out, again, err);
    }
    base_buf_done(&path);
    *again = *again || is_there(s, o->kind, o->key);
    return st;
}
