/* Calls of a compiled graph. */
#include <string.h>

#include "api/api.h"
#include "api/compiled.h"
#include "api/foreign.h"
#include "base/alloc.h"
#include "base/status.h"
#include "device/running.h"
#include "ir/custom.h"
#include "plan/size.h"

enum { FEW = 16 }; /* symbols on the stack */

static rp_status check_form(const char *what, const plan_leaf *l, const rp_buffer *b,
                            rp_error *err) {
    if (b->dtype != l->dtype)
        return rp_fail(err, RP_INVALID, "%s %s is %s; the graph wants %s", what, l->name,
                       rp_dtype_name(b->dtype), rp_dtype_name(l->dtype));
    if (b->rank != l->rank)
        return rp_fail(err, RP_INVALID, "%s %s has rank %u; the graph wants %u", what, l->name,
                       b->rank, l->rank);
    return RP_OK;
}

/* Sizes as the symbols say. */
static rp_status check_dims(const int64_t *symbols, const char *what, const plan_leaf *l,
                            const rp_buffer *b, rp_error *err) {
    for (uint32_t d = 0; d < l->rank; d++) {
        int64_t want = plan_size_eval(&l->dim[d], symbols);
        if (b->dim[d] != want)
            return rp_fail(err, RP_INVALID,
                           "%s %s size mismatch at index %u. expected %lld, actual %lld", what,
                           l->name, d, (long long)want, (long long)b->dim[d]);
    }
    return RP_OK;
}

/* Unless there is nothing to hold. */
static rp_status check_data(const char *what, const plan_leaf *l, const rp_buffer *b,
                            rp_error *err) {
    bool empty = false;
    for (uint32_t d = 0; d < l->rank; d++) empty = empty || b->dim[d] == 0;
    if (b->data || empty) return RP_OK;
    return rp_fail(err, RP_INVALID, "%s %s has no data", what, l->name);
}

/* Types and sizes of the inputs, and what the symbols are by them. */
static rp_status read_inputs(const plan *p, const rp_buffer *inputs, int64_t *symbols,
                             rp_error *err) {
    for (uint32_t i = 0; i < p->n_inputs; i++)
        RP_TRY(check_form("input", &p->inputs[i], &inputs[i], err));
    RP_TRY(api_read_sizes(p, inputs, symbols, err));
    for (uint32_t i = 0; i < p->n_inputs; i++)
        RP_TRY(check_dims(symbols, "input", &p->inputs[i], &inputs[i], err));
    return plan_check_symbols(p, symbols, err);
}

rp_status api_check_buffers(const plan *p, int64_t *symbols, const rp_buffer *inputs,
                            const rp_buffer *outputs, rp_error *err) {
    RP_TRY(read_inputs(p, inputs, symbols, err));
    for (uint32_t i = 0; i < p->n_inputs; i++)
        RP_TRY(check_data("input", &p->inputs[i], &inputs[i], err));
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        RP_TRY(check_form("output", &p->outputs[i], &outputs[i], err));
        RP_TRY(check_dims(symbols, "output", &p->outputs[i], &outputs[i], err));
        RP_TRY(check_data("output", &p->outputs[i], &outputs[i], err));
    }
    return RP_OK;
}

void api_set_addresses(const plan *p, plan_exec *exec, const rp_buffer *inputs,
                       const rp_buffer *outputs) {
    for (uint32_t i = 0; i < p->n_inputs; i++)
        plan_exec_set(exec, PLAN_INPUT, i, api_address(inputs[i].data));
    for (uint32_t i = 0; i < p->n_outputs; i++)
        plan_exec_set(exec, PLAN_OUTPUT, i, api_address(outputs[i].data));
}

rp_status api_set_buffers(const plan *p, plan_exec *exec, int64_t *symbols, const rp_buffer *inputs,
                          const rp_buffer *outputs, rp_error *err) {
    RP_TRY(api_check_buffers(p, symbols, inputs, outputs, err));
    api_set_addresses(p, exec, inputs, outputs);
    return RP_OK;
}

/* --- frames: what they are bound for ---------------------------------------------------------- */

/* What a call has to do again. */
typedef enum binding { ALL, ADDRESSES, NOTHING } binding;

/* Buffers like those of the last call, which were found to be the graph's: launches are bound for their sizes. */
static inline bool are_alike(const rp_buffer *was, const rp_buffer *b, uint32_t n, binding *what) {
    for (const rp_buffer *end = b + n; b < end; b++, was++) {
        const uint32_t rank = was->rank;
        int64_t other = 0;
        if (b->dtype != was->dtype || b->rank != rank || (!b->data && was->data)) return false;
        for (uint32_t d = rank; d-- > 0;) other |= b->dim[d] ^ was->dim[d];
        if (other) return false;
        if (b->data != was->data) *what = ADDRESSES;
    }
    return true;
}

