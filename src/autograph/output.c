/* rp_output: one block with the result's values, references of what they lie in, and the reason. */
#include "autograph/manager.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/status.h"

enum { OUTPUT_ALIGN = 64 }; /* of an output in a block of several */

struct rp_output {
    rp_value value;
    rp_output *over;        /* whose memory it lies in; NULL: its own, or that of the lease */
    autograph_lease *lease; /* what a replay may overwrite; NULL: memory of its own */
    uint64_t generation;    /* of the lease, when this was written */
    rp_ran ran;
    const char *reason;
    char *later; /* reason, where it was set when the output was there; else NULL */
    uint32_t n;
    autograph_memory *memory[];
};

static size_t up(size_t n, size_t align) {
    return (n + align - 1) / align * align;
}

rp_status autograph_output_new(const rp_value *value, autograph_memory *const *memory, uint32_t n,
                               rp_ran ran, const char *reason, rp_output **out, rp_error *err) {
    size_t value_size = autograph_value_size(value);
    size_t head = up(sizeof(rp_output) + n * sizeof(autograph_memory *), 16);
    size_t text = reason ? strlen(reason) + 1 : 0;
    rp_output *o = base_alloc(head + value_size + text);
    if (!o) return rp_fail(err, RP_NOMEM, "an output");
    char *at = (char *)o + head;
    o->value = autograph_value_copy(value, at);
    o->ran = ran;
    o->reason = text ? memcpy(at + value_size, reason, text) : "";
    for (; o->n < n; o->n++) o->memory[o->n] = autograph_memory_ref(memory[o->n]);
    *out = o;
    return RP_OK;
}

rp_value *autograph_output_of(rp_output *o) {
    return &o->value;
}

void autograph_output_lease(rp_output *o, autograph_lease *lease) {
    o->lease = autograph_lease_ref(lease);
    o->generation = atomic_fetch_add(&lease->generation, 1) + 1;
}

rp_status autograph_output_over(rp_output *over, const rp_value *value, rp_ran ran,
                                const char *reason, rp_output **out, rp_error *err) {
    RP_TRY(autograph_output_new(value, NULL, 0, ran, reason, out, err));
    (*out)->over = over;
    return RP_OK;
}

void autograph_output_set_ran(rp_output *o, rp_ran ran, const char *reason) {
    base_free(o->later);
    o->later = reason ? base_strdup(reason) : NULL;
    o->reason = o->later ? o->later : "";
    o->ran = ran;
}

void rp_output_free(rp_output *o) {
    if (!o) return;
    rp_output_free(o->over);
    autograph_lease_unref(o->lease);
    base_free(o->later);
    for (uint32_t i = 0; i < o->n; i++) autograph_memory_unref(o->memory[i]);
    base_free(o);
}

rp_status rp_output_value(const rp_output *o, const rp_value **out, rp_error *err) {
    base_error_clear(err);
    if (!o || !out) return rp_fail(err, RP_INVALID, "rp_output_value: output or out is NULL");
    if (o->lease && atomic_load(&o->lease->generation) != o->generation)
        return rp_fail(err, RP_INVALID,
                       "the output was overwritten by a later call; use it before that, or have it "
                       "copied: RP_OUTPUT_COPY or a larger ring for an automatic graph, "
                       "rp_jit_run_into for a function that compiles itself");
    if (o->over) { /* another function's replay may have come between */
        const rp_value *is;
        RP_TRY(rp_output_value(o->over, &is, err));
    }
    *out = &o->value;
    return RP_OK;
}

rp_ran rp_output_ran(const rp_output *o) {
    return o ? o->ran : RP_RAN_EAGER;
}

const char *rp_output_reason(const rp_output *o) {
    return o ? o->reason : "";
}

/* --- of a replay -------------------------------------------------------------------------- */

/* Where the slots of a replay's outputs lie: in one block, or in the slots themselves. */
typedef struct places {
    const autograph_entry *e;
    const autograph_rows *rows;
    const rp_value *args; /* the caller's */
    char *block;          /* NULL: the slots */
    uint32_t next;
} places;

static size_t offset_of(const autograph_entry *e, uint32_t slot) {
    size_t at = 0;
    for (uint32_t i = 0; i < slot; i++) at += up(e->out_bytes[i], OUTPUT_ALIGN);
    return at;
}

static rp_status place(void *user, rp_value *v, rp_error *err) {
    places *p = user;
    const autograph_place *is = &p->e->place[p->next++];
    if (is->home == AUTOGRAPH_IN_ARGUMENT) {
        (void)autograph_place_give(is, p->args, v); /* autograph_output_can_give */
        return RP_OK;
    }
    char *at = p->block ? p->block + offset_of(p->e, is->number)
                        : (char *)p->e->outs->slot[is->number].memory->data;
    v->tensor.data = at + is->offset;
    return autograph_rows_cut(p->rows, v, err);
}

static rp_status copy_out(const rp_autograph *a, const autograph_entry *e, char *block,
                          rp_error *err) {
    for (uint32_t i = 0; i < e->outs->n; i++)
        RP_TRY(a->queue->ops->copy(a->queue, block + offset_of(e, i), e->outs->slot[i].memory->data,
                                   e->out_bytes[i], err));
    return RP_OK;
}

static uint32_t slots_moved(const autograph_outs *o) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->n; i++) n += o->lease->memory[i] != o->slot[i].memory;
    return n;
}

/* The lease over the slots: a new one when some have moved. Who holds outputs of the one before keeps them when all have: a slot that
 * stayed is about to be written. */
