/* rp_jit: how a function is made, and what it says of itself.
 *
 * Two locks: `lock` guards the entries and is held for a look at them; `turn` is held while one is made, so that calls which find
 * theirs go on meanwhile. */
#include <stdatomic.h>

#include "backend/registry.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "config/config.h"
#include "device/device.h"
#include "front/front.h"
#include "front/limits.h"
#include "front/report.h"
#include "ir/custom.h"

enum { ACCUMULATED_LIMIT = 256 };

static atomic_uint next_id;

/* --- making ---------------------------------------------------------------------------------- */

rp_status front_resolve(const rp_compilation_config *config, rp_compilation_config **out,
                        rp_error *err) {
    rp_compilation_config *c = NULL;
    uint32_t n = 0;
    rp_model_facts facts = RP_MODEL_FACTS_INIT;
    facts.backends = backend_names(&n);
    facts.n_backends = n;
    facts.splitting_ops = ir_registered_splitting_ops(&n);
    facts.n_splitting_ops = n;
    RP_TRY(rp_config_clone(config, &c, err));
    rp_status st = rp_config_resolve(c, &facts, err);
    if (st == RP_OK)
        *out = c;
    else
        rp_config_free(c);
    return st;
}

/* What holds where nothing is compiled, too, and names that are to be those of something. */
static rp_status take_eager_config(rp_jit *f, rp_error *err) {
    static const config_id ids[] = {CONFIG_ID_cache_dir, CONFIG_ID_skip_passes,
                                    CONFIG_ID_inductor_passes, CONFIG_ID_custom_ops,
                                    CONFIG_ID_check_ops};
    f->eager_config = rp_config_new();
    if (!f->eager_config) return rp_fail(err, RP_NOMEM, "configuration of %s", f->name);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        char *text = NULL;
        const char *name = f->config->typed[ids[i]];
        if (!name) continue;
        RP_TRY(rp_config_get_json(f->config, name, &text, err));
        rp_status st = rp_config_set_key(f->eager_config, name, text, err);
        rp_config_text_free(text);
        RP_TRY(st);
    }
    return RP_OK;
}

static rp_status take_config(rp_jit *f, const rp_jit_options *o, rp_error *err) {
    if (o->config) {
        RP_TRY(rp_config_clone(o->config, &f->config, err));
    } else {
        f->config = rp_config_new();
        if (!f->config) return rp_fail(err, RP_NOMEM, "configuration of %s", f->name);
    }
    RP_TRY(front_mode_take(f, o->mode, err));
    if (o->device) { /* it is what the configuration says from here on */
        RP_TRY(device_agrees(o->device, f->config, err));
        RP_TRY(rp_config_set_key(f->config, "device", device_name(o->device), err));
    }
    RP_TRY(config_note_models(f->config, err));
    if (o->suppress_errors) f->config->suppress_errors = true; /* of passes that fail */
    return take_eager_config(f, err);
}

static rp_status take_device(rp_jit *f, rp_device *given, bool *host, rp_error *err) {
    if (given)
        f->device = rp_device_ref(given);
    else
        RP_TRY(rp_device_open(f->config->device, (uint32_t)f->config->threads, &f->device, err));
    rp_device_info info = RP_DEVICE_INFO_INIT;
    RP_TRY(rp_device_get_info(f->device, &info, err));
    *host = info.host_memory;
    return *host ? RP_OK : rp_stream_open(f->device, &f->stream, err);
}

/* The option, or else the setting, which is not for rp_compile. */
static rp_status take_limits(rp_jit *f, const rp_jit_options *o, rp_error *err) {
    f->limit = o->recompile_limit ? o->recompile_limit : (uint32_t)f->config->recompile_limit;
    f->all_limit = o->accumulated_recompile_limit ? o->accumulated_recompile_limit
                                                  : ACCUMULATED_LIMIT;
    return f->config->typed[CONFIG_ID_recompile_limit]
               ? rp_config_set(f->config, "recompile_limit=8", err)
               : RP_OK;
}

static rp_status fill(rp_jit *f, const rp_jit_options *o, rp_error *err) {
    f->name = base_strdup(o->name ? o->name : "function");
    f->file = base_strdup(o->file ? o->file : "");
    if (!f->name || !f->file) return rp_fail(err, RP_NOMEM, "function");
    f->line = o->line;
    f->fn = o->fn;
    f->user = o->user;
    f->dynamic = o->dynamic;
    f->suppress_errors = o->suppress_errors;
    f->uniform = o->uniform;
    RP_TRY(front_support_take(f, o->support, err));
    rp_compilation_config *resolved = NULL;
    bool host = false;
    RP_TRY(take_config(f, o, err));
    f->fullgraph = o->fullgraph || f->config->fullgraph;
    RP_TRY(take_limits(f, o, err));
    RP_TRY(front_shapes_take(f, err));
    RP_TRY(front_resolve(f->config, &resolved, err));
    f->config->told = true;
    f->eager = rp_config_level(resolved) == RP_LEVEL_NO_COMPILATION;
    front_support_ask(f, resolved);
    rp_status st = f->eager ? RP_OK : config_refuse_ranges(f->config, err);
    if (st == RP_OK) st = take_device(f, o->device, &host, err);
    if (st == RP_OK) st = front_mode_graphs(f, resolved, host, err);
    if (st == RP_OK) st = front_shapes_tune(f, resolved, err);
    rp_config_free(resolved);
    RP_TRY(st);
    return front_limits_join(f->fn, err);
}

