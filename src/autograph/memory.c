/* Memory, slots and leases. A reservation is many times what was first asked for, since addresses cost nothing. */
#include "autograph/memory.h"

#include "base/alloc.h"

enum { RESERVE_FACTOR = 64, RESERVE_LEAST = 1 << 20, ROOMY_MOST = 2 << 20 };
enum { SHARE = 64, TIGHT_LEAST = 256 }; /* of a limit, that room may take */

rp_status autograph_memory_new(rp_device *d, size_t size, bool reserved, autograph_memory **out,
                               rp_error *err) {
    autograph_memory *m = base_alloc(sizeof *m);
    if (!m) return rp_fail(err, RP_NOMEM, "memory of an automatic graph");
    if (size == 0) size = 1;
    rp_status st = reserved ? device_reserve(d, size, &m->range, err)
                            : device_alloc(d, size, &m->data, err);
    if (st != RP_OK) {
        base_free(m);
        return st;
    }
    m->device = rp_device_ref(d);
    m->size = size;
    if (m->range) m->data = m->range->at;
    atomic_init(&m->refs, 1);
    *out = m;
    return RP_OK;
}

size_t autograph_memory_bytes(const autograph_memory *m) {
    if (!m) return 0;
    return m->range ? m->range->committed : m->size;
}

autograph_memory *autograph_memory_ref(autograph_memory *m) {
    (void)atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void autograph_memory_unref(autograph_memory *m) {
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    if (!autograph_cache_give(m)) autograph_memory_free(m);
}

void autograph_memory_free(autograph_memory *m) {
    if (m->range)
        device_unreserve(m->range);
    else
        device_free(m->device, m->data);
    rp_device_close(m->device);
    base_free(m);
}

bool autograph_bytes(const rp_buffer *b, size_t *out) {
    size_t n = rp_dtype_block_bytes(b->dtype), block = rp_dtype_block(b->dtype);
    for (uint32_t i = 0; i < b->rank; i++) {
        size_t dim = (size_t)b->dim[i];
        if (b->dim[i] < 0) return false;
        if (i + 1 == b->rank) {
            if (dim % block) return false;
            dim /= block;
        }
        if (!base_mul_size(n, dim, &n)) return false;
    }
    if (b->rank == 0 && block > 1) return false;
    *out = n;
    return true;
}

/* Of the largest sizes, which were sizes of calls each, but not together. */
static bool bytes_wanted(const autograph_slot *s, const rp_buffer *largest, const rp_buffer *b,
                         bool exact, size_t *out) {
    if (exact) return autograph_bytes(largest, out);
    if (!autograph_bytes(b, out)) return false;
    if (*out < s->used) *out = s->used;
    return true;
}

static size_t capacity_for(size_t want) {
    size_t size = RESERVE_LEAST;
    while (size / RESERVE_FACTOR < want && size <= SIZE_MAX / 4) size *= 2;
    return size > want ? size : want;
}

static bool has_share(autograph_growing by, size_t room) {
    return by.most == 0 || room <= by.most / SHARE;
}

/* A GPU's ranges take memory in large steps: what a small one would have is allocated. Where no range can be set aside (a limit
 * of addresses), what is wanted is. */
static rp_status new_room(rp_device *d, size_t want, autograph_growing by, autograph_memory **out,
                          rp_error *err) {
    rp_error none = {0};
    size_t range = capacity_for(want);
    bool reserved = device_is_host(d) || range > ROOMY_MOST;
    if (!device_is_host(d) && !has_share(by, reserved ? ROOMY_MOST : range)) {
        for (range = TIGHT_LEAST; range < want && range <= SIZE_MAX / 4;) range *= 2;
        reserved = false;
    }
    if (!by.exact && range >= want && autograph_memory_new(d, range, reserved, out, &none) == RP_OK)
        return RP_OK;
    return autograph_memory_new(d, want, false, out, err);
}

/* Memory for the first `want` bytes; on a GPU twice as much where there is room, since it waits when it takes some. */
static rp_status commit(autograph_memory *m, size_t want, autograph_growing by, rp_error *err) {
    rp_error none = {0};
    if (!m->range || want <= m->range->committed) return RP_OK;
    size_t roomy = want > m->size / 2 ? m->size : want * 2;
    if (!device_is_host(m->device) && has_share(by, roomy) &&
        device_commit(m->range, roomy, &none) == RP_OK)
        return RP_OK;
    return device_commit(m->range, want, err);
}

rp_status autograph_slot_cover(autograph_slot *s, rp_device *d, const rp_buffer *b,
                               autograph_growing by, bool *moved, rp_error *err) {
    rp_buffer largest = s->memory ? s->largest : *b;
    size_t want = 0;
    for (uint32_t i = 0; i < b->rank; i++)
        if (b->dim[i] > largest.dim[i]) largest.dim[i] = b->dim[i];
    if (!bytes_wanted(s, &largest, b, by.exact, &want))
        return rp_fail(err, RP_NOMEM, "memory of an automatic graph: sizes overflow");
    if (!s->memory || want > s->memory->size) {
        autograph_memory *m = NULL;
        RP_TRY(new_room(d, want, by, &m, err));
        *moved = *moved || s->memory;
        autograph_memory_unref(s->memory);
        s->memory = m;
    }
    RP_TRY(commit(s->memory, want, by, err));
    s->used = want;
    s->largest = largest;
    s->largest.data = s->memory->data;
    return RP_OK;
}

bool autograph_slot_shrink(autograph_slot *s) {
    if (!s->memory) return false;
    autograph_memory_unref(s->memory);
    s->memory = NULL;
    s->largest.data = NULL;
    s->used = 0;
    return true;
}

void autograph_slot_done(autograph_slot *s) {
    autograph_memory_unref(s->memory);
    *s = (autograph_slot){0};
}

rp_status autograph_lease_new(autograph_memory *const *memory, uint32_t n, autograph_lease **out,
                              rp_error *err) {
    autograph_lease *l = base_alloc(sizeof *l);
    if (l) l->memory = base_alloc_array(n + 1u, sizeof *l->memory);
    if (!l || !l->memory) {
        base_free(l);
        return rp_fail(err, RP_NOMEM, "outputs of an automatic graph");
    }
    atomic_init(&l->refs, 1);
    atomic_init(&l->generation, 0);
    for (; l->n < n; l->n++) l->memory[l->n] = autograph_memory_ref(memory[l->n]);
    *out = l;
    return RP_OK;
}

autograph_lease *autograph_lease_ref(autograph_lease *l) {
    (void)atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void autograph_lease_unref(autograph_lease *l) {
    if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
    for (uint32_t i = 0; i < l->n; i++) autograph_memory_unref(l->memory[i]);
    base_free(l->memory);
    base_free(l);
}
