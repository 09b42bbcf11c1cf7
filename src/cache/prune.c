/* Makes the folder smaller: quarantine and what killed writers left go first, then the objects that
 * were used longest ago. A look-up that hits touches its file, so use is what counts. Removing is safe
 * at any time: who has an object open keeps it, everybody else misses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cache/priv.h"

typedef struct victims {
    cache_entry *v;
    size_t n, cap;
    uint64_t total;
} victims;

static rp_status collect(void *user, const cache_entry *e, rp_error *err) {
    victims *c = user;
    if (c->n == c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64;
        cache_entry *v = base_realloc_array(c->v, cap, sizeof *v);
        if (!v) return rp_fail(err, RP_NOMEM, "no memory to list %zu cache objects", cap);
        c->v = v;
        c->cap = cap;
    }
    c->v[c->n++] = *e;
    c->total += e->size;
    return RP_OK;
}

static int oldest_first(const void *a, const void *b) {
    const cache_entry *x = a, *y = b;
    if (x->mtime != y->mtime) return x->mtime < y->mtime ? -1 : 1;
    return strcmp(x->key, y->key);
}

static rp_status remove_below(const cache_store *s, const char *rest, const char *name,
                              const char *suffix, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/%s/%s%s", s->dir, rest, name, suffix);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = base_path_remove(b.data, err);
    base_buf_done(&b);
    return st;
}

static rp_status remove_object(const cache_store *s, const cache_entry *e, rp_error *err) {
    char rest[32];
    (void)snprintf(rest, sizeof rest, "objects/%s", cache_kind_names[e->kind]);
    RP_TRY(remove_below(s, rest, e->key, e->kind == CACHE_CODE ? ".so" : "", err));
    if (e->kind == CACHE_CODE) RP_TRY(remove_below(s, rest, e->key, ".sum", err));
    /* The texts beside it: factors of its key; handle and source of code. */
    return remove_below(s, "plans", e->key, "", err);
}

static rp_status remove_quarantined(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)is_dir;
    return remove_below(user, "quarantine", name, "", err);
}

static rp_status remove_texts(void *user, const char *name, bool is_dir, rp_error *err) {
    (void)is_dir;
    return remove_below(user, "plans", name, "", err);
}

static rp_status remove_all_of(cache_store *s, const char *folder, base_dir_fn fn, rp_error *err) {
    base_buf dir;
    base_buf_init(&dir, 0);
    base_buf_printf(&dir, "%s/%s", s->dir, folder);
    rp_status st = base_buf_status(&dir, err);
    if (st == RP_OK) st = base_dir_list(dir.data, fn, s, err);
    base_buf_done(&dir);
    return st;
}

rp_status cache_prune(cache_store *s, uint64_t max_bytes, uint64_t *n_removed, uint64_t *left,
                      rp_error *err) {
    rp_status st;
    victims c = {0};
    size_t i = 0;
    if (atomic_load(&s->off)) return rp_fail(err, RP_IO, "the cache is off: %s", s->reason);
    RP_TRY_OUT(remove_all_of(s, "quarantine", remove_quarantined, err));
    RP_TRY_OUT(cache_leftovers_remove(s, err));
    RP_TRY_OUT(cache_list(s, false, collect, &c, err));
    if (c.n) qsort(c.v, c.n, sizeof *c.v, oldest_first);
    for (; i < c.n && c.total > max_bytes; i++) {
        RP_TRY_OUT(remove_object(s, &c.v[i], err));
        c.total -= c.v[i].size;
    }
    /* Texts of no object, such as the hash of a model file, which is dear to make again. */
    if (max_bytes == 0) RP_TRY_OUT(remove_all_of(s, "plans", remove_texts, err));
    *n_removed = i;
    *left = c.total;
out:
    base_free(c.v);
    return st;
}
