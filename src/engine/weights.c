/* One object of the cache holds the packed matrices of both plans. Its key is the content of the model, the layout, and
 * the version of the code that packs; never a path.
 *
 * Damage: every byte is checked while it is copied to where it is used (resident.c), before the first step, so no token
 * comes from damaged weights. A damaged object goes to quarantine/ and is packed again in the same start. What happens
 * to the copy afterwards is found by engine_weights_check, which a step asks when its numbers are no numbers. */
#include "engine/weights.h"

#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "engine/matrices.h"
#include "engine/packed.h"
#include "engine/rope.h"
#include "plan/exec.h"

struct engine_weights {
    engine_weights_options o;
    base_hash128 key;
    const cache_key *factors;  /* of the key; while they are loaded */
    engine_matrices *matrices; /* the model's, then the head's from head_at on; shared, maybe */
    size_t head_at, total;
    engine_uploads *uploads; /* of this engine alone; NULL: the device reads memory of the host */
    engine_rope *rope;
    hal_device *registered; /* that knows the ranges of matrices */
    bool packed;
};

static size_t packed_size(const engine_weights_options *o) {
    return engine_packed_part(o->model) + engine_packed_part(o->head);
}

static bool is_unified(hal_device *d) {
    hal_device_info info = {.unified = true};
    if (d) d->ops->info(d, &info);
    return info.unified;
}

/* --- loading ----------------------------------------------------------------------- */

/* Where the bytes of a new set go: to `to` on `device`, or, where that is NULL, to memory of the host. */
typedef struct loader {
    engine_weights *w;
    hal_device *device;
    void *to;
    engine_resident *out;
} loader;

static rp_status take_bytes(const loader *l, base_mapping *file, const uint8_t *data, bool stored,
                            rp_error *err) {
    engine_resident_source s = {.payload = data,
                                .size = l->w->total,
                                .stored = stored,
                                .threads = l->w->o.threads,
                                .device = l->device,
                                .to = l->to};
    return engine_resident_load(file, &s, l->out, err);
}

/* For people: whose they are, and what their key is made of. Written ahead of them: nobody who finds them writes it again. */
static void keep_texts(const engine_weights *w) {
    rp_error why = {0};
    rp_status st =
        cache_put_text(w->o.store, w->key, "model", model_source_name(w->o.source), &why);
    if (st == RP_OK) st = cache_put_factors(w->o.store, CACHE_WEIGHTS, w->factors, &why);
    if (st != RP_OK) base_log(RP_LOG_DEBUG, "what the weights are of is not kept: %s", why.text);
}

static rp_status pack_all(const loader *l, rp_error *err) {
    engine_weights *w = l->w;
    cache_writer *writer = NULL;
    base_mapping file = {0};
    const uint8_t *data;
    rp_status st = RP_OK;
    RP_TRY(cache_writer_open(w->o.store, CACHE_WEIGHTS, w->key, w->total, &writer, err));
    RP_TRY_OUT(engine_packed_write(&w->o, writer, err));
    keep_texts(w);
    RP_TRY_OUT(cache_writer_commit(writer, &file, &data, err));
    st = take_bytes(l, &file, data, false, err);
out:
    cache_writer_free(writer);
    w->packed = st == RP_OK;
    return st;
}

/* RP_NOT_FOUND: there is none, or there was a damaged one. */
static rp_status load_stored(const loader *l, rp_error *err) {
    const engine_weights *w = l->w;
    base_mapping file = {0};
    const uint8_t *data = NULL;
    size_t size = 0;
    rp_error why = {0};
    rp_status st = cache_map(w->o.store, CACHE_WEIGHTS, w->key, false, &file, &data, &size, &why);
    if (st == RP_OK && size != w->total) {
        base_file_unmap(&file);
        return RP_NOT_FOUND;
    }
    if (st == RP_OK) st = take_bytes(l, &file, data, true, &why);
    if (st == RP_CORRUPT) {
        cache_reject(w->o.store, CACHE_WEIGHTS, w->key, why.text);
        return RP_NOT_FOUND;
    }
    return st == RP_OK || st == RP_NOT_FOUND ? st : rp_fail(err, st, "%s", why.text);
}

static bool still_wanted(void *user) {
    const engine_weights *w = user;
    return !w->o.wanted || w->o.wanted(w->o.user);
}

/* Packs, or waits for another process that does. */
static rp_status pack_or_wait(const loader *l, rp_error *err) {
    const cache_lock_options o = {CACHE_WEIGHTS, l->w->key, still_wanted, l->w};
    base_lock *lock = NULL;
    bool again = false;
    RP_TRY(cache_lock_take(l->w->o.store, &o, &lock, &again, err));
    rp_status st = again ? load_stored(l, err) : RP_NOT_FOUND;
    if (st == RP_NOT_FOUND) st = pack_all(l, err);
    base_lock_drop(lock);
    return st;
}

