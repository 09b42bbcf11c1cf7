/* The cache as its owner sees it: a thin layer over the store. Looking at a folder does not make it. */
#include "reprise/cache.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/status.h"
#include "cache/bundle.h"
#include "engine/facts.h"
#include "engine/isa.h"
#include "engine/plans.h"
#include "hal/hal.h"
#include "model/resolve.h"

struct rp_cache {
    cache_store *store; /* NULL while there is no folder */
    char *dir;
    char missing[400];
};

rp_status rp_cache_open(const char *dir, rp_cache **out, rp_error *err) {
    base_error_clear(err);
    if (!out) return rp_fail(err, RP_INVALID, "out is NULL");
    rp_status st;
    struct stat info;
    rp_cache *c = base_alloc(sizeof *c);
    if (!c) return rp_fail(err, RP_NOMEM, "cache handle");
    RP_TRY_OUT(cache_default_dir(dir, &c->dir, err));
    if (stat(c->dir, &info) != 0 && errno == ENOENT)
        (void)snprintf(c->missing, sizeof c->missing,
                       "there is no folder %.300s; the first run or compile makes it", c->dir);
    else
        RP_TRY_OUT(cache_store_open(c->dir, &c->store, err));
    *out = c;
    c = NULL;
out:
    rp_cache_close(c);
    return st;
}

void rp_cache_close(rp_cache *c) {
    if (!c) return;
    cache_store_close(c->store);
    base_free(c->dir);
    base_free(c);
}

const char *rp_cache_dir(const rp_cache *c) {
    return c->dir;
}

const char *rp_cache_off_reason(const rp_cache *c) {
    return c->store ? cache_store_off_reason(c->store) : c->missing;
}

static rp_status must_exist(const rp_cache *c, rp_error *err) {
    return c->store ? RP_OK : rp_fail(err, RP_NOT_FOUND, "%s", c->missing);
}

/* --- list ------------------------------------------------------------------- */

typedef struct visit {
    cache_store *store;
    bool (*fn)(void *user, const rp_cache_entry *e);
    void *user;
} visit;

static rp_status visit_entry(void *user, const cache_entry *e, rp_error *err) {
    static const char *const kinds[CACHE_KIND_COUNT_] = {"plan", "code", "weights", "tuning"};
    const visit *v = user;
    char *model = NULL, *settings = NULL;
    uint64_t code = 0, weights = 0;
    if (e->kind == CACHE_PLAN) RP_TRY(cache_plan_parts(v->store, e->key, &code, &weights, err));
    if (e->kind != CACHE_CODE) RP_TRY(cache_about(v->store, e->key, &model, &settings, err));
    rp_cache_entry out = {kinds[e->kind], e->key, e->size,  e->mtime, e->ok,
                          e->reason,      model,  settings, code,     weights};
    bool go_on = v->fn(v->user, &out);
    base_free(model);
    base_free(settings);
    return go_on ? RP_OK : rp_fail(err, RP_CANCELLED, "listing was stopped");
}

rp_status rp_cache_list(rp_cache *c, bool verify, bool (*fn)(void *user, const rp_cache_entry *e),
                        void *user, rp_error *err) {
    base_error_clear(err);
    rp_error local = {0};
    if (!c || !fn) return rp_fail(err, RP_INVALID, "cache and function must be given");
    RP_TRY(must_exist(c, err));
    if (verify) cache_scratch_sweep();
    visit v = {c->store, fn, user};
    rp_status st = cache_list(c->store, verify, visit_entry, &v, &local);
    if (st == RP_OK || st == RP_CANCELLED) return RP_OK;
    return rp_fail(err, st, "%s", local.text);
}

rp_status rp_cache_usage(rp_cache *c, bool (*fn)(void *user, const rp_cache_share *s), void *user,
                         rp_error *err) {
    base_error_clear(err);
    cache_share shares[CACHE_SHARE_COUNT_];
    if (!c || !fn) return rp_fail(err, RP_INVALID, "cache and function must be given");
    RP_TRY(must_exist(c, err));
    RP_TRY(cache_usage(c->store, shares, err));
    for (size_t i = 0; i < CACHE_SHARE_COUNT_; i++)
        if (!fn(user, &(rp_cache_share){cache_share_names[i], shares[i].n_files, shares[i].bytes}))
            break;
    return RP_OK;
}

/* --- why ---------------------------------------------------------------------- */

/* The key that the model would have, from where rp_engine_open would take it and for the device that it would run on. */
static rp_status make_key(const rp_cache *c, const char *model, rp_compilation_config *cfg,
                          cache_key **out, rp_error *err) {
    rp_status st;
    model_source *source = NULL;
    hal_device *device = NULL;
    hal_device_info info = {0};
    rp_error none = {0};
    char *usual = NULL;
    model_resolve_options r = {.cache_dir = cache_store_dir(c->store), .offline = true};
    engine_plans_options o = {.config = cfg, .store = c->store, .arch = info.arch};
    if (cache_default_dir(NULL, &usual, &none) == RP_OK) r.default_dir = usual;
    RP_TRY_OUT(model_resolve(model, &r, &source, err));
    o.source = source;
    RP_TRY_OUT(engine_config_resolve(cfg, source, err));
    RP_TRY_OUT(hal_open(cfg->device, (uint32_t)cfg->threads, &device, err));
    o.device = device;
    device->ops->info(device, &info);
    RP_TRY_OUT(engine_isa_choose(cfg, &o.isa, err));
    st = engine_plans_key(&o, out, err);
out:
    hal_close(device);
    model_source_free(source);
    base_free(usual);
    return st;
}

