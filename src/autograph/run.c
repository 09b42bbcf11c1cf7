/* rp_autograph_run: a graph that is there is replayed; else the function runs, and a graph is made for the next time. */
#include <errno.h>
#include <string.h>

#include "autograph/manager.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/status.h"
#include "device/running.h"
#include "device/view.h"

bool autograph_rounds(const rp_autograph *a) {
    return a->o.growth == RP_GROWTH_RESERVE;
}

/* --- arguments ------------------------------------------------------------------------------ */

rp_status autograph_copy_in(hal_device *queue, void *to, const rp_value *v, rp_error *err) {
    base_view view;
    size_t bytes = 0;
    if (!autograph_bytes(&v->tensor, &bytes) || bytes == 0) return RP_OK;
    if (!autograph_is_dense(v) && autograph_view_of(v, &view)) { /* which was asked for its key */
        if (queue) return device_view_copy(queue, &view, to, true, err);
        base_view_gather(&view, to);
        return RP_OK;
    }
    if (queue) return queue->ops->copy(queue, to, v->tensor.data, bytes, err);
    memcpy(to, v->tensor.data, bytes);
    return RP_OK;
}

/* --- replaying ------------------------------------------------------------------------------- */

typedef struct inputs {
    rp_autograph *a;
    const device_graph *graph;
    const autograph_slot *slot;
    uint32_t n;
    autograph_table *table;
    autograph_rows rows;
} inputs;

/* By the graph, with others of its size, or by a copy of its own, in front of the launch. */
static rp_status bring(inputs *in, const rp_value *v, uint32_t i, rp_error *err) {
    bool done = false, graph_copies = in->a->queue->ops->graph_move != NULL;
    bool whole = autograph_is_dense(v) && !(v->rows && in->rows.padded != in->rows.n);
    void *to = in->slot[i].memory->data;
    if (graph_copies && whole)
        RP_TRY(device_graph_move(in->graph, i, to, v->tensor.data, &done, err));
    /* What kernels reach is read when the stream comes there, pinned memory of the host, too. */
    if (graph_copies && !done && !device_reaches(in->a->device, v->tensor.data))
        RP_TRY(autograph_pack_add(&in->a->pack, &in->rows, v, i, to, &done, err));
    if (done) return RP_OK;
    RP_TRY(device_graph_move(in->graph, i, to, NULL, &done, err));
    RP_TRY(autograph_copy_in(in->a->queue, to, v, err));
    return autograph_rows_clear(&in->rows, in->a->queue, to, v, err);
}

static rp_status fill_slot(void *user, rp_value *v, rp_error *err) {
    inputs *in = user;
    if (v->state) return RP_OK;
    if (v->indirect) return autograph_table_put(in->table, in->a->device, v->tensor.data, err);
    RP_TRY(autograph_rows_meet(&in->rows, v, err));
    return bring(in, v, in->n++, err);
}

static rp_status fill_slots(inputs *in, const rp_value *args, rp_error *err) {
    rp_autograph *a = in->a;
    in->table->next = 0; /* a call before may have failed between its addresses */
    autograph_pack_clear(&a->pack);
    RP_TRY(autograph_value_each((rp_value *)(uintptr_t)args, fill_slot, in, err));
    RP_TRY(autograph_table_send(in->table, a->queue, err));
    if (a->pack.n == 0) return RP_OK;
    bool had = a->pack.memory != NULL;
    rp_status st = autograph_pack_send(&a->pack, in->graph, a->device, autograph_room(a), err);
    if (!had && a->pack.memory) autograph_limit_cache(a);
    return st;
}

static rp_status replay(rp_function *f, autograph_entry *e, const rp_value *args, rp_output **out,
                        rp_error *err) {
    rp_autograph *a = f->a;
    inputs in = {.a = a,
                 .graph = e->graph,
                 .slot = e->of->of->in,
                 .table = &e->of->of->table,
                 .rows = {.rounded = autograph_rounds(a)}};
    rp_output *o = NULL;
    RP_TRY(fill_slots(&in, args, err));
    RP_TRY(autograph_output_prepare(e, &in.rows, args, &o, err));
    bool moved = false;
    rp_status st = autograph_output_aim(e, o, &moved, err);
    if (st == RP_OK) st = device_graph_launch(e->graph, err);
    if (st == RP_OK && !moved) st = autograph_output_fill(e, o, err);
    if (st != RP_OK) {
        rp_output_free(o);
        return st;
    }
    autograph_entry_use(&a->graphs, e);
    if (e->replays++ == 0)
        f->family->unreplayed = 0; /* one that is hot says nothing of the others */
    e->used = a->calls;
    a->replays++;
    *out = o;
    return RP_OK;
}

