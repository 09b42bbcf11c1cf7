/* Rows are made in blocks, so that a step of one token rarely makes any. */
#include "engine/rope.h"

#include "base/alloc.h"
#include "model/llama.h"

enum { BLOCK = 64 };

struct engine_rope {
    const model_hparams *hp;
    const float *divisors; /* of frequencies, or NULL; in the model */
    int64_t n, filled;     /* positions */
    float *cos, *sin;
    hal_device *device; /* NULL: it reads cos and sin as they are */
    char *device_cos, *device_sin;
};

static rp_status find_divisors(model_source *s, const float **out, rp_error *err) {
    model_tensor t;
    const uint8_t *data;
    if (model_source_hparams(s)->rope_scaling != MODEL_ROPE_FREQS) return RP_OK;
    RP_TRY(model_source_tensor(s, "rope_freqs.weight", &t, err));
    RP_TRY(model_source_data(s, t.idx, &data, err));
    *out = (const float *)(const void *)data;
    return RP_OK;
}

static size_t table_bytes(const engine_rope *r) {
    return (size_t)r->n * (r->hp->rope_dim / 2) * sizeof(float);
}

size_t engine_rope_need(const model_source *source, int64_t n_positions) {
    const engine_rope r = {.hp = model_source_hparams(source), .n = n_positions};
    return engine_rope_bytes(&r);
}

rp_status engine_rope_new(model_source *source, int64_t n_positions, engine_rope **out,
                          rp_error *err) {
    rp_status st = RP_OK;
    engine_rope *r = base_alloc(sizeof *r);
    if (!r) return rp_fail(err, RP_NOMEM, "rope tables");
    *r = (engine_rope){.hp = model_source_hparams(source), .n = n_positions};
    RP_TRY_OUT(find_divisors(source, &r->divisors, err));
    r->cos = base_alloc_aligned(table_bytes(r), 64);
    r->sin = base_alloc_aligned(table_bytes(r), 64);
    if (!r->cos || !r->sin) {
        st = rp_fail(err, RP_NOMEM, "rope tables of %lld positions", (long long)n_positions);
        goto out;
    }
    RP_TRY_OUT(engine_rope_reach(r, 1, err)); /* padding is at position 0 */
    *out = r;
    r = NULL;
out:
    engine_rope_free(r);
    return st;
}

void engine_rope_free(engine_rope *r) {
    if (!r) return;
    base_free(r->cos);
    base_free(r->sin);
    base_free(r);
}

/* Rows [first, end) to the device. */
static rp_status upload_rows(const engine_rope *r, int64_t first, int64_t end, rp_error *err) {
    const size_t row = r->hp->rope_dim / 2 * sizeof(float), at = (size_t)first * row;
    const size_t size = (size_t)(end - first) * row;
    hal_device *d = r->device;
    if (!d) return RP_OK;
    RP_TRY(d->ops->copy(d, r->device_cos + at, (const char *)r->cos + at, size, err));
    return d->ops->copy(d, r->device_sin + at, (const char *)r->sin + at, size, err);
}

rp_status engine_rope_place(engine_rope *r, engine_uploads *u, rp_error *err) {
    void *cosines = NULL, *sines = NULL;
    RP_TRY(engine_uploads_get(u, UINT64_MAX, NULL, table_bytes(r), &cosines, err));
    RP_TRY(engine_uploads_get(u, UINT64_MAX - 1, NULL, table_bytes(r), &sines, err));
    r->device = engine_uploads_device(u);
    r->device_cos = cosines;
    r->device_sin = sines;
    return upload_rows(r, 0, r->filled, err);
}

rp_status engine_rope_reach(engine_rope *r, int64_t n, rp_error *err) {
    if (n <= r->filled) return RP_OK;
    int64_t first = r->filled, end = (n + BLOCK - 1) / BLOCK * BLOCK;
    if (end > r->n) end = r->n;
    model_rope_rows(r->hp, r->divisors, first, end, r->cos, r->sin);
    RP_TRY(upload_rows(r, first, end, err));
    r->filled = end;
    return RP_OK;
}

const float *engine_rope_cos(const engine_rope *r) {
    return r->device ? (const float *)(const void *)r->device_cos : r->cos;
}

const float *engine_rope_sin(const engine_rope *r) {
    return r->device ? (const float *)(const void *)r->device_sin : r->sin;
}

size_t engine_rope_bytes(const engine_rope *r) {
    return 2 * table_bytes(r);
}

void engine_rope_unregister(const engine_rope *r, hal_device *d) {
    if (r->device) return;
    hal_range_remove(d, r->cos);
    hal_range_remove(d, r->sin);
}

rp_status engine_rope_register(const engine_rope *r, hal_device *d, rp_error *err) {
    if (r->device) return RP_OK; /* its own memory */
    RP_TRY(hal_range_add(d, r->cos, table_bytes(r), "rope cosines", err));
    return hal_range_add(d, r->sin, table_bytes(r), "rope sines", err);
}
