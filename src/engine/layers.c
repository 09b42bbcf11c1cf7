#include "engine/layers.h"

#include <stdio.h>

#include "base/alloc.h"

/* A piece that is not compiled and does nothing but attention. */
static bool is_attention(const plan *p, const plan_piece *piece) {
    bool any = false;
    for (uint32_t i = 0; i < piece->n; i++) any |= p->launches[piece->first + i].attention;
    return piece->splitting && any;
}

rp_status engine_layers_init(engine_layers *l, const engine_program *model,
                             const engine_kv_memory *kv, rp_error *err) {
    const plan *p = model->p;
    uint32_t n_apart = 0;
    for (uint32_t i = 0; i < p->n_pieces; i++) n_apart += is_attention(p, &p->pieces[i]);
    *l = (engine_layers){.n = kv->n_states / 2};
    l->name = base_alloc_array(l->n + 1u, sizeof *l->name);
    l->apart = base_alloc_array(l->n + 1u, sizeof *l->apart);
    l->kv = base_alloc_array(l->n + 1u, sizeof *l->kv);
    if (!l->name || !l->apart || !l->kv) return rp_fail(err, RP_NOMEM, "%u layers", l->n);
    for (uint32_t i = 0; i < l->n; i++) {
        (void)snprintf(l->name[i], sizeof l->name[i], "blk.%u.attn", i);
        l->apart[i] = l->name[i];
        l->kv[i] = (rp_kv_cache_tensor){.layer = l->name[i],
                                        .k = engine_kv_memory_state(kv, 2 * i),
                                        .v = engine_kv_memory_state(kv, 2 * i + 1)};
    }
    /* Attention splits everywhere or nowhere: splitting_ops name ops, not layers. */
    l->n_apart = n_apart > 0 ? l->n : 0;
    return RP_OK;
}

void engine_layers_done(engine_layers *l) {
    base_free(l->name);
    base_free(l->apart);
    base_free(l->kv);
    *l = (engine_layers){0};
}

void engine_layers_tell(engine_layers *l, const engine_kv_memory *kv, rp_forward_context *c) {
    const size_t size = kv->block * kv->n_blocks; /* addresses stay when there is more */
    for (uint32_t i = 0; i < l->n && l->kv[i].size != size; i++) l->kv[i].size = size;
    c->no_compile_layers = l->apart;
    c->num_no_compile_layers = l->n_apart;
    c->kv_cache_data = l->kv;
    c->num_kv_cache_data = l->n;
}
