/* The tree of signatures, the index over it and the order of use. */
#include "autograph/graphs.h"

#include "autograph/value.h"
#include "base/alloc.h"
#include "base/status.h"

static rp_status no_memory(rp_error *err) {
    return rp_fail(err, RP_NOMEM, "no memory for signatures of automatic graphs");
}

static uint8_t *keep(const void *p, size_t n) {
    uint8_t *copy = base_alloc(n);
    if (copy && n) memcpy(copy, p, n);
    return copy;
}

static bool same(const void *a, size_t n_a, const void *b, size_t n_b) {
    return n_a == n_b && (n_a == 0 || memcmp(a, b, n_a) == 0);
}

/* --- finding and making ------------------------------------------------------------------- */

autograph_entry *autograph_find(const autograph_graphs *g, const rp_function *f, const void *key,
                                size_t size, uint64_t hash) {
    if (g->n_index == 0) return NULL;
    autograph_entry *e = g->index[hash & (g->n_index - 1)];
    while (e && !(e->hash == hash && e->f == f && same(e->of->key, e->of->key_size, key, size)))
        e = e->chain;
    return e;
}

static void static_free(autograph_static *s);

rp_status autograph_static_of(autograph_graphs *g, const char *name, const void *key, size_t size,
                              uint32_t n_in, autograph_static **out, rp_error *err) {
    if (!g->last) g->last = &g->statics;
    for (*out = g->statics; *out; *out = (*out)->next)
        if (strcmp((*out)->name, name) == 0 && same((*out)->key, (*out)->key_size, key, size))
            return RP_OK;
    autograph_static *s = base_alloc(sizeof *s);
    if (!s) return no_memory(err);
    s->name = base_strdup(name);
    s->key = keep(key, size);
    s->key_size = size;
    s->in = base_alloc_array(n_in + 1u, sizeof *s->in);
    s->n_in = n_in;
    if (!s->name || !s->key || !s->in) {
        static_free(s);
        return no_memory(err);
    }
    *g->last = s;
    g->last = &s->next;
    *out = s;
    return RP_OK;
}

static bool is_form(const autograph_outs *o, const rp_buffer *form, uint32_t n) {
    if (o->n != n) return false;
    for (uint32_t i = 0; i < n; i++)
        if (o->slot[i].largest.dtype != form[i].dtype || o->slot[i].largest.rank != form[i].rank)
            return false;
    return true;
}

rp_status autograph_outs_of(autograph_static *s, const rp_buffer *form, uint32_t n,
                            autograph_outs **out, rp_error *err) {
    autograph_outs **last = &s->outs;
    for (; *last; last = &(*last)->next)
        if (is_form(*last, form, n)) {
            *out = *last;
            return RP_OK;
        }
    autograph_outs *o = base_alloc(sizeof *o);
    if (o) o->slot = base_alloc_array(n + 1u, sizeof *o->slot);
    if (!o || !o->slot) {
        base_free(o);
        return no_memory(err);
    }
    o->n = n;
    for (uint32_t i = 0; i < n; i++) o->slot[i].largest = form[i];
    *out = *last = o;
    return RP_OK;
}

static rp_status forget_data(void *user, rp_value *tensor, rp_error *err) {
    (void)user, (void)err;
    tensor->tensor.data = NULL;
    return RP_OK;
}

static void dynamic_free(autograph_dynamic *d) {
    base_free(d->key);
    base_free(d);
}

rp_status autograph_dynamic_of(autograph_static *s, const void *key, size_t size,
                               const rp_value *args, autograph_dynamic **out, rp_error *err) {
    autograph_dynamic **last = &s->dynamics;
    for (; *last; last = &(*last)->next)
        if (same((*last)->key, (*last)->key_size, key, size)) {
            *out = *last;
            return RP_OK;
        }
    size_t head = (sizeof(autograph_dynamic) + 15) / 16 * 16;
    autograph_dynamic *d = base_alloc(head + autograph_value_size(args));
    if (d) d->key = keep(key, size);
    if (!d || !d->key) {
        base_free(d);
        return no_memory(err);
    }
    d->of = s;
    d->key_size = size;
    d->args = autograph_value_copy(args, (char *)d + head);
    RP_TRY(autograph_value_each(&d->args, forget_data, NULL, err)); /* which never fails */
    *out = *last = d;
    return RP_OK;
}

static rp_status grow_index(autograph_graphs *g, rp_error *err) {
    uint32_t n = g->n_index ? g->n_index * 2 : 16;
    if (g->n_entries < g->n_index) return RP_OK;
    autograph_entry **index = base_alloc_array(n, sizeof(autograph_entry *));
    if (!index) return no_memory(err);
    for (uint32_t i = 0; i < g->n_index; i++)
        for (autograph_entry *e = g->index[i], *next; e; e = next) {
            next = e->chain;
            e->chain = index[e->hash & (n - 1)];
            index[e->hash & (n - 1)] = e;
        }
    base_free(g->index);
    g->index = index;
    g->n_index = n;
    return RP_OK;
}