static rp_status why_text(cache_store *s, const cache_key *k, char **out, rp_error *err) {
    base_buf b;
    base_buf_init(&b, 0);
    rp_status st = cache_why(s, k, &b, err);
    if (st == RP_OK && !(*out = base_buf_take(&b))) st = rp_fail(err, RP_NOMEM, "text");
    base_buf_done(&b);
    return st;
}

static rp_status why(const rp_cache *c, const char *model, rp_compilation_config *config, bool json,
                     char **out, rp_error *err) {
    rp_status st = RP_OK;
    cache_key *k = NULL;
    if (!config) config = rp_config_new();
    if (!config || !c || !model || !out) {
        st = config ? rp_fail(err, RP_INVALID, "cache, model and out must be given")
                    : rp_fail(err, RP_NOMEM, "configuration");
        goto out;
    }
    RP_TRY_OUT(must_exist(c, err));
    RP_TRY_OUT(make_key(c, model, config, &k, err));
    st = json ? cache_why_json(c->store, k, "model", out, err) : why_text(c->store, k, out, err);
out:
    cache_key_free(k);
    rp_config_free(config);
    return st;
}

rp_status rp_cache_why(rp_cache *c, const char *model, rp_compilation_config *config, char **out,
                       rp_error *err) {
    base_error_clear(err);
    return why(c, model, config, false, out, err);
}

rp_status rp_cache_why_json(rp_cache *c, const char *model, rp_compilation_config *config,
                            char **out, rp_error *err) {
    base_error_clear(err);
    return why(c, model, config, true, out, err);
}

rp_status rp_cache_compare_json(rp_cache *c, const char *a, const char *b, char **out,
                                rp_error *err) {
    base_error_clear(err);
    if (!c || !a || !b || !out)
        return rp_fail(err, RP_INVALID, "cache, two keys and out must be given");
    RP_TRY(must_exist(c, err));
    return cache_compare_json(c->store, a, b, out, err);
}

/* --- size and transport --------------------------------------------------------- */

static rp_status refuse_off(const rp_cache *c, rp_error *err) {
    if (!c) return rp_fail(err, RP_INVALID, "cache is NULL");
    RP_TRY(must_exist(c, err));
    const char *off = cache_store_off_reason(c->store);
    return off ? rp_fail(err, RP_IO, "the cache is off: %s", off) : RP_OK;
}

rp_status rp_cache_prune(rp_cache *c, uint64_t max_bytes, uint64_t *out_removed, uint64_t *out_left,
                         rp_error *err) {
    base_error_clear(err);
    uint64_t removed = 0, left = 0;
    RP_TRY(refuse_off(c, err));
    cache_scratch_sweep();
    RP_TRY(cache_prune(c->store, max_bytes, &removed, &left, err));
    if (out_removed) *out_removed = removed;
    if (out_left) *out_left = left;
    return RP_OK;
}

rp_status rp_cache_export(rp_cache *c, const char *path, uint64_t *out_files, uint64_t *out_bytes,
                          rp_error *err) {
    base_error_clear(err);
    cache_bundle_info i = {0};
    RP_TRY(refuse_off(c, err));
    if (!path) return rp_fail(err, RP_INVALID, "path is NULL");
    RP_TRY(cache_export(c->store, path, &i, err));
    if (out_files) *out_files = i.n_files;
    if (out_bytes) *out_bytes = i.n_bytes;
    return RP_OK;
}

/* A folder that is not there is made for a bundle alone. */
static rp_status unpack(rp_cache *c, cache_bundle *b, cache_bundle_info *i, rp_error *err) {
    if (!c->store) RP_TRY(cache_store_open(c->dir, &c->store, err));
    RP_TRY(refuse_off(c, err));
    const char *why = cache_store_read_only_reason(c->store);
    if (why) return rp_fail(err, RP_IO, "%s", why);
    return cache_bundle_unpack(b, c->store, i, err);
}

rp_status rp_cache_import(rp_cache *c, const char *path, uint64_t *out_files, uint64_t *out_bytes,
                          rp_error *err) {
    base_error_clear(err);
    cache_bundle *b = NULL;
    cache_bundle_info i = {0};
    if (!c || !path) return rp_fail(err, RP_INVALID, "cache and path must be given");
    RP_TRY(cache_bundle_open(path, &b, err));
    rp_status st = unpack(c, b, &i, err);
    cache_bundle_close(b);
    if (st != RP_OK) return st;
    if (out_files) *out_files = i.n_files;
    if (out_bytes) *out_bytes = i.n_bytes;
    return RP_OK;
}
