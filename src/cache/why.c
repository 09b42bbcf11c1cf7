/* Why a plan was not found: compares a key's factors with those stored beside every plan and names
 * what differs, nearest plan first. Plans without readable factors are passed over. Factors of other objects are kept, too, so
 * that any two of one kind can be compared. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cache/factors.h"
#include "cache/priv.h"
#include "config/table.h"

enum { MAX_SHOWN = 80 };

#define LOST ", but it or code of it is not in the cache any more, or damaged"

/* Names of the texts. */
static const char *const factor_files[CACHE_KIND_COUNT_] = {
    [CACHE_PLAN] = "key_factors.json",
    [CACHE_CODE] = "code_factors.json",
    [CACHE_WEIGHTS] = "weights_factors.json",
    [CACHE_TUNING] = "tuning_factors.json",
};

rp_status cache_put_factors(cache_store *s, cache_kind kind, const cache_key *k, rp_error *err) {
    char *json = NULL;
    RP_TRY(cache_key_json(k, &json, err));
    rp_status st = cache_put_text(s, cache_key_hash(k), factor_files[kind], json, err);
    base_free(json);
    return st;
}

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

/* A value as shown: quoted unless it is JSON that marks its ends itself, long ones cut, never inside of a character. */
static void put_value(base_buf *b, const char *z) {
    const char *quote = z && *z && strchr("\"[{", *z) ? "" : "\"";
    int n = MAX_SHOWN;
    if (!z) {
        base_buf_puts(b, "(none)");
    } else if (strlen(z) > MAX_SHOWN) {
        while (n > 0 && ((unsigned char)z[n] & 0xC0) == 0x80) n--;
        base_buf_printf(b, "%s%.*s...%s", quote, n, z, quote);
    } else {
        base_buf_printf(b, "%s%s%s", quote, z, quote);
    }
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
    rp_status st = cache_get_text(w->s, key, factor_files[CACHE_PLAN], &text, err);
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
        /* Asked for a cause: who was not found under an equal key is lost. */
        bool lost = w->same && w->v[i].n_differ == 0;
        base_buf_printf(out, "%s%s\n", w->v[i].line, lost ? LOST : "");
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

/* ---- as JSON ---- */

typedef struct report {
    cache_store *s;
    const json_t *now; /* the factors that are asked for */
    const char *same;  /* the factor that says which model it is */
    json_t **v;
    size_t n, cap;
} report;

/* [{"factor", "stored", "now"}, ...] for what differs, null where one has no such factor. */
static json_t *changes_of(const json_t *stored, const json_t *now) {
    json_t *out = json_array();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)now, name, value) {
        json_t *old = json_object_get(stored, name);
        if (!json_equal(old, value))
            json_array_append_new(
                out, json_pack("{s:s,s:O?,s:O}", "factor", name, "stored", old, "now", value));
    }
    json_object_foreach((json_t *)(uintptr_t)stored, name, value) {
        if (!json_object_get(now, name))
            json_array_append_new(
                out, json_pack("{s:s,s:O,s:n}", "factor", name, "stored", value, "now"));
    }
    return out;
}

/* Factors stored beside an object; NULL with RP_OK: it has none that can be read. */
static rp_status stored_factors(cache_store *s, cache_kind kind, base_hash128 key, json_t **out,
                                rp_error *err) {
    char *text = NULL;
    rp_status st = cache_get_text(s, key, factor_files[kind], &text, err);
    *out = NULL;
    if (st == RP_OK) *out = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    base_free(text);
    if (*out && !json_is_object(*out)) {
        json_decref(*out);
        *out = NULL;
    }
    return st == RP_NOT_FOUND ? RP_OK : st;
}

static rp_status keep_report(report *r, json_t *o, rp_error *err) {
    if (o && r->n == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 16;
        json_t **v = base_realloc_array(r->v, cap, sizeof(json_t *));
        if (v) {
            r->v = v;
            r->cap = cap;
        }
    }
    if (!o || r->n == r->cap) {
        json_decref(o);
        return rp_fail(err, RP_NOMEM, "no memory to compare plans");
    }
    r->v[r->n++] = o;
    return RP_OK;
}

static rp_status report_plan(void *user, const char *name, bool is_dir, rp_error *err) {
    report *r = user;
    base_hash128 key;
    char hex[33];
    json_t *stored = NULL;
    if (!is_dir || !cache_parse_hex(name, &key, hex) || name[32]) return RP_OK;
    RP_TRY(stored_factors(r->s, CACHE_PLAN, key, &stored, err));
    if (!stored) return RP_OK;
    bool same = json_equal(json_object_get(stored, r->same), json_object_get(r->now, r->same));
    json_t *o = json_pack("{s:s,s:b,s:I,s:o}", "plan", hex, "same_model", (int)same, "factors",
                          (json_int_t)json_object_size(r->now), "differ",
                          changes_of(stored, r->now));
    json_decref(stored);
    return keep_report(r, o, err);
}

