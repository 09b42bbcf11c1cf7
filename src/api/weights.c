/* Params and states of a compiled graph: bound by name, packed, and on a device with memory of its own copied there. */
#include <string.h>

#include "api/api.h"
#include "api/compiled.h"
#include "api/foreign.h"
#include "base/alloc.h"
#include "base/status.h"
#include "plan/size.h"

void *api_address(void *data) {
    static char nothing;
    return data ? data : &nothing;
}

/* --- binding ---------------------------------------------------------------------- */

static uint32_t find_leaf(const plan_leaf *l, uint32_t n, const char *name) {
    uint32_t i = 0;
    while (i < n && strcmp(l[i].name, name) != 0) i++;
    return i;
}

static bool is_empty(const plan_leaf *l) {
    int64_t size;
    bool empty = false;
    for (uint32_t d = 0; d < l->rank; d++)
        empty = empty || (ir_dim_code_is_const(&l->dim[d], &size) && size == 0);
    return empty;
}

/* Calls leave values in a state, so it lies where the device works. */
static rp_status check_state(const rp_compiled *c, const plan_leaf *l, const void *data,
                             rp_error *err) {
    if (!c->memory || !data || api_stage_reached(c->memory, data)) return RP_OK;
    return rp_fail(
        err, RP_INVALID,
        "bind: state '%s' of graph @%s must be memory of the device, aligned to 16 bytes, "
        "since calls leave their values there; take it by rp_device_alloc",
        l->name, c->p->name);
}

rp_status rp_compiled_bind(rp_compiled *c, const char *name, void *data, rp_error *err) {
    base_error_clear(err);
    if (!c || !name) return rp_fail(err, RP_INVALID, "bind: graph and name must be given");
    const plan *p = c->p;
    uint32_t param = find_leaf(p->params, p->n_params, name);
    uint32_t state = find_leaf(p->states, p->n_states, name);
    if (param == p->n_params && state == p->n_states)
        return rp_fail(err, RP_NOT_FOUND, "graph @%s has no param or state called '%s'", p->name,
                       name);
    const plan_leaf *l = param < p->n_params ? &p->params[param] : &p->states[state];
    if (!data && !is_empty(l))
        return rp_fail(err, RP_INVALID, "bind: '%s' of graph @%s is not empty; data must be given",
                       name, p->name);
    bool is_param = param < p->n_params;
    if (!is_param) RP_TRY(check_state(c, l, data, err));
    data = api_address(data);
    (void)atomic_fetch_add(&c->generation, 1);
    if (c->foreign) return api_foreign_bind(c, is_param, is_param ? param : state, data, err);
    api_frames_set(c->frames, is_param ? PLAN_PARAM : PLAN_STATE, is_param ? param : state, data);
    if (!is_param) return RP_OK;
    c->params[param] = data;
    c->packed_ready = false;
    return RP_OK;
}

/* --- packing, where the device's memory is the host's ------------------------------------- */

static rp_status fill_packs(rp_compiled *c, rp_error *err) {
    api_frame *f = NULL;
    rp_status st = RP_OK;
    RP_TRY(api_frames_take(c->frames, &f, err));
    for (uint32_t i = 0; i < c->p->n_packs && st == RP_OK; i++)
        st = plan_pack_fill_on(f->device, c->p, i, c->params, c->packed + c->p->packs[i].offset,
                               err);
    api_frames_give(c->frames, f);
    return st;
}

/* --- copies, where it is not ----------------------------------------------------------- */

static void fill_part(void *user, void *at, size_t offset, size_t n) {
    memcpy(at, (const char *)user + offset, n);
}

/* What the device reaches and the host perhaps does not; everything else may be read by several threads. */
static bool is_there(const hal_device *d, const void *p) {
    return d->ops->reaches && d->ops->reaches(d, p);
}

static rp_status bring(hal_device *d, void *to, const void *from, size_t size, rp_error *err) {
    hal_device_info info;
    if (is_there(d, from)) return d->ops->copy(d, to, from, size, err);
    d->ops->info(d, &info);
    hal_source s = {fill_part, (void *)(uintptr_t)from, size, info.n_threads};
    return size ? d->ops->upload(d, to, &s, err) : RP_OK;
}

/* Bytes of a param; RP_INVALID where calls say how many. */
static rp_status param_bytes(const rp_compiled *c, uint32_t i, size_t *out, rp_error *err) {
    int64_t size = 0;
    if (!ir_dim_code_is_const(&c->p->params[i].bytes, &size))
        return rp_fail(err, RP_INVALID,
                       "param %s of graph @%s has another size in each call; bind memory of the "
                       "device, by rp_device_alloc",
                       c->p->params[i].name, c->p->name);
    *out = (size_t)size;
    return RP_OK;
}

static void drop_copy(rp_compiled *c, uint32_t i) {
    if (c->copies[i].at) c->memory->ops->release(c->memory, c->copies[i].at, c->copies[i].size);
    c->copies[i] = (api_copy){0};
}