static binding what_to_bind(const rp_compiled *c, const api_frame *f, const rp_buffer *inputs,
                            const rp_buffer *outputs) {
    uint32_t n = c->p->n_inputs;
    binding what = NOTHING;
    if (!f->bound || !are_alike(f->form, inputs, n, &what) ||
        !are_alike(f->form + n, outputs, c->p->n_outputs, &what))
        return ALL;
    /* A copy on the device may have taken a buffer's place. */
    return c->memory || f->generation != atomic_load(&c->generation) ? ADDRESSES : what;
}

static void note_bound(const rp_compiled *c, api_frame *f, const rp_buffer *inputs,
                       const rp_buffer *outputs) {
    uint32_t n = c->p->n_inputs;
    for (uint32_t i = 0; i < n; i++) f->form[i] = inputs[i];
    for (uint32_t i = 0; i < c->p->n_outputs; i++) f->form[n + i] = outputs[i];
    f->generation = atomic_load(&c->generation);
    f->bound = true;
}

/* The buffers are set. */
static rp_status bind(const rp_compiled *c, api_frame *f, binding what, const rp_buffer *inputs,
                      const rp_buffer *outputs, rp_error *err) {
    f->bound = false;
    if (what == ALL)
        RP_TRY(plan_exec_bind(f->exec, f->list, f->symbols, err));
    else
        RP_TRY(plan_exec_point(f->exec, f->list, err));
    note_bound(c, f, inputs, outputs);
    return RP_OK;
}

static rp_status set_buffers(const rp_compiled *c, api_frame *f, binding what,
                             const rp_buffer *inputs, rp_buffer *outputs, rp_error *err) {
    if (what == ALL) {
        f->bound = false; /* a failure leaves other symbols */
        return api_set_buffers(c->p, f->exec, f->symbols, inputs, outputs, err);
    }
    if (what == ADDRESSES) api_set_addresses(c->p, f->exec, inputs, outputs);
    return RP_OK;
}

static rp_status launch(const rp_compiled *c, api_frame *f, hal_device *queue, binding what,
                        const rp_buffer *inputs, const rp_buffer *outputs, rp_error *err) {
    bool staged = c->memory != NULL;
    if (staged) RP_TRY(api_stage_in(&f->stage, f->device, queue, c->p, f->exec, f->symbols, err));
    if (what != NOTHING) RP_TRY(bind(c, f, what, inputs, outputs, err));
    RP_TRY(queue->ops->launch(queue, f->list->launches, f->list->n, f->list->scratch, err));
    return staged ? api_stage_out(&f->stage, queue, c->mutates, err) : RP_OK;
}

/* After a failure, too, nothing may be on its way to or from the caller's memory. */
static rp_status wait_failed(hal_device *queue, rp_status st) {
    rp_error late = {0};
    (void)queue->ops->synchronize(queue, &late);
    return st;
}

rp_status api_run_frame(rp_compiled *c, api_frame *f, hal_device *queue, const rp_buffer *inputs,
                        rp_buffer *outputs, const api_told *told, rp_error *err) {
    binding what = what_to_bind(c, f, inputs, outputs);
    RP_TRY(set_buffers(c, f, what, inputs, outputs, err));
    hal_trace *trace = queue->trace ? api_trace_run(c, queue, f->exec, f->symbols, told) : NULL;
    rp_status st = launch(c, f, queue, what, inputs, outputs, err);
    if (trace) (void)hal_trace_to(queue, trace);
    return st == RP_OK ? queue->ops->synchronize(queue, err) : wait_failed(queue, st);
}

/* --- calls ------------------------------------------------------------------------------------ */

static RP_COLD rp_status refuse_counts(const rp_compiled *c, uint32_t n_inputs, uint32_t n_outputs,
                                       rp_error *err) {
    if (!c) return rp_fail(err, RP_INVALID, "compiled graph is NULL");
    const plan *p = c->p;
    if (n_inputs != p->n_inputs || n_outputs != p->n_outputs)
        return rp_fail(err, RP_INVALID,
                       "graph @%s has %u inputs and %u outputs; %u and %u were given", p->name,
                       p->n_inputs, p->n_outputs, n_inputs, n_outputs);
    return rp_fail(err, RP_INVALID, "inputs or outputs are NULL");
}

static inline rp_status check_counts(const rp_compiled *c, const void *inputs, uint32_t n_inputs,
                                     const void *outputs, uint32_t n_outputs, rp_error *err) {
    bool ok = c && n_inputs == c->p->n_inputs && n_outputs == c->p->n_outputs &&
              (inputs || !n_inputs) && (outputs || !n_outputs);
    return ok ? RP_OK : refuse_counts(c, n_inputs, n_outputs, err);
}

