/* Inside of model_gguf, shared by the parts that check, look up and get. */
#ifndef MODEL_GGUF_FILE_H
#define MODEL_GGUF_FILE_H

#include <pthread.h>

#include "base/file.h"
#include "model/gguf.h"

/* A position in the bytes; every read checks what is left. */
typedef struct gguf_cursor {
    const uint8_t *data;
    size_t size;
    size_t at;
} gguf_cursor;

bool model_gguf_read_u32(gguf_cursor *c, uint32_t *out);
bool model_gguf_read_u64(gguf_cursor *c, uint64_t *out);
bool model_gguf_read_str(gguf_cursor *c, base_str *out);
/* Bytes of a fixed-size value; 0 for strings and arrays. */
size_t model_gguf_value_size(uint32_t type);

/* One entry of the metadata, as found in the file. */
typedef struct gguf_kv {
    base_str key;
    uint32_t type;
    size_t at; /* of the value */
} gguf_kv;

/* One entry of the tensor table, as found in the file. */
typedef struct gguf_info {
    base_str name;
    uint32_t n_dims;
    uint64_t dims[MODEL_MAX_DIMS];
    uint32_t type;
    uint64_t offset; /* from the start of the data */
} gguf_info;

typedef struct gguf_tensor_entry {
    uint32_t at; /* of the info */
    uint32_t hashed;
    base_hash128 hash;
} gguf_tensor_entry;

/* Open addressing, linear probing; a slot is a position in the file or table + 1, 0 is free. */
typedef struct gguf_index {
    uint32_t *slots;
    uint32_t mask;
} gguf_index;

struct model_gguf {
    char *path;
    base_mapping map;
    bool mapped; /* else borrowed */
    uint32_t version;
    bool stamped;
    base_hash128 stamp;
    size_t n_kv, n_tensors;
    size_t kv_at, infos_at; /* where the two tables start */
    size_t data_at;         /* where the tensor data starts */
    uint32_t align;
    gguf_index kv_index;     /* of entry positions */
    gguf_index tensor_index; /* of table positions */
    gguf_tensor_entry *tensors;
    pthread_mutex_t lock; /* of hashes in tensors */
};

/* Steps over one entry. RP_CORRUPT or RP_UNSUPPORTED with a message that names it. */
rp_status model_gguf_kv_parse(const model_gguf *g, gguf_cursor *c, size_t idx, gguf_kv *out,
                              rp_error *err) RP_MUST_USE;
rp_status model_gguf_info_parse(const model_gguf *g, gguf_cursor *c, size_t idx, gguf_info *out,
                                rp_error *err) RP_MUST_USE;
/* Checks the whole file and fills g. */
rp_status model_gguf_check(model_gguf *g, rp_error *err) RP_MUST_USE;
bool model_gguf_kv_find(const model_gguf *g, const char *key, gguf_kv *out);
gguf_cursor model_gguf_cursor_at(const model_gguf *g, size_t at);

#endif
