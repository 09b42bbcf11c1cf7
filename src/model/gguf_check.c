/* Checks a whole GGUF file once, at open.
 *
 * Invariants: no read before its length was checked against what is left of the file; counts are
 * believed only as far as the file is long enough for them, so tables stay smaller than the file;
 * tensors must follow each other without gap or overlap, as every writer lays them out, which
 * catches most damage to dims and offsets. Does not read tensor data. */
#include "base/alloc.h"
#include "model/gguf_file.h"

#include <string.h>

enum {
    GGUF_MIN_KV = 8 + 1 + 4 + 1, /* key length, key, type, value */
    /* name length, name, n_dims, dim, type, offset; least alignment of the data */
    GGUF_MIN_TENSOR = 8 + 1 + 4 + 8 + 4 + 8 + 8,
    GGUF_DEFAULT_ALIGN = 32
};

static const uint8_t value_sizes[MODEL_KV_COUNT_] = {
    [MODEL_KV_U8] = 1,  [MODEL_KV_I8] = 1,  [MODEL_KV_U16] = 2, [MODEL_KV_I16] = 2,
    [MODEL_KV_U32] = 4, [MODEL_KV_I32] = 4, [MODEL_KV_F32] = 4, [MODEL_KV_BOOL] = 1,
    [MODEL_KV_U64] = 8, [MODEL_KV_I64] = 8, [MODEL_KV_F64] = 8,
};

size_t model_gguf_value_size(uint32_t type) {
    return type < MODEL_KV_COUNT_ ? value_sizes[type] : 0;
}

gguf_cursor model_gguf_cursor_at(const model_gguf *g, size_t at) {
    return (gguf_cursor){.data = g->map.data, .size = g->map.size, .at = at};
}

static size_t cursor_left(const gguf_cursor *c) {
    return c->size - c->at;
}

bool model_gguf_read_u32(gguf_cursor *c, uint32_t *out) {
    if (cursor_left(c) < sizeof *out) return false;
    memcpy(out, c->data + c->at, sizeof *out);
    c->at += sizeof *out;
    return true;
}

bool model_gguf_read_u64(gguf_cursor *c, uint64_t *out) {
    if (cursor_left(c) < sizeof *out) return false;
    memcpy(out, c->data + c->at, sizeof *out);
    c->at += sizeof *out;
    return true;
}

bool model_gguf_read_str(gguf_cursor *c, base_str *out) {
    gguf_cursor saved = *c;
    uint64_t len;
    if (!model_gguf_read_u64(c, &len) || len > cursor_left(c)) {
        *c = saved;
        return false;
    }
    *out = (base_str){(const char *)c->data + c->at, (size_t)len};
    c->at += (size_t)len;
    return true;
}

static rp_status truncated(const model_gguf *g, const char *what, size_t at, rp_error *err) {
    return rp_fail(err, RP_CORRUPT,
                   "%s: %s at byte %zu does not fit into the file's %zu bytes: it is truncated or "
                   "damaged, fetch it again",
                   g->path, what, at, g->map.size);
}

static rp_status array_parse(const model_gguf *g, gguf_cursor *c, const char *key, rp_error *err) {
    uint32_t type;
    uint64_t n;
    size_t at = c->at;
    if (!model_gguf_read_u32(c, &type) || !model_gguf_read_u64(c, &n))
        return truncated(g, "an array's header", at, err);
    if (type == MODEL_KV_ARR)
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s: key '%s': an array of arrays is not supported: remove the key", g->path,
                       key);
    if (type >= MODEL_KV_COUNT_)
        return rp_fail(err, RP_CORRUPT,
                       "%s: key '%s': unknown element type %u: the file is damaged", g->path, key,
                       type);
    size_t elem = type == MODEL_KV_STR ? 8 : value_sizes[type];
    if (n > cursor_left(c) / elem)
        return rp_fail(err, RP_CORRUPT,
                       "%s: key '%s': %llu elements of %zu bytes or more do not fit into the %zu "
                       "bytes that are left: the file is truncated or damaged, fetch it again",
                       g->path, key, (unsigned long long)n, elem, cursor_left(c));
    if (type != MODEL_KV_STR) {
        c->at += (size_t)n * elem;
        return RP_OK;
    }
    base_str s;
    for (uint64_t i = 0; i < n; i++) {
        size_t str_at = c->at;
        if (!model_gguf_read_str(c, &s)) return truncated(g, "a string of an array", str_at, err);
    }
    return RP_OK;
}

