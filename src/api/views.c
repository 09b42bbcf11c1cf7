/* Calls with views: what is not dense is copied in front of a call of dense buffers and behind it. */
#include "api/views.h"

#include <stdio.h>

#include "api/compiled.h"
#include "api/foreign.h"
#include "base/alloc.h"
#include "base/options.h"
#include "base/status.h"
#include "base/str.h"
#include "device/running.h"
#include "device/view.h"

enum { FEW = 16, ALIGN = 256 };

/* A tensor of a call. */
typedef struct viewed {
    const plan_leaf *leaf;
    const rp_view *given;
    base_view view;
    bool output, written;
    bool copied;      /* it has a dense copy, .. */
    bool on_device;   /* .. in memory of the device, by whose queue it is copied, .. */
    size_t at, bytes; /* .. there */
} viewed;

typedef struct view_call {
    rp_compiled *c;
    rp_stream *stream;
    viewed *v; /* n, the inputs first */
    uint32_t n, n_in;
    rp_buffer *buffer; /* by v */
    api_told *told;    /* likewise */
    rp_view_copies copies;
    rp_error late; /* of what is done behind a failure */
} view_call;

void api_views_done(api_views *v, hal_device *d) {
    base_free(v->host);
    if (d && v->device) d->ops->release(d, v->device, v->device_size);
    *v = (api_views){0};
}

enum { NAME = 96 };

static size_t dense_bytes(const viewed *v) {
    const rp_buffer *b = &v->given->tensor;
    size_t n = rp_dtype_block_bytes(b->dtype);
    for (uint32_t i = 0; i < b->rank; i++) n *= (size_t)b->dim[i];
    return n / rp_dtype_block(b->dtype);
}

static const char *name_of(const viewed *v, char out[NAME]) {
    (void)snprintf(out, NAME, "%s %s", v->output ? "output" : "input", v->leaf->name);
    return out;
}

/* --- what is given --------------------------------------------------------------------------- */

static rp_status read_view(viewed *v, rp_buffer *out, rp_error *err) {
    char what[NAME];
    bool dense = false;
    RP_TRY(device_view_of(v->given, name_of(v, what), &v->view, &dense, err));
    *out = v->given->tensor;
    out->data = v->view.at;
    v->copied = !dense && base_view_bytes(&v->view, &v->bytes) && v->bytes > 0;
    return RP_OK;
}

static rp_status read_views(view_call *k, const rp_view *in, const rp_view *out, rp_error *err) {
    const plan *p = k->c->p;
    for (uint32_t i = 0; i < k->n; i++) {
        bool output = i >= k->n_in;
        uint32_t idx = output ? i - k->n_in : i;
        k->v[i] = (viewed){.leaf = output ? &p->outputs[idx] : &p->inputs[idx],
                           .given = output ? &out[idx] : &in[idx],
                           .output = output,
                           .written = output || k->c->mutates[idx]};
        RP_TRY(read_view(&k->v[i], &k->buffer[i], err));
        if (!k->v[i].copied) continue;
        k->copies.bytes += k->v[i].bytes * (1 + (!output && k->v[i].written));
        k->copies.gathered += !output;
        k->copies.scattered += k->v[i].written;
    }
    return RP_OK;
}

static bool any_copied(const view_call *k) {
    return k->copies.gathered + k->copies.scattered > 0;
}

static rp_status fail_pair(const view_call *k, const viewed *a, const viewed *b, rp_error *err) {
    char one[NAME], other[NAME];
    return rp_fail(err, RP_INVALID, "graph @%s: %s and %s, which are written, share memory",
                   k->c->p->name, name_of(a, one), name_of(b, other));
}

static rp_status fail_view(const view_call *k, const viewed *v, const char *is, const char *hint,
                           rp_error *err) {
    char name[NAME];
    base_buf b;
    base_buf_init(&b, 0);
    device_view_put(&b, v->given->tensor.dtype, &v->view);
    rp_status st = base_buf_status(&b, err);
    if (st == RP_OK)
        st = rp_fail(err, RP_INVALID, "graph @%s: %s, %s, %s; %s", k->c->p->name, name_of(v, name),
                     b.data, is, hint);
    base_buf_done(&b);
    return st;
}

