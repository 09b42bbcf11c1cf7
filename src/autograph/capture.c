/* From the first run of a call to its graph: signatures, slots, and the second run. */
#include <stdio.h>

#include "autograph/manager.h"
#include "autograph/outside.h"
#include "autograph/twin.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"

typedef struct capture {
    const autograph_wish *w;
    rp_autograph *a;
    autograph_static *s;
    autograph_dynamic *d;
    autograph_entry *e;
    bool one;    /* what fails concerns this form of arguments alone, */
    bool others; /* or perhaps what other threads did meanwhile */
    rp_call call;
    rp_value args;                               /* whose tensors are the slots */
    uint32_t next_in, next_indirect, next_state; /* while args are made */
    uint32_t next_result;                        /* while places are found */
    autograph_stands stands;                     /* what plain C is not to write */
    bool moved;
    bool foreign;    /* kernels of the function's own are in it */
    hal_trace trace; /* what the second run called */
} capture;

/* --- signatures ---------------------------------------------------------------------------- */

typedef struct tensors {
    rp_buffer *v;
    uint32_t n, n_indirect;
} tensors;

static rp_status collect(void *user, rp_value *v, rp_error *err) {
    tensors *t = user;
    (void)err;
    if (v->indirect) t->n_indirect++;
    if (!v->state && !v->indirect) t->v[t->n++] = v->tensor;
    return RP_OK;
}

/* What is fixed: dtype, rank and the last size of each tensor, of one dimension none. Functions whose outputs stay in the slots
 * share them with no other. */
static void static_key(const rp_function *f, const tensors *t, base_buf *key) {
    if (f->o.output != RP_OUTPUT_COPY) base_buf_add(key, &f, sizeof f);
    base_buf_add(key, &t->n_indirect, sizeof t->n_indirect);
    for (uint32_t i = 0; i < t->n; i++) {
        const rp_buffer *b = &t->v[i];
        int64_t last = b->rank > 1 ? b->dim[b->rank - 1] : -1;
        uint8_t head[2] = {(uint8_t)b->dtype, (uint8_t)b->rank};
        base_buf_add(key, head, sizeof head);
        base_buf_add(key, &last, sizeof last);
    }
}

static rp_status cover(capture *c, autograph_slot *slot, const rp_buffer *b, bool *moved,
                       rp_error *err) {
    const autograph_growing by = {c->a->o.growth == RP_GROWTH_EXACT, c->a->o.max_bytes};
    return autograph_slot_cover(slot, c->a->device, b, by, moved, err);
}

static rp_status find_static(capture *c, const tensors *t, rp_error *err) {
    base_buf key;
    base_buf_init(&key, 0);
    static_key(c->w->f, t, &key);
    rp_status st = base_buf_status(&key, err);
    if (st == RP_OK)
        st = autograph_static_of(&c->a->graphs, c->w->f->o.name, key.data, key.len, t->n, &c->s,
                                 err);
    base_buf_done(&key);
    for (uint32_t i = 0; i < t->n && st == RP_OK; i++)
        st = cover(c, &c->s->in[i], &t->v[i], &c->moved, err);
    if (st == RP_OK) st = autograph_table_open(&c->s->table, c->a->device, t->n_indirect, err);
    if (c->s && c->moved) autograph_static_invalidate(&c->a->graphs, c->s, NULL);
    return st;
}

static rp_status forget_data(void *user, rp_value *v, rp_error *err) {
    (void)user, (void)err;
    v->tensor.data = NULL;
    return RP_OK;
}

static size_t up16(size_t n) {
    return (n + 15) / 16 * 16;
}