static rp_status value_parse(const model_gguf *g, gguf_cursor *c, const gguf_kv *kv,
                             rp_error *err) {
    model_label key = model_label_of(kv->key);
    base_str s;
    if (kv->type == MODEL_KV_ARR) return array_parse(g, c, key.text, err);
    if (kv->type == MODEL_KV_STR)
        return model_gguf_read_str(c, &s) ? RP_OK : truncated(g, "a string value", c->at, err);
    if (kv->type >= MODEL_KV_COUNT_)
        return rp_fail(err, RP_CORRUPT, "%s: key '%s': unknown value type %u: the file is damaged",
                       g->path, key.text, kv->type);
    size_t size = value_sizes[kv->type];
    if (cursor_left(c) < size) return truncated(g, "a value", c->at, err);
    if (kv->type == MODEL_KV_BOOL && c->data[c->at] > 1)
        return rp_fail(err, RP_CORRUPT, "%s: key '%s': a bool is %u: the file is damaged", g->path,
                       key.text, c->data[c->at]);
    c->at += size;
    return RP_OK;
}

rp_status model_gguf_kv_parse(const model_gguf *g, gguf_cursor *c, size_t idx, gguf_kv *out,
                              rp_error *err) {
    gguf_kv kv = {0};
    size_t at = c->at;
    if (!model_gguf_read_str(c, &kv.key)) return truncated(g, "a metadata key", at, err);
    if (kv.key.len == 0)
        return rp_fail(err, RP_CORRUPT, "%s: metadata entry %zu has no name: the file is damaged",
                       g->path, idx);
    if (!model_gguf_read_u32(c, &kv.type)) return truncated(g, "a metadata type", c->at, err);
    kv.at = c->at;
    RP_TRY(value_parse(g, c, &kv, err));
    *out = kv;
    return RP_OK;
}

rp_status model_gguf_info_parse(const model_gguf *g, gguf_cursor *c, size_t idx, gguf_info *out,
                                rp_error *err) {
    gguf_info t = {.dims = {1, 1, 1, 1}};
    size_t at = c->at;
    if (!model_gguf_read_str(c, &t.name)) return truncated(g, "a tensor's name", at, err);
    model_label name = model_label_of(t.name);
    if (t.name.len == 0)
        return rp_fail(err, RP_CORRUPT, "%s: tensor %zu has no name: the file is damaged", g->path,
                       idx);
    if (!model_gguf_read_u32(c, &t.n_dims)) return truncated(g, "a tensor's rank", c->at, err);
    if (t.n_dims == 0 || t.n_dims > MODEL_MAX_DIMS)
        return rp_fail(err, RP_CORRUPT,
                       "%s: tensor '%s' has %u dims, 1 to %d are possible: the "
                       "file is damaged",
                       g->path, name.text, t.n_dims, MODEL_MAX_DIMS);
    for (uint32_t i = 0; i < t.n_dims; i++) {
        if (!model_gguf_read_u64(c, &t.dims[i])) return truncated(g, "a tensor's dims", c->at, err);
        if (t.dims[i] == 0)
            return rp_fail(err, RP_CORRUPT, "%s: dim %u of tensor '%s' is 0: the file is damaged",
                           g->path, i, name.text);
    }
    if (!model_gguf_read_u32(c, &t.type) || !model_gguf_read_u64(c, &t.offset))
        return truncated(g, "a tensor's type and offset", c->at, err);
    *out = t;
    return RP_OK;
}

/* Smallest power of two of slots that n entries fill to at most three quarters. */
static rp_status index_init(gguf_index *index, size_t n, rp_error *err) {
    size_t n_slots = 4;
    while (n_slots / 4 * 3 < n) n_slots *= 2;
    index->slots = base_alloc_array(n_slots, sizeof *index->slots);
    if (!index->slots) return rp_fail(err, RP_NOMEM, "no memory for an index of %zu names", n);
    index->mask = (uint32_t)(n_slots - 1);
    return RP_OK;
}

/* Where key is or belongs. */
static uint32_t kv_slot(const model_gguf *g, base_str key) {
    uint32_t i = (uint32_t)base_hash64(key.ptr, key.len) & g->kv_index.mask;
    for (;; i = (i + 1) & g->kv_index.mask) {
        if (g->kv_index.slots[i] == 0) return i;
        gguf_cursor c = model_gguf_cursor_at(g, g->kv_index.slots[i] - 1);
        base_str other = {"", 0};
        (void)model_gguf_read_str(&c, &other);
        if (other.len == key.len && memcmp(other.ptr, key.ptr, key.len) == 0) return i;
    }
}

