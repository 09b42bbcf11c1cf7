/* The bytes of an engine's KV cache, on the host or on a GPU: state by state (K or V of a layer), block by block. */
#ifndef SUPPORT_KV_BYTES_H
#define SUPPORT_KV_BYTES_H

#include "engine/engine.h"

typedef struct kv_bytes {
    uint8_t *data; /* size of them, freed with free */
    size_t size, block;
    uint32_t n_states, n_blocks;
} kv_bytes;

/* Where it begins: a registered range of all of it, on a GPU of its first state. *used (optional): bytes of it that blocks have. */
const uint8_t *kv_bytes_range(const rp_engine *e, size_t *used);
/* All blocks that there may ever be are memory from now on. */
void kv_bytes_take_all(rp_engine *e);
/* As they are between two steps. */
kv_bytes kv_bytes_read(rp_engine *e);
void kv_bytes_write(rp_engine *e, const kv_bytes *b);
/* Every byte is `byte`; 0xff is not a number in f16, bf16 and f32. */
void kv_bytes_fill(rp_engine *e, int byte);

#endif
