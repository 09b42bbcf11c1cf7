/* rp_call: the memory that a function asks for. In its first run that is memory of the output, when it captures the slots that
 * replays write; temps are the graph's. */
#include "autograph/manager.h"
#include "autograph/value.h"
#include "base/alloc.h"
#include "base/status.h"

static rp_status make_room(autograph_held *h, rp_error *err) {
    uint32_t cap = h->cap ? h->cap * 2 : 4;
    if (h->n < h->cap) return RP_OK;
    autograph_memory **memory = base_realloc_array(h->memory, cap, sizeof(autograph_memory *));
    if (memory) h->memory = memory;
    rp_buffer *form = memory ? base_realloc_array(h->form, cap, sizeof *form) : NULL;
    if (!form) return rp_fail(err, RP_NOMEM, "memory of a call");
    h->form = form;
    h->cap = cap;
    return RP_OK;
}

static void held_done(autograph_held *h) {
    for (uint32_t i = 0; i < h->n; i++) autograph_memory_unref(h->memory[i]);
    base_free(h->memory);
    base_free(h->form);
    *h = (autograph_held){0};
}

void autograph_call_done(rp_call *call) {
    held_done(&call->out);
    held_done(&call->temp);
}

static bool same_form(const rp_buffer *a, const rp_buffer *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i]) return false;
    return true;
}

/* Memory and outputs are asked for alike in both runs. */
static rp_status check_again(const rp_call *call, const autograph_held *now,
                             const autograph_held *before, const rp_buffer *b, const char *what,
                             rp_error *err) {
    rp_error why = {0};
    if (!call->first || (now->n < before->n && same_form(&before->form[now->n], b))) return RP_OK;
    rp_status st = rp_fail(&why, RP_INVALID,
                           "%s %u has another form when the function runs again to be captured; "
                           "ask for the same memory in the same order for equal arguments",
                           what, now->n);
    hal_capture_spoil(call->a->queue, &why);
    return rp_fail(err, st, "%s", why.text);
}

static rp_status check_asked(const rp_call *call, const rp_buffer *b, size_t *bytes,
                             const char *name, rp_error *err) {
    if (!call || !b) return rp_fail(err, RP_INVALID, "%s: call or buffer is NULL", name);
    if ((unsigned)b->dtype >= RP_DTYPE_COUNT_ || b->rank > RP_MAX_RANK ||
        !autograph_bytes(b, bytes))
        return rp_fail(err, RP_INVALID, "%s: no memory has this dtype, rank and sizes", name);
    return RP_OK;
}

/* How often a body runs, and so what it would ask for, differs from one run to the next. */
static rp_status check_outside(const rp_call *call, rp_error *err) {
    rp_error why = {0};
    if (!call->bodies) return RP_OK;
    rp_status st = rp_fail(&why, RP_INVALID,
                           "memory is asked for inside of a branch or loop; ask for it before");
    hal_capture_spoil(call->a->queue, &why);
    return rp_fail(err, st, "%s", why.text);
}

static rp_status new_memory(const rp_call *call, const autograph_stand *form,
                            autograph_memory **out, rp_error *err) {
    autograph_stand s = *form;
    autograph_memory *m = NULL;
    rp_status st = RP_OK;
    RP_TRY(autograph_memory_new(call->a->device, s.size, false, &m, err));
    s.at = m->data;
    if (call->first)
        st = hal_capture_allow(call->a->queue, m->data, s.size ? s.size : 1, "memory of a call",
                               err);
    if (st == RP_OK && call->stands) st = autograph_stand_fill(call->stands, &s, err);
    if (st == RP_OK)
        *out = m;
    else
        autograph_memory_unref(m);
    return st;
}

/* While the function is captured, that of the slot, or what stands for it. */
static rp_status slot_memory(const rp_call *call, const autograph_stand *form, void **out,
                             rp_error *err) {
    void *slot = call->outs->slot[form->number].memory->data;
    if (call->stands) return autograph_stand_for(call->stands, slot, form, out, err);
    *out = slot;
    return hal_capture_allow(call->a->queue, slot, form->size ? form->size : 1, "memory of a call",
                             err);
}