/* --- running as it is --------------------------------------------------------------------------- */

/* One run of the function with the caller's arguments. */
typedef struct first_run {
    rp_call call, copies;
    char *block;            /* holds args and, once it has run, result */
    rp_value args;          /* dense */
    rp_value result;        /* whose tensors are */
    autograph_place *place; /* here, number by number */
    uint32_t next;
    bool lent; /* some are neither outputs nor what the caller has */
    char *result_block;
    autograph_rows rows;
    autograph_before before;
    uint32_t next_in;        /* while args are made: of those that get slots */
    bool traced;             /* it is to be captured: */
    hal_trace trace, inside; /* what it called, and in bodies */
    uint64_t frees;          /* of the device before */
} first_run;

/* In the first run each stands alone. */
static rp_status place_address(first_run *r, rp_value *v, rp_error *err) {
    const rp_autograph *a = r->copies.a;
    rp_buffer place = {RP_DTYPE_I64, 1, {1}, NULL};
    const void *address = v->tensor.data;
    RP_TRY(autograph_check_reached(a->device, address, "an indirect tensor", err));
    RP_TRY(rp_call_temp(&r->copies, &place, err));
    v->tensor.data = place.data;
    return a->queue->ops->copy(a->queue, place.data, &address, sizeof address, err);
}

/* user: a run, whose `copies` hold what is not given as it lies. */
static rp_status make_dense(void *user, rp_value *v, rp_error *err) {
    first_run *r = user;
    rp_buffer b = v->tensor;
    const rp_device *device = r->copies.a->device;
    size_t bytes = 0;
    RP_TRY(autograph_rows_meet(&r->rows, v, err));
    if (v->indirect) return place_address(r, v, err);
    uint32_t number = v->state ? 0 : r->next_in++;
    b = autograph_rows_form(&r->rows, v);
    bool empty = autograph_bytes(&b, &bytes) && bytes == 0;
    bool reached = empty || device_reaches(device, b.data);
    bool copied = !autograph_is_dense(v) || !reached || b.dim[0] != v->tensor.dim[0];
    if (v->state && !empty) RP_TRY(autograph_check_reached(device, b.data, "a state", err));
    /* A replay has a copy from before the call; what the function writes to the state must not show in the first run either. */
    if (!copied && !v->state) copied = autograph_place_meets_state(&r->args, v);
    if (copied) {
        RP_TRY(rp_call_temp(&r->copies, &b, err));
        RP_TRY(autograph_copy_in(r->copies.a->queue, b.data, v, err));
        RP_TRY(autograph_rows_clear(&r->rows, r->copies.a->queue, b.data, v, err));
    }
    if (!v->state) autograph_before_keep(&r->before, b.data, bytes, number, copied);
    v->strided = false;
    v->tensor = b;
    return RP_OK;
}

static void first_done(first_run *r) {
    autograph_call_done(&r->call);
    autograph_call_done(&r->copies);
    autograph_before_done(&r->before);
    hal_trace_done(&r->trace);
    hal_trace_done(&r->inside);
    base_free(r->block);
    base_free(r->place);
    base_free(r->result_block);
}

/* What it is to the function is over: the caller gets a tensor. */
static rp_status find_place(void *user, rp_value *v, rp_error *err) {
    first_run *r = user;
    (void)err;
    r->place[r->next++] = autograph_place_of(&r->call, &r->args, v);
    v->state = v->indirect = false;
    return RP_OK;
}

static rp_status keep_result(first_run *r, const rp_value *result, rp_error *err) {
    base_buf key;
    base_buf_init(&key, 0);
    rp_status st = autograph_value_key(result, 0, &key, err); /* checks it */
    base_buf_done(&key);
    RP_TRY(st);
    r->result_block = base_alloc(16 + autograph_value_size(result));
    r->place = base_alloc_array(autograph_value_tensors(result) + 1u, sizeof *r->place);
    if (!r->result_block || !r->place) return rp_fail(err, RP_NOMEM, "a result");
    r->result = autograph_value_copy(result, r->result_block);
    return autograph_value_each(&r->result, find_place, r, err);
}

