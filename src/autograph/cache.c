/* Blocks by size, a power of two, of which at most KEPT wait in all, and none where other memory is wanted that is not there. */
#include <pthread.h>

#include "autograph/memory.h"
#include "base/alloc.h"

enum { CLASSES = 48, LEAST = 256, KEPT = 64 };

struct autograph_cache {
    pthread_mutex_t lock;
    uint32_t refs; /* the manager's, and one of each block */
    bool open;
    uint32_t n;
    size_t bytes;
    uint64_t most; /* bytes; 0: any */
    autograph_memory *free[CLASSES];
};

/* SIZE_MAX: too large to be kept. */
static size_t round_up(size_t size, uint32_t *out_class) {
    size_t room = LEAST;
    for (*out_class = 0; *out_class < CLASSES; ++*out_class, room *= 2)
        if (room >= size) return room;
    return SIZE_MAX;
}

rp_status autograph_cache_new(rp_device *d, uint64_t most_bytes, autograph_cache **out,
                              rp_error *err) {
    *out = NULL;
    if (device_is_host(d)) return RP_OK; /* whose allocator keeps some by itself */
    autograph_cache *c = base_alloc(sizeof *c);
    if (!c) return rp_fail(err, RP_NOMEM, "memory of an automatic graph");
    (void)pthread_mutex_init(&c->lock, NULL);
    c->refs = 1;
    c->open = true;
    c->most = most_bytes;
    *out = c;
    return RP_OK;
}

/* With the lock, which it gives back. */
static void drop(autograph_cache *c) {
    bool last = --c->refs == 0;
    (void)pthread_mutex_unlock(&c->lock);
    if (!last) return;
    (void)pthread_mutex_destroy(&c->lock);
    base_free(c);
}

/* With the lock. */
static autograph_memory *take_all(autograph_cache *c) {
    autograph_memory *all = NULL;
    for (uint32_t i = 0; i < CLASSES; i++)
        for (autograph_memory *m; (m = c->free[i]);) {
            c->free[i] = m->next;
            m->next = all;
            all = m;
            m->cache = NULL;
            c->refs--;
        }
    c->n = 0;
    c->bytes = 0;
    return all;
}

static void free_all(autograph_memory *all) {
    for (autograph_memory *next; all; all = next) {
        next = all->next;
        autograph_memory_free(all);
    }
}

void autograph_cache_close(autograph_cache *c) {
    if (!c) return;
    (void)pthread_mutex_lock(&c->lock);
    c->open = false;
    autograph_memory *all = take_all(c);
    drop(c);
    free_all(all);
}

bool autograph_cache_empty(autograph_cache *c) {
    if (!c) return false;
    (void)pthread_mutex_lock(&c->lock);
    autograph_memory *all = take_all(c);
    (void)pthread_mutex_unlock(&c->lock);
    free_all(all);
    return all != NULL;
}

void autograph_cache_limit(autograph_cache *c, uint64_t most_bytes) {
    if (!c) return;
    (void)pthread_mutex_lock(&c->lock);
    c->most = most_bytes;
    bool over = most_bytes && c->bytes > most_bytes;
    (void)pthread_mutex_unlock(&c->lock);
    if (over) (void)autograph_cache_empty(c);
}

size_t autograph_cache_bytes(autograph_cache *c) {
    if (!c) return 0;
    (void)pthread_mutex_lock(&c->lock);
    size_t bytes = c->bytes;
    (void)pthread_mutex_unlock(&c->lock);
    return bytes;
}

static autograph_memory *find(autograph_cache *c, uint32_t class) {
    (void)pthread_mutex_lock(&c->lock);
    autograph_memory *m = c->free[class];
    if (m) {
        c->free[class] = m->next;
        c->bytes -= m->size;
        c->n--;
    }
    (void)pthread_mutex_unlock(&c->lock);
    return m;
}

rp_status autograph_cache_take(autograph_cache *c, rp_device *d, size_t size,
                               autograph_memory **out, rp_error *err) {
    uint32_t class = 0;
    size_t room = c ? round_up(size, &class) : SIZE_MAX;
    if (room == SIZE_MAX) return autograph_memory_new(d, size, false, out, err);
    autograph_memory *m = find(c, class);
    if (m) {
        atomic_store(&m->refs, 1);
        *out = m;
        return RP_OK;
    }
    rp_error full = {0};
    rp_status st = autograph_memory_new(d, room, false, &m, &full);
    if (st == RP_NOMEM && autograph_cache_empty(c))
        st = autograph_memory_new(d, room, false, &m, &full);
    if (st != RP_OK) return rp_fail(err, st, "%s", full.text);
    (void)pthread_mutex_lock(&c->lock);
    c->refs++;
    (void)pthread_mutex_unlock(&c->lock);
    m->cache = c;
    *out = m;
    return RP_OK;
}

bool autograph_cache_give(autograph_memory *m) {
    autograph_cache *c = m->cache;
    uint32_t class = 0;
    if (!c) return false;
    (void)round_up(m->size, &class);
    (void)pthread_mutex_lock(&c->lock);
    bool fits = !c->most || (m->size <= c->most && c->bytes <= c->most - m->size);
    bool kept = c->open && c->n < KEPT && fits;
    if (kept) {
        m->next = c->free[class];
        c->free[class] = m;
        c->bytes += m->size;
        c->n++;
        (void)pthread_mutex_unlock(&c->lock);
    } else {
        drop(c);
    }
    return kept;
}