/* Plans of the same model first, then those with the fewest differences. */
static int likeliest_first(const void *a, const void *b) {
    const json_t *const *x = a, *const *y = b;
    int same = json_is_true(json_object_get(*y, "same_model")) -
               json_is_true(json_object_get(*x, "same_model"));
    size_t n = json_array_size(json_object_get(*x, "differ"));
    size_t m = json_array_size(json_object_get(*y, "differ"));
    if (same || n != m) return same ? same : n < m ? -1 : 1;
    return strcmp(json_string_value(json_object_get(*x, "plan")),
                  json_string_value(json_object_get(*y, "plan")));
}

static rp_status list_plans(const cache_store *s, base_dir_fn fn, void *user, rp_error *err) {
    base_buf dir;
    base_buf_init(&dir, 0);
    base_buf_printf(&dir, "%s/plans", s->dir);
    rp_status st = base_buf_status(&dir, err);
    if (st == RP_OK) st = base_dir_list(dir.data, fn, user, err);
    base_buf_done(&dir);
    return st;
}

static rp_status give_text(json_t *o, char **out, rp_error *err) {
    *out = o ? config_json_dump(o, 0) : NULL;
    json_decref(o);
    return *out ? RP_OK : rp_fail(err, RP_NOMEM, "no memory to compare plans");
}

rp_status cache_why_json(cache_store *s, const cache_key *k, const char *same, char **out,
                         rp_error *err) {
    rp_status st;
    char *text = NULL;
    json_t *now = NULL, *all = NULL;
    report r = {.s = s, .same = same};
    RP_TRY_OUT(cache_key_json(k, &text, err));
    r.now = now = json_loads(text, 0, NULL);
    if (!atomic_load(&s->off)) RP_TRY_OUT(list_plans(s, report_plan, &r, err));
    if (r.n) qsort(r.v, r.n, sizeof(json_t *), likeliest_first);
    all = json_array();
    for (size_t i = 0; i < r.n; i++) json_array_append(all, r.v[i]);
    st = give_text(all, out, err);
out:
    for (size_t i = 0; i < r.n; i++) json_decref(r.v[i]);
    base_free(r.v);
    json_decref(now);
    base_free(text);
    return st;
}

/* ---- a plan that differs in one factor alone ---- */

typedef struct but_one {
    cache_store *s;
    const cache_key *k;
    const char *name; /* of the factor */
    bool found;
    base_hash128 key;
} but_one;

static rp_status match_but(void *user, const char *name, bool is_dir, rp_error *err) {
    but_one *f = user;
    base_hash128 key;
    char hex[33];
    json_t *stored = NULL;
    base_buf differ;
    if (f->found || !is_dir || !cache_parse_hex(name, &key, hex) || name[32]) return RP_OK;
    RP_TRY(stored_factors(f->s, CACHE_PLAN, key, &stored, err));
    base_buf_init(&differ, 0);
    const char *old = json_string_value(json_object_get(stored, f->name));
    const char *now = cache_key_value(f->k, f->name);
    f->found = stored && (old ? !now || strcmp(old, now) != 0 : now != NULL) &&
               compare(stored, f->k, &differ) == 1;
    base_buf_done(&differ);
    json_decref(stored);
    f->key = key;
    return RP_OK;
}

rp_status cache_key_find_but(cache_store *s, const cache_key *k, const char *but, base_hash128 *out,
                             rp_error *err) {
    but_one f = {.s = s, .k = k, .name = but};
    if (atomic_load(&s->off)) return RP_NOT_FOUND;
    RP_TRY(list_plans(s, match_but, &f, err));
    if (!f.found) return RP_NOT_FOUND;
    *out = f.key;
    return RP_OK;
}

/* ---- two objects by the starts of their keys ---- */

typedef struct prefix {
    cache_store *s;
    const char *text;
    size_t n; /* objects whose key begins with it */
    char hex[33];
    cache_kind kind;
    json_t *factors; /* of the last of them */
} prefix;

