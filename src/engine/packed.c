/* The packed matrices of both plans as one stream of bytes, a matrix at a time. */
#include "engine/packed.h"

#include "base/alloc.h"
#include "plan/exec.h"

enum { PAGE = 4096 };

size_t engine_packed_part(const plan *p) {
    return ((size_t)p->weights_size + PAGE - 1) / PAGE * PAGE;
}

typedef struct packer {
    const engine_weights_options *o;
    cache_writer *w;
    uint64_t done, total;
} packer;

/* Which params of the plan pack i reads. */
static rp_status pack_params(const packer *k, const plan *p, uint32_t i, const void **params,
                             bool release, rp_error *err) {
    for (uint32_t s = 0; s < p->packs[i].n_sections; s++)
        for (uint32_t j = 0; j < p->packs[i].sections[s].n_params; j++) {
            uint32_t idx = p->packs[i].sections[s].params[j];
            model_tensor t;
            RP_TRY(model_source_tensor(k->o->source, p->params[idx].name, &t, err));
            if (release) {
                model_source_release(k->o->source, t.idx);
                continue;
            }
            const uint8_t *data;
            RP_TRY(model_source_data(k->o->source, t.idx, &data, err));
            params[idx] = data;
        }
    return RP_OK;
}

static rp_status write_zeros(cache_writer *w, size_t n, rp_error *err) {
    static const char zeros[PAGE];
    for (; n > PAGE; n -= PAGE) RP_TRY(cache_writer_add(w, zeros, PAGE, err));
    return cache_writer_add(w, zeros, n, err);
}

static rp_status write_plan(packer *k, const plan *p, rp_error *err) {
    rp_status st = RP_OK;
    void *buf = NULL;
    size_t written = 0;
    const void **params = base_alloc_array(p->n_params + 1u, sizeof *params);
    if (!params) return rp_fail(err, RP_NOMEM, "packing");
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *pk = &p->packs[i];
        RP_TRY_OUT(pack_params(k, p, i, params, false, err));
        buf = base_alloc((size_t)pk->size);
        if (!buf) {
            st = rp_fail(err, RP_NOMEM, "packing %lld bytes", (long long)pk->size);
            goto out;
        }
        plan_pack_fill(p, i, params, buf);
        RP_TRY_OUT(write_zeros(k->w, (size_t)pk->offset - written, err));
        RP_TRY_OUT(cache_writer_add(k->w, buf, (size_t)pk->size, err));
        written = (size_t)(pk->offset + pk->size);
        base_free(buf);
        buf = NULL;
        RP_TRY_OUT(pack_params(k, p, i, params, true, err));
        k->done += (uint64_t)pk->size;
        if (k->o->progress && !k->o->progress(k->o->user, k->done, k->total)) {
            st = rp_fail(err, RP_CANCELLED, "packing was cancelled");
            goto out;
        }
    }
    st = write_zeros(k->w, engine_packed_part(p) - written, err);
out:
    base_free(buf);
    base_free(params);
    return st;
}

rp_status engine_packed_write(const engine_weights_options *o, cache_writer *w, rp_error *err) {
    packer k = {
        .o = o, .w = w, .total = engine_packed_part(o->model) + engine_packed_part(o->head)};
    RP_TRY(write_plan(&k, o->model, err));
    RP_TRY(write_plan(&k, o->head, err));
    return model_source_check_whole(o->source, err);
}
