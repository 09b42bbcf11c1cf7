/* One object of the cache holds all that is derived from the weights: the packed matrices of both plans and
 * the rope tables. Its key is the content of the model and the layout, never a path. */
#include "engine/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/huge.h"
#include "base/log.h"
#include "cache/key.h"
#include "model/llama.h"
#include "plan/exec.h"

#define PAGE 4096

typedef struct layout {
    size_t model, head, rope, total; /* model at 0 */
    size_t head_at, cos_at, sin_at;
} layout;

struct engine_weights {
    engine_weights_options o;
    base_mapping file; /* unmapped again when the bytes are in huge pages */
    base_huge huge;
    const uint8_t *data;
    layout at;
    bool packed;
};

static size_t round_page(size_t n) {
    return (n + PAGE - 1) / PAGE * PAGE;
}

static layout layout_of(const engine_weights_options *o) {
    layout l = {.model = (size_t)o->model->weights_size, .head = (size_t)o->head->weights_size};
    l.rope = (size_t)o->n_positions * (model_source_hparams(o->source)->rope_dim / 2) *
             sizeof(float);
    l.head_at = round_page(l.model);
    l.cos_at = l.head_at + round_page(l.head);
    l.sin_at = l.cos_at + round_page(l.rope);
    l.total = l.sin_at + round_page(l.rope);
    return l;
}

/* --- key ------------------------------------------------------------------------ */

static rp_status hash_content(const engine_weights_options *o, char hex[33], rp_error *err) {
    base_hasher *h = base_hasher_new();
    if (!h) return rp_fail(err, RP_NOMEM, "weights key");
    base_hash128 meta = model_source_meta_hash(o->source);
    base_hasher_add(h, &meta, sizeof meta);
    for (size_t i = 0; i < model_source_n_tensors(o->source); i++) {
        base_hash128 t = model_source_tensor_hash(o->source, i);
        base_hasher_add(h, &t, sizeof t);
    }
    base_hash_hex(base_hasher_digest(h), hex);
    base_hasher_free(h);
    return model_source_check_whole(o->source, err);
}

/* Hashing a file at every start is spared by a record under its stamp (who it is and when it changed). */
static rp_status content_hash(const engine_weights_options *o, char hex[33], rp_error *err) {
    base_hash128 key;
    char *known = NULL;
    rp_error ignored = {0};
    if (!model_source_stamp(o->source, &key)) return hash_content(o, hex, err);
    if (cache_get_text(o->store, key, "content_hash", &known, &ignored) == RP_OK &&
        strlen(known) == 32) {
        memcpy(hex, known, 33);
        base_free(known);
        return RP_OK;
    }
    base_free(known);
    RP_TRY(hash_content(o, hex, err));
    if (cache_put_text(o->store, key, "content_hash", hex, &ignored) != RP_OK)
        base_log(RP_LOG_DEBUG, "content hash not kept: %s", ignored.text);
    return RP_OK;
}

static void add_layout(const plan *p, base_buf *b) {
    for (uint32_t i = 0; i < p->n_packs; i++) {
        const plan_pack *k = &p->packs[i];
        base_buf_printf(b, "%s %lld", rp_dtype_name(k->dtype), (long long)k->k);
        for (uint32_t s = 0; s < k->n_sections; s++) {
            base_buf_printf(b, " %lld:", (long long)k->sections[s].rows);
            for (uint32_t j = 0; j < k->sections[s].n_params; j++)
                base_buf_printf(b, "%s,", p->params[k->sections[s].params[j]].name);
        }
        base_buf_putc(b, '\n');
    }
}

static rp_status weights_key(const engine_weights_options *o, base_hash128 *out, rp_error *err) {
    char hex[33];
    base_buf b;
    base_buf_init(&b, 0);
    RP_TRY(content_hash(o, hex, err));
    base_buf_printf(&b, "tiles of 16 rows, format 1\n%s\n%lld positions\n", hex,
                    (long long)o->n_positions);
    add_layout(o->model, &b);
    add_layout(o->head, &b);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK) *out = base_hash(b.data, b.len);
    base_buf_done(&b);
    return st;
}

/* --- packing ----------------------------------------------------------------------- */

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
        if (k->o->progress) k->o->progress(k->o->user, k->done, k->total);
    }
    st = write_zeros(k->w, round_page((size_t)p->weights_size) - written, err);
out:
    base_free(buf);
    base_free(params);
    return st;
}

static rp_status rope_divisors(const engine_weights_options *o, const float **out, rp_error *err) {
    model_tensor t;
    const uint8_t *data;
    *out = NULL;
    if (model_source_hparams(o->source)->rope_scaling != MODEL_ROPE_FREQS) return RP_OK;
    RP_TRY(model_source_tensor(o->source, "rope_freqs.weight", &t, err));
    RP_TRY(model_source_data(o->source, t.idx, &data, err));
    *out = (const float *)(const void *)data;
    return RP_OK;
}