/* In one block: the result, what it points to, and the places of its tensors, which the second run finds. */
static rp_status set_result(autograph_entry *e, const capture *c, rp_error *err) {
    const rp_value *result = c->w->result;
    const autograph_held *out = &c->w->first->out;
    size_t head = up16(sizeof *result), size = head + up16(autograph_value_size(result));
    size_t places = autograph_value_tensors(result) * sizeof *e->place;
    rp_value *copy = base_alloc(size + places);
    size_t *bytes = base_alloc_array(out->n + 1u, sizeof *bytes);
    if (!copy || !bytes) {
        base_free(copy);
        base_free(bytes);
        return rp_fail(err, RP_NOMEM, "an output template");
    }
    *copy = autograph_value_copy(result, (char *)copy + head);
    for (uint32_t i = 0; i < out->n; i++) (void)autograph_bytes(&out->form[i], &bytes[i]);
    base_free(e->result);
    base_free(e->out_bytes);
    e->result = copy;
    e->place = (autograph_place *)(void *)((char *)copy + size);
    e->in_arguments = false;
    e->out_bytes = bytes;
    return autograph_value_each(copy, forget_data, NULL, err); /* which never fails */
}

/* The output slots hold what the first run gave. In the seed's way of growing everything of the signature becomes invalid. */
static rp_status find_entry(capture *c, rp_error *err) {
    const autograph_held *out = &c->w->first->out;
    bool exact = c->a->o.growth == RP_GROWTH_EXACT, moved = false;
    autograph_outs *outs = NULL;
    RP_TRY(autograph_dynamic_of(c->s, c->a->key.data, c->a->key.len, c->w->dense, &c->d, err));
    RP_TRY(autograph_entry_of(&c->a->graphs, c->d, c->w->f, c->w->hash, &c->e, err));
    RP_TRY(autograph_outs_of(c->s, out->form, out->n, &outs, err));
    rp_status st = RP_OK;
    for (uint32_t i = 0; i < out->n && st == RP_OK; i++)
        st = cover(c, &outs->slot[i], &out->form[i], &moved, err);
    if (moved) autograph_static_invalidate(&c->a->graphs, c->s, exact ? NULL : outs);
    RP_TRY(st);
    c->e->outs = outs;
    return set_result(c->e, c, err);
}

static rp_status find_signatures(capture *c, rp_error *err) {
    tensors t = {.v = base_alloc_array(autograph_value_tensors(c->w->dense) + 1u, sizeof *t.v)};
    if (!t.v) return rp_fail(err, RP_NOMEM, "arguments of a call");
    rp_status st = autograph_value_each((rp_value *)(uintptr_t)c->w->dense, collect, &t, err);
    if (st == RP_OK) st = find_static(c, &t, err);
    if (st == RP_OK) st = find_entry(c, err);
    base_free(t.v);
    return st;
}

/* --- the second run -------------------------------------------------------------------------- */

/* Where a graph can have them, arguments come to their slots and outputs from theirs by copies in it: number i of each argument
 * that is no state, then those of the outputs. */
static rp_status add_move(const capture *c, void *to, const void *from, size_t bytes,
                          rp_error *err) {
    hal_device *q = c->a->queue;
    return q->ops->capture_move ? q->ops->capture_move(q, to, from, bytes, err) : RP_OK;
}

static rp_status move_outputs(const capture *c, rp_error *err) {
    const autograph_held *out = &c->w->first->out;
    if (c->w->f->o.output == RP_OUTPUT_BORROWED) return RP_OK;
    for (uint32_t i = 0; i < out->n; i++)
        RP_TRY(add_move(c, out->form[i].data, c->e->outs->slot[i].memory->data, c->e->out_bytes[i],
                        err));
    return RP_OK;
}

/* In place, or by what stands for it. */
static rp_status use_state(capture *c, rp_value *v, rp_error *err) {
    autograph_stand s = {
        .dtype = v->tensor.dtype, .what = "state", .number = c->next_state++, .state = true};
    (void)autograph_bytes(&v->tensor, &s.size);
    if (c->call.stands)
        return autograph_stand_for(c->call.stands, v->tensor.data, &s, &v->tensor.data, err);
    return hal_capture_allow(c->a->queue, v->tensor.data, s.size, "a state", err);
}

