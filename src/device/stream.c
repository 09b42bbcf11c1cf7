/* Streams: a queue of a device, what its captures keep, and events. */
#include "device/stream.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "device/running.h"

struct rp_stream {
    rp_device *device;
    hal_device *queue;
    device_part *parts; /* of its graphs, and of the capture under way */
    device_part **kept; /* n_kept, of the capture under way, each once */
    uint32_t n_kept, cap_kept;
    uint64_t frees;    /* of the device, when the capture under way began */
    hal_device *outer; /* the queue that the thread captured then; NULL: none */
};

struct rp_event {
    rp_device *device;
    hal_event *event;
};

rp_status rp_stream_open(rp_device *d, rp_stream **out, rp_error *err) {
    base_error_clear(err);
    if (!d || !out) return rp_fail(err, RP_INVALID, "rp_stream_open: device or out is NULL");
    rp_stream *s = base_alloc(sizeof *s);
    if (!s) return rp_fail(err, RP_NOMEM, "stream");
    rp_status st = device_queue(d, &s->queue, err);
    if (st != RP_OK) {
        base_free(s);
        return st;
    }
    s->device = rp_device_ref(d);
    *out = s;
    return RP_OK;
}

void rp_stream_close(rp_stream *s) {
    rp_error none = {0};
    if (!s) return;
    (void)s->queue->ops->synchronize(s->queue, &none);
    hal_close(s->queue);
    rp_device_close(s->device);
    base_free(s->kept);
    base_free(s);
}

rp_device *rp_stream_device(const rp_stream *s) {
    return s ? s->device : NULL;
}

void *rp_stream_handle(rp_stream *s) {
    return s && s->queue->ops->handle ? s->queue->ops->handle(s->queue) : NULL;
}

static rp_status check_stream(const rp_stream *s, const char *call, rp_error *err) {
    return device_check_captured(s->queue, call, "it takes rp_call_stream", err);
}

rp_status rp_stream_copy(rp_stream *s, void *to, const void *from, size_t bytes, rp_error *err) {
    base_error_clear(err);
    if (!s || (bytes && (!to || !from)))
        return rp_fail(err, RP_INVALID, "rp_stream_copy: stream or an address is NULL");
    RP_TRY(check_stream(s, "rp_stream_copy on another stream", err));
    device_run_begin();
    rp_status st = s->queue->ops->copy(s->queue, to, from, bytes, err);
    device_run_end();
    return st;
}

rp_status rp_stream_fill(rp_stream *s, void *to, uint8_t byte, size_t bytes, rp_error *err) {
    base_error_clear(err);
    if (!s || (bytes && !to))
        return rp_fail(err, RP_INVALID, "rp_stream_fill: stream or address is NULL");
    RP_TRY(check_stream(s, "rp_stream_fill on another stream", err));
    device_run_begin();
    rp_status st = s->queue->ops->fill(s->queue, to, byte, bytes, err);
    device_run_end();
    return st;
}

rp_status rp_stream_synchronize(rp_stream *s, rp_error *err) {
    base_error_clear(err);
    if (!s) return rp_fail(err, RP_INVALID, "rp_stream_synchronize: stream is NULL");
    return s->queue->ops->synchronize(s->queue, err);
}

/* --- events ------------------------------------------------------------------------------ */

rp_status rp_event_new(rp_device *d, rp_event **out, rp_error *err) {
    base_error_clear(err);
    if (!d || !out) return rp_fail(err, RP_INVALID, "rp_event_new: device or out is NULL");
    rp_event *e = base_alloc(sizeof *e);
    if (!e) return rp_fail(err, RP_NOMEM, "event");
    hal_device *root = device_root(d);
    rp_status st = root->ops->event_new(root, &e->event, err);
    if (st != RP_OK) {
        base_free(e);
        return st;
    }
    e->device = rp_device_ref(d);
    *out = e;
    return RP_OK;
}

void rp_event_free(rp_event *e) {
    if (!e) return;
    device_root(e->device)->ops->event_free(e->event);
    rp_device_close(e->device);
    base_free(e);
}

static rp_status check_event(const rp_event *e, const rp_stream *s, const char *call,
                             rp_error *err) {
    if (!e || !s) return rp_fail(err, RP_INVALID, "%s: event or stream is NULL", call);
    if (e->device != s->device)
        return rp_fail(err, RP_INVALID, "%s: the event is of one device, the stream of another",
                       call);
    return RP_OK;
}

