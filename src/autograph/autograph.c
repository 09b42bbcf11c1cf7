/* Managers and functions: their life, and counters. */
#include "autograph/manager.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"

static rp_status check_options(const rp_autograph_options *o, const rp_stream *stream,
                               rp_error *err) {
    hal_device *queue = device_stream_queue(stream);
    if (o->growth != RP_GROWTH_RESERVE && o->growth != RP_GROWTH_EXACT)
        return rp_fail(err, RP_INVALID, "rp_autograph_options.growth is %d, which is no rp_growth",
                       (int)o->growth);
    if (queue->ops->capture_begin) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED, "automatic graphs cannot be captured on %s",
                   device_name(rp_stream_device(stream)));
}

/* Its thread may ask whether it holds it. */
static bool make_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t a;
    if (pthread_mutexattr_init(&a) != 0) return false;
    (void)pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
    int code = pthread_mutex_init(lock, &a);
    (void)pthread_mutexattr_destroy(&a);
    return code == 0;
}

rp_status rp_autograph_create(rp_stream *stream, const rp_autograph_options *options,
                              rp_autograph **out, rp_error *err) {
    base_error_clear(err);
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    if (!stream || !out)
        return rp_fail(err, RP_INVALID, "rp_autograph_create: stream or out is NULL");
    if (options) RP_TRY(base_options_take(&o, sizeof o, options, "rp_autograph_options", err));
    RP_TRY(check_options(&o, stream, err));
    rp_autograph *a = base_alloc(sizeof *a);
    if (!a || !make_lock(&a->lock)) {
        base_free(a);
        return rp_fail(err, RP_NOMEM, "manager of automatic graphs");
    }
    rp_status st = autograph_cache_new(rp_stream_device(stream), o.max_bytes, &a->cache, err);
    if (st != RP_OK) {
        (void)pthread_mutex_destroy(&a->lock);
        base_free(a);
        return st;
    }
    a->stream = stream;
    a->device = rp_device_ref(rp_stream_device(stream));
    a->queue = device_stream_queue(stream);
    a->o = o;
    base_buf_init(&a->key, 0);
    *out = a;
    return RP_OK;
}

enum { DEFAULT_GRAPHS = 1024, DEFAULT_BYTES = 1 << 30 };

static rp_status make_default(rp_device *d, rp_autograph **out, rp_error *err) {
    rp_autograph_options o = RP_AUTOGRAPH_OPTIONS_INIT;
    rp_stream *stream = NULL;
    o.max_bytes = DEFAULT_BYTES;
    o.max_graphs = DEFAULT_GRAPHS;
    RP_TRY(rp_stream_open(d, &stream, err));
    rp_status st = rp_autograph_create(stream, &o, out, err);
    if (st == RP_OK)
        (*out)->is_default = true;
    else
        rp_stream_close(stream);
    return st;
}

rp_status rp_autograph_default(rp_device *d, rp_autograph **out, rp_error *err) {
    base_error_clear(err);
    if (!d || !out) return rp_fail(err, RP_INVALID, "rp_autograph_default: device or out is NULL");
    rp_autograph **known = (rp_autograph **)device_default_lock(d);
    rp_status st = *known ? RP_OK : make_default(d, known, err);
    if (st == RP_OK) {
        (*known)->users++;
        *out = *known;
    }
    device_default_unlock(d);
    return st;
}

rp_stream *rp_autograph_stream(const rp_autograph *a) {
    return a ? a->stream : NULL;
}

rp_status autograph_wait(rp_autograph *a, rp_error *err) {
    if (pthread_mutex_lock(&a->lock) != 0)
        return rp_fail(err, RP_INVALID, "waiting for a manager inside of a call of it");
    rp_status st = a->queue->ops->synchronize(a->queue, err);
    (void)pthread_mutex_unlock(&a->lock);
    return st;
}

/* False while others use it. A device forgets what has no user. */
static bool was_last(rp_autograph *a) {
    void **known = device_default_lock(a->device);
    bool last = --a->users == 0;
    if (last) *known = NULL;
    device_default_unlock(a->device);
    return last;
}

static void function_free(rp_function *f) {
    autograph_family_leave(f->a, f->family);
    base_free(f->refused);
    base_free(f);
}

void rp_autograph_destroy(rp_autograph *a) {
    if (!a) return;
    if (pthread_mutex_lock(&a->lock) != 0) {
        base_log(RP_LOG_ERROR,
                 "rp_autograph_destroy inside of a call of the manager frees nothing");
        return;
    }
    (void)pthread_mutex_unlock(&a->lock);
    if (a->is_default && !was_last(a)) return;
    autograph_graphs_done(&a->graphs);
    for (rp_function *f = a->functions, *next; f; f = next) {
        next = f->next;
        function_free(f);
    }
    autograph_pack_done(&a->pack);
    autograph_cache_close(a->cache);
    base_buf_done(&a->key);
    (void)pthread_mutex_destroy(&a->lock);
    if (a->is_default) rp_stream_close(a->stream);
    rp_device_close(a->device);
    base_free(a);
}

