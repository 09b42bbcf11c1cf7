/* A list under one lock; making a set and looking at its bytes happen outside of it. */
#include "engine/matrices.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "engine/uploads.h"

enum { PACKED = -1, PAGE = 4096 }; /* a key of uploads that no tensor has; of memory to look at */

typedef enum state { MAKING, READY, FAILED } state;

struct engine_matrices {
    engine_matrices *next;
    base_hash128 key;
    char *cache_dir, *device_name; /* device_name NULL: the host's memory */
    uint32_t users;                /* who waits, too */
    state state;
    pthread_t maker;
    bool damaged;
    size_t size;
    engine_resident bytes;
    /* On a device with memory of its own: */
    pthread_mutex_t lock; /* of the queue and what is uploaded */
    hal_device *device;
    engine_uploads *uploads;
    void *room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;
static engine_matrices *all;

static bool same_text(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* One that engines may have, or wait for. */
static engine_matrices *find(const engine_matrices_id *id) {
    engine_matrices *m = all;
    while (m &&
           (m->state == FAILED || m->damaged || memcmp(&m->key, &id->key, sizeof m->key) != 0 ||
            !same_text(m->cache_dir, id->cache_dir) || !same_text(m->device_name, id->device) ||
            (m->state == MAKING && pthread_equal(m->maker, pthread_self()))))
        m = m->next;
    return m;
}

static void set_free(engine_matrices *m) {
    engine_uploads_free(m->uploads);
    engine_resident_done(&m->bytes);
    hal_close(m->device);
    (void)pthread_mutex_destroy(&m->lock);
    base_free(m->cache_dir);
    base_free(m->device_name);
    base_free(m);
}

static engine_matrices *set_new(const engine_matrices_id *id, size_t size) {
    engine_matrices *m = base_alloc(sizeof *m);
    if (!m) return NULL;
    *m = (engine_matrices){.key = id->key, .size = size, .users = 1, .maker = pthread_self()};
    (void)pthread_mutex_init(&m->lock, NULL);
    m->cache_dir = base_strdup(id->cache_dir);
    if (id->device) m->device_name = base_strdup(id->device);
    if (m->cache_dir && (m->device_name || !id->device)) return m;
    set_free(m);
    return NULL;
}

/* With the lock held; frees what nobody has any more, outside of it. */
static void leave(engine_matrices *m) {
    bool last = --m->users == 0;
    if (last) {
        engine_matrices **at = &all;
        while (*at != m) at = &(*at)->next;
        *at = m->next;
    }
    (void)pthread_mutex_unlock(&lock);
    if (last) set_free(m);
}

static rp_status make(engine_matrices *m, const engine_matrices_maker *maker, rp_error *err) {
    if (m->device_name) {
        RP_TRY(hal_open(m->device_name, 0, &m->device, err));
        RP_TRY(engine_uploads_new(m->device, &m->uploads, err));
        RP_TRY(engine_uploads_get(m->uploads, (uint64_t)PACKED, NULL, m->size, &m->room, err));
    }
    return maker->fill(maker->user, m->device, m->room, &m->bytes, err);
}

/* Waits while somebody makes m, which the caller counts as a user of; false: it is no longer wanted. With the lock held, but for the
 * question. */
static bool wait_for(const engine_matrices *m, const engine_matrices_maker *maker) {
    enum { ASK_NS = 50000000, SECOND_NS = 1000000000 };
    bool wanted = true;
    while (m->state == MAKING && wanted) {
        struct timespec t;
        (void)clock_gettime(CLOCK_REALTIME, &t); /* the clock of a condition */
        t.tv_nsec += ASK_NS;
        t.tv_sec += t.tv_nsec / SECOND_NS;
        t.tv_nsec %= SECOND_NS;
        if (pthread_cond_timedwait(&made, &lock, &t) == 0 || !maker->wanted) continue;
        (void)pthread_mutex_unlock(&lock);
        wanted = maker->wanted(maker->user);
        (void)pthread_mutex_lock(&lock);
    }
    return wanted;
}

/* A new set, in the list, that this thread makes; NULL for lack of memory. With the lock held. */
static engine_matrices *begin(const engine_matrices_id *id, size_t size) {
    engine_matrices *m = set_new(id, size);
    if (!m) return NULL;
    m->next = all;
    all = m;
    return m;
}

static rp_status finish(engine_matrices *m, rp_status st) {
    (void)pthread_mutex_lock(&lock);
    m->state = st == RP_OK ? READY : FAILED;
    (void)pthread_cond_broadcast(&made);
    if (st == RP_OK)
        (void)pthread_mutex_unlock(&lock);
    else
        leave(m);
    return st;
}

rp_status engine_matrices_open(const engine_matrices_id *id, size_t size,
                               const engine_matrices_maker *maker, engine_matrices **out,
                               rp_error *err) {
    engine_matrices *m;
    (void)pthread_mutex_lock(&lock);
    while ((m = find(id))) {
        m->users++;
        bool wanted = wait_for(m, maker), ready = m->state == READY;
        if (ready && wanted) break;
        leave(m);
        if (!wanted) return rp_fail(err, RP_CANCELLED, "loading was cancelled");
        (void)pthread_mutex_lock(&lock);
    }
    bool found = m != NULL;
    if (!found) m = begin(id, size);
    (void)pthread_mutex_unlock(&lock);
    if (!m) return rp_fail(err, RP_NOMEM, "weights");
    if (!found) RP_TRY(finish(m, make(m, maker, err)));
    *out = m;
    return RP_OK;
}

void engine_matrices_close(engine_matrices *m) {
    if (!m) return;
    (void)pthread_mutex_lock(&lock);
    leave(m);
}

bool engine_matrices_any(void) {
    (void)pthread_mutex_lock(&lock);
    bool any = all != NULL;
    (void)pthread_mutex_unlock(&lock);
    return any;
}

size_t engine_matrices_there(const engine_matrices_id *id) {
    (void)pthread_mutex_lock(&lock);
    const engine_matrices *m = find(id);
    size_t n = m && m->state == READY ? engine_matrices_bytes(m) : 0;
    (void)pthread_mutex_unlock(&lock);
    return n;
}

uint32_t engine_matrices_users(const engine_matrices *m) {
    (void)pthread_mutex_lock(&lock);
    uint32_t n = m->users;
    (void)pthread_mutex_unlock(&lock);
    return n;
}

size_t engine_matrices_bytes(const engine_matrices *m) {
    engine_matrices *own = (engine_matrices *)(uintptr_t)m; /* for its lock */
    if (!m->uploads) return m->size;
    (void)pthread_mutex_lock(&own->lock);
    size_t n = engine_uploads_bytes(m->uploads);
    (void)pthread_mutex_unlock(&own->lock);
    return n;
}

const uint8_t *engine_matrices_data(const engine_matrices *m) {
    return m->uploads ? m->room : m->bytes.data;
}

const base_mapping *engine_matrices_file(const engine_matrices *m) {
    return &m->bytes.file;
}

/* --- what is uploaded ----------------------------------------------------------------- */

/* There before it returns: who reads it does so on a queue of its own. */
rp_status engine_matrices_tensor(engine_matrices *m, uint64_t idx, const void *data, size_t size,
                                 const void **out, rp_error *err) {
    void *at = NULL;
    (void)pthread_mutex_lock(&m->lock);
    rp_status st = engine_uploads_get(m->uploads, idx, data, size, &at, err);
    if (st == RP_OK) st = m->device->ops->synchronize(m->device, err);
    (void)pthread_mutex_unlock(&m->lock);
    if (st == RP_OK) *out = at;
    return st;
}

static rp_status register_uploads(const engine_matrices *m, hal_device *d, rp_error *err) {
    void *at;
    size_t size;
    for (uint32_t i = 0; engine_uploads_at(m->uploads, i, &at, &size); i++)
        RP_TRY(hal_range_add(d, at, size, "weights", err));
    return RP_OK;
}

rp_status engine_matrices_register(engine_matrices *m, hal_device *d, rp_error *err) {
    if (!m->uploads) return hal_range_add(d, m->bytes.data, m->size, "packed weights", err);
    (void)pthread_mutex_lock(&m->lock);
    rp_status st = register_uploads(m, d, err);
    (void)pthread_mutex_unlock(&m->lock);
    return st;
}

void engine_matrices_unregister(engine_matrices *m, hal_device *d) {
    void *at;
    size_t size;
    if (!m->uploads) {
        hal_range_remove(d, m->bytes.data);
        return;
    }
    (void)pthread_mutex_lock(&m->lock);
    for (uint32_t i = 0; engine_uploads_at(m->uploads, i, &at, &size); i++) hal_range_remove(d, at);
    (void)pthread_mutex_unlock(&m->lock);
}

/* --- looking again ---------------------------------------------------------------------- */

/* Of a copy in another memory: what comes back from there. */
static rp_status check_room(engine_matrices *m, rp_error *err) {
    engine_resident back = m->bytes;
    void *bytes = base_alloc_aligned(m->size, PAGE);
    if (!bytes) return rp_fail(err, RP_NOMEM, "%zu bytes of weights to look at", m->size);
    (void)pthread_mutex_lock(&m->lock);
    rp_status st = m->device->ops->copy(m->device, bytes, m->room, m->size, err);
    if (st == RP_OK) st = m->device->ops->synchronize(m->device, err);
    (void)pthread_mutex_unlock(&m->lock);
    back.data = bytes;
    if (st == RP_OK) st = engine_resident_check(&back, err);
    base_free(bytes);
    return st;
}

rp_status engine_matrices_check(engine_matrices *m, rp_error *err) {
    rp_status st = m->uploads ? check_room(m, err) : engine_resident_check(&m->bytes, err);
    if (st != RP_CORRUPT) return st;
    (void)pthread_mutex_lock(&lock);
    m->damaged = true;
    (void)pthread_mutex_unlock(&lock);
    return st;
}