/* A param that launches read in its file layout. */
static rp_status place_param(rp_compiled *c, uint32_t i, rp_error *err) {
    size_t size = 0;
    hal_device *d = c->memory;
    drop_copy(c, i);
    if (!c->p->params[i].read || api_stage_reached(d, c->params[i])) return RP_OK;
    RP_TRY(param_bytes(c, i, &size, err));
    if (size == 0) return RP_OK;
    RP_TRY(d->ops->alloc(d, HAL_DEVICE_MEMORY, size, &c->copies[i].at, err));
    c->copies[i].size = size;
    RP_TRY(bring(d, c->copies[i].at, c->params[i], size, err));
    api_frames_set(c->frames, PLAN_PARAM, i, c->copies[i].at);
    return RP_OK;
}

/* What a pack is made of, as the host reads it; entries of own are to be freed. */
static rp_status fetch(const rp_compiled *c, const plan_pack *k, const void **host, void **own,
                       rp_error *err) {
    hal_device *d = c->memory;
    for (uint32_t s = 0; s < k->n_sections; s++)
        for (uint32_t m = 0; m < k->sections[s].n_params; m++) {
            uint32_t i = k->sections[s].params[m];
            size_t size = 0;
            if (own[i]) continue;
            host[i] = c->params[i];
            if (!is_there(d, c->params[i])) continue;
            RP_TRY(param_bytes(c, i, &size, err));
            own[i] = base_alloc_aligned(size + 1, 64);
            if (!own[i]) return rp_fail(err, RP_NOMEM, "param %s to pack", c->p->params[i].name);
            RP_TRY(d->ops->copy(d, own[i], c->params[i], size, err));
            host[i] = own[i];
        }
    return d->ops->synchronize(d, err);
}

static rp_status pack_one(const rp_compiled *c, uint32_t i, rp_error *err) {
    const plan *p = c->p;
    const plan_pack *k = &p->packs[i];
    rp_status st = RP_OK;
    const void **host = base_alloc_array(p->n_params + 1u, sizeof *host);
    void **own = base_alloc_array(p->n_params + 1u, sizeof *own);
    char *packed = base_alloc_aligned((size_t)k->size + 1, 64);
    if (!host || !own || !packed) {
        st = rp_fail(err, RP_NOMEM, "%lld bytes of packed weights", (long long)k->size);
        goto out;
    }
    RP_TRY_OUT(fetch(c, k, host, own, err));
    plan_pack_fill(p, i, host, packed);
    RP_TRY_OUT(bring(c->memory, c->packed + k->offset, packed, (size_t)k->size, err));
out:
    for (uint32_t m = 0; own && m < p->n_params; m++) base_free(own[m]);
    base_free(packed);
    base_free(own);
    base_free(host);
    return st;
}

static rp_status place_weights(rp_compiled *c, rp_error *err) {
    for (uint32_t i = 0; i < c->p->n_params; i++) RP_TRY(place_param(c, i, err));
    for (uint32_t i = 0; i < c->p->n_packs; i++) RP_TRY(pack_one(c, i, err));
    return c->memory->ops->synchronize(c->memory, err);
}

void api_weights_done(rp_compiled *c) {
    for (uint32_t i = 0; c->copies && i < c->p->n_params; i++) drop_copy(c, i);
    base_free(c->copies);
    c->copies = NULL;
    if (c->memory && c->packed)
        c->memory->ops->release(c->memory, c->packed, (size_t)c->p->weights_size);
    else if (!c->packed_pages.data)
        base_free(c->packed);
    base_huge_free(&c->packed_pages);
    base_free(c->params);
    c->packed = NULL;
    c->params = NULL;
}

/* --- the first call after a bind ---------------------------------------------------- */

static rp_status make_ready(rp_compiled *c, rp_error *err) {
    const plan *p = c->p;
    for (uint32_t i = 0; i < p->n_params; i++)
        if (!c->params[i])
            return rp_fail(err, RP_INVALID,
                           "param %s of graph @%s has no data; call rp_compiled_bind",
                           p->params[i].name, p->name);
    for (uint32_t i = 0; i < p->n_states; i++)
        if (!plan_exec_get(api_frames_exec(c->frames), PLAN_STATE, i))
            return rp_fail(err, RP_INVALID,
                           "state %s of graph @%s has no data; call rp_compiled_bind",
                           p->states[i].name, p->name);
    if (c->memory) return place_weights(c, err);
    return p->n_packs ? fill_packs(c, err) : RP_OK;
}

/* Others that come meanwhile wait for it. */
rp_status api_weights_make_ready(rp_compiled *c, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&c->lock);
    if (!c->packed_ready) st = make_ready(c, err);
    atomic_store_explicit(&c->packed_ready, st == RP_OK, memory_order_release);
    (void)pthread_mutex_unlock(&c->lock);
    return st;
}