static rp_status fill_matrices(void *user, hal_device *device, void *room, engine_resident *out,
                               rp_error *err) {
    const loader l = {user, device, room, out};
    rp_status st = load_stored(&l, err);
    return st == RP_NOT_FOUND ? pack_or_wait(&l, err) : st;
}

/* Rope tables grow as positions come into use, so they are of this engine alone. */
static rp_status place_rope(engine_weights *w, rp_error *err) {
    if (is_unified(w->o.device)) return RP_OK;
    RP_TRY(engine_uploads_new(w->o.device, &w->uploads, err));
    return engine_rope_place(w->rope, w->uploads, err);
}

static engine_matrices_id id_of(const engine_weights_options *o, base_hash128 key) {
    return (engine_matrices_id){key, cache_store_dir(o->store),
                                is_unified(o->device) ? NULL : hal_full_name(o->device_name)};
}

/* What the kernels read, with room behind the model's part up to a page. */
static rp_status load(engine_weights *w, rp_error *err) {
    rp_status st;
    cache_key *k = NULL;
    w->head_at = engine_packed_part(w->o.model);
    w->total = packed_size(&w->o);
    RP_TRY(engine_weights_key(&w->o, &k, err));
    w->key = cache_key_hash(k);
    w->factors = k;
    const engine_matrices_id id = id_of(&w->o, w->key);
    const engine_matrices_maker maker = {fill_matrices, still_wanted, w};
    RP_TRY_OUT(engine_rope_new(w->o.source, w->o.n_positions, &w->rope, err));
    RP_TRY_OUT(place_rope(w, err));
    st = engine_matrices_open(&id, w->total, &maker, &w->matrices, err);
out:
    w->factors = NULL;
    cache_key_free(k);
    return st;
}

/* --- tensors as they are in the file ------------------------------------------------ */

static rp_status upload_tensor(const engine_weights *w, const model_tensor *t, const uint8_t **data,
                               rp_error *err) {
    const void *at = NULL;
    RP_TRY(engine_matrices_tensor(w->matrices, t->idx, *data, t->size, &at, err));
    model_source_release(w->o.source, t->idx);
    *data = at;
    return RP_OK;
}

static bool is_rope(const char *param) {
    return strcmp(param, "rope.cos") == 0 || strcmp(param, "rope.sin") == 0;
}

/* All that launches of the plan read, before anybody asks: loading is done when the weights are open. */
static rp_status upload_params(const engine_weights *w, const plan *p, rp_error *err) {
    const void *at;
    for (uint32_t i = 0; i < p->n_params; i++)
        if (!is_rope(p->params[i].name)) RP_TRY(engine_weights_param(w, p, i, &at, err));
    return RP_OK;
}

/* Tensors that upload_params will bring, each once. seen: one for each tensor. */
static rp_status uploads_need(const engine_weights_options *o, const plan *p, bool *seen,
                              size_t *size, rp_error *err) {
    model_tensor t;
    for (uint32_t i = 0; i < p->n_params; i++) {
        if (is_rope(p->params[i].name) || !p->params[i].read) continue;
        RP_TRY(model_source_tensor(o->source, p->params[i].name, &t, err));
        *size += seen[t.idx] ? 0 : t.size;
        seen[t.idx] = true;
    }
    return RP_OK;
}

/* --- interface ------------------------------------------------------------------------ */

rp_status engine_weights_open(const engine_weights_options *o, engine_weights **out,
                              rp_error *err) {
    engine_weights *w = base_alloc(sizeof *w);
    if (!w) return rp_fail(err, RP_NOMEM, "weights");
    *w = (engine_weights){.o = *o};
    rp_status st = load(w, err);
    if (st == RP_OK && w->uploads) st = upload_params(w, o->model, err);
    if (st == RP_OK && w->uploads) st = upload_params(w, o->head, err);
    if (st == RP_OK)
        *out = w;
    else
        engine_weights_free(w);
    return st;
}

/* Bytes of it that another engine of this process has brought there. */
static rp_status find_there(const engine_weights_options *o, size_t *out, rp_error *err) {
    cache_key *k = NULL;
    *out = 0;
    if (!engine_matrices_any()) return RP_OK;
    RP_TRY(engine_weights_key(o, &k, err));
    const engine_matrices_id id = id_of(o, cache_key_hash(k));
    *out = engine_matrices_there(&id);
    cache_key_free(k);
    return RP_OK;
}