bool model_gguf_kv_find(const model_gguf *g, const char *key, gguf_kv *out) {
    uint32_t i = kv_slot(g, base_str_of(key));
    if (g->kv_index.slots[i] == 0) return false;
    gguf_cursor c = model_gguf_cursor_at(g, g->kv_index.slots[i] - 1);
    if (!model_gguf_read_str(&c, &out->key) || !model_gguf_read_u32(&c, &out->type)) return false;
    out->at = c.at;
    return true;
}

static uint32_t tensor_slot(const model_gguf *g, base_str name) {
    uint32_t i = (uint32_t)base_hash64(name.ptr, name.len) & g->tensor_index.mask;
    for (;; i = (i + 1) & g->tensor_index.mask) {
        if (g->tensor_index.slots[i] == 0) return i;
        gguf_cursor c = model_gguf_cursor_at(g, g->tensors[g->tensor_index.slots[i] - 1].at);
        base_str other = {"", 0};
        (void)model_gguf_read_str(&c, &other);
        if (other.len == name.len && memcmp(other.ptr, name.ptr, name.len) == 0) return i;
    }
}

bool model_gguf_tensor(const model_gguf *g, const char *name, model_tensor *out) {
    uint32_t i = tensor_slot(g, base_str_of(name));
    if (g->tensor_index.slots[i] == 0) return false;
    *out = model_gguf_tensor_at(g, g->tensor_index.slots[i] - 1);
    return true;
}

static rp_status header_check(model_gguf *g, gguf_cursor *c, uint64_t *n_tensors, uint64_t *n_kv,
                              rp_error *err) {
    uint32_t magic;
    if (g->map.size == 0)
        return rp_fail(err, RP_CORRUPT, "%s: the file is empty: fetch it again", g->path);
    if (!model_gguf_read_u32(c, &magic) || memcmp(g->map.data, "GGUF", 4) != 0)
        return rp_fail(err, RP_CORRUPT, "%s: no GGUF file: it does not start with the bytes 'GGUF'",
                       g->path);
    if (!model_gguf_read_u32(c, &g->version)) return truncated(g, "the version", c->at, err);
    if (g->version == 0x02000000u || g->version == 0x03000000u)
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s: a big-endian GGUF file is not supported: convert it to little-endian",
                       g->path);
    if (g->version != 2 && g->version != 3)
        return rp_fail(err, RP_UNSUPPORTED, "%s: GGUF version %u is not supported: 2 and 3 are",
                       g->path, g->version);
    if (!model_gguf_read_u64(c, n_tensors) || !model_gguf_read_u64(c, n_kv))
        return truncated(g, "the header", c->at, err);
    size_t left = cursor_left(c);
    if (*n_kv > left / GGUF_MIN_KV ||
        *n_tensors > (left - (size_t)*n_kv * GGUF_MIN_KV) / GGUF_MIN_TENSOR)
        return rp_fail(err, RP_CORRUPT,
                       "%s: %llu metadata entries and %llu tensors do not fit into the file's %zu "
                       "bytes: it is truncated or damaged, fetch it again",
                       g->path, (unsigned long long)*n_kv, (unsigned long long)*n_tensors,
                       g->map.size);
    return RP_OK;
}

static rp_status kv_check(model_gguf *g, gguf_cursor *c, rp_error *err) {
    g->kv_at = c->at;
    RP_TRY(index_init(&g->kv_index, g->n_kv, err));
    for (size_t i = 0; i < g->n_kv; i++) {
        gguf_kv kv;
        size_t at = c->at;
        RP_TRY(model_gguf_kv_parse(g, c, i, &kv, err));
        if (c->at > UINT32_MAX)
            return rp_fail(err, RP_UNSUPPORTED, "%s: metadata of more than 4 GiB is not supported",
                           g->path);
        uint32_t slot = kv_slot(g, kv.key);
        if (g->kv_index.slots[slot] != 0)
            return rp_fail(err, RP_CORRUPT, "%s: key '%s' appears twice: the file is damaged",
                           g->path, model_label_of(kv.key).text);
        g->kv_index.slots[slot] = (uint32_t)at + 1;
    }
    return RP_OK;
}

static rp_status align_check(model_gguf *g, rp_error *err) {
    g->align = GGUF_DEFAULT_ALIGN;
    if (!model_gguf_has(g, "general.alignment")) return RP_OK;
    RP_TRY(model_gguf_u32(g, "general.alignment", &g->align, err));
    if (g->align < 8 || (g->align & (g->align - 1)) != 0 || g->align > (1u << 20))
        return rp_fail(err, RP_CORRUPT,
                       "%s: general.alignment is %u, but must be a power of two from 8 to 1048576",
                       g->path, g->align);
    return RP_OK;
}

