/* Calls of a compiled graph: binding, packing, running. */
#include <string.h>

#include "api/api.h"
#include "api/compiled.h"
#include "base/alloc.h"
#include "base/status.h"
#include "ir/custom.h"
#include "plan/size.h"

/* --- binding ---------------------------------------------------------------------- */

/* Where what is empty, or a token, is said to be: nothing is read or written there. */
static void *address_of(void *data) {
    static char nothing;
    return data ? data : &nothing;
}

static uint32_t find_leaf(const plan_leaf *l, uint32_t n, const char *name) {
    uint32_t i = 0;
    while (i < n && strcmp(l[i].name, name) != 0) i++;
    return i;
}

static bool is_empty(const plan_leaf *l) {
    int64_t size;
    bool empty = false;
    for (uint32_t d = 0; d < l->rank; d++)
        empty = empty || (ir_dim_code_is_const(&l->dim[d], &size) && size == 0);
    return empty;
}

rp_status rp_compiled_bind(rp_compiled *c, const char *name, void *data, rp_error *err) {
    base_error_clear(err);
    if (!c || !name) return rp_fail(err, RP_INVALID, "bind: graph and name must be given");
    const plan *p = c->p;
    uint32_t param = find_leaf(p->params, p->n_params, name);
    uint32_t state = find_leaf(p->states, p->n_states, name);
    if (param == p->n_params && state == p->n_states)
        return rp_fail(err, RP_NOT_FOUND, "graph @%s has no param or state called '%s'", p->name,
                       name);
    if (!data && !is_empty(param < p->n_params ? &p->params[param] : &p->states[state]))
        return rp_fail(err, RP_INVALID, "bind: '%s' of graph @%s is not empty; data must be given",
                       name, p->name);
    bool is_param = param < p->n_params;
    data = address_of(data);
    (void)atomic_fetch_add(&c->generation, 1);
    api_frames_set(c->frames, is_param ? PLAN_PARAM : PLAN_STATE, is_param ? param : state, data);
    if (!is_param) return RP_OK;
    c->params[param] = data;
    c->packed_ready = false;
    return RP_OK;
}

static rp_status fill_packs(rp_compiled *c, rp_error *err) {
    const plan *p = c->p;
    hal_device_info info;
    api_frame *f = NULL;
    rp_status st = RP_OK;
    RP_TRY(api_frames_take(c->frames, &f, err));
    f->device->ops->info(f->device, &info);
    for (uint32_t i = 0; i < p->n_packs && st == RP_OK; i++) {
        void *to = c->packed + p->packs[i].offset;
        if (*info.arch)
            plan_pack_fill(p, i, c->params, to);
        else
            st = plan_pack_fill_on(f->device, p, i, c->params, to, err);
    }
    api_frames_give(c->frames, f);
    return st;
}

static rp_status pack_weights(rp_compiled *c, rp_error *err) {
    const plan *p = c->p;
    for (uint32_t i = 0; i < p->n_params; i++)
        if (!c->params[i])
            return rp_fail(err, RP_INVALID,
                           "param %s of graph @%s has no data; call rp_compiled_bind",
                           p->params[i].name, p->name);
    for (uint32_t i = 0; i < p->n_states; i++)
        if (!plan_exec_get(api_frames_exec(c->frames), PLAN_STATE, i))
            return rp_fail(err, RP_INVALID,
                           "state %s of graph @%s has no data; call rp_compiled_bind",
                           p->states[i].name, p->name);
    return p->n_packs ? fill_packs(c, err) : RP_OK;
}

/* The first call after a bind packs; others that come meanwhile wait for it. */
static rp_status ensure_packed(rp_compiled *c, rp_error *err) {
    rp_status st = RP_OK;
    (void)pthread_mutex_lock(&c->lock);
    if (!c->packed_ready) st = pack_weights(c, err);
    c->packed_ready = st == RP_OK;
    (void)pthread_mutex_unlock(&c->lock);
    return st;
}

/* --- running ------------------------------------------------------------------------ */

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

rp_status api_set_buffers(const plan *p, plan_exec *exec, int64_t *symbols, const rp_buffer *inputs,
                          rp_buffer *outputs, rp_error *err) {
    RP_TRY(read_inputs(p, inputs, symbols, err));
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        RP_TRY(check_data("input", &p->inputs[i], &inputs[i], err));
        plan_exec_set(exec, PLAN_INPUT, i, address_of(inputs[i].data));
    }
    for (uint32_t i = 0; i < p->n_outputs; i++) {
        RP_TRY(check_form("output", &p->outputs[i], &outputs[i], err));
        RP_TRY(check_dims(symbols, "output", &p->outputs[i], &outputs[i], err));
        RP_TRY(check_data("output", &p->outputs[i], &outputs[i], err));
        plan_exec_set(exec, PLAN_OUTPUT, i, address_of(outputs[i].data));
    }
    return RP_OK;
}

