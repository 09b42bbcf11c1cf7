/* Text files beside a plan, for people and for `why`: the bare text, and NAME.xxh128 beside it in the
 * form of xxhsum, so that `xxhsum -c` can check it too. Nothing is run from them, so they are not
 * fsynced: after a crash the checksum makes a half-written one a miss. */
#include <string.h>

#include "base/alloc.h"
#include "cache/priv.h"

enum { MAX_TEXT = 64 << 20 };

static rp_status text_path(const cache_store *s, base_hash128 key, const char *name,
                           const char *suffix, char **out, rp_error *err) {
    char hex[33];
    base_buf b;
    if (!*name || *name == '.' || strchr(name, '/'))
        return rp_fail(err, RP_INTERNAL, "'%s' is no file name for a text beside a plan", name);
    base_hash_hex(key, hex);
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/plans/%s/%s%s", s->dir, hex, name, suffix);
    return cache_take_text(&b, out, err);
}

/* The line of the checksum file. */
static void sum_line(const char *text, size_t size, const char *name, base_buf *b) {
    char hex[33];
    base_hash_hex(base_hash(text, size), hex);
    base_buf_printf(b, "%s  %s\n", hex, name);
}

rp_status cache_put_text(cache_store *s, base_hash128 key, const char *name, const char *text,
                         rp_error *err) {
    rp_status st;
    rp_error e = {0};
    char *path = NULL, *sum_path = NULL;
    base_buf sum;
    base_buf_init(&sum, 0);
    if (!cache_takes(s)) return RP_OK;
    RP_TRY_OUT(text_path(s, key, name, "", &path, err));
    RP_TRY_OUT(text_path(s, key, name, ".xxh128", &sum_path, err));
    sum_line(text, strlen(text), name, &sum);
    RP_TRY_OUT(base_buf_status(&sum, err));
    char *slash = strrchr(path, '/');
    *slash = 0;
    st = base_dir_make(path, &e);
    *slash = '/';
    if (st == RP_OK)
        st = cache_file_write(s, path, &(cache_part){text, strlen(text)}, 1, false, &e);
    if (st == RP_OK)
        st = cache_file_write(s, sum_path, &(cache_part){sum.data, sum.len}, 1, false, &e);
    st = cache_forgive(s, st, &e, err);
out:
    base_buf_done(&sum);
    base_free(path);
    base_free(sum_path);
    return st;
}

rp_status cache_get_text(cache_store *s, base_hash128 key, const char *name, char **out,
                         rp_error *err) {
    rp_status st;
    rp_error e = {0};
    char *path = NULL, *sum_path = NULL, *text = NULL, *sum = NULL;
    size_t size = 0, sum_size = 0;
    base_buf want;
    base_buf_init(&want, 0);
    if (atomic_load(&s->off)) return RP_NOT_FOUND;
    RP_TRY_OUT(text_path(s, key, name, "", &path, err));
    RP_TRY_OUT(text_path(s, key, name, ".xxh128", &sum_path, err));
    const char *why = cache_distrusts(path);
    st = why ? RP_OK : base_file_read(path, MAX_TEXT, &text, &size, &e);
    if (!why && st == RP_OK) st = base_file_read(sum_path, CACHE_PAGE, &sum, &sum_size, &e);
    if (st != RP_OK) {
        st = st == RP_NOMEM ? rp_fail(err, st, "%s", e.text) : RP_NOT_FOUND;
        goto out;
    }
    if (!why) sum_line(text, size, name, &want);
    RP_TRY_OUT(base_buf_status(&want, err));
    if (!why && (want.len != sum_size || memcmp(want.data, sum, sum_size) != 0))
        why = "checksum mismatch";
    if (why) {
        cache_quarantine_file(s, path, why);
        cache_remove(sum_path);
        st = RP_NOT_FOUND;
        goto out;
    }
    *out = text;
    text = NULL;
out:
    base_buf_done(&want);
    base_free(text);
    base_free(sum);
    base_free(path);
    base_free(sum_path);
    return st;
}