rp_status rp_event_record(rp_event *e, rp_stream *s, rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_event(e, s, "rp_event_record", err));
    return s->queue->ops->event_record(s->queue, e->event, err);
}

rp_status rp_event_wait(rp_event *e, rp_stream *s, rp_error *err) {
    base_error_clear(err);
    RP_TRY(check_event(e, s, "rp_event_wait", err));
    return s->queue->ops->event_wait(s->queue, e->event, err);
}

rp_status rp_event_synchronize(rp_event *e, rp_error *err) {
    base_error_clear(err);
    if (!e) return rp_fail(err, RP_INVALID, "rp_event_synchronize: event is NULL");
    return device_root(e->device)->ops->event_synchronize(e->event, err);
}

/* --- captures ---------------------------------------------------------------------------- */

hal_device *device_stream_queue(const rp_stream *s) {
    return s->queue;
}

bool device_stream_capturing(const rp_stream *s) {
    return hal_capturing(s->queue);
}

rp_status device_stream_capture(rp_stream *s, rp_error *err) {
    RP_TRY(hal_capture_begin(s->queue, err));
    s->outer = device_capturing(s->queue);
    s->frees = device_frees(s->device);
    return RP_OK;
}

static void drop_kept(rp_stream *s) {
    for (uint32_t i = 0; i < s->n_kept; i++) device_part_drop(s->kept[i]);
    base_free(s->kept);
    s->kept = NULL;
    s->n_kept = s->cap_kept = 0;
}

rp_status device_stream_finish(rp_stream *s, const char *label, device_graph **out, rp_error *err) {
    hal_graph *graph = NULL;
    device_graph *g = NULL;
    uint32_t n = 0, n_used = 0;
    hal_used *used = NULL;
    rp_error why = {0};
    (void)device_capturing(s->outer);
    if (out && hal_capture_used(s->queue, &used, &n_used, &why) != RP_OK)
        hal_capture_spoil(s->queue, &why);
    hal_body *bodies = hal_capture_bodies(s->queue);
    const int64_t t0 = base_now_ns();
    rp_status st = hal_capture_end(s->queue, label, out ? &graph : NULL, &n, err);
    const device_made how = {label, n, base_now_ns() - t0};
    if (st == RP_OK && out) st = device_graph_adopt(s->queue, graph, &how, &g, err);
    if (!g) {
        hal_bodies_free(bodies);
        base_free(used);
        drop_kept(s);
        return st;
    }
    g->bodies = bodies;
    g->bytes += hal_bodies_bytes(bodies);
    g->part = s->kept;
    g->n_parts = s->n_kept;
    s->kept = NULL;
    s->n_kept = s->cap_kept = 0;
    device_graph_uses(g, s->device, used, n_used, s->frees);
    *out = g;
    return RP_OK;
}

static bool is_kept(const rp_stream *s, const device_part *p) {
    for (uint32_t i = 0; i < s->n_kept; i++)
        if (s->kept[i] == p) return true;
    return false;
}

device_part *device_stream_part(rp_stream *s, const void *owner) {
    device_part *p = s->parts;
    while (p && (p->owner != owner || !p->valid(p))) p = p->next;
    return p;
}

static rp_status make_room(rp_stream *s, rp_error *err) {
    uint32_t cap = s->cap_kept ? s->cap_kept * 2 : 8;
    if (s->n_kept < s->cap_kept) return RP_OK;
    device_part **kept = base_realloc_array(s->kept, cap, sizeof(device_part *));
    if (!kept) return rp_fail(err, RP_NOMEM, "parts of a graph");
    s->kept = kept;
    s->cap_kept = cap;
    return RP_OK;
}

rp_status device_stream_keep(rp_stream *s, device_part *p, rp_error *err) {
    if (is_kept(s, p)) return RP_OK;
    bool fresh = p->refs == 0;
    rp_status st = make_room(s, err);
    if (st != RP_OK) {
        if (fresh) p->free(p);
        return st;
    }
    if (fresh) {
        p->list = &s->parts;
        p->next = s->parts;
        s->parts = p;
    }
    p->refs++;
    s->kept[s->n_kept++] = p;
    return RP_OK;
}
