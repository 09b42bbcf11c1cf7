/* Walks the stored objects, for `cache ls` and `cache verify`. Listing looks at headers; verifying
 * reads every byte, puts away what fails, and clears what crashed writers left behind. Texts beside
 * plans are not objects. */
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "cache/priv.h"

typedef struct walk {
    cache_store *s;
    cache_kind kind;
    bool verify;
    cache_entry_fn fn;
    void *user;
    base_buf path; /* of the file at hand */
} walk;

bool cache_parse_hex(const char *name, base_hash128 *key, char hex[33]) {
    uint64_t half[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        char c = name[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return false;
        half[i / 16] = half[i / 16] << 4 | (uint64_t)digit;
        hex[i] = c;
    }
    hex[32] = 0;
    *key = (base_hash128){.hi = half[0], .lo = half[1]};
    return true;
}

/* Is there a header of this object, and has the file its size? *large: it is checked by chunks. */
static const char *glance(const walk *w, base_hash128 key, bool *large, rp_status *st,
                          rp_error *err) {
    char *path = NULL;
    base_mapping m = {0};
    cache_header h = {0};
    const char *why = "shorter than its header";
    const char *suffix = w->kind == CACHE_CODE ? ".sum" : "";
    *st = cache_object_path(w->s, w->kind, key, suffix, &path, err);
    if (*st == RP_OK) *st = base_file_map(path, &m, err);
    if (*st == RP_INVALID) {
        *st = RP_OK;
        why = "is no file";
    } else if (*st == RP_OK && m.size >= CACHE_HEADER_SIZE) {
        why = cache_header_decode(m.data, w->kind, key, &h);
        if (!why && w->kind != CACHE_CODE &&
            (h.payload_size > m.size || m.size - h.payload_size != h.payload_offset))
            why = "its size is not the stored one";
    }
    *large = h.payload_offset > CACHE_HEADER_SIZE;
    base_file_unmap(&m);
    base_free(path);
    return why;
}

static rp_status inspect(const walk *w, cache_found *f, rp_error *err) {
    rp_status st = RP_OK;
    bool large = false;
    f->why = glance(w, f->key, &large, &st, err);
    if (f->why || st != RP_OK || !w->verify) return st;
    if (w->kind == CACHE_CODE)
        st = cache_check_code(w->s, f, err);
    else if (large)
        st = cache_check_large(w->s, f, true, err);
    else
        st = cache_check_small(w->s, f, err);
    base_file_unmap(&f->file);
    base_free(f->text);
    return st;
}

static rp_status visit(void *user, const char *name, bool is_dir, rp_error *err) {
    walk *w = user;
    struct stat info;
    rp_error e = {0};
    cache_entry entry = {.kind = w->kind};
    cache_found f = {.kind = w->kind};
    (void)is_dir; /* what is in the place of an object is one, if a bad one */
    base_buf_clear(&w->path);
    base_buf_printf(&w->path, "%s/objects/%s/%s", w->s->dir, cache_kind_names[w->kind], name);
    RP_TRY(base_buf_status(&w->path, err));
    if (base_sys_fails() || stat(w->path.data, &info) != 0) return RP_OK; /* gone meanwhile */
    if (!cache_parse_hex(name, &f.key, entry.key) ||
        strcmp(name + 32, w->kind == CACHE_CODE ? ".so" : "") != 0)
        return RP_OK;
    rp_status st = inspect(w, &f, &e);
    entry.reason = f.why;
    if (st == RP_NOMEM) return rp_fail(err, st, "%s", e.text);
    if (st == RP_NOT_FOUND) entry.reason = "its .sum is missing";
    if (st != RP_OK && st != RP_NOT_FOUND) entry.reason = "cannot be read";
    entry.ok = !entry.reason;
    entry.size = (uint64_t)info.st_size;
    entry.mtime = info.st_mtime;
    if (w->verify && entry.reason && (st == RP_OK || st == RP_NOT_FOUND))
        cache_quarantine(w->s, w->kind, f.key, entry.reason);
    return w->fn(w->user, &entry, err);
}

rp_status cache_list(cache_store *s, bool verify, cache_entry_fn fn, void *user, rp_error *err) {
    rp_status st = RP_OK;
    base_buf dir;
    walk w = {.s = s, .verify = verify, .fn = fn, .user = user};
    if (atomic_load(&s->off)) return RP_OK;
    if (verify) RP_TRY(cache_leftovers_remove(s, err));
    base_buf_init(&dir, 0);
    base_buf_init(&w.path, 0);
    for (int kind = 0; kind < CACHE_KIND_COUNT_; kind++) {
        w.kind = (cache_kind)kind;
        base_buf_clear(&dir);
        base_buf_printf(&dir, "%s/objects/%s", s->dir, cache_kind_names[kind]);
        RP_TRY_OUT(base_buf_status(&dir, err));
        RP_TRY_OUT(base_dir_list(dir.data, visit, &w, err));
    }
out:
    base_buf_done(&dir);
    base_buf_done(&w.path);
    return st;
}