rp_status engine_weights_need(const engine_weights_options *o, size_t *out, rp_error *err) {
    size_t size = packed_size(o) + engine_rope_need(o->source, o->n_positions), there;
    if (!is_unified(o->device)) {
        bool *seen = base_alloc_array(model_source_n_tensors(o->source) + 1, sizeof *seen);
        if (!seen) return rp_fail(err, RP_NOMEM, "weights");
        rp_status st = uploads_need(o, o->model, seen, &size, err);
        if (st == RP_OK) st = uploads_need(o, o->head, seen, &size, err);
        base_free(seen);
        if (st != RP_OK) return st;
    }
    RP_TRY(find_there(o, &there, err));
    *out = size - (there < size ? there : size);
    return RP_OK;
}

rp_status engine_weights_check_whole(const engine_weights *w, rp_error *err) {
    /* Whoever uses an object of the cache sets its time, so that the oldest can be told. */
    return base_mapping_check(engine_matrices_file(w->matrices), "packed weights of the cache",
                              false, err);
}

void engine_weights_free(engine_weights *w) {
    if (!w) return;
    if (w->registered) {
        engine_matrices_unregister(w->matrices, w->registered);
        engine_rope_unregister(w->rope, w->registered);
    }
    engine_uploads_free(w->uploads);
    engine_matrices_close(w->matrices);
    engine_rope_free(w->rope);
    base_free(w);
}

rp_status engine_weights_check(const engine_weights *w, rp_error *err) {
    char hex[33];
    base_mapping file = {0};
    const uint8_t *data = NULL;
    size_t size = 0;
    rp_error why = {0}, ignored = {0};
    rp_status st = engine_matrices_check(w->matrices, &why);
    if (st == RP_OK) return RP_OK;
    base_hash_hex(w->key, hex);
    /* The stored object is read whole, too, and put away when it is bad: then the next start packs again. */
    bool sound =
        cache_map(w->o.store, CACHE_WEIGHTS, w->key, true, &file, &data, &size, &ignored) == RP_OK;
    base_file_unmap(&file);
    return rp_fail(err, RP_CORRUPT, "packed weights (cache object weights/%s): %s; %s", hex,
                   why.text,
                   sound ? "the stored object is sound, so something wrote to this memory or it is "
                           "faulty: start again"
                         : "start again, which packs them anew");
}

rp_status engine_weights_reach(const engine_weights *w, int64_t n_positions, rp_error *err) {
    return engine_rope_reach(w->rope, n_positions, err);
}

const uint8_t *engine_weights_model(const engine_weights *w) {
    return engine_matrices_data(w->matrices);
}

const uint8_t *engine_weights_head(const engine_weights *w) {
    return engine_weights_model(w) + w->head_at;
}

const void *engine_weights_packed(const engine_weights *w, size_t *out_size) {
    *out_size = w->total;
    return engine_weights_model(w);
}

bool engine_weights_were_packed(const engine_weights *w) {
    return w->packed;
}

size_t engine_weights_bytes(const engine_weights *w) {
    return engine_matrices_bytes(w->matrices) + engine_rope_bytes(w->rope);
}

size_t engine_weights_set_bytes(const engine_weights *w) {
    return engine_matrices_bytes(w->matrices);
}

size_t engine_weights_own_bytes(const engine_weights *w) {
    return w->uploads ? engine_uploads_bytes(w->uploads) : 0;
}

uint32_t engine_weights_users(const engine_weights *w) {
    return engine_matrices_users(w->matrices);
}

size_t engine_weights_shared_bytes(const engine_weights *w) {
    return engine_weights_users(w) > 1 ? engine_matrices_bytes(w->matrices) : 0;
}

rp_status engine_weights_param(const engine_weights *w, const plan *p, uint32_t idx,
                               const void **out, rp_error *err) {
    model_tensor t;
    const uint8_t *data = NULL;
    const char *name = p->params[idx].name;
    if (is_rope(name)) {
        data = (const uint8_t *)(strcmp(name, "rope.cos") == 0 ? engine_rope_cos(w->rope)
                                                               : engine_rope_sin(w->rope));
    } else if (p->params[idx].read) {
        RP_TRY(model_source_tensor(w->o.source, name, &t, err));
        RP_TRY(model_source_data(w->o.source, t.idx, &data, err));
        if (w->uploads) RP_TRY(upload_tensor(w, &t, &data, err));
    }
    *out = data;
    return RP_OK;
}

rp_status engine_weights_register(engine_weights *w, hal_device *d, rp_error *err) {
    w->registered = d;
    RP_TRY(engine_rope_register(w->rope, d, err));
    return engine_matrices_register(w->matrices, d, err);
}