static rp_status check_function(const rp_function_options *o, rp_error *err) {
    if (!o->name || !o->fn)
        return rp_fail(err, RP_INVALID, "rp_function_options: name and fn must be given");
    if (o->layer < RP_LAYER_NONE)
        return rp_fail(err, RP_INVALID,
                       "function %s: layer is %lld; give a number or RP_LAYER_NONE", o->name,
                       (long long)o->layer);
    if ((unsigned)o->output > RP_OUTPUT_RING)
        return rp_fail(err, RP_INVALID, "function %s: output is %d, which is no rp_output_policy",
                       o->name, (int)o->output);
    if (o->output == RP_OUTPUT_RING ? o->ring < 2 : o->ring != 0)
        return rp_fail(
            err, RP_INVALID,
            "function %s: ring is %u; it is at least 2 with RP_OUTPUT_RING and 0 without", o->name,
            o->ring);
    return RP_OK;
}

/* NULL without memory. */
static rp_function *add_function(rp_autograph *a, const rp_function_options *o) {
    rp_function *f = base_alloc(sizeof *f);
    if (f) f->family = autograph_family_join(a, o->name);
    if (!f || !f->family) {
        base_free(f);
        return NULL;
    }
    f->a = a;
    f->o = *o;
    f->o.name = f->family->name;
    f->next = a->functions;
    a->functions = f;
    return f;
}

rp_status rp_function_new(rp_autograph *a, const rp_function_options *options, rp_function **out,
                          rp_error *err) {
    base_error_clear(err);
    rp_function_options o = RP_FUNCTION_OPTIONS_INIT;
    if (!a || !out) return rp_fail(err, RP_INVALID, "rp_function_new: manager or out is NULL");
    RP_TRY(base_options_take(&o, sizeof o, options, "rp_function_options", err));
    RP_TRY(check_function(&o, err));
    if (pthread_mutex_lock(&a->lock) != 0) /* inside of a call */
        return rp_fail(err, RP_INVALID, "rp_function_new of %s inside of a call of its manager",
                       o.name);
    rp_function *f = add_function(a, &o);
    (void)pthread_mutex_unlock(&a->lock);
    if (!f) return rp_fail(err, RP_NOMEM, "function %s", o.name);
    *out = f;
    return RP_OK;
}

void autograph_function_trust(rp_function *f) {
    f->trusted = true;
}

void rp_function_free(rp_function *f) {
    if (!f) return;
    rp_autograph *a = f->a;
    if (pthread_mutex_lock(&a->lock) != 0) {
        base_log(RP_LOG_ERROR,
                 "rp_function_free of %s inside of a call of its manager frees nothing", f->o.name);
        return;
    }
    rp_function **at = &a->functions;
    while (*at != f) at = &(*at)->next;
    *at = f->next;
    autograph_graphs_drop(&a->graphs, f);
    function_free(f);
    (void)pthread_mutex_unlock(&a->lock);
}

/* Both lists are there: something was captured, or tried. */
static uint64_t count_entries(const autograph_graphs *g) {
    uint64_t n = 0;
    for (const autograph_static *s = g->statics; s; s = s->next) n += s->outs != NULL;
    return n;
}

rp_status rp_autograph_get_info(rp_autograph *a, rp_autograph_info *out, rp_error *err) {
    base_error_clear(err);
    if (!a) return rp_fail(err, RP_INVALID, "rp_autograph_get_info: manager is NULL");
    bool locked = pthread_mutex_lock(&a->lock) == 0; /* else by a function of it, which may look */
    rp_autograph_info own = {.size = sizeof own,
                             .graph_count = a->graphs.n_graphs,
                             .tensor_entry_count = count_entries(&a->graphs),
                             .tensor_mem_bytes = autograph_tensor_bytes(&a->graphs),
                             .graph_mem_pool_bytes = autograph_pool_bytes(&a->graphs) +
                                                     autograph_pack_bytes(&a->pack) +
                                                     autograph_cache_bytes(a->cache),
                             .calls = a->calls,
                             .replays = a->replays,
                             .captures = a->captures,
                             .eager = a->eager,
                             .invalidated = a->graphs.invalidated,
                             .evicted = a->graphs.evicted,
                             .programmatic_edges = autograph_programmatic_edges(&a->graphs),
                             .bytes = autograph_all_bytes(a)};
    if (locked) (void)pthread_mutex_unlock(&a->lock);
    return base_result_give(out, &own, sizeof own, "rp_autograph_info", err);
}
