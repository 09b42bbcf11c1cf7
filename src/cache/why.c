/* Why a plan was not found: compares a key's factors with those stored beside every plan and names
 * what differs, nearest plan first. Plans without readable factors are passed over. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cache/factors.h"
#include "cache/priv.h"

enum { MAX_SHOWN = 80 };

typedef struct reason {
    size_t n_differ;
    char *line;
    char key[33];
} reason;

typedef struct search {
    cache_store *s;
    const cache_key *k;
    const char *same; /* plans that differ in it are passed over; NULL: none is */
    reason *v;
    size_t n, cap;
} search;

/* A value as shown: quoted unless it is JSON that marks its ends itself, long ones cut. */
static void put_value(base_buf *b, const char *z) {
    const char *quote = z && *z && strchr("\"[{", *z) ? "" : "\"";
    if (!z)
        base_buf_puts(b, "(none)");
    else if (strlen(z) > MAX_SHOWN)
        base_buf_printf(b, "%s%.*s...%s", quote, MAX_SHOWN, z, quote);
    else
        base_buf_printf(b, "%s%s%s", quote, z, quote);
}

static void put_change(base_buf *b, size_t n, const char *name, const char *old, const char *now) {
    base_buf_printf(b, "%s %s ", n ? ";" : "", name);
    put_value(b, old);
    base_buf_puts(b, " -> ");
    put_value(b, now);
}

static bool is_asked(const search *w, const json_t *stored) {
    const char *old, *now;
    if (!w->same) return true;
    old = json_string_value(json_object_get(stored, w->same));
    now = cache_key_value(w->k, w->same);
    return old && now && strcmp(old, now) == 0;
}

/* Appends the differences between stored factors and k; their number. */
static size_t compare(const json_t *stored, const cache_key *k, base_buf *b) {
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++) {
        const char *old = json_string_value(json_object_get(stored, k->v[i].name));
        if (old && strcmp(old, k->v[i].value) == 0) continue;
        put_change(b, n++, k->v[i].name, old, k->v[i].value);
    }
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)stored, name, value) {
        if (cache_key_value(k, name)) continue;
        put_change(b, n++, name, json_string_value(value), NULL);
    }
    return n;
}

static rp_status keep(search *w, reason r, rp_error *err) {
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 16;
        reason *v = base_realloc_array(w->v, cap, sizeof *v);
        if (!v) {
            base_free(r.line);
            return rp_fail(err, RP_NOMEM, "no memory to compare %zu plans", cap);
        }
        w->v = v;
        w->cap = cap;
    }
    w->v[w->n++] = r;
    return RP_OK;
}

static rp_status compare_plan(search *w, const char *hex, const char *text, rp_error *err) {
    json_t *stored = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(stored) || !is_asked(w, stored)) {
        json_decref(stored);
        return RP_OK;
    }
    base_buf b, line;
    base_buf_init(&b, 0);
    base_buf_init(&line, 0);
    reason r = {.n_differ = compare(stored, w->k, &b)};
    json_decref(stored);
    memcpy(r.key, hex, sizeof r.key);
    if (r.n_differ)
        base_buf_printf(&line, "plan %s: %zu of %zu factors differ:%s", hex, r.n_differ, w->k->n,
                        b.data ? b.data : "");
    else
        base_buf_printf(&line, "plan %s: all %zu factors equal", hex, w->k->n);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = base_buf_status(&line, err);
    if (st == RP_OK) r.line = base_buf_take(&line);
    if (st == RP_OK) st = keep(w, r, err);
    base_buf_done(&b);
    base_buf_done(&line);
    return st;
}

static rp_status visit_plan(void *user, const char *name, bool is_dir, rp_error *err) {
    search *w = user;
    base_hash128 key;
    char hex[33], *text = NULL;
    if (!is_dir || !cache_parse_hex(name, &key, hex) || name[32]) return RP_OK;
    rp_status st = cache_get_text(w->s, key, "key_factors.json", &text, err);
    if (st == RP_NOT_FOUND) return RP_OK;
    if (st == RP_OK) st = compare_plan(w, hex, text, err);
    base_free(text);
    return st;
}

static int nearest_first(const void *a, const void *b) {
    const reason *x = a, *y = b;
    if (x->n_differ != y->n_differ) return x->n_differ < y->n_differ ? -1 : 1;
    return strcmp(x->key, y->key);
}

static rp_status search_plans(search *w, base_buf *out, rp_error *err) {
    rp_status st;
    base_buf dir;
    base_buf_init(&dir, 0);
    base_buf_printf(&dir, "%s/plans", w->s->dir);
    RP_TRY_OUT(base_buf_status(&dir, err));
    RP_TRY_OUT(base_dir_list(dir.data, visit_plan, w, err));
    if (w->n) qsort(w->v, w->n, sizeof *w->v, nearest_first);
    for (size_t i = 0; i < w->n; i++) {
        /* Asked for a cause: the same plan, lost or damaged, is none. */
        if (w->same && w->v[i].n_differ == 0) continue;
        base_buf_printf(out, "%s\n", w->v[i].line);
    }
    st = base_buf_status(out, err);
out:
    for (size_t i = 0; i < w->n; i++) base_free(w->v[i].line);
    base_free(w->v);
    base_buf_done(&dir);
    return st;
}

rp_status cache_why(cache_store *s, const cache_key *k, base_buf *out, rp_error *err) {
    search w = {.s = s, .k = k};
    if (atomic_load(&s->off)) {
        base_buf_printf(out, "the cache is off: %s\n", s->reason);
        return base_buf_status(out, err);
    }
    RP_TRY(search_plans(&w, out, err));
    if (w.n == 0) base_buf_puts(out, "no plan is stored\n");
    return base_buf_status(out, err);
}

rp_status cache_why_same(cache_store *s, const cache_key *k, const char *same, base_buf *out,
                         rp_error *err) {
    search w = {.s = s, .k = k, .same = same};
    return atomic_load(&s->off) ? RP_OK : search_plans(&w, out, err);
}