static rp_status use_slot(void *user, rp_value *v, rp_error *err) {
    capture *c = user;
    size_t bytes = 0;
    v->strided = false;
    if (v->state) return use_state(c, v, err);
    if (v->indirect) {
        v->tensor.data = autograph_table_at(&c->s->table, c->next_indirect++);
        return hal_capture_allow(c->a->queue, v->tensor.data, sizeof(void *), "an address", err);
    }
    const autograph_slot *slot = &c->s->in[c->next_in++];
    (void)autograph_bytes(&v->tensor, &bytes);
    RP_TRY(add_move(c, slot->memory->data, v->tensor.data, bytes, err));
    v->tensor.data = slot->memory->data;
    return hal_capture_allow(c->a->queue, slot->memory->data, slot->used ? slot->used : 1,
                             "an argument", err);
}

/* An output that nothing noted has written comes from elsewhere, and would stay as it is. */
static rp_status check_written(const capture *c, const rp_value *v, rp_error *err) {
    if (!hal_capture_knows_all(c->a->queue)) return RP_OK; /* a kernel of the user may have */
    if (hal_capture_has_written(c->a->queue, v->tensor.data, autograph_place_extent(v)))
        return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED,
                   "an output is written by no call on rp_call_stream: plain C, and rp_ calls that "
                   "are given no stream, cannot be captured");
}

static rp_status check_inputs_kept(const capture *c, rp_error *err) {
    for (uint32_t i = 0; i < c->s->n_in; i++)
        if (hal_capture_touched(c->a->queue, c->s->in[i].memory->data, c->s->in[i].used))
            return rp_fail(err, RP_UNSUPPORTED,
                           "tensor %u of the arguments is written; give it as rp_value_state", i);
    return RP_OK;
}

static rp_status other_form(rp_error *err) {
    return rp_fail(err, RP_UNSUPPORTED,
                   "the result has another form when the function runs again to be captured");
}

static bool same_strides(const rp_value *a, const rp_value *b) {
    if (a->strided != b->strided) return false;
    for (uint32_t i = 0; i < a->tensor.rank && a->strided; i++)
        if (a->stride[i] != b->stride[i]) return false;
    return true;
}

/* Arguments of one address in the first run are told apart by their slots. */
static rp_status check_place(void *user, rp_value *v, rp_error *err) {
    capture *c = user;
    const rp_value *before = autograph_value_tensor(c->w->result, c->next_result);
    autograph_place *p = &c->e->place[c->next_result++];
    *p = autograph_place_of(&c->call, &c->args, v);
    if (autograph_place_at(p, c->w->first, c->w->dense) != before->tensor.data ||
        !same_strides(v, before))
        return other_form(err);
    c->e->in_arguments |= p->home == AUTOGRAPH_IN_ARGUMENT;
    return p->home == AUTOGRAPH_IN_OUTPUT ? check_written(c, v, err) : RP_OK;
}

static rp_status make_plain(void *user, rp_value *v, rp_error *err) {
    (void)user, (void)err;
    v->state = v->indirect = false;
    return RP_OK;
}

/* The result is the same as that of the first run: structure, literals, sizes, and where its tensors lie. */
static rp_status check_result(capture *c, const rp_value *result, rp_error *err) {
    base_buf a, b;
    rp_status st = RP_OK;
    rp_value *copy = NULL;
    base_buf_init(&a, 0);
    base_buf_init(&b, 0);
    RP_TRY_OUT(autograph_value_key(result, 0, &b, err));
    copy = base_alloc(up16(sizeof *copy) + autograph_value_size(result));
    if (!copy) {
        st = rp_fail(err, RP_NOMEM, "a result");
        goto out;
    }
    *copy = autograph_value_copy(result, (char *)copy + up16(sizeof *copy));
    RP_TRY_OUT(autograph_value_each(copy, make_plain, NULL, err));
    base_buf_clear(&b);
    RP_TRY_OUT(autograph_value_key(c->w->result, 0, &a, err));
    RP_TRY_OUT(autograph_value_key(copy, 0, &b, err));
    RP_TRY_OUT(base_buf_status(&a, err));
    RP_TRY_OUT(base_buf_status(&b, err));
    st = a.len == b.len && memcmp(a.data, b.data, a.len) == 0
             ? autograph_value_each(copy, check_place, c, err)
             : other_form(err);
out:
    base_free(copy);
    base_buf_done(&a);
    base_buf_done(&b);
    return st;
}

