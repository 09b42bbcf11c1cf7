/* GGUF files: open, close, look up.
 *
 * Everything was checked at open (gguf_check.c), so the getters re-read entries from the map
 * instead of keeping parsed copies: opening costs two small tables whatever the file holds. */
#include "model/gguf.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "model/gguf_file.h"

static bool stamp_of(const char *path, base_hash128 *out) {
    struct stat info;
    if (stat(path, &info) != 0) return false;
    const int64_t parts[] = {(int64_t)info.st_dev,          (int64_t)info.st_ino,
                             (int64_t)info.st_size,         (int64_t)info.st_mtim.tv_sec,
                             (int64_t)info.st_mtim.tv_nsec, (int64_t)info.st_ctim.tv_sec,
                             (int64_t)info.st_ctim.tv_nsec};
    *out = base_hash(parts, sizeof parts);
    return true;
}

static rp_status open_map(base_mapping map, bool mapped, const char *path, model_gguf **out,
                          rp_error *err) {
    rp_status st;
    model_gguf *g = base_alloc(sizeof *g);
    if (!g) {
        if (mapped) base_file_unmap(&map);
        return rp_fail(err, RP_NOMEM, "no memory to open '%s'", path);
    }
    pthread_mutex_init(&g->lock, NULL);
    g->map = map;
    g->mapped = mapped;
    g->path = base_strdup(path);
    if (!g->path) {
        st = rp_fail(err, RP_NOMEM, "no memory to open '%s'", path);
        goto out;
    }
    RP_TRY_OUT(model_gguf_check(g, err));
    *out = g;
    g = NULL;
out:
    model_gguf_close(g);
    return st;
}

rp_status model_gguf_open(const char *path, model_gguf **out, rp_error *err) {
    base_mapping map = {0};
    base_hash128 before = {0, 0}, after = {0, 0};
    model_gguf *g = NULL;
    bool stamped = stamp_of(path, &before);
    RP_TRY(base_file_map(path, &map, err));
    RP_TRY(open_map(map, true, path, &g, err));
    g->stamped = stamped && stamp_of(path, &after) && before.lo == after.lo &&
                 before.hi == after.hi;
    g->stamp = before;
    *out = g;
    return RP_OK;
}

rp_status model_gguf_open_bytes(const void *data, size_t size, const char *name, model_gguf **out,
                                rp_error *err) {
    base_mapping map = {.data = data, .size = size};
    return open_map(map, false, name, out, err);
}

void model_gguf_close(model_gguf *g) {
    if (!g) return;
    if (g->mapped) base_file_unmap(&g->map);
    base_free(g->kv_index.slots);
    base_free(g->tensor_index.slots);
    base_free(g->tensors);
    base_free(g->path);
    pthread_mutex_destroy(&g->lock);
    base_free(g);
}

const char *model_gguf_path(const model_gguf *g) {
    return g->path;
}

size_t model_gguf_size(const model_gguf *g) {
    return g->map.size;
}

uint32_t model_gguf_version(const model_gguf *g) {
    return g->version;
}

static const char *const kv_type_names[MODEL_KV_COUNT_] = {
    [MODEL_KV_U8] = "u8",     [MODEL_KV_I8] = "i8",     [MODEL_KV_U16] = "u16",
    [MODEL_KV_I16] = "i16",   [MODEL_KV_U32] = "u32",   [MODEL_KV_I32] = "i32",
    [MODEL_KV_F32] = "f32",   [MODEL_KV_BOOL] = "bool", [MODEL_KV_STR] = "string",
    [MODEL_KV_ARR] = "array", [MODEL_KV_U64] = "u64",   [MODEL_KV_I64] = "i64",
    [MODEL_KV_F64] = "f64",
};

bool model_gguf_has(const model_gguf *g, const char *key) {
    gguf_kv kv;
    return model_gguf_kv_find(g, key, &kv);
}

static rp_status kv_need(const model_gguf *g, const char *key, gguf_kv *out, rp_error *err) {
    if (model_gguf_kv_find(g, key, out)) return RP_OK;
    return rp_fail(err, RP_NOT_FOUND,
                   "%s: key '%s' is missing: the file is incomplete or of another kind", g->path,
                   key);
}

