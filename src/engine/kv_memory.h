/* Memory of the KV cache: one piece for each state (K or V of a layer), as long as there are blocks.
 *
 * Where memory is the host's all blocks are taken at once, since pages come when they are written. On a GPU addresses are set aside
 * for as many as there may ever be, and memory follows in place: no graph is made again when there are more. One thread at a
 * time; steps may run while it grows. */
#ifndef ENGINE_KV_MEMORY_H
#define ENGINE_KV_MEMORY_H

#include "engine/room.h"

typedef struct engine_kv_memory {
    hal_device *device;
    size_t block;      /* bytes of one in one state */
    uint32_t n_states; /* each of which has */
    uint32_t n_blocks; /* that are memory, of at most */
    uint32_t most;
    uint8_t *all;         /* on a host, else NULL */
    hal_reserved **range; /* n_states */
} engine_kv_memory;

/* m has device, block and n_states; n_blocks of them to begin with. room names the setting that asks for them. */
rp_status engine_kv_memory_open(engine_kv_memory *m, uint32_t n_blocks, uint32_t most,
                                const engine_room *room, rp_error *err) RP_MUST_USE;
/* RP_NOMEM leaves what there was. */
rp_status engine_kv_memory_grow(engine_kv_memory *m, uint32_t n_blocks, rp_error *err) RP_MUST_USE;
void engine_kv_memory_close(engine_kv_memory *m);

void *engine_kv_memory_state(const engine_kv_memory *m, uint32_t i);
size_t engine_kv_memory_bytes(const engine_kv_memory *m);

#endif