/* What is written has places of its own. Of dense tensors the caller says so. */
static rp_status check_written(const view_call *k, rp_error *err) {
    for (uint32_t i = 0; i < k->n; i++) {
        const viewed *a = &k->v[i];
        if (!a->written || rp_dtype_block(a->given->tensor.dtype) > 1) continue;
        if (a->copied && base_view_repeats(&a->view))
            return fail_view(k, a, "is written, and several of its elements are one place",
                             "give each a place of its own", err);
        for (uint32_t j = 0; j < i; j++) {
            const viewed *b = &k->v[j];
            if (!b->written || !(a->copied || b->copied) || !base_views_meet(&a->view, &b->view))
                continue;
            return fail_pair(k, b, a, err);
        }
    }
    return RP_OK;
}

/* --- copies ---------------------------------------------------------------------------------- */

static void tell(const view_call *k) {
    const unsigned most = 8 * sizeof(unsigned) - 1;
    char who[NAME], what[NAME];
    (void)snprintf(who, sizeof who, "graph @%s", k->c->p->name);
    for (uint32_t i = 0; i < k->n; i++) {
        const viewed *v = &k->v[i];
        if (!v->copied) continue;
        unsigned bit = 1u << (i < most ? i : most);
        bool again = atomic_fetch_or(&k->c->views_told, bit) & bit;
        device_view_tell(
            &(device_view_copied){who, name_of(v, what), v->given->tensor.dtype, !v->output, again},
            &v->view);
    }
}

static rp_status grow_host(api_views *m, size_t bytes, rp_error *err) {
    if (bytes <= m->host_size) return RP_OK;
    base_free(m->host);
    m->host_size = 0;
    m->host = base_alloc_aligned(bytes, ALIGN);
    if (!m->host) return rp_fail(err, RP_NOMEM, "%zu bytes for dense copies of views", bytes);
    m->host_size = bytes;
    return RP_OK;
}

static rp_status grow_device(api_views *m, hal_device *d, size_t bytes, rp_error *err) {
    if (bytes <= m->device_size) return RP_OK;
    if (m->device) d->ops->release(d, m->device, m->device_size);
    m->device_size = 0;
    m->device = NULL;
    RP_TRY(d->ops->alloc(d, HAL_DEVICE_MEMORY, bytes, (void **)&m->device, err));
    m->device_size = bytes;
    return RP_OK;
}