static rp_status kv_type_wrong(const model_gguf *g, const gguf_kv *kv, const char *want,
                               rp_error *err) {
    return rp_fail(err, RP_CORRUPT, "%s: key '%s' is of type %s, expected %s", g->path,
                   model_label_of(kv->key).text, kv_type_names[kv->type], want);
}

/* False when the value is no integer. Negative ones set *negative. */
static bool kv_integer(const model_gguf *g, const gguf_kv *kv, uint64_t *out, bool *negative) {
    const uint8_t *p = g->map.data + kv->at;
    size_t size = model_gguf_value_size(kv->type);
    uint64_t v = 0;
    bool is_signed = false;
    switch (kv->type) {
    case MODEL_KV_I8:
    case MODEL_KV_I16:
    case MODEL_KV_I32:
    case MODEL_KV_I64: is_signed = true; break;
    case MODEL_KV_U8:
    case MODEL_KV_U16:
    case MODEL_KV_U32:
    case MODEL_KV_U64: break;
    default: return false;
    }
    memcpy(&v, p, size);
    *negative = is_signed && (p[size - 1] & 0x80);
    *out = v;
    return true;
}

rp_status model_gguf_u32(const model_gguf *g, const char *key, uint32_t *out, rp_error *err) {
    gguf_kv kv;
    uint64_t v = 0;
    bool negative = false;
    RP_TRY(kv_need(g, key, &kv, err));
    if (!kv_integer(g, &kv, &v, &negative)) return kv_type_wrong(g, &kv, "an integer", err);
    if (negative || v > UINT32_MAX)
        return rp_fail(err, RP_CORRUPT, "%s: key '%s' is %s, expected an integer from 0 to %u",
                       g->path, key, negative ? "negative" : "above 2^32", UINT32_MAX);
    *out = (uint32_t)v;
    return RP_OK;
}

rp_status model_gguf_f32(const model_gguf *g, const char *key, float *out, rp_error *err) {
    gguf_kv kv;
    float v;
    RP_TRY(kv_need(g, key, &kv, err));
    if (kv.type == MODEL_KV_F32) {
        memcpy(&v, g->map.data + kv.at, sizeof v);
    } else if (kv.type == MODEL_KV_F64) {
        double d;
        memcpy(&d, g->map.data + kv.at, sizeof d);
        v = (float)d;
    } else {
        return kv_type_wrong(g, &kv, "a float", err);
    }
    if (!isfinite(v))
        return rp_fail(err, RP_CORRUPT, "%s: key '%s' is not a finite number", g->path, key);
    *out = v;
    return RP_OK;
}

rp_status model_gguf_bool(const model_gguf *g, const char *key, bool *out, rp_error *err) {
    gguf_kv kv;
    RP_TRY(kv_need(g, key, &kv, err));
    if (kv.type != MODEL_KV_BOOL) return kv_type_wrong(g, &kv, "bool", err);
    *out = g->map.data[kv.at] != 0;
    return RP_OK;
}

rp_status model_gguf_str(const model_gguf *g, const char *key, base_str *out, rp_error *err) {
    gguf_kv kv;
    RP_TRY(kv_need(g, key, &kv, err));
    if (kv.type != MODEL_KV_STR) return kv_type_wrong(g, &kv, "a string", err);
    gguf_cursor c = model_gguf_cursor_at(g, kv.at);
    if (!model_gguf_read_str(&c, out))
        return rp_fail(err, RP_CORRUPT, "%s: key '%s' changed while it was read", g->path, key);
    return RP_OK;
}