static rp_status write_rope(packer *k, const layout *l, rp_error *err) {
    rp_status st = RP_OK;
    const float *divisors;
    RP_TRY(rope_divisors(k->o, &divisors, err));
    float *c = base_alloc(l->rope), *s = base_alloc(l->rope);
    if (!c || !s) {
        st = rp_fail(err, RP_NOMEM, "rope tables");
        goto out;
    }
    model_rope_table(model_source_hparams(k->o->source), divisors, k->o->n_positions, c, s);
    RP_TRY_OUT(cache_writer_add(k->w, c, l->rope, err));
    RP_TRY_OUT(write_zeros(k->w, round_page(l->rope) - l->rope, err));
    RP_TRY_OUT(cache_writer_add(k->w, s, l->rope, err));
    st = write_zeros(k->w, round_page(l->rope) - l->rope, err);
out:
    base_free(c);
    base_free(s);
    return st;
}

static rp_status pack_all(engine_weights *w, base_hash128 key, rp_error *err) {
    packer k = {.o = &w->o, .total = w->at.model + w->at.head};
    rp_status st = RP_OK;
    RP_TRY(cache_writer_open(w->o.store, CACHE_WEIGHTS, key, w->at.total, &k.w, err));
    RP_TRY_OUT(write_plan(&k, w->o.model, err));
    RP_TRY_OUT(write_plan(&k, w->o.head, err));
    RP_TRY_OUT(write_rope(&k, &w->at, err));
    RP_TRY_OUT(model_source_check_whole(w->o.source, err));
    st = cache_writer_commit(k.w, &w->file, &w->data, err);
out:
    cache_writer_free(k.w);
    w->packed = st == RP_OK;
    return st;
}

/* Moves the bytes to huge pages, a part at a time, so that they are never in memory twice. Without huge pages
 * the mapping serves as it is. */
static rp_status move_to_huge(engine_weights *w, rp_error *err) {
    rp_error why = {0};
    const size_t part = (size_t)8 << 20, start = (size_t)(w->data - w->file.data);
    if (base_huge_alloc(w->at.total, &w->huge, &why) != RP_OK) {
        base_log(RP_LOG_DEBUG, "packed weights stay in the mapped file: %s", why.text);
        return engine_weights_check_whole(w, err);
    }
    for (size_t at = 0; at < w->at.total; at += part) {
        size_t n = w->at.total - at < part ? w->at.total - at : part;
        memcpy((uint8_t *)w->huge.data + at, w->data + at, n);
        base_mapping_drop(&w->file, start + at, n);
    }
    w->data = w->huge.data;
    rp_status st = engine_weights_check_whole(w, err);
    base_file_unmap(&w->file);
    return st;
}

/* --- interface ------------------------------------------------------------------------ */

rp_status engine_weights_open(const engine_weights_options *o, engine_weights **out,
                              rp_error *err) {
    base_hash128 key;
    size_t size = 0;
    rp_error miss = {0};
    RP_TRY(weights_key(o, &key, err));
    engine_weights *w = base_alloc(sizeof *w);
    if (!w) return rp_fail(err, RP_NOMEM, "weights");
    *w = (engine_weights){.o = *o, .at = layout_of(o)};
    rp_status st = cache_map(o->store, CACHE_WEIGHTS, key, false, &w->file, &w->data, &size, &miss);
    if (st == RP_OK && size != w->at.total) {
        base_file_unmap(&w->file);
        st = RP_NOT_FOUND;
    }
    if (st == RP_NOT_FOUND)
        st = pack_all(w, key, err);
    else if (st != RP_OK)
        st = rp_fail(err, st, "%s", miss.text);
    if (st == RP_OK) st = move_to_huge(w, err);
    if (st == RP_OK)
        *out = w;
    else
        engine_weights_free(w);
    return st;
}

rp_status engine_weights_check_whole(const engine_weights *w, rp_error *err) {
    /* Whoever uses an object of the cache sets its time, so that the oldest can be told. */
    return base_mapping_check(&w->file, "packed weights of the cache", false, err);
}

void engine_weights_free(engine_weights *w) {
    if (!w) return;
    base_file_unmap(&w->file);
    base_huge_free(&w->huge);
    base_free(w);
}

const uint8_t *engine_weights_model(const engine_weights *w) {
    return w->data;
}

const uint8_t *engine_weights_head(const engine_weights *w) {
    return w->data + w->at.head_at;
}

bool engine_weights_were_packed(const engine_weights *w) {
    return w->packed;
}

size_t engine_weights_bytes(const engine_weights *w) {
    return w->at.total;
}

static bool read_by_launch(const plan *p, uint32_t idx) {
    for (uint32_t i = 0; i < p->n_launches; i++)
        for (uint32_t a = 0; a < p->launches[i].n_args; a++)
            if (p->launches[i].args[a].seg == PLAN_PARAM && p->launches[i].args[a].idx == idx)
                return true;
    return false;
}

rp_status engine_weights_param(const engine_weights *w, const plan *p, uint32_t idx,
                               const void **out, rp_error *err) {
    model_tensor t;
    const uint8_t *data = NULL;
    const char *name = p->params[idx].name;
    if (strcmp(name, "rope.cos") == 0) {
        data = w->data + w->at.cos_at;
    } else if (strcmp(name, "rope.sin") == 0) {
        data = w->data + w->at.sin_at;
    } else if (read_by_launch(p, idx)) {
        RP_TRY(model_source_tensor(w->o.source, name, &t, err));
        RP_TRY(model_source_data(w->o.source, t.idx, &data, err));
    }
    *out = data;
    return RP_OK;
}

rp_status engine_weights_register(const engine_weights *w, hal_device *d, rp_error *err) {
    return hal_range_add(d, w->data, w->at.total, "packed weights", err);
}