/* Everything but membership of the limits. */
static void release(rp_jit *f) {
    front_entries_clear(f);
    front_notes_clear(&f->notes);
    front_forget(f);
    for (front_mark *m = f->marks, *next; m; m = next) {
        next = m->next;
        base_free(m);
    }
    rp_config_free(f->config);
    rp_config_free(f->eager_config);
    rp_config_free(f->tuned);
    front_support_done(f);
    autograph_lease_unref(f->capture.lease);
    rp_autograph_destroy(f->capture.manager);
    rp_stream_close(f->stream);
    rp_device_close(f->device);
    rp_device_close(f->host);
    base_free(f->name);
    base_free(f->file);
    base_free(f->own_size);
    (void)pthread_mutex_destroy(&f->turn);
    (void)pthread_mutex_destroy(&f->lock);
    (void)pthread_mutex_destroy(&f->copies);
    base_free(f);
}

static void init_locks(rp_jit *f) {
    pthread_mutexattr_t a;
    (void)pthread_mutexattr_init(&a);
    (void)pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
    (void)pthread_mutex_init(&f->turn, &a);
    (void)pthread_mutexattr_destroy(&a);
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_mutex_init(&f->copies, NULL);
}

rp_status rp_jit_new(const rp_jit_options *options, rp_jit **out, rp_error *err) {
    base_error_clear(err);
    rp_jit_options o = {.size = sizeof o};
    RP_TRY(base_options_take(&o, sizeof o, options, "rp_jit_options", err));
    if (!o.fn || !out) return rp_fail(err, RP_INVALID, "rp_jit_new: fn and out must be given");
    if ((unsigned)o.dynamic > RP_DYNAMIC_NONE)
        return rp_fail(err, RP_INVALID, "rp_jit_new: dynamic is %d, which is no rp_dynamic",
                       (int)o.dynamic);
    rp_jit *f = base_alloc(sizeof *f);
    if (!f) return rp_fail(err, RP_NOMEM, "function");
    init_locks(f);
    f->id = atomic_fetch_add(&next_id, 1);
    rp_status st = fill(f, &o, err);
    if (st != RP_OK) {
        release(f);
        return st;
    }
    front_report_join(f);
    *out = f;
    return RP_OK;
}

void rp_jit_free(rp_jit *f) {
    if (!f) return;
    front_report_leave(f);
    front_report_last(f);
    front_limits_leave(f->fn, f->n_entries);
    release(f);
}

void rp_jit_reset(rp_jit *f) {
    if (!f || pthread_mutex_lock(&f->turn) != 0) return;
    if (f->notes.first) front_report_log(f);
    (void)pthread_mutex_lock(&f->lock);
    front_limits_add(f->fn, -(int64_t)f->n_entries);
    front_entries_clear(f);
    front_notes_clear(&f->notes);
    f->graphs = f->breaks = 0;
    f->pieces = f->by_backend = 0;
    f->ways = 0;
    f->ways_warned = false;
    f->n_breaks_told = 0;
    f->suppressed = 0;
    (void)pthread_mutex_unlock(&f->lock);
    front_forget(f);
    f->warned = false;
    f->loaded = true; /* what the cache has is forgotten, too */
    f->differed = false;
    f->next_number = 0;
    (void)pthread_mutex_unlock(&f->turn);
}

/* --- looking ------------------------------------------------------------------------------------- */

rp_status rp_jit_get_info(rp_jit *f, rp_jit_info *out, rp_error *err) {
    base_error_clear(err);
    if (!f) return rp_fail(err, RP_INVALID, "rp_jit_get_info: function must be given");
    (void)pthread_mutex_lock(&f->lock);
    rp_jit_info info = {.size = sizeof info,
                        .calls = f->calls,
                        .hits = f->hits,
                        .compiles = f->compiles,
                        .eager = f->ran_eager,
                        .entries = f->n_entries,
                        .general = f->n_general,
                        .graphs = f->graphs,
                        .breaks = f->breaks,
                        .pieces = f->pieces,
                        .by_backend = f->by_backend};
    (void)pthread_mutex_unlock(&f->lock);
    return base_result_give(out, &info, sizeof info, "rp_jit_info", err);
}

rp_status rp_jit_guards_text(rp_jit *f, char **out, rp_error *err) {
    base_error_clear(err);
    if (!f || !out) return rp_fail(err, RP_INVALID, "rp_jit_guards_text: function or out is NULL");
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_puts(&b, "");
    (void)pthread_mutex_lock(&f->lock);
    front_entries_order(f);
    for (const front_entry *e = f->entries; e; e = e->behind) {
        base_buf_printf(&b, "[%u/%u] GUARDS:\n", f->id, e->number);
        front_guards_print(&e->guards, &b);
    }
    (void)pthread_mutex_unlock(&f->lock);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK)
        *out = base_buf_take(&b);
    else
        base_buf_done(&b);
    return st;
}
