/* Open addressing with linear probing over a power-of-two table, at most 3/4
 * full. Keys live in an arena, hashes are kept, so growing compares no bytes.
 * Keys are never removed. One thread at a time. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/hash.h"

typedef struct slot {
    const char *key; /* NULL = free */
    size_t len;
    uint64_t hash, value;
} slot;

struct base_map {
    slot *slots;
    size_t n_slots; /* 0 or a power of two */
    size_t n_used;
    base_arena *keys;
};

base_map *base_map_new(void) {
    base_map *m = base_alloc(sizeof *m);
    if (!m) return NULL;
    m->keys = base_arena_new();
    if (!m->keys) {
        base_free(m);
        return NULL;
    }
    return m;
}

void base_map_free(base_map *m) {
    if (!m) return;
    base_arena_free(m->keys);
    base_free(m->slots);
    base_free(m);
}

/* The slot of the key, or the free one where it belongs. */
static slot *find(slot *slots, size_t n_slots, uint64_t hash, const void *key, size_t len) {
    for (size_t i = (size_t)hash & (n_slots - 1);; i = (i + 1) & (n_slots - 1)) {
        slot *s = &slots[i];
        if (!s->key) return s;
        if (s->hash == hash && s->len == len && (len == 0 || memcmp(s->key, key, len) == 0))
            return s;
    }
}

static bool grow(base_map *m) {
    size_t n = m->n_slots ? m->n_slots * 2 : 16;
    slot *slots = base_alloc_array(n, sizeof *slots);
    if (!slots) return false;
    for (size_t i = 0; i < m->n_slots; i++) {
        const slot *s = &m->slots[i];
        if (s->key) *find(slots, n, s->hash, s->key, s->len) = *s;
    }
    base_free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    return true;
}

rp_status base_map_put(base_map *m, const void *key, size_t len, uint64_t value, rp_error *err) {
    uint64_t hash = base_hash64(key, len);
    if ((m->n_used + 1) * 4 > m->n_slots * 3 && !grow(m))
        return rp_fail(err, RP_NOMEM, "out of memory for a map of %zu entries", m->n_used);
    slot *s = find(m->slots, m->n_slots, hash, key, len);
    if (!s->key) {
        const char *copy = base_arena_strn(m->keys, key, len);
        if (!copy) return rp_fail(err, RP_NOMEM, "out of memory for a key of %zu bytes", len);
        *s = (slot){.key = copy, .len = len, .hash = hash};
        m->n_used++;
    }
    s->value = value;
    return RP_OK;
}

bool base_map_get(const base_map *m, const void *key, size_t len, uint64_t *out) {
    if (m->n_used == 0) return false;
    const slot *s = find(m->slots, m->n_slots, base_hash64(key, len), key, len);
    if (!s->key) return false;
    *out = s->value;
    return true;
}

size_t base_map_count(const base_map *m) {
    return m->n_used;
}