static rp_status slots_lease(autograph_outs *o, autograph_lease **out, rp_error *err) {
    uint32_t moved = o->lease ? slots_moved(o) : 0;
    if (!o->lease || moved) {
        autograph_memory **memory = base_alloc_array(o->n + 1u, sizeof(autograph_memory *));
        autograph_lease *l = NULL;
        if (!memory) return rp_fail(err, RP_NOMEM, "outputs of an automatic graph");
        for (uint32_t i = 0; i < o->n; i++) memory[i] = o->slot[i].memory;
        rp_status st = autograph_lease_new(memory, o->n, &l, err);
        base_free(memory);
        RP_TRY(st);
        if (o->lease && moved < o->n) (void)atomic_fetch_add(&o->lease->generation, 1);
        autograph_lease_unref(o->lease);
        o->lease = l;
    }
    *out = o->lease;
    return RP_OK;
}

uint64_t autograph_ring_need(const autograph_entry *e) {
    const autograph_outs *o = e->outs;
    size_t bytes = offset_of(e, o->n), has = 0;
    if (e->f->o.output != RP_OUTPUT_RING) return 0;
    if (o->ring && o->ring[o->turn]) has = o->ring[o->turn]->memory[0]->size;
    if (bytes == 0) bytes = 1;
    return bytes > has ? bytes - has : 0;
}

/* The next place of the ring, large enough. */
static rp_status ring_lease(const rp_function *f, autograph_outs *o, size_t bytes,
                            autograph_lease **out, rp_error *err) {
    if (!o->ring) {
        o->ring = base_alloc_array(f->o.ring, sizeof(autograph_lease *));
        if (!o->ring) return rp_fail(err, RP_NOMEM, "a ring of outputs");
        o->n_ring = f->o.ring;
    }
    autograph_lease **at = &o->ring[o->turn];
    if (!*at || (*at)->memory[0]->size < bytes) {
        autograph_memory *m = NULL;
        autograph_lease *l = NULL;
        RP_TRY(autograph_memory_new(f->a->device, bytes, false, &m, err));
        rp_status st = autograph_lease_new(&m, 1, &l, err);
        autograph_memory_unref(m);
        RP_TRY(st);
        if (*at) (void)atomic_fetch_add(&(*at)->generation, 1); /* its turn is over, too */
        autograph_lease_unref(*at);
        *at = l;
        autograph_limit_cache(f->a);
    }
    o->turn = (o->turn + 1) % o->n_ring;
    *out = *at;
    return RP_OK;
}

/* Of an argument that is a strided view this time the graph has a dense copy alone. */
static rp_status has_address(void *user, rp_value *v, rp_error *err) {
    places *p = user;
    const autograph_place *is = &p->e->place[p->next++];
    rp_value copy = *v;
    if (is->home != AUTOGRAPH_IN_ARGUMENT || autograph_place_give(is, p->args, &copy)) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED, "a part of a strided view");
}

bool autograph_output_can_give(const autograph_entry *e, const rp_value *args) {
    places p = {.e = e, .args = args};
    rp_error none = {0};
    return !e->in_arguments || autograph_value_each(e->result, has_address, &p, &none) == RP_OK;
}

rp_status autograph_output_prepare(const autograph_entry *e, const autograph_rows *rows,
                                   const rp_value *args, rp_output **out, rp_error *err) {
    const rp_function *f = e->f;
    size_t bytes = offset_of(e, e->outs->n);
    autograph_lease *lease = NULL;
    autograph_memory *m = NULL;
    places p = {.e = e, .rows = rows, .args = args};
    rp_output *o = NULL;
    switch (f->o.output) {
    case RP_OUTPUT_BORROWED: RP_TRY(slots_lease(e->outs, &lease, err)); break;
    case RP_OUTPUT_RING:
        RP_TRY(ring_lease(f, e->outs, bytes, &lease, err));
        p.block = lease->memory[0]->data;
        break;
    case RP_OUTPUT_COPY:
        RP_TRY(autograph_cache_take(f->a->cache, f->a->device, bytes, &m, err));
        p.block = m->data;
        break;
    }
    rp_status st = autograph_output_new(e->result, &m, m != NULL, RP_RAN_REPLAY, NULL, &o, err);
    autograph_memory_unref(m);
    RP_TRY(st);
    if (lease) {
        o->lease = autograph_lease_ref(lease);
        o->generation = atomic_fetch_add(&lease->generation, 1) + 1;
    }
    st = autograph_value_each(&o->value, place, &p, err);
    if (st == RP_OK)
        *out = o;
    else
        rp_output_free(o);
    return st;
}

static char *block_of(const rp_output *o) {
    return o->lease ? o->lease->memory[0]->data : o->memory[0]->data;
}

rp_status autograph_output_aim(const autograph_entry *e, const rp_output *o, bool *moved,
                               rp_error *err) {
    *moved = e->f->o.output == RP_OUTPUT_BORROWED;
    for (uint32_t i = 0; i < e->outs->n && e->f->o.output != RP_OUTPUT_BORROWED; i++)
        RP_TRY(device_graph_move(e->graph, e->of->of->n_in + i, block_of(o) + offset_of(e, i),
                                 e->outs->slot[i].memory->data, moved, err));
    return RP_OK;
}

rp_status autograph_output_fill(const autograph_entry *e, rp_output *o, rp_error *err) {
    return copy_out(e->f->a, e, block_of(o), err);
}