/* Where dense copies lie, from 0 on in memory of the host, used[0] bytes, and of the device. */
static void lay_out(view_call *k, const hal_device *queue, bool captured, size_t used[2]) {
    used[0] = used[1] = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        viewed *v = &k->v[i];
        if (!v->copied) continue;
        v->on_device = captured || (k->c->memory && device_view_reached(queue, &v->view));
        v->at = used[v->on_device];
        used[v->on_device] += (v->bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
}

/* In memory that is there. */
static rp_status copy_inputs(view_call *k, const api_views *m, hal_device *queue, rp_error *err) {
    for (uint32_t i = 0; i < k->n; i++) {
        const viewed *v = &k->v[i];
        if (!v->copied) continue;
        char *dense = (v->on_device ? m->device : m->host) + v->at;
        k->buffer[i].data = dense;
        if (v->output) continue;
        if (v->on_device)
            RP_TRY(device_view_copy(queue, &v->view, dense, true, err));
        else
            base_view_gather(&v->view, dense);
    }
    return RP_OK;
}

/* queue NULL: memory of the host alone. */
static rp_status gather(view_call *k, api_views *m, hal_device *d, hal_device *queue,
                        rp_error *err) {
    size_t used[2];
    lay_out(k, queue, false, used);
    RP_TRY(grow_host(m, used[0], err));
    if (used[1]) RP_TRY(grow_device(m, d, used[1], err));
    return copy_inputs(k, m, queue, err);
}

/* What is queued is not waited for. */
static rp_status copy_outputs(const view_call *k, hal_device *queue, bool *queued, rp_error *err) {
    for (uint32_t i = 0; i < k->n; i++) {
        const viewed *v = &k->v[i];
        if (!v->copied || !v->written) continue;
        *queued = *queued || v->on_device;
        if (v->on_device)
            RP_TRY(device_view_copy(queue, &v->view, k->buffer[i].data, false, err));
        else
            base_view_scatter(&v->view, k->buffer[i].data);
    }
    return RP_OK;
}

static rp_status scatter(const view_call *k, hal_device *queue, rp_error *err) {
    bool queued = false;
    RP_TRY(copy_outputs(k, queue, &queued, err));
    return queue && queued ? queue->ops->synchronize(queue, err) : RP_OK;
}

/* --- captures -------------------------------------------------------------------------------- */

/* What runs of one function have in common: the views, not where their copies are. Nobody else is told of the copies. */
static hal_trace *tell_views(view_call *k, hal_device *queue) {
    if (queue->trace) hal_trace_call(queue, "views");
    for (uint32_t i = 0; i < k->n; i++) {
        const viewed *v = &k->v[i];
        int64_t begin = 0, end = 0;
        (void)base_view_span(&v->view, &begin, &end);
        k->told[i] = (api_told){v->view.at + begin, v->bytes ? (size_t)(end - begin) : 0};
        if (!v->copied) k->told[i].size = dense_bytes(v);
        for (uint32_t d = 0; v->copied && d < v->view.rank; d++)
            hal_trace_value(queue, v->leaf->name, v->view.stride[d]);
    }
    return hal_trace_to(queue, NULL);
}

/* Dense copies of one captured call, which go with the graph. */
typedef struct views_part {
    device_part base;
    hal_device *queue;
    char *block;
} views_part;

static bool part_valid(const device_part *base) {
    (void)base;
    return true;
}

static void part_free(device_part *base) {
    views_part *p = (views_part *)base;
    p->queue->ops->release(p->queue, p->block, base->bytes);
    base_free(p);
}

static rp_status keep_memory(view_call *k, hal_device *queue, size_t bytes, char **out,
                             rp_error *err) {
    views_part *p = base_alloc(sizeof *p);
    void *block = NULL;
    if (!p) return rp_fail(err, RP_NOMEM, "%zu bytes for dense copies of views", bytes);
    rp_status st = queue->ops->alloc(queue, HAL_DEVICE_MEMORY, bytes, &block, err);
    if (st != RP_OK) {
        base_free(p);
        return st;
    }
    *p = (views_part){.base = {.bytes = bytes, .valid = part_valid, .free = part_free},
                      .queue = queue,
                      .block = block};
    *out = block;
    return device_stream_keep(k->stream, &p->base, err);
}

static rp_status check_reached(const view_call *k, const hal_device *queue, rp_error *err) {
    char name[NAME];
    for (uint32_t i = 0; i < k->n; i++)
        if (k->v[i].copied && !device_view_reached(queue, &k->v[i].view))
            return rp_fail(err, RP_INVALID,
                           "%s of graph @%s is memory that the device does not reach; a call that "
                           "is captured wants memory of the device, by rp_device_alloc",
                           name_of(&k->v[i], name), k->c->p->name);
    return RP_OK;
}

static rp_status note_copied(view_call *k, hal_device *queue, rp_error *err) {
    api_views m = {0};
    size_t used[2];
    bool queued = false;
    rp_buffer *out = k->buffer + k->n_in;
    RP_TRY(check_reached(k, queue, err));
    RP_TRY(api_weights_ready(k->c, err));
    lay_out(k, queue, true, used);
    RP_TRY(keep_memory(k, queue, used[1], &m.device, err));
    hal_trace *trace = tell_views(k, queue);
    rp_status st = copy_inputs(k, &m, queue, err);
    (void)hal_trace_to(queue, trace);
    if (st == RP_OK) st = api_capture_run(k->c, k->stream, k->buffer, out, k->told, err);
    trace = hal_trace_to(queue, NULL);
    if (st == RP_OK) st = copy_outputs(k, queue, &queued, err);
    (void)hal_trace_to(queue, trace);
    return st;
}

/* The copies are part of the graph. */
static rp_status run_captured(view_call *k, rp_error *err) {
    hal_device *queue = device_stream_queue(k->stream);
    rp_error why = {0};
    rp_status st = note_copied(k, queue, &why);
    if (st == RP_OK) return RP_OK;
    hal_capture_spoil(queue, &why); /* some may be missing */
    return rp_fail(err, st, "%s", why.text);
}

/* --- calls ----------------------------------------------------------------------------------- */

static rp_status run_in_frame(view_call *k, rp_error *err) {
    rp_compiled *c = k->c;
    api_frame *f = NULL;
    RP_TRY(api_weights_ready(c, err));
    RP_TRY(api_frames_take(c->frames, &f, err));
    hal_device *queue = k->stream ? device_stream_queue(k->stream) : f->device;
    rp_buffer *out = k->buffer + k->n_in;
    hal_trace *trace = tell_views(k, queue);
    rp_status st = gather(k, &f->views, f->device, queue, err);
    (void)hal_trace_to(queue, trace);
    if (st == RP_OK) st = api_run_frame(c, f, queue, k->buffer, out, k->told, err);
    trace = hal_trace_to(queue, NULL);
    if (st == RP_OK) st = scatter(k, queue, err);
    (void)hal_trace_to(queue, trace);
    /* Nothing may be on its way to or from the caller's memory. */
    if (st != RP_OK) (void)queue->ops->synchronize(queue, &k->late);
    api_frames_give(c->frames, f);
    return st;
}

/* In memory of the host, in turn with what is on the stream. */
static rp_status run_foreign(view_call *k, rp_error *err) {
    api_views m = {0};
    hal_device *queue = k->stream ? device_stream_queue(k->stream) : NULL;
    if (queue) RP_TRY(queue->ops->synchronize(queue, err));
    rp_status st = gather(k, &m, NULL, NULL, err);
    if (st == RP_OK) st = api_foreign_run(k->c, k->buffer, k->buffer + k->n_in, err);
    if (st == RP_OK) st = scatter(k, NULL, err);
    api_views_done(&m, NULL);
    return st;
}

static rp_status check_form(const view_call *k, rp_error *err) {
    const plan *p = k->c->p;
    int64_t *symbols = base_alloc_array(p->n_symbols + 1u, sizeof *symbols);
    if (!symbols) return rp_fail(err, RP_NOMEM, "sizes of graph @%s", p->name);
    rp_status st = api_check_buffers(p, symbols, k->buffer, k->buffer + k->n_in, err);
    base_free(symbols);
    return st;
}

static rp_status refuse_copies(const view_call *k, rp_error *err) {
    const viewed *v = k->v;
    while (!v->copied) v++;
    return fail_view(k, v, "would be copied", "give it dense and aligned, or without no_copies",
                     err);
}

static rp_status run_dense(const view_call *k, rp_error *err) {
    const uint32_t n_out = k->n - k->n_in;
    rp_buffer *out = k->buffer + k->n_in;
    return k->stream ? rp_compiled_run_on(k->c, k->stream, k->buffer, k->n_in, out, n_out, err)
                     : rp_compiled_run(k->c, k->buffer, k->n_in, out, n_out, err);
}

static rp_status run_copied(view_call *k, rp_error *err) {
    bool captured = k->stream && device_stream_capturing(k->stream);
    RP_TRY(api_check_stream(k->c, k->stream, "rp_compiled_run_views", err));
    RP_TRY(check_form(k, err));
    RP_TRY(check_written(k, err));
    if (captured && k->c->foreign) return run_dense(k, err); /* which says why it is not */
    tell(k);
    device_run_begin();
    rp_status st = captured        ? run_captured(k, err)
                   : k->c->foreign ? run_foreign(k, err)
                                   : run_in_frame(k, err);
    device_run_end();
    return st;
}

static rp_status run_views(view_call *k, const rp_view *in, const rp_view *out,
                           const rp_run_options *o, rp_error *err) {
    RP_TRY(read_views(k, in, out, err));
    if (!any_copied(k)) return run_dense(k, err);
    return o->no_copies ? refuse_copies(k, err) : run_copied(k, err);
}

rp_status rp_compiled_run_views(rp_compiled *c, const rp_view *inputs, uint32_t n_inputs,
                                const rp_view *outputs, uint32_t n_outputs,
                                const rp_run_options *options, rp_error *err) {
    base_error_clear(err);
    rp_run_options o = RP_RUN_OPTIONS_INIT;
    viewed few[FEW];
    rp_buffer few_buffers[FEW];
    api_told few_told[FEW];
    rp_status st = RP_OK;
    RP_TRY(api_check_counts(c, inputs, n_inputs, outputs, n_outputs, err));
    if (options) RP_TRY(base_options_take(&o, sizeof o, options, "rp_run_options", err));
    view_call k = {.c = c,
                   .stream = o.stream,
                   .v = few,
                   .n = n_inputs + n_outputs,
                   .n_in = n_inputs,
                   .buffer = few_buffers,
                   .told = few_told,
                   .copies = RP_VIEW_COPIES_INIT};
    if (k.n > FEW) {
        k.v = base_alloc_array(k.n, sizeof *k.v);
        k.buffer = base_alloc_array(k.n, sizeof *k.buffer);
        k.told = base_alloc_array(k.n, sizeof *k.told);
    }
    st = k.v && k.buffer && k.told
             ? run_views(&k, inputs, outputs, &o, err)
             : rp_fail(err, RP_NOMEM, "views of a call of graph @%s", c->p->name);
    rp_view_copies none = RP_VIEW_COPIES_INIT;
    if (o.copies) {
        rp_status given = base_result_give(o.copies, st == RP_OK ? &k.copies : &none, sizeof none,
                                           "rp_view_copies", err);
        if (st == RP_OK) st = given;
    }
    if (k.v != few) base_free(k.v);
    if (k.buffer != few_buffers) base_free(k.buffer);
    if (k.told != few_told) base_free(k.told);
    return st;
}