static rp_status hold(rp_call *call, autograph_held *h, rp_buffer *b, size_t bytes, rp_error *err) {
    autograph_memory *m = NULL;
    bool is_out = h == &call->out;
    RP_TRY(check_outside(call, err));
    RP_TRY(make_room(h, err));
    autograph_stand form = {.size = bytes,
                            .dtype = b->dtype,
                            .what = is_out ? "output" : "temp",
                            .number = h->n,
                            .blank = true};
    if (call->outs && is_out) {
        RP_TRY(slot_memory(call, &form, &b->data, err));
    } else {
        RP_TRY(new_memory(call, &form, &m, err));
        b->data = m->data;
    }
    h->memory[h->n] = m;
    h->form[h->n++] = *b;
    return RP_OK;
}

rp_stream *rp_call_stream(const rp_call *call) {
    return call ? call->a->stream : NULL;
}

rp_status rp_call_output(rp_call *call, rp_buffer *b, rp_error *err) {
    base_error_clear(err);
    size_t bytes = 0;
    RP_TRY(check_asked(call, b, &bytes, "rp_call_output", err));
    RP_TRY(check_again(call, &call->out, call->first ? &call->first->out : NULL, b, "output", err));
    return hold(call, &call->out, b, bytes, err);
}

rp_status rp_call_temp(rp_call *call, rp_buffer *b, rp_error *err) {
    base_error_clear(err);
    size_t bytes = 0;
    RP_TRY(check_asked(call, b, &bytes, "rp_call_temp", err));
    RP_TRY(check_again(call, &call->temp, call->first ? &call->first->temp : NULL, b, "temp", err));
    return hold(call, &call->temp, b, bytes, err);
}

rp_status rp_call_compiled(rp_call *call, rp_compiled *c, const rp_buffer *inputs,
                           uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs,
                           rp_error *err) {
    base_error_clear(err);
    if (!call) return rp_fail(err, RP_INVALID, "rp_call_compiled: call is NULL");
    RP_TRY(rp_compiled_outputs(c, inputs, n_inputs, outputs, n_outputs, err));
    for (uint32_t i = 0; i < n_outputs; i++) RP_TRY(rp_call_output(call, &outputs[i], err));
    return rp_compiled_run_on(c, call->a->stream, inputs, n_inputs, outputs, n_outputs, err);
}

/* The codes that the driver and the runtime give to calls of a thread that captures. */
static bool is_of_capture(int code) {
    return code >= 900 && code <= 908;
}

rp_status rp_call_check(rp_call *call, const char *what, int code, rp_error *err) {
    base_error_clear(err);
    rp_error why = {0};
    if (!call || !what) return rp_fail(err, RP_INVALID, "rp_call_check: call or what is NULL");
    if (code == 0) return RP_OK;
    rp_status st = call->first && is_of_capture(code)
                       ? rp_fail(&why, RP_UNSUPPORTED,
                                 "%s gave code %d: a graph can contain no call that waits, "
                                 "allocates or reads back",
                                 what, code)
                       : rp_fail(&why, RP_DEVICE, "%s gave code %d", what, code);
    if (call->first) hal_capture_spoil(call->a->queue, &why);
    return rp_fail(err, st, "%s", why.text);
}

static rp_status refuse_strided(void *user, rp_value *v, rp_error *err) {
    (void)user;
    return autograph_is_dense(v) ? RP_OK
                                 : rp_fail(err, RP_UNSUPPORTED,
                                           "rp_call_function: a tensor is a strided view; inside "
                                           "of a call tensors are dense");
}

/* As rp_autograph_run does it. */
static rp_status check_args(const rp_function *f, const rp_value *args, rp_error *err) {
    rp_error why = {0};
    base_buf key;
    base_buf_init(&key, 0);
    rp_status st = autograph_value_key(args, 0, &key, &why);
    base_buf_done(&key);
    if (st != RP_OK) return rp_fail(err, st, "arguments of %s: %s", f->o.name, why.text);
    return autograph_value_each((rp_value *)(uintptr_t)args, refuse_strided, NULL, err);
}

rp_status rp_call_function(rp_call *call, const rp_function *f, const rp_value *args,
                           rp_value *result, rp_error *err) {
    base_error_clear(err);
    if (!call || !f || !args || !result)
        return rp_fail(err, RP_INVALID, "rp_call_function: an argument is NULL");
    if (f->a != call->a)
        return rp_fail(err, RP_INVALID, "rp_call_function: %s is a function of another manager",
                       f->o.name);
    RP_TRY(check_args(f, args, err));
    *result = rp_value_none();
    return f->o.fn(f->o.user, call, args, result, err);
}
