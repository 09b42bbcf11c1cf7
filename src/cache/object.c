/* Small objects: header and payload in one file, read whole and checked whole, so that nothing can
 * change between check and use. Code: the bare file with its header beside it. A miss leaves err
 * alone: it is no failure, and the caller goes on with the same err. */
#include <string.h>

#include "base/alloc.h"
#include "cache/priv.h"

enum { MAX_SMALL = 1 << 30 };

/* ---- small ---- */

static const char *check_bytes(const cache_found *f, const uint8_t *file, size_t size,
                               cache_header *h) {
    if (size < CACHE_HEADER_SIZE) return "shorter than its header";
    const char *why = cache_header_decode(file, f->kind, f->key, h);
    if (why) return why;
    if (h->payload_offset != CACHE_HEADER_SIZE || h->payload_size != size - CACHE_HEADER_SIZE)
        return "its size is not the stored one";
    if (!cache_header_matches(file, base_hash(file + CACHE_HEADER_SIZE, h->payload_size)))
        return "checksum mismatch";
    return NULL;
}

rp_status cache_check_small(const cache_store *s, cache_found *f, rp_error *err) {
    char *path = NULL, *data = NULL;
    size_t size = 0;
    RP_TRY(cache_object_path(s, f->kind, f->key, "", &path, err));
    f->why = cache_distrusts(path);
    rp_status st = f->why ? RP_OK : base_file_read(path, MAX_SMALL, &data, &size, err);
    base_free(path);
    RP_TRY(st);
    if (!f->why) f->why = check_bytes(f, (const uint8_t *)data, size, &f->head);
    if (f->why) {
        base_free(data);
        return RP_OK;
    }
    /* The NUL behind the end moves along. */
    memmove(data, data + CACHE_HEADER_SIZE, size - CACHE_HEADER_SIZE + 1);
    f->text = data;
    f->size = size - CACHE_HEADER_SIZE;
    return RP_OK;
}

rp_status cache_settle(cache_store *s, const cache_found *f, rp_status st, const rp_error *e,
                       rp_error *err) {
    if (st == RP_NOMEM) return rp_fail(err, RP_NOMEM, "%s", e->text);
    if (st != RP_OK)
        return cache_note_miss(s, f->kind, f->key, st == RP_NOT_FOUND ? NULL : e->text);
    if (!f->why) return RP_OK;
    cache_quarantine(s, f->kind, f->key, f->why);
    return cache_note_miss(s, f->kind, f->key, f->why);
}

rp_status cache_get(cache_store *s, cache_kind kind, base_hash128 key, char **out, size_t *out_size,
                    rp_error *err) {
    rp_error e = {0};
    cache_found f = {.kind = kind, .key = key};
    if (atomic_load(&s->off)) return cache_note_miss(s, kind, key, "the cache is off");
    rp_status st = cache_check_small(s, &f, &e);
    RP_TRY(cache_settle(s, &f, st, &e, err));
    cache_note_hit(s, kind, key);
    *out = f.text;
    *out_size = f.size;
    return RP_OK;
}

rp_status cache_forgive(cache_store *s, rp_status st, const rp_error *e, rp_error *err) {
    if (st == RP_OK) return RP_OK;
    if (st == RP_NOMEM) return rp_fail(err, RP_NOMEM, "%s", e->text);
    cache_write_failed(s, e);
    return RP_OK;
}

rp_status cache_put(cache_store *s, cache_kind kind, base_hash128 key, const void *data,
                    size_t size, rp_error *err) {
    rp_error e = {0};
    uint8_t head[CACHE_HEADER_SIZE];
    char *path = NULL;
    if (!cache_takes(s)) return RP_OK;
    RP_TRY(cache_object_path(s, kind, key, "", &path, err));
    cache_header_encode(
        &(cache_header){
            .kind = kind, .payload_size = size, .key = key, .payload_offset = CACHE_HEADER_SIZE},
        base_hash(data, size), head);
    const cache_part parts[] = {{head, sizeof head}, {data, size}};
    rp_status st = cache_file_write(s, path, parts, 2, true, &e);
    base_free(path);
    return cache_forgive(s, st, &e, err);
}

/* ---- code ---- */

static const char *check_sum(const cache_found *f, const char *code, size_t size,
                             const uint8_t *sum, cache_header *h) {
    const char *why = cache_header_decode(sum, CACHE_CODE, f->key, h);
    if (why) return why;
    if (h->payload_offset != 0 || h->payload_size != size) return "its size is not the stored one";
    if (!cache_header_matches(sum, base_hash(code, size))) return "checksum mismatch";
    return NULL;
}

/* <dir>/<hex><suffix> */
static rp_status code_path(const char *dir, base_hash128 key, const char *suffix, char **out,
                           rp_error *err) {
    char hex[33];
    base_buf b;
    base_hash_hex(key, hex);
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/%s%s", dir, hex, suffix);
    return cache_take_text(&b, out, err);
}

