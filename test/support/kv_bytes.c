#include "support/kv_bytes.h"

#include "engine/runner_memory.h"
#include "support/check.h"

const uint8_t *kv_bytes_range(const rp_engine *e, size_t *used) {
    const engine_kv_memory *m = &e->runner->kv;
    if (used) *used = m->block * m->n_blocks * (m->all ? m->n_states : 1);
    return engine_kv_memory_state(&e->runner->kv, 0);
}

void kv_bytes_take_all(rp_engine *e) {
    rp_error err = {0};
    CHECK_OK(engine_runner_grow_kv(e->runner, engine_runner_get_blocks(e->runner).most, &err),
             &err);
}

/* One state after the other, to the host or from there. */
static void move(rp_engine *e, const kv_bytes *b, bool out) {
    hal_device *d = e->device;
    rp_error err = {0};
    const size_t n = b->block * b->n_blocks;
    for (uint32_t i = 0; i < b->n_states; i++) {
        void *there = engine_kv_memory_state(&e->runner->kv, i), *here = b->data + i * n;
        CHECK_OK(d->ops->copy(d, out ? here : there, out ? there : here, n, &err), &err);
    }
    CHECK_OK(d->ops->synchronize(d, &err), &err);
}

kv_bytes kv_bytes_read(rp_engine *e) {
    const engine_kv_memory *m = &e->runner->kv;
    kv_bytes b = {.size = m->block * m->n_blocks * m->n_states,
                  .block = m->block,
                  .n_states = m->n_states,
                  .n_blocks = m->n_blocks};
    b.data = malloc(b.size);
    assert_non_null(b.data);
    move(e, &b, true);
    return b;
}

void kv_bytes_write(rp_engine *e, const kv_bytes *b) {
    move(e, b, false);
}

void kv_bytes_fill(rp_engine *e, int byte) {
    const engine_kv_memory *m = &e->runner->kv;
    hal_device *d = e->device;
    rp_error err = {0};
    for (uint32_t i = 0; i < m->n_states; i++)
        CHECK_OK(d->ops->fill(d, engine_kv_memory_state(m, i), byte, m->block * m->n_blocks, &err),
                 &err);
    CHECK_OK(d->ops->synchronize(d, &err), &err);
}