static rp_status run_first(const rp_function *f, const rp_value *args, first_run *r,
                           rp_error *err) {
    rp_value result = rp_value_none();
    rp_error why = {0};
    r->call.a = r->copies.a = f->a;
    r->block = base_alloc(16 + autograph_value_size(args));
    if (!r->block) return rp_fail(err, RP_NOMEM, "arguments of a call");
    r->args = autograph_value_copy(args, r->block);
    RP_TRY(autograph_value_each(&r->args, make_dense, r, err));
    r->frees = device_frees(f->a->device);
    r->call.inside = r->traced ? &r->inside : NULL;
    (void)hal_trace_to(f->a->queue, r->traced ? &r->trace : NULL);
    rp_status st = f->o.fn(f->o.user, &r->call, &r->args, &result, &why);
    (void)hal_trace_to(f->a->queue, NULL);
    if (st == RP_OK) st = keep_result(r, &result, &why);
    if (st == RP_OK) st = f->a->queue->ops->synchronize(f->a->queue, &why);
    return st == RP_OK
               ? RP_OK
               : rp_fail(err, st, "%s: %s", f->o.name, why.text[0] ? why.text : rp_status_name(st));
}

typedef struct giving {
    first_run *r;
    const rp_value *args; /* the caller's */
    uint32_t next;
} giving;

/* The function had it as it lies, or by its address. What it did with a copy is in the copy. */
static bool is_own(const giving *g, const autograph_place *p) {
    if (p->home != AUTOGRAPH_IN_ARGUMENT) return false;
    const rp_value *own = autograph_value_tensor(g->args, p->number);
    return own->indirect ||
           own->tensor.data == autograph_value_tensor(&g->r->args, p->number)->tensor.data;
}

static rp_status give(void *user, rp_value *v, rp_error *err) {
    giving *g = user;
    const autograph_place *p = &g->r->place[g->next++];
    rp_value own = *v;
    if (is_own(g, p) && autograph_place_give(p, g->args, &own)) {
        *v = own;
        return RP_OK;
    }
    g->r->lent |= p->home != AUTOGRAPH_IN_OUTPUT;
    return autograph_rows_cut(&g->r->rows, v, err);
}

/* Memory that the first run made is the caller's: of its outputs, and of all of it where a result may lie there. */
static rp_status first_output(first_run *r, const rp_value *args, rp_ran ran, const char *reason,
                              rp_output **out, rp_error *err) {
    const autograph_held *const of[] = {&r->call.out, &r->call.temp, &r->copies.temp};
    giving g = {.r = r, .args = args};
    uint32_t n = 0;
    RP_TRY(autograph_value_each(&r->result, give, &g, err));
    autograph_memory **memory =
        base_alloc_array(of[0]->n + of[1]->n + of[2]->n + 1u, sizeof *memory);
    if (!memory) return rp_fail(err, RP_NOMEM, "an output");
    for (size_t k = 0; k < (r->lent ? 3 : 1); k++)
        for (uint32_t i = 0; i < of[k]->n; i++) memory[n++] = of[k]->memory[i];
    rp_status st = autograph_output_new(&r->result, memory, n, ran, reason, out, err);
    base_free(memory);
    return st;
}

/* --- whether to replay, or to capture --------------------------------------------------------------- */

/* A place that takes memory comes before graphs that were not used for longer. */
static bool has_place(rp_autograph *a, autograph_entry *e) {
    if (!a->o.max_bytes || autograph_ring_need(e) == 0) return true;
    autograph_entry_use(&a->graphs, e);
    return autograph_keep_budget(a, e);
}

/* Why the graph that is there does not serve this call; NULL: it does. */
static const char *replay_reason(rp_autograph *a, autograph_entry *e, const rp_value *args) {
    if (!has_place(a, e)) return "max_bytes leaves no room for the next place of the ring";
    if (autograph_output_can_give(e, args)) return NULL;
    return "a tensor of the result is a part of a strided view this time, or lies in a state, of "
           "which "
           "replays have a copy";
}

static const char *eager_reason(const rp_function *f, const autograph_entry *e, uint64_t hash) {
    if (f->refused) return f->refused;
    if (e && e->inconsistent) return e->inconsistent;
    return autograph_form_reason(f, e, hash);
}