static rp_status check_code_in(const char *dir, cache_found *f, rp_error *err) {
    rp_status st;
    char *path = NULL, *sum_path = NULL, *sum = NULL, *code = NULL;
    size_t sum_size = 0, size = 0;
    RP_TRY_OUT(code_path(dir, f->key, ".so", &path, err));
    RP_TRY_OUT(code_path(dir, f->key, ".sum", &sum_path, err));
    f->why = cache_distrusts(path);
    st = RP_OK;
    if (f->why) goto out;
    RP_TRY_OUT(base_file_read(path, MAX_SMALL, &code, &size, err));
    st = base_file_read(sum_path, CACHE_HEADER_SIZE, &sum, &sum_size, err);
    if (st == RP_INVALID || (st == RP_OK && sum_size != CACHE_HEADER_SIZE)) {
        f->why = "its .sum has not the size of a header";
        st = RP_OK;
        goto out;
    }
    if (st != RP_OK) goto out;
    f->why = check_sum(f, code, size, (const uint8_t *)sum, &f->head);
    if (!f->why) {
        f->text = path;
        path = NULL;
    }
out:
    base_free(code);
    base_free(sum);
    base_free(sum_path);
    base_free(path);
    return st;
}

static rp_status store_code_dir(const cache_store *s, char **out, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "%s/objects/code", s->dir);
    return cache_take_text(&b, out, err);
}

rp_status cache_check_code(const cache_store *s, cache_found *f, rp_error *err) {
    char *dir = NULL;
    RP_TRY(store_code_dir(s, &dir, err));
    rp_status st = check_code_in(dir, f, err);
    base_free(dir);
    return st;
}

/* Code that this handle could not store, in its private folder. */
static bool find_private(cache_store *s, base_hash128 key, uint32_t isa_bits, char **out_path) {
    cache_found f = {.kind = CACHE_CODE, .key = key};
    const char *dir = cache_private_made(s);
    if (!dir || check_code_in(dir, &f, NULL) != RP_OK || !f.text) return false;
    if (f.head.isa_bits == isa_bits)
        *out_path = f.text;
    else
        base_free(f.text);
    return f.head.isa_bits == isa_bits;
}

rp_status cache_get_code(cache_store *s, base_hash128 key, uint32_t isa_bits, char **out_path,
                         rp_error *err) {
    rp_error e = {0};
    cache_found f = {.kind = CACHE_CODE, .key = key};
    if (find_private(s, key, isa_bits, out_path)) return RP_OK;
    if (atomic_load(&s->off)) return cache_note_miss(s, CACHE_CODE, key, "the cache is off");
    rp_status st = cache_check_code(s, &f, &e);
    RP_TRY(cache_settle(s, &f, st, &e, err));
    if (f.head.isa_bits != isa_bits) { /* sound, but for another machine: left as it is */
        base_free(f.text);
        return cache_note_miss(s, CACHE_CODE, key, "made for another instruction set");
    }
    cache_note_hit(s, CACHE_CODE, key);
    *out_path = f.text;
    return RP_OK;
}

void cache_reject(cache_store *s, cache_kind kind, base_hash128 key, const char *why) {
    if (atomic_load(&s->off)) return;
    cache_quarantine(s, kind, key, why);
    (void)cache_note_miss(s, kind, key, why);
}

/* Both files into dir, which is in s unless that is NULL; the path of the code. */
static rp_status write_code(const cache_store *s, const char *dir, const cache_header *h,
                            const char *code, char **out_path, rp_error *err) {
    rp_status st;
    uint8_t head[CACHE_HEADER_SIZE];
    char *path = NULL, *sum_path = NULL;
    cache_header_encode(h, base_hash(code, h->payload_size), head);
    RP_TRY_OUT(code_path(dir, h->key, ".so", &path, err));
    RP_TRY_OUT(code_path(dir, h->key, ".sum", &sum_path, err));
    /* Between the two a reader may pair the new file with an old header: a mismatch, a miss. */
    RP_TRY_OUT(cache_file_write(s, path, &(cache_part){code, h->payload_size}, 1, true, err));
    st = cache_file_write(s, sum_path, &(cache_part){head, sizeof head}, 1, true, err);
    if (st != RP_OK) {
        cache_remove(path); /* without its header it is nothing */
        goto out;
    }
    *out_path = path;
    path = NULL;
out:
    base_free(sum_path);
    base_free(path);
    return st;
}

static rp_status store_code(cache_store *s, const cache_header *h, const char *code,
                            char **out_path, rp_error *err) {
    char *dir = NULL;
    RP_TRY(store_code_dir(s, &dir, err));
    rp_status st = write_code(s, dir, h, code, out_path, err);
    base_free(dir);
    return st;
}

static rp_status keep_private(cache_store *s, const cache_header *h, const char *code,
                              char **out_path, rp_error *err) {
    const char *dir = NULL;
    RP_TRY(cache_private_dir(s, &dir, err));
    return write_code(NULL, dir, h, code, out_path, err);
}

rp_status cache_put_code(cache_store *s, base_hash128 key, uint32_t isa_bits, const char *src_path,
                         char **out_path, rp_error *err) {
    rp_error e = {0};
    char *code = NULL;
    size_t size = 0;
    bool stored = false;
    RP_TRY(base_file_read(src_path, MAX_SMALL, &code, &size, err));
    rp_status st = RP_OK;
    const cache_header h = {
        .kind = CACHE_CODE, .isa_bits = isa_bits, .payload_size = size, .key = key};
    if (cache_takes(s)) {
        st = store_code(s, &h, code, out_path, &e);
        stored = st == RP_OK;
        st = cache_forgive(s, st, &e, err);
    }
    if (st == RP_OK && !stored) st = keep_private(s, &h, code, out_path, err);
    if (st == RP_OK) cache_remove(src_path);
    base_free(code);
    return st;
}