static rp_status match_object(void *user, const char *name, bool is_dir, rp_error *err) {
    prefix *p = user;
    base_hash128 key;
    char hex[33];
    if (!is_dir || !cache_parse_hex(name, &key, hex) || name[32] ||
        strncmp(hex, p->text, strlen(p->text)) != 0)
        return RP_OK;
    for (int kind = 0; kind < CACHE_KIND_COUNT_; kind++) {
        json_t *factors = NULL;
        if (factor_files[kind]) RP_TRY(stored_factors(p->s, (cache_kind)kind, key, &factors, err));
        if (!factors) continue;
        json_decref(p->factors);
        p->factors = factors;
        p->kind = (cache_kind)kind;
        memcpy(p->hex, hex, sizeof hex);
        p->n++;
    }
    return RP_OK;
}

static rp_status find_object(prefix *p, rp_error *err) {
    RP_TRY(list_plans(p->s, match_object, p, err));
    if (p->n == 1) return RP_OK;
    if (p->n > 1)
        return rp_fail(err, RP_INVALID, "%zu entries begin with '%.40s'; give more of the key",
                       p->n, p->text);
    return rp_fail(err, RP_NOT_FOUND,
                   "no entry begins with '%.40s', or what its key was made of is not stored; see "
                   "reprise cache ls",
                   p->text);
}

rp_status cache_compare_json(cache_store *s, const char *a, const char *b, char **out,
                             rp_error *err) {
    prefix pa = {.s = s, .text = a}, pb = {.s = s, .text = b};
    rp_status st;
    RP_TRY_OUT(find_object(&pa, err));
    RP_TRY_OUT(find_object(&pb, err));
    if (pa.kind != pb.kind) {
        st = rp_fail(err, RP_INVALID, "%.12s is %s and %.12s is %s; compare two of one kind",
                     pa.hex, cache_kind_names[pa.kind], pb.hex, cache_kind_names[pb.kind]);
        goto out;
    }
    st = give_text(json_pack("{s:s,s:s,s:s,s:I,s:o}", "kind", cache_kind_names[pa.kind], "key",
                             pa.hex, "with", pb.hex, "factors",
                             (json_int_t)json_object_size(pb.factors), "differ",
                             changes_of(pa.factors, pb.factors)),
                   out, err);
out:
    json_decref(pa.factors);
    json_decref(pb.factors);
    return st;
}

/* ---- what an object is of ---- */

/* Settings that tell plans of one model apart, or what something was learned of; those with a usual value only where they have another. */
static void put_settings(const json_t *factors, base_buf *b) {
    static const struct {
        const char *name, *usual;
    } shown[] = {{"backend", NULL},
                 {"numerics", NULL},
                 {"target.isa", NULL},
                 {"target.sums", "tensor cores"},
                 {"max_num_seqs", NULL},
                 {"max_num_batched_tokens", NULL},
                 {"compiler", NULL}, /* only where one was named */
                 {"splitting_ops", "[\"reprise::attention\"]"},
                 {"skip_passes", "[]"},
                 {"program", NULL}, /* what was learned of it, or of a function */
                 {"function", NULL}};
    const char *backend = json_string_value(json_object_get(factors, "backend")), *name;
    const bool fuses = backend && strcmp(backend, "\"eager\"") != 0;
    json_t *value;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const char *z = json_string_value(json_object_get(factors, shown[i].name));
        if (z && !(shown[i].usual && strcmp(z, shown[i].usual) == 0))
            base_buf_printf(b, "%s%s=%s", b->len ? " " : "", shown[i].name, z);
    }
    json_object_foreach((json_t *)(uintptr_t)factors, name, value) {
        const char *z = json_string_value(value);
        if (!fuses || !z || strncmp(name, "pass_config.", 12) != 0) continue;
        const bool asked = strcmp(name, "pass_config.fuse_attn_quant") == 0;
        if (strcmp(z, asked ? "false" : "true") != 0) base_buf_printf(b, " %s=%s", name, z);
    }
}

rp_status cache_about(cache_store *s, const char *hex, char **model, char **settings,
                      rp_error *err) {
    base_hash128 key;
    char ignored[33];
    json_t *factors = NULL;
    base_buf b;
    *model = *settings = NULL;
    if (!cache_parse_hex(hex, &key, ignored)) return RP_OK;
    rp_status st = cache_get_text(s, key, "model", model, err);
    if (st == RP_OK || st == RP_NOT_FOUND) st = stored_factors(s, CACHE_PLAN, key, &factors, err);
    if (st == RP_OK && !factors) st = stored_factors(s, CACHE_TUNING, key, &factors, err);
    base_buf_init(&b, 0);
    put_settings(factors, &b);
    json_decref(factors);
    if (st == RP_OK && b.len && !(*settings = base_buf_take(&b)))
        st = rp_fail(err, RP_NOMEM, "no memory to list plans");
    base_buf_done(&b);
    if (st == RP_OK) return RP_OK;
    base_free(*model);
    *model = NULL;
    return st;
}
