/* What the folder takes, for `cache ls`: every file counts once, as what its folder holds, or, where its name or that of a
 * folder above it is temporary, as work of a process that goes on or has ended. Locks are not counted. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "base/temp.h"
#include "cache/priv.h"

const char *const cache_share_names[CACHE_SHARE_COUNT_] = {
    "plan",   "code",       "weights", "tuning",    "texts",
    "models", "quarantine", "working", "leftovers", "scratch"};

typedef struct count {
    cache_share *shares;
    cache_share_kind kind; /* of what has a plain name */
    const char
        *prefix; /* others are passed over, and what belongs to another user; NULL: none is */
    const char *dir;
} count;

static rp_status count_folder(const count *c, rp_error *err);

static rp_status visit(void *user, const char *name, bool is_dir, rp_error *err) {
    const count *c = user;
    struct stat info;
    count inner = {c->shares, c->kind, NULL, NULL};
    if (c->prefix &&
        (strncmp(name, c->prefix, strlen(c->prefix)) != 0 || !strstr(name, BASE_TEMP_INFIX)))
        return RP_OK;
    if (!is_dir && c->kind == CACHE_SHARE_MODELS && cache_names_lock(name)) return RP_OK;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/%s", c->dir, name);
    rp_status st = base_buf_status(&b, err);
    if (st != RP_OK || base_sys_fails() || lstat(b.data, &info) != 0) goto out; /* gone meanwhile */
    if (c->prefix && info.st_uid != geteuid()) goto out;
    if (c->kind < CACHE_SHARE_WORKING && strstr(name, BASE_TEMP_INFIX))
        inner.kind = base_temp_is_left(name, info.st_mtime) ? CACHE_SHARE_LEFTOVERS
                                                            : CACHE_SHARE_WORKING;
    inner.dir = b.data;
    if (is_dir) {
        st = count_folder(&inner, err);
    } else {
        c->shares[inner.kind].n_files++;
        c->shares[inner.kind].bytes += (uint64_t)info.st_size;
    }
out:
    base_buf_done(&b);
    return st;
}

/* A folder that is not there, or not to be read, counts nothing. */
static rp_status count_folder(const count *c, rp_error *err) {
    rp_error why = {0};
    rp_status st = base_dir_list(c->dir, visit, (void *)(uintptr_t)c, &why);
    return st == RP_NOMEM ? rp_fail(err, st, "%s", why.text) : RP_OK;
}

static rp_status count_below(const cache_store *s, const char *folder, cache_share_kind kind,
                             cache_share *shares, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/%s", s->dir, folder);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) st = count_folder(&(count){shares, kind, NULL, b.data}, err);
    base_buf_done(&b);
    return st;
}

rp_status cache_usage(const cache_store *s, cache_share out[CACHE_SHARE_COUNT_], rp_error *err) {
    static const struct {
        const char *folder;
        cache_share_kind kind;
    } below[] = {{"objects/plan", (cache_share_kind)CACHE_PLAN},
                 {"objects/code", (cache_share_kind)CACHE_CODE},
                 {"objects/weights", (cache_share_kind)CACHE_WEIGHTS},
                 {"objects/tuning", (cache_share_kind)CACHE_TUNING},
                 {"plans", CACHE_SHARE_TEXTS},
                 {"models", CACHE_SHARE_MODELS},
                 {"quarantine", CACHE_SHARE_QUARANTINE},
                 {"tmp", CACHE_SHARE_QUARANTINE}}; /* all temporary */
    const char *place;
    memset(out, 0, CACHE_SHARE_COUNT_ * sizeof *out);
    if (atomic_load(&s->off)) return RP_OK;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        RP_TRY(count_below(s, below[i].folder, below[i].kind, out, err));
    for (size_t i = 0; (place = base_temp_place(i)); i++)
        RP_TRY(count_folder(&(count){out, CACHE_SHARE_SCRATCH, CACHE_SCRATCH_PREFIX, place}, err));
    return RP_OK;
}

/* ---- of one plan ---- */

static rp_status add_code(const cache_store *s, base_hash128 key, uint64_t *bytes, rp_error *err) {
    struct stat info;
    char *path = NULL;
    RP_TRY(cache_object_path(s, CACHE_CODE, key, ".so", &path, err));
    if (!base_sys_fails() && stat(path, &info) == 0) *bytes += (uint64_t)info.st_size;
    base_free(path);
    return RP_OK;
}

rp_status cache_plan_parts(cache_store *s, const char *hex, uint64_t *code, uint64_t *weights,
                           rp_error *err) {
    base_hash128 key;
    char ignored[33], *text = NULL;
    *code = *weights = 0;
    if (!cache_parse_hex(hex, &key, ignored)) return RP_OK;
    rp_status st = cache_get_text(s, key, CACHE_PARTS, &text, err);
    if (st == RP_NOT_FOUND) return RP_OK;
    for (const char *p = text; st == RP_OK && p; p = (p = strchr(p, '\n')) ? p + 1 : NULL) {
        if (strncmp(p, "weights ", 8) == 0) *weights = strtoull(p + 8, NULL, 10);
        if (strncmp(p, "code ", 5) == 0 && cache_parse_hex(p + 5, &key, ignored))
            st = add_code(s, key, code, err);
    }
    base_free(text);
    return st;
}