rp_status autograph_entry_of(autograph_graphs *g, autograph_dynamic *d, const rp_function *f,
                             uint64_t hash, autograph_entry **out, rp_error *err) {
    autograph_entry **last = &d->entries;
    for (; *last; last = &(*last)->next)
        if ((*last)->f == f) {
            *out = *last;
            return RP_OK;
        }
    RP_TRY(grow_index(g, err));
    autograph_entry *e = base_alloc(sizeof *e);
    if (!e) return no_memory(err);
    e->of = d;
    e->f = f;
    e->hash = hash;
    e->chain = g->index[hash & (g->n_index - 1)];
    g->index[hash & (g->n_index - 1)] = e;
    g->n_entries++;
    *out = *last = e;
    return RP_OK;
}

/* --- graphs and the order of their use ------------------------------------------------------ */

static void unlink_used(autograph_graphs *g, autograph_entry *e) {
    *(e->newer ? &e->newer->older : &g->newest) = e->older;
    *(e->older ? &e->older->newer : &g->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void link_newest(autograph_graphs *g, autograph_entry *e) {
    e->older = g->newest;
    *(g->newest ? &g->newest->newer : &g->oldest) = e;
    g->newest = e;
}

void autograph_entry_use(autograph_graphs *g, autograph_entry *e) {
    if (g->newest == e) return;
    unlink_used(g, e);
    link_newest(g, e);
}

void autograph_entry_set(autograph_graphs *g, autograph_entry *e, device_graph *graph,
                         autograph_memory **temp, uint32_t n_temp) {
    e->graph = graph;
    e->temp = temp;
    e->n_temp = n_temp;
    e->invalid = false;
    e->replays = 0;
    g->n_graphs++;
    link_newest(g, e);
}

static void free_graph(autograph_graphs *g, autograph_entry *e) {
    if (!e->graph) return;
    device_graph_free(e->graph);
    for (uint32_t i = 0; i < e->n_temp; i++) autograph_memory_unref(e->temp[i]);
    base_free(e->temp);
    e->graph = NULL;
    e->temp = NULL;
    e->n_temp = 0;
    g->n_graphs--;
    unlink_used(g, e);
}

void autograph_entry_invalidate(autograph_graphs *g, autograph_entry *e) {
    if (!e->graph) return;
    free_graph(g, e);
    e->invalid = true;
    g->invalidated++;
}

void autograph_static_invalidate(autograph_graphs *g, autograph_static *s,
                                 const autograph_outs *outs) {
    for (autograph_dynamic *d = s->dynamics; d; d = d->next)
        for (autograph_entry *e = d->entries; e; e = e->next)
            if (!outs || e->outs == outs) autograph_entry_invalidate(g, e);
}

/* --- the end ------------------------------------------------------------------------------ */

static void outs_free(autograph_outs *o) {
    for (uint32_t i = 0; i < o->n; i++) autograph_slot_done(&o->slot[i]);
    autograph_lease_unref(o->lease);
    for (uint32_t i = 0; i < o->n_ring; i++) autograph_lease_unref(o->ring[i]);
    base_free(o->ring);
    base_free(o->slot);
    base_free(o);
}

static void static_free(autograph_static *s) {
    for (autograph_outs *o = s->outs, *next; o; o = next) {
        next = o->next;
        outs_free(o);
    }
    for (uint32_t i = 0; s->in && i < s->n_in; i++) autograph_slot_done(&s->in[i]);
    autograph_table_done(&s->table);
    base_free(s->in);
    base_free(s->name);
    base_free(s->key);
    base_free(s);
}

static void drop_static(autograph_graphs *g, autograph_static *s) {
    autograph_static **at = &g->statics;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    if (g->last == &s->next) g->last = at;
    static_free(s);
}

static void drop_dynamic(autograph_graphs *g, autograph_dynamic *d) {
    autograph_dynamic **at = &d->of->dynamics;
    autograph_static *s = d->of;
    while (*at != d) at = &(*at)->next;
    *at = d->next;
    dynamic_free(d);
    if (!s->dynamics) drop_static(g, s);
}

void autograph_entry_drop(autograph_graphs *g, autograph_entry *e) {
    autograph_dynamic *d = e->of;
    autograph_entry **at = &d->entries, **chain = &g->index[e->hash & (g->n_index - 1)];
    free_graph(g, e);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    while (*chain != e) chain = &(*chain)->chain;
    *chain = e->chain;
    g->n_entries--;
    base_free(e->result);
    base_free(e->out_bytes);
    base_free(e->inconsistent);
    base_free(e);
    if (!d->entries) drop_dynamic(g, d);
}

/* The first entry of f, or of any function; or of those the first without a graph. */
static autograph_entry *any_entry(const autograph_graphs *g, const rp_function *f, bool bare) {
    for (autograph_static *s = g->statics; s; s = s->next)
        for (autograph_dynamic *d = s->dynamics; d; d = d->next)
            for (autograph_entry *e = d->entries; e; e = e->next)
                if ((!f || e->f == f) && !(bare && e->graph)) return e;
    return NULL;
}

void autograph_graphs_drop(autograph_graphs *g, const rp_function *f) {
    for (autograph_entry *e; (e = any_entry(g, f, false));) autograph_entry_drop(g, e);
}

void autograph_graphs_trim(autograph_graphs *g, uint32_t most) {
    while (g->n_entries - g->n_graphs > most) autograph_entry_drop(g, any_entry(g, NULL, true));
}

void autograph_graphs_done(autograph_graphs *g) {
    autograph_graphs_drop(g, NULL);
    while (g->statics) { /* whose first capture failed early */
        while (g->statics->dynamics) {
            autograph_dynamic *d = g->statics->dynamics;
            g->statics->dynamics = d->next;
            dynamic_free(d);
        }
        drop_static(g, g->statics);
    }
    base_free(g->index);
}

/* --- bytes -------------------------------------------------------------------------------- */

static uint64_t slots_bytes(const autograph_slot *slot, uint32_t n, bool taken) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (slot[i].memory) bytes += taken ? autograph_memory_bytes(slot[i].memory) : slot[i].used;
    return bytes;
}

static uint64_t memory_bytes(const autograph_graphs *g, bool taken) {
    uint64_t bytes = 0;
    for (const autograph_static *s = g->statics; s; s = s->next) {
        bytes += slots_bytes(s->in, s->n_in, taken);
        if (taken) bytes += autograph_memory_bytes(s->table.memory);
        for (const autograph_outs *o = s->outs; o; o = o->next) {
            bytes += slots_bytes(o->slot, o->n, taken);
            for (uint32_t i = 0; i < o->n_ring; i++)
                bytes += o->ring[i] ? o->ring[i]->memory[0]->size : 0;
        }
    }
    return bytes;
}

uint64_t autograph_tensor_bytes(const autograph_graphs *g) {
    return memory_bytes(g, false);
}

uint64_t autograph_taken_bytes(const autograph_graphs *g) {
    return memory_bytes(g, true);
}

static bool has_graph(const autograph_static *s) {
    for (const autograph_dynamic *d = s->dynamics; d; d = d->next)
        for (const autograph_entry *e = d->entries; e; e = e->next)
            if (e->graph) return true;
    return false;
}

/* Places that nobody holds: the next turn takes memory again. */
static bool shrink_ring(autograph_outs *o) {
    bool any = false;
    for (uint32_t i = 0; i < o->n_ring; i++) {
        if (!o->ring[i] || atomic_load(&o->ring[i]->refs) > 1) continue;
        autograph_lease_unref(o->ring[i]);
        o->ring[i] = NULL;
        any = true;
    }
    return any;
}

bool autograph_static_shrink(autograph_static *s) {
    bool any = false;
    if (has_graph(s)) return false;
    for (uint32_t i = 0; i < s->n_in; i++) any |= autograph_slot_shrink(&s->in[i]);
    for (autograph_outs *o = s->outs; o; o = o->next) {
        for (uint32_t i = 0; i < o->n; i++) any |= autograph_slot_shrink(&o->slot[i]);
        autograph_lease_unref(o->lease);
        o->lease = NULL;
    }
    return any;
}

bool autograph_graphs_shrink(autograph_graphs *g) {
    bool any = false;
    for (autograph_static *s = g->statics; s; s = s->next) {
        any |= autograph_static_shrink(s);
        for (autograph_outs *o = s->outs; o; o = o->next) any |= shrink_ring(o);
    }
    return any;
}

/* A part that several graphs share counts as its share in each. */
uint64_t autograph_pool_bytes(const autograph_graphs *g) {
    uint64_t bytes = 0;
    for (const autograph_entry *e = g->newest; e; e = e->older) {
        bytes += e->graph->bytes;
        for (uint32_t i = 0; i < e->n_temp; i++) bytes += e->temp[i]->size;
        for (uint32_t i = 0; i < e->graph->n_parts; i++) {
            const device_part *p = e->graph->part[i];
            bytes += p->bytes / p->refs;
        }
    }
    return bytes;
}

uint64_t autograph_programmatic_edges(const autograph_graphs *g) {
    uint64_t n = 0;
    for (const autograph_entry *e = g->newest; e; e = e->older) n += e->graph->n_programmatic;
    return n;
}