rp_status model_gguf_array(const model_gguf *g, const char *key, model_kv_type type,
                           model_kv_array *out, rp_error *err) {
    gguf_kv kv;
    gguf_cursor end;
    uint32_t elem = 0;
    uint64_t n = 0;
    RP_TRY(kv_need(g, key, &kv, err));
    if (kv.type != MODEL_KV_ARR) return kv_type_wrong(g, &kv, "an array", err);
    gguf_cursor c = model_gguf_cursor_at(g, kv.at);
    (void)model_gguf_read_u32(&c, &elem);
    (void)model_gguf_read_u64(&c, &n);
    if (elem != type)
        return rp_fail(err, RP_CORRUPT, "%s: key '%s' is an array of %s, expected %s", g->path, key,
                       kv_type_names[elem], kv_type_names[type]);
    end = c;
    if (type == MODEL_KV_STR) {
        base_str s;
        for (uint64_t i = 0; i < n; i++) (void)model_gguf_read_str(&end, &s);
    } else {
        end.at += (size_t)n * model_gguf_value_size(type);
    }
    *out = (model_kv_array){type, (size_t)n, c.data + c.at, end.at - c.at};
    return RP_OK;
}

base_str model_gguf_next_str(const model_kv_array *a, size_t *at) {
    gguf_cursor c = {.data = a->data, .size = a->size, .at = *at};
    base_str s = {"", 0};
    (void)model_gguf_read_str(&c, &s);
    *at = c.at;
    return s;
}

size_t model_gguf_n_tensors(const model_gguf *g) {
    return g->n_tensors;
}

model_tensor model_gguf_tensor_at(const model_gguf *g, size_t idx) {
    assert(idx < g->n_tensors);
    gguf_cursor c = model_gguf_cursor_at(g, g->tensors[idx].at);
    gguf_info info = {.dims = {1, 1, 1, 1}};
    if (model_gguf_info_parse(g, &c, idx, &info, NULL) != RP_OK)
        info.n_dims = 0; /* passed at open */
    model_tensor t = {.name = info.name, .n_dims = info.n_dims, .idx = idx};
    memcpy(t.dims, info.dims, sizeof t.dims);
    (void)model_type_of_ggml(info.type, &t.type);
    (void)model_dims_size(t.type, t.dims, t.n_dims, &t.size);
    t.offset = g->data_at + (size_t)info.offset;
    t.data = g->map.data + t.offset;
    return t;
}

base_hash128 model_gguf_tensor_hash(model_gguf *g, size_t idx) {
    assert(idx < g->n_tensors);
    gguf_tensor_entry *e = &g->tensors[idx];
    pthread_mutex_lock(&g->lock);
    base_hash128 hash = e->hash;
    bool hashed = e->hashed != 0;
    pthread_mutex_unlock(&g->lock);
    if (hashed) return hash;
    model_tensor t = model_gguf_tensor_at(g, idx);
    hash = base_hash(t.data, t.size); /* unlocked, so that threads hash in parallel */
    pthread_mutex_lock(&g->lock);
    e->hash = hash;
    e->hashed = 1;
    pthread_mutex_unlock(&g->lock);
    return hash;
}

void model_gguf_hash_set(model_gguf *g, size_t idx, base_hash128 hash) {
    assert(idx < g->n_tensors);
    pthread_mutex_lock(&g->lock);
    g->tensors[idx].hash = hash;
    g->tensors[idx].hashed = 1;
    pthread_mutex_unlock(&g->lock);
}

rp_status model_gguf_check_whole(const model_gguf *g, rp_error *err) {
    return base_mapping_check(&g->map, g->path, true, err);
}

bool model_gguf_stamp(const model_gguf *g, base_hash128 *out) {
    if (g->stamped) *out = g->stamp;
    return g->stamped;
}

base_hash128 model_gguf_meta_hash(const model_gguf *g) {
    uint64_t parts[3];
    size_t n = g->data_at < g->map.size ? g->data_at : g->map.size;
    base_hash128 h = base_hash(g->map.data, n);
    parts[0] = h.lo;
    parts[1] = h.hi;
    parts[2] = g->map.size;
    return base_hash(parts, sizeof parts);
}

void model_gguf_tensor_drop(const model_gguf *g, size_t idx) {
    model_tensor t = model_gguf_tensor_at(g, idx);
    if (g->mapped) base_mapping_drop(&g->map, t.offset, t.size);
}