static rp_status run_frame(const plan *p, api_frame *f, hal_device *queue, const rp_buffer *inputs,
                           rp_buffer *outputs, rp_error *err) {
    RP_TRY(api_set_buffers(p, f->exec, f->symbols, inputs, outputs, err));
    RP_TRY(plan_exec_bind(f->exec, f->list, f->symbols, err));
    RP_TRY(queue->ops->launch(queue, f->list->launches, f->list->n, f->list->scratch, err));
    return queue->ops->synchronize(queue, err);
}

static rp_status check_counts(const rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                              const rp_buffer *outputs, uint32_t n_outputs, rp_error *err) {
    if (!c) return rp_fail(err, RP_INVALID, "compiled graph is NULL");
    const plan *p = c->p;
    if (n_inputs != p->n_inputs || n_outputs != p->n_outputs)
        return rp_fail(err, RP_INVALID,
                       "graph @%s has %u inputs and %u outputs; %u and %u were given", p->name,
                       p->n_inputs, p->n_outputs, n_inputs, n_outputs);
    if ((n_inputs && !inputs) || (n_outputs && !outputs))
        return rp_fail(err, RP_INVALID, "inputs or outputs are NULL");
    return RP_OK;
}

rp_status rp_compiled_outputs(const rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                              rp_buffer *outputs, uint32_t n_outputs, rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_counts(c, inputs, n_inputs, outputs, n_outputs, err));
    const plan *p = c->p;
    int64_t *symbols = base_alloc_array(p->n_symbols + 1u, sizeof *symbols);
    if (!symbols) return rp_fail(err, RP_NOMEM, "sizes of graph @%s", p->name);
    rp_status st = read_inputs(p, inputs, symbols, err);
    for (uint32_t i = 0; i < n_outputs && st == RP_OK; i++) {
        const plan_leaf *l = &p->outputs[i];
        outputs[i].dtype = l->dtype;
        outputs[i].rank = l->rank;
        for (uint32_t d = 0; d < l->rank; d++)
            outputs[i].dim[d] = plan_size_eval(&l->dim[d], symbols);
    }
    base_free(symbols);
    return st;
}

/* stream NULL: on the queue of a frame. */
static rp_status run_eager(rp_compiled *c, rp_stream *stream, const rp_buffer *inputs,
                           rp_buffer *outputs, rp_error *err) {
    api_frame *f = NULL;
    RP_TRY(api_frames_take(c->frames, &f, err));
    rp_status st =
        run_frame(c->p, f, stream ? device_stream_queue(stream) : f->device, inputs, outputs, err);
    api_frames_give(c->frames, f);
    return st;
}

rp_status rp_compiled_run(rp_compiled *c, const rp_buffer *inputs, uint32_t n_inputs,
                          rp_buffer *outputs, uint32_t n_outputs, rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_counts(c, inputs, n_inputs, outputs, n_outputs, err));
    RP_TRY(device_check_captured(NULL, "rp_compiled_run",
                                 "it is rp_call_compiled or rp_compiled_run_on of rp_call_stream",
                                 err));
    RP_TRY(ensure_packed(c, err));
    return run_eager(c, NULL, inputs, outputs, err);
}

rp_status rp_compiled_run_on(rp_compiled *c, rp_stream *s, const rp_buffer *inputs,
                             uint32_t n_inputs, rp_buffer *outputs, uint32_t n_outputs,
                             rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_counts(c, inputs, n_inputs, outputs, n_outputs, err));
    if (!s) return rp_fail(err, RP_INVALID, "rp_compiled_run_on: stream is NULL");
    if (rp_stream_device(s) != c->shared)
        return rp_fail(err, RP_INVALID,
                       "graph @%s was compiled for %s, the stream is of another one; compile it by "
                       "rp_compile_on with the device of the stream",
                       c->p->name, c->shared ? "one device" : "a device of its own");
    RP_TRY(device_check_captured(device_stream_queue(s), "rp_compiled_run_on another stream",
                                 "it takes rp_call_stream", err));
    RP_TRY(ensure_packed(c, err));
    hal_digest_add(device_stream_queue(s), c->p->name,
                   (long long)(intptr_t)c); /* which one it is */
    if (device_stream_capturing(s)) return api_capture_run(c, s, inputs, outputs, err);
    return run_eager(c, s, inputs, outputs, err);
}