static rp_status check_calls(const capture *c, rp_error *err) {
    const autograph_run runs[2] = {{c->w->dense, c->w->first, c->w->trace},
                                   {&c->args, &c->call, &c->trace}};
    return autograph_runs_alike(runs, err);
}

static rp_status run_again(capture *c, rp_error *err) {
    const rp_function *f = c->w->f;
    rp_value result = rp_value_none();
    RP_TRY(autograph_value_each(&c->args, use_slot, c, err));
    (void)hal_trace_to(c->a->queue, &c->trace);
    rp_status st = f->o.fn(f->o.user, &c->call, &c->args, &result, err);
    (void)hal_trace_to(c->a->queue, NULL);
    RP_TRY(st);
    RP_TRY(check_calls(c, err));
    RP_TRY(check_inputs_kept(c, err));
    if (c->call.out.n != c->w->first->out.n || c->call.temp.n != c->w->first->temp.n)
        return rp_fail(err, RP_UNSUPPORTED,
                       "the function asks for %u outputs and %u temps when it runs again to be "
                       "captured; it was %u and %u",
                       c->call.out.n, c->call.temp.n, c->w->first->out.n, c->w->first->temp.n);
    RP_TRY(check_result(c, &result, err));
    RP_TRY(autograph_stands_check(&c->stands, err));
    return move_outputs(c, err);
}

/* What looks at the values of its arguments finds others than in the first run. */
static rp_status poison(capture *c, rp_error *err) {
    hal_device *q = c->a->queue;
    for (uint32_t i = 0; i < c->s->n_in; i++) {
        const autograph_slot *in = &c->s->in[i];
        autograph_stand s = {.at = in->memory->data,
                             .size = in->used,
                             .dtype = in->largest.dtype,
                             .what = "tensor",
                             .number = i};
        RP_TRY(c->call.stands ? autograph_stand_fill(c->call.stands, &s, err)
                              : q->ops->fill(q, s.at, 0xff, s.size, err));
    }
    return RP_OK;
}

static rp_status make_graph(capture *c, device_graph **out, rp_error *err) {
    char label[160];
    rp_error why = {0};
    (void)snprintf(label, sizeof label, "%s", c->w->f->o.name);
    RP_TRY(poison(c, err));
    RP_TRY(device_stream_capture(c->a->stream, err));
    if (!c->w->f->trusted) hal_capture_forbid(c->a->queue, device_own(c->a->device));
    rp_status st = run_again(c, &why);
    c->foreign = !hal_capture_knows_all(c->a->queue);
    if (st != RP_OK) hal_capture_spoil(c->a->queue, &why); /* after what the stream refused */
    rp_error told = {0};
    rp_status end = device_stream_finish(c->a->stream, label, out, &told);
    return end == RP_OK ? RP_OK : rp_fail(err, end, "%s", told.text);
}

/* --- the graph ----------------------------------------------------------------------------- */

static rp_status fit(capture *c, rp_error *err) {
    if (autograph_keep_budget(c->a, NULL)) return RP_OK;
    uint64_t bytes = autograph_all_bytes(c->a);
    autograph_entry_invalidate(&c->a->graphs, c->e);
    c->one = true;
    return rp_fail(err, RP_UNSUPPORTED,
                   "the graph and its memory take %llu bytes; max_bytes is %llu",
                   (unsigned long long)bytes, (unsigned long long)c->a->o.max_bytes);
}