/* *next is where the data of this tensor must start and, after, of the one that follows. */
static rp_status place_check(const model_gguf *g, const gguf_info *t, uint64_t *next, size_t *size,
                             rp_error *err) {
    model_label name = model_label_of(t->name);
    rp_dtype type;
    if (!model_type_of_ggml(t->type, &type))
        return rp_fail(err, RP_UNSUPPORTED,
                       "%s: tensor '%s' has type %s (%u): supported are %s: use a file in one of "
                       "these",
                       g->path, name.text, model_ggml_name(t->type), t->type,
                       model_types_supported());
    if (!model_dims_size(type, t->dims, t->n_dims, size))
        return rp_fail(err, RP_CORRUPT,
                       "%s: tensor '%s': dims %llu,%llu,%llu,%llu are too large or no multiple of "
                       "the block of %s: the file is damaged",
                       g->path, name.text, (unsigned long long)t->dims[0],
                       (unsigned long long)t->dims[1], (unsigned long long)t->dims[2],
                       (unsigned long long)t->dims[3], model_ggml_name(t->type));
    if (t->offset % g->align != 0)
        return rp_fail(err, RP_CORRUPT,
                       "%s: tensor '%s' starts at byte %llu of the data, which is no multiple of "
                       "the alignment %u: the file is damaged",
                       g->path, name.text, (unsigned long long)t->offset, g->align);
    if (t->offset != *next)
        return rp_fail(err, RP_CORRUPT,
                       "%s: tensor '%s' starts at byte %llu of the data, expected %llu after the "
                       "one before it: the file is damaged",
                       g->path, name.text, (unsigned long long)t->offset,
                       (unsigned long long)*next);
    size_t end;
    if (!base_add_size((size_t)t->offset, *size, &end) || !base_add_size(end, g->align - 1, &end))
        return rp_fail(err, RP_CORRUPT, "%s: tensor '%s' is too large: the file is damaged",
                       g->path, name.text);
    *next = end & ~(size_t)(g->align - 1);
    return RP_OK;
}

static rp_status tensors_check(model_gguf *g, gguf_cursor *c, rp_error *err) {
    g->infos_at = c->at;
    RP_TRY(index_init(&g->tensor_index, g->n_tensors, err));
    g->tensors = base_alloc_array(g->n_tensors, sizeof *g->tensors);
    if (!g->tensors) return rp_fail(err, RP_NOMEM, "no memory for %zu tensors", g->n_tensors);
    uint64_t next = 0;
    size_t end = 0; /* of the last tensor, in the data */
    gguf_info t = {0};
    for (size_t i = 0; i < g->n_tensors; i++) {
        size_t size = 0;
        if (c->at > UINT32_MAX)
            return rp_fail(err, RP_UNSUPPORTED, "%s: metadata of more than 4 GiB is not supported",
                           g->path);
        g->tensors[i].at = (uint32_t)c->at;
        RP_TRY(model_gguf_info_parse(g, c, i, &t, err));
        RP_TRY(place_check(g, &t, &next, &size, err));
        end = (size_t)t.offset + size;
        uint32_t slot = tensor_slot(g, t.name);
        if (g->tensor_index.slots[slot] != 0)
            return rp_fail(err, RP_CORRUPT, "%s: tensor '%s' appears twice: the file is damaged",
                           g->path, model_label_of(t.name).text);
        g->tensor_index.slots[slot] = (uint32_t)i + 1;
    }
    if (!base_add_size(c->at, g->align - 1, &g->data_at))
        return truncated(g, "the tensor data", c->at, err);
    g->data_at &= ~(size_t)(g->align - 1);
    if (g->n_tensors && (g->data_at > g->map.size || end > g->map.size - g->data_at))
        return rp_fail(err, RP_CORRUPT,
                       "%s: tensor '%s' ends at byte %zu of the data, the file has %zu bytes of "
                       "data: it is truncated or damaged, fetch it again",
                       g->path, model_label_of(t.name).text, end,
                       g->data_at > g->map.size ? (size_t)0 : g->map.size - g->data_at);
    return RP_OK;
}

rp_status model_gguf_check(model_gguf *g, rp_error *err) {
    uint64_t n_tensors = 0, n_kv = 0;
    gguf_cursor c = model_gguf_cursor_at(g, 0);
    RP_TRY(header_check(g, &c, &n_tensors, &n_kv, err));
    g->n_kv = (size_t)n_kv;
    g->n_tensors = (size_t)n_tensors;
    RP_TRY(kv_check(g, &c, err));
    RP_TRY(align_check(g, err));
    return tensors_check(g, &c, err);
}
