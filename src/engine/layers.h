/* What the forward context says of a model's layers: their names, which of them run outside of compiled code, and where their caches lie. */
#ifndef ENGINE_LAYERS_H
#define ENGINE_LAYERS_H

#include "engine/kv_memory.h"
#include "engine/program.h"
#include "reprise/forward_context.h"

typedef struct engine_layers {
    char (*name)[32];       /* "blk.3.attn", n of them */
    const char **apart;     /* names of those that pieces of their own run, n_apart */
    rp_kv_cache_tensor *kv; /* of each */
    uint32_t n, n_apart;
} engine_layers;

/* K and V of layer i are states 2i and 2i + 1 of kv. */
rp_status engine_layers_init(engine_layers *l, const engine_program *model,
                             const engine_kv_memory *kv, rp_error *err) RP_MUST_USE;
void engine_layers_done(engine_layers *l);
/* Fills what c says of layers; borrowed from l, which has sizes of the cache as it is now. */
void engine_layers_tell(engine_layers *l, const engine_kv_memory *kv, rp_forward_context *c);

#endif
