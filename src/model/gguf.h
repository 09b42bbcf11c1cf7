/* GGUF files, mapped read-only: metadata by key, tensors by name.
 *
 * Everything is checked when the file is opened, so that the getters below only look up and
 * never leave the file. Views point into the map and live as long as it. Immutable after open
 * but for the tensor hashes, which are computed under a lock: thread-safe. */
#ifndef MODEL_GGUF_H
#define MODEL_GGUF_H

#include "base/hash.h"
#include "model/tensor.h"

typedef struct model_gguf model_gguf;

/* Value types of metadata as numbered in the file. */
typedef enum model_kv_type {
    MODEL_KV_U8,
    MODEL_KV_I8,
    MODEL_KV_U16,
    MODEL_KV_I16,
    MODEL_KV_U32,
    MODEL_KV_I32,
    MODEL_KV_F32,
    MODEL_KV_BOOL,
    MODEL_KV_STR,
    MODEL_KV_ARR,
    MODEL_KV_U64,
    MODEL_KV_I64,
    MODEL_KV_F64,
    MODEL_KV_COUNT_
} model_kv_type;

/* An array value. Fixed-size elements lie packed, little-endian and unaligned at data; strings
 * are walked with model_gguf_next_str. */
typedef struct model_kv_array {
    model_kv_type type;
    size_t n;
    const uint8_t *data;
    size_t size; /* bytes */
} model_kv_array;

/* Maps and checks path. RP_NOT_FOUND, RP_IO; RP_CORRUPT names what is wrong and where;
 * RP_UNSUPPORTED names version, nested array or tensor type. Allocates less than the file's
 * size. */
rp_status model_gguf_open(const char *path, model_gguf **out, rp_error *err) RP_MUST_USE;
/* The same for bytes in memory, borrowed until the close; name is for messages. */
rp_status model_gguf_open_bytes(const void *data, size_t size, const char *name, model_gguf **out,
                                rp_error *err) RP_MUST_USE;
void model_gguf_close(model_gguf *g); /* NULL is fine */

const char *model_gguf_path(const model_gguf *g);
size_t model_gguf_size(const model_gguf *g);
uint32_t model_gguf_version(const model_gguf *g);

/* Getters. RP_NOT_FOUND when the key is missing, RP_CORRUPT when the value has another type or
 * does not fit; the message names key and types. Any integer type that holds the value will do;
 * f32 also takes f64. */
bool model_gguf_has(const model_gguf *g, const char *key);
rp_status model_gguf_u32(const model_gguf *g, const char *key, uint32_t *out,
                         rp_error *err) RP_MUST_USE;
rp_status model_gguf_f32(const model_gguf *g, const char *key, float *out,
                         rp_error *err) RP_MUST_USE;
rp_status model_gguf_bool(const model_gguf *g, const char *key, bool *out,
                          rp_error *err) RP_MUST_USE;
rp_status model_gguf_str(const model_gguf *g, const char *key, base_str *out,
                         rp_error *err) RP_MUST_USE;
/* Array with elements of exactly this type. */
rp_status model_gguf_array(const model_gguf *g, const char *key, model_kv_type type,
                           model_kv_array *out, rp_error *err) RP_MUST_USE;
/* The string at byte offset *at of a string array, and moves *at past it. */
base_str model_gguf_next_str(const model_kv_array *a, size_t *at);

size_t model_gguf_n_tensors(const model_gguf *g);
/* idx < n_tensors. */
model_tensor model_gguf_tensor_at(const model_gguf *g, size_t idx);
/* False when there is none. */
bool model_gguf_tensor(const model_gguf *g, const char *name, model_tensor *out);
/* Hash of a tensor's bytes, computed at the first call. */
base_hash128 model_gguf_tensor_hash(model_gguf *g, size_t idx);
/* Takes a hash that was computed by an earlier process as the tensor's: only for one that was kept
 * under this file's stamp. */
void model_gguf_hash_set(model_gguf *g, size_t idx, base_hash128 hash);
/* Hash of the file's device, inode, size and times, as git's index has them: while it is equal,
 * the bytes are. False for bytes in memory and a file that changed while it was opened. Good on
 * one machine only: never for a key. */
bool model_gguf_stamp(const model_gguf *g, base_hash128 *out);
/* RP_IO when the file was cut short or written to since it was opened. */
rp_status model_gguf_check_whole(const model_gguf *g, rp_error *err) RP_MUST_USE;
/* Hash of everything before the tensor data and of the file's size. */
base_hash128 model_gguf_meta_hash(const model_gguf *g);
/* Tells the kernel that a tensor's bytes will not be read again soon. */
void model_gguf_tensor_drop(const model_gguf *g, size_t idx);

#endif