/* The key once more: a function that changes its arguments cannot be found again by them. */
static rp_status check_kept(capture *c, rp_error *err) {
    const base_buf *key = &c->a->key;
    base_buf again;
    base_buf_init(&again, 0);
    rp_status st = autograph_value_key(
        c->w->args, autograph_rounds(c->a) ? AUTOGRAPH_KEY_ROUNDED : 0, &again, err);
    bool same = st == RP_OK && !again.failed && again.len == key->len &&
                memcmp(again.data, key->data, key->len) == 0;
    base_buf_done(&again);
    if (same) return RP_OK;
    c->one = true;
    return rp_fail(err, RP_UNSUPPORTED, "the arguments changed while the function ran");
}

/* What replays cannot give is known before the function runs again. */
static rp_status check_given(void *user, rp_value *v, rp_error *err) {
    capture *c = user;
    const char *why = autograph_place_reason(&c->w->place[c->next_result++], c->w->args, v,
                                             autograph_rounds(c->a));
    return why ? rp_fail(err, RP_UNSUPPORTED, "%s", why) : RP_OK;
}

/* The second run, and what it left behind, which is put back after a failure, too. */
static rp_status record(capture *c, device_graph **out, rp_error *err) {
    autograph_outside o = {0};
    device_graph *graph = NULL;
    rp_error why = {0};
    bool others = false;
    rp_status st = c->w->f->trusted ? RP_OK : autograph_outside_keep(&o, c->w, err);
    if (st == RP_OK) st = make_graph(c, &graph, err);
    rp_status beside = autograph_outside_check(&o, &others, &why);
    if (st == RP_OK && beside != RP_OK) {
        st = rp_fail(err, beside, "%s", why.text);
        c->others = others;
    }
    if (st == RP_OK && c->foreign)
        st = autograph_before_check(c->w->before, c->e->in_arguments, err);
    autograph_outside_done(&o);
    if (st == RP_OK)
        *out = graph;
    else
        device_graph_free(graph);
    return st;
}

static rp_status capture_with(capture *c, rp_error *err) {
    device_graph *graph = NULL;
    RP_TRY(find_signatures(c, err));
    RP_TRY(check_kept(c, err));
    RP_TRY(autograph_value_each((rp_value *)(uintptr_t)c->w->result, check_given, c, err));
    c->next_result = 0;
    c->call.outs = c->e->outs;
    RP_TRY(record(c, &graph, err));
    autograph_entry_set(&c->a->graphs, c->e, graph, c->call.temp.memory, c->call.temp.n);
    c->e->used = c->a->calls;
    c->call.temp.memory = NULL;
    c->call.temp.n = 0;
    c->w->f->family->unreplayed++;
    c->w->f->disturbed = 0;
    return fit(c, err);
}

/* With other threads it is tried again, a few times, since it runs twice each time. */
static void refuse(const capture *c, const char *why) {
    enum { TRIES = 4 };
    rp_function *f = c->w->f;
    bool again = c->others && ++f->disturbed < TRIES;
    if (!again && c->e && !c->e->inconsistent) c->e->inconsistent = base_strdup(why);
    if (!again && !c->one && !f->refused) f->refused = base_strdup(why);
    base_log_ch(RP_LOG_CH_CUDAGRAPHS, false, "autograph: %s runs without a graph: %s", f->o.name,
                why);
}

rp_status autograph_capture(const autograph_wish *w, rp_error *why) {
    enum { HEAD = 16 };
    char *block = base_alloc(HEAD + autograph_value_size(w->dense));
    if (!block) return rp_fail(why, RP_NOMEM, "arguments of a call");
    capture c = {.w = w,
                 .a = w->f->a,
                 .call = {.a = w->f->a, .first = w->first},
                 .args = autograph_value_copy(w->dense, block),
                 .stands = {.device = w->f->a->device, .queue = w->f->a->queue}};
    if (device_is_host(c.a->device) && !w->f->trusted) c.call.stands = &c.stands;
    rp_status st = capture_with(&c, why);
    if (st != RP_OK && st != RP_NOMEM) refuse(&c, why->text);
    autograph_call_done(&c.call);
    autograph_stands_done(&c.stands);
    if (st != RP_OK) autograph_give_back(c.a, c.s);
    hal_trace_done(&c.trace);
    base_free(block);
    return st;
}
