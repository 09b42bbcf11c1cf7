/* Handles of backends: found by the graph's text, the options, and what the backend says that decides them. A handle that is missing, damaged or
 * refused is made anew. */
#include "api/handle.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "cache/key.h"
#include "cache/store.h"
#include "ir/text.h"
#include "trace/trace.h"

static pthread_mutex_t hash_lock = PTHREAD_MUTEX_INITIALIZER;

/* The text is theirs until the next call of hash, which waits until it is copied. */
static rp_status add_compiler(const rp_backend_desc *d, cache_key *k, rp_error *err) {
    (void)pthread_mutex_lock(&hash_lock);
    const char *hash = d->hash(d->user);
    rp_status st = cache_key_add(k, "compiler", hash ? hash : "", err);
    (void)pthread_mutex_unlock(&hash_lock);
    return st;
}

/* The caller's, also where it failed. */
static rp_status key_of(const rp_backend_desc *d, const rp_graph *g, const rp_backend_options *o,
                        cache_key **out, rp_error *err) {
    char *text = NULL, hex[33];
    *out = cache_key_new();
    if (!*out) return rp_fail(err, RP_NOMEM, "a key");
    RP_TRY(ir_print_string(g->ir, &text, err));
    base_hash_hex(base_hash(text, strlen(text)), hex);
    base_free(text);
    RP_TRY(cache_key_add(*out, "handle", RP_VERSION, err));
    RP_TRY(cache_key_add(*out, "backend", d->name, err));
    RP_TRY(add_compiler(d, *out, err));
    RP_TRY(cache_key_add(*out, "graph", hex, err));
    RP_TRY(cache_key_addf(*out, err, "numerics", "%d", (int)g->numerics));
    return cache_key_addf(*out, err, "threads", "%u", o->threads);
}

static rp_status load(const rp_backend_desc *d, const rp_graph *g, const rp_backend_options *o,
                      cache_store *store, const cache_key *key, rp_callable *out) {
    char *handle = NULL;
    size_t size = 0;
    rp_error why = {0};
    rp_status st = cache_get(store, CACHE_TUNING, cache_key_hash(key), &handle, &size, &why);
    if (st != RP_OK) return st;
    st = backend_load(d, g, o, handle, size, out, &why);
    if (st != RP_OK) base_log(RP_LOG_WARNING, "%s; it is compiled again", why.text);
    base_free(handle);
    return st;
}

static void write_handle(void *to, const void *data, size_t size) {
    base_buf_add(to, data, size);
}

/* The code is there: what fails is told, and costs the next process a compile. */
static void save(const rp_backend_desc *d, const rp_callable *made, cache_store *store,
                 const cache_key *key) {
    rp_error why = {0};
    base_buf b;
    base_buf_init(&b, 0);
    rp_status st = backend_save(d, made, write_handle, &b, &why);
    if (st == RP_OK) st = base_buf_status(&b, &why);
    if (st == RP_OK)
        st = cache_put(store, CACHE_TUNING, cache_key_hash(key), b.data ? b.data : "", b.len, &why);
    if (st == RP_OK) st = cache_put_factors(store, CACHE_TUNING, key, &why);
    if (st != RP_OK) base_log(RP_LOG_WARNING, "%s; the next process compiles it again", why.text);
    base_buf_done(&b);
}

rp_status api_handle_make(const rp_backend_desc *d, const rp_graph *g, const rp_backend_options *o,
                          api_handle_from *from, rp_callable *out, bool *refused, rp_error *err) {
    cache_store *store = NULL;
    cache_key *key = NULL;
    rp_status st = RP_OK;
    *refused = from->hit = false;
    if (!d->hash) return backend_compile(d, g, o, out, refused, err);
    RP_TRY_OUT(key_of(d, g, o, &key, err));
    RP_TRY_OUT(cache_store_open(from->dir && *from->dir ? from->dir : NULL, &store, err));
    from->hit = load(d, g, o, store, key, out) == RP_OK;
    if (from->hit) goto out;
    RP_TRY_OUT(backend_compile(d, g, o, out, refused, err));
    save(d, out, store, key);
out:
    if (store) cache_store_close(store);
    cache_key_free(key);
    return st;
}
