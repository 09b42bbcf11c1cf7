/* Calls that are made again (device/repeat.h): each has a frame of its graph until it is freed. */
#include "api/compiled.h"
#include "base/alloc.h"

/* The frame's form has the buffers that it was bound for. */
typedef struct repeat {
    device_repeat base;
    rp_compiled *c;
    api_frame *frame;
    void *at[];
} repeat;

static rp_status bind(device_repeat *base, const rp_buffer *inputs, const rp_buffer *outputs,
                      rp_error *err) {
    repeat *r = (repeat *)base;
    api_frame *f = r->frame;
    const plan *p = r->c->p;
    rp_buffer *form = f->form;
    for (uint32_t i = 0; i < p->n_inputs; i++) form[i] = inputs[i];
    for (uint32_t i = 0; i < p->n_outputs; i++) form[p->n_inputs + i] = outputs[i];
    RP_TRY(api_set_buffers(p, f->exec, f->symbols, form, form + p->n_inputs, err));
    RP_TRY(plan_exec_bind(f->exec, f->list, f->symbols, err));
    for (uint32_t i = 0; i < p->n_inputs + p->n_outputs; i++) r->at[i] = form[i].data;
    base->launches = f->list->launches;
    base->n = f->list->n;
    base->scratch = f->list->scratch;
    return RP_OK;
}

static rp_status move(device_repeat *base, rp_error *err) {
    const repeat *r = (const repeat *)base;
    const api_frame *f = r->frame;
    const plan *p = r->c->p;
    rp_buffer *form = f->form;
    for (uint32_t i = 0; i < p->n_inputs + p->n_outputs; i++) form[i].data = r->at[i];
    api_set_addresses(p, f->exec, form, form + p->n_inputs);
    return plan_exec_point(f->exec, f->list, err);
}

static void repeat_free(device_repeat *base) {
    repeat *r = (repeat *)base;
    api_frames_give(r->c->frames, r->frame);
    base_free(r);
}

rp_status api_repeat(rp_compiled *c, device_repeat **out, rp_error *err) {
    uint32_t n = c->p->n_inputs + c->p->n_outputs;
    RP_TRY(api_weights_ready(c, err));
    repeat *r = base_alloc(sizeof *r + n * sizeof *r->at);
    if (!r) return rp_fail(err, RP_NOMEM, "a call of graph @%s", c->p->name);
    r->c = c;
    rp_status st = api_frames_take(c->frames, &r->frame, err);
    if (st != RP_OK) {
        base_free(r);
        return st;
    }
    r->frame->bound = false; /* for calls behind this one */
    r->base = (device_repeat){
        .bind = bind, .move = move, .free = repeat_free, .queue = r->frame->device, .at = r->at};
    *out = &r->base;
    return RP_OK;
}
