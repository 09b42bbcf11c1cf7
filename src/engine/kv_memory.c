#include "engine/kv_memory.h"

#include "base/alloc.h"

static rp_status reserve_all(engine_kv_memory *m, rp_error *err) {
    m->range = base_alloc_array(m->n_states, sizeof(hal_reserved *));
    if (!m->range) return rp_fail(err, RP_NOMEM, "the KV cache");
    for (uint32_t i = 0; i < m->n_states; i++)
        RP_TRY(m->device->ops->reserve(m->device, m->block * m->most, &m->range[i], err));
    return RP_OK;
}

static rp_status open_ranges(engine_kv_memory *m, uint32_t n_blocks, const engine_room *room,
                             rp_error *err) {
    rp_error why = {0};
    RP_TRY(reserve_all(m, err));
    rp_status st = engine_kv_memory_grow(m, n_blocks, &why);
    if (st == RP_OK) return RP_OK;
    if (st != RP_NOMEM) return rp_fail(err, st, "%s", why.text);
    engine_kv_memory_close(m); /* what it has would count as gone */
    return engine_room_refuse(m->device, room, err);
}

rp_status engine_kv_memory_open(engine_kv_memory *m, uint32_t n_blocks, uint32_t most,
                                const engine_room *room, rp_error *err) {
    hal_device_info info;
    void *all = NULL;
    m->device->ops->info(m->device, &info);
    m->most = most > n_blocks ? most : n_blocks;
    if (!info.unified) return open_ranges(m, n_blocks, room, err);
    RP_TRY(engine_room_take(m->device, room, &all, err));
    m->all = all;
    m->n_blocks = m->most = n_blocks;
    return RP_OK;
}

rp_status engine_kv_memory_grow(engine_kv_memory *m, uint32_t n_blocks, rp_error *err) {
    if (n_blocks <= m->n_blocks) return RP_OK;
    for (uint32_t i = 0; i < m->n_states; i++)
        RP_TRY(m->device->ops->commit(m->range[i], m->block * n_blocks, err));
    m->n_blocks = n_blocks;
    return RP_OK;
}

void engine_kv_memory_close(engine_kv_memory *m) {
    if (m->all) m->device->ops->release(m->device, m->all, m->block * m->n_blocks * m->n_states);
    for (uint32_t i = 0; m->range && i < m->n_states; i++)
        if (m->range[i]) m->device->ops->unreserve(m->range[i]);
    base_free(m->range);
    m->range = NULL;
    m->all = NULL;
    m->n_blocks = 0;
}

void *engine_kv_memory_state(const engine_kv_memory *m, uint32_t i) {
    return m->range ? m->range[i]->at : m->all + m->block * m->n_blocks * i;
}

size_t engine_kv_memory_bytes(const engine_kv_memory *m) {
    size_t bytes = 0;
    for (uint32_t i = 0; m->range && i < m->n_states; i++) bytes += m->range[i]->committed;
    return m->range ? bytes : m->block * m->n_blocks * m->n_states;
}
