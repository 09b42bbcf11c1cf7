/* Writes small GGUF files into memory, valid ones and such as no writer makes. */
#ifndef SUPPORT_GGUF_H
#define SUPPORT_GGUF_H

#include "base/str.h"

/* Zero-initialise; gguf_write takes what it holds. */
typedef struct gguf_builder {
    base_buf kv, infos, data;
    uint64_t n_kv, n_tensors;
    uint32_t version, align; /* 0: 3 and 32 */
} gguf_builder;

void gguf_put_u32(base_buf *b, uint32_t v);
void gguf_put_u64(base_buf *b, uint64_t v);
void gguf_put_str(base_buf *b, const char *z);

void gguf_kv_head(gguf_builder *b, const char *key, uint32_t type);
void gguf_kv_u32(gguf_builder *b, const char *key, uint32_t v);
void gguf_kv_f32(gguf_builder *b, const char *key, float v);
void gguf_kv_bool(gguf_builder *b, const char *key, bool v);
void gguf_kv_str(gguf_builder *b, const char *key, const char *v);
void gguf_kv_strs(gguf_builder *b, const char *key, const char *const *v, size_t n);
void gguf_kv_i32s(gguf_builder *b, const char *key, const int32_t *v, size_t n);
/* size bytes of data with a pattern; type is a ggml number. */
void gguf_tensor(gguf_builder *b, const char *name, uint32_t type, uint32_t n_dims,
                 const uint64_t *dims, size_t size);
/* Appends the file to out and frees what b holds. */
void gguf_write(gguf_builder *b, base_buf *out);

/* A whole llama of one layer, with a tokenizer of the printable ASCII bytes, three control
 * tokens, a user-defined one and a few merges ("the" is one token). Parts can be left out or
 * added before the write. */
#define GGUF_LLAMA_VOCAB 108
void gguf_llama_least_keys(gguf_builder *b); /* without those that have a default */
void gguf_llama_keys(gguf_builder *b);
void gguf_llama_tokenizer(gguf_builder *b, const char *pre);
void gguf_llama_tensors(gguf_builder *b);
void gguf_llama(base_buf *out);

#endif