rp_status api_check_counts(const rp_compiled *c, const void *inputs, uint32_t n_inputs,
                           const void *outputs, uint32_t n_outputs, rp_error *err) {
    return check_counts(c, inputs, n_inputs, outputs, n_outputs, err);
}

rp_status api_check_stream(const rp_compiled *c, const rp_stream *s, const char *call,
                           rp_error *err) {
    if (!s) return device_check_captured(NULL, call, DEVICE_RUN_CAPTURED, err);
    if (rp_stream_device(s) != c->shared)
        return rp_fail(err, RP_INVALID,
                       "graph @%s was compiled for %s, the stream is of another one; compile it by "
                       "rp_compile_on with the device of the stream",
                       c->p->name, c->shared ? "one device" : "a device of its own");
    return device_check_captured(device_stream_queue(s), call, "it takes rp_call_stream", err);
}

rp_status rp_compiled_outputs(const rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                              rp_buffer *outputs, uint32_t n_outputs, rp_error *err) {
    base_error_clear(err);
    RP_TRY(api_check_counts(c, inputs, n_inputs, outputs, n_outputs, err));
    const plan *p = c->p;
    int64_t few[FEW], *symbols = few;
    if (p->n_symbols > FEW) symbols = base_alloc_array(p->n_symbols, sizeof *symbols);
    if (!symbols) return rp_fail(err, RP_NOMEM, "sizes of graph @%s", p->name);
    rp_status st = read_inputs(p, inputs, symbols, err);
    for (uint32_t i = 0; i < n_outputs && st == RP_OK; i++) {
        const plan_leaf *l = &p->outputs[i];
        outputs[i].dtype = l->dtype;
        outputs[i].rank = l->rank;
        for (uint32_t d = 0; d < l->rank; d++)
            outputs[i].dim[d] = plan_size_eval(&l->dim[d], symbols);
    }
    if (symbols != few) base_free(symbols);
    return st;
}

/* stream NULL: on the queue of a frame. */
static inline rp_status run_eager(rp_compiled *c, rp_stream *stream, const rp_buffer *inputs,
                                  rp_buffer *outputs, rp_error *err) {
    api_frame *f = NULL;
    RP_TRY(api_frames_take(c->frames, &f, err));
    hal_device *queue = stream ? device_stream_queue(stream) : f->device;
    rp_status st = api_run_frame(c, f, queue, inputs, outputs, NULL, err);
    api_frames_give(c->frames, f);
    return st;
}

rp_status rp_compiled_run(rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                          rp_buffer *outputs, uint32_t n_outputs, rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_counts(c, inputs, n_inputs, outputs, n_outputs, err));
    if (device_captures()) RP_TRY(api_check_stream(c, NULL, "rp_compiled_run", err));
    device_run_begin();
    rp_status st = c->foreign ? api_foreign_run(c, inputs, outputs, err)
                              : api_weights_ready(c, err);
    if (st == RP_OK && !c->foreign) st = run_eager(c, NULL, inputs, outputs, err);
    device_run_end();
    return st;
}

/* In turn with what is on the stream; nothing of it can be noted for a graph. */
static rp_status run_foreign_on(rp_compiled *c, rp_stream *s, const rp_buffer *inputs,
                                rp_buffer *outputs, rp_error *err) {
    hal_device *queue = device_stream_queue(s);
    rp_error why = {0};
    if (device_stream_capturing(s)) {
        (void)rp_fail(&why, RP_UNSUPPORTED,
                      "graph @%s is computed by backend %s, whose calls are "
                      "not captured",
                      c->p->name, c->info.backend);
        hal_capture_spoil(queue, &why);
        return rp_fail(err, why.code, "%s", why.text);
    }
    RP_TRY(queue->ops->synchronize(queue, err));
    return api_foreign_run(c, inputs, outputs, err);
}

static rp_status run_on(rp_compiled *c, rp_stream *s, const rp_buffer *inputs, rp_buffer *outputs,
                        rp_error *err) {
    if (c->foreign) return run_foreign_on(c, s, inputs, outputs, err);
    RP_TRY(api_weights_ready(c, err));
    if (device_stream_capturing(s)) return api_capture_run(c, s, inputs, outputs, NULL, err);
    return run_eager(c, s, inputs, outputs, err);
}

rp_status rp_compiled_run_on(rp_compiled *c, rp_stream *s, const rp_buffer *inputs,
                             uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs,
                             rp_error *err) {
    base_error_clear(err);
    RP_TRY(api_check_counts(c, inputs, n_inputs, outputs, n_outputs, err));
    if (!s) return rp_fail(err, RP_INVALID, "rp_compiled_run_on: stream is NULL");
    RP_TRY(api_check_stream(c, s, "rp_compiled_run_on another stream", err));
    device_run_begin();
    rp_status st = run_on(c, s, inputs, outputs, err);
    device_run_end();
    return st;
}