/* reason: why it is not to be captured, or NULL. */
static rp_status run_slowly(rp_function *f, const rp_value *args, uint64_t hash, const char *reason,
                            rp_output **out, rp_error *err) {
    first_run r = {.rows = {.rounded = !reason && autograph_rounds(f->a)}, .traced = !reason};
    rp_error why = {0};
    if (!reason && !f->trusted && !device_is_host(f->a->device))
        autograph_before_open(&r.before, f->a->device, f->a->queue);
    rp_status st = run_first(f, args, &r, err);
    if (st == RP_OK && !reason) {
        autograph_wish w = {f,         args,    &r.args,   hash,     &r.call,
                            &r.result, r.place, &r.before, &r.trace, r.frees};
        if (autograph_capture(&w, &why) != RP_OK) reason = why.text;
    }
    if (st == RP_OK)
        st = first_output(&r, args, reason ? RP_RAN_EAGER : RP_RAN_CAPTURE, reason, out, err);
    if (st == RP_OK) *(reason ? &f->a->eager : &f->a->captures) += 1;
    first_done(&r);
    return st;
}

/* --- entry -------------------------------------------------------------------------------------- */

static rp_status run_locked(rp_function *f, const rp_value *args, rp_output **out, rp_error *err) {
    rp_autograph *a = f->a;
    rp_error why = {0};
    const char *reason = NULL;
    base_buf_clear(&a->key);
    rp_status st =
        autograph_value_key(args, autograph_rounds(a) ? AUTOGRAPH_KEY_ROUNDED : 0, &a->key, &why);
    if (st != RP_OK) return rp_fail(err, st, "arguments of %s: %s", f->o.name, why.text);
    RP_TRY(base_buf_status(&a->key, err));
    uint64_t hash = base_hash64(a->key.data, a->key.len) ^ (uint64_t)(uintptr_t)f * 0x9e3779b9;
    autograph_entry *e = autograph_find(&a->graphs, f, a->key.data, a->key.len, hash);
    if (e && e->graph && !device_graph_valid(e->graph)) {
        e->lost = e->replays ? 0 : e->lost + 1;
        autograph_entry_invalidate(&a->graphs, e);
    }
    a->calls++;
    bool on = !f->o.enable_if || f->o.enable_if(f->o.user);
    if (on && e && e->graph) reason = replay_reason(a, e, args);
    if (on && e && e->graph && !reason) return replay(f, e, args, out, err);
    if (!reason) reason = on ? eager_reason(f, e, hash) : "enable_if says no";
    return run_slowly(f, args, hash, reason, out, err);
}

/* After a failure nothing may be on its way to or from the caller's memory. */
static rp_status run_between(rp_function *f, const rp_value *args, const autograph_around *around,
                             rp_output **out, rp_error *err) {
    hal_device *queue = f->a->queue;
    rp_error late = {0};
    rp_output *o = NULL;
    rp_status st = around->before(around->user, queue, err);
    if (st == RP_OK) st = run_locked(f, args, &o, err);
    if (st == RP_OK) st = around->after(around->user, queue, err);
    if (st == RP_OK) {
        *out = o;
    } else {
        (void)queue->ops->synchronize(queue, &late);
        rp_output_free(o);
    }
    return st;
}

rp_status rp_autograph_run(rp_function *f, const rp_value *args, rp_output **out, rp_error *err) {
    base_error_clear(err);
    if (!f || !args || !out)
        return rp_fail(err, RP_INVALID, "rp_autograph_run: function, args or out is NULL");
    return autograph_run_around(f, args, NULL, out, err);
}

rp_status autograph_run_around(rp_function *f, const rp_value *args, const autograph_around *around,
                               rp_output **out, rp_error *err) {
    RP_TRY(device_check_captured(NULL, "rp_autograph_run",
                                 "functions of one manager call each other by rp_call_function",
                                 err));
    if (pthread_mutex_lock(&f->a->lock) == EDEADLK)
        return rp_fail(err, RP_INVALID,
                       "rp_autograph_run of %s inside of a call of the same manager; there it is "
                       "rp_call_function",
                       f->o.name);
    device_run_begin();
    rp_status st = around ? run_between(f, args, around, out, err) : run_locked(f, args, out, err);
    device_run_end();
    (void)pthread_mutex_unlock(&f->a->lock);
    return st;
}
