/* The graph wrapper.
 *
 * Invariants: a graph is captured and replayed under the same key; every address in it was audited
 * against the device's registered ranges; a replay with inputs elsewhere is an error, or with
 * copy_inputs a copy into the buffers of the capture. A failed capture leaves no entry. */
#include "graph/wrapper.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "device/graph.h"
#include "graph/descriptor.h"
#include "graph/finish.h"

typedef struct wrapper_entry {
    device_graph *graph;
    void **addr; /* input addresses of the capture */
    uint32_t n_addr;
} wrapper_entry;

struct graph_wrapper {
    hal_device *device;
    graph_state *state;
    graph_runnable runnable;
    char *name;
    rp_cudagraph_mode mode;
    bool head, copy_inputs;
    uint32_t num_warmups;
    base_map *index; /* packed key -> position in entries */
    wrapper_entry *entries;
    uint32_t n_entries, cap_entries;
    graph_input *statics; /* copy_inputs: our buffers, size = capacity */
    graph_input *bound;   /* copy_inputs: statics with the sizes of the call */
    uint32_t n_statics;
};

static rp_status alloc_statics(graph_wrapper *w, const graph_wrapper_options *o, rp_error *err) {
    if (!o->copy_inputs || o->n_inputs == 0) return RP_OK;
    w->statics = base_alloc_array(o->n_inputs, sizeof *w->statics);
    w->bound = base_alloc_array(o->n_inputs, sizeof *w->bound);
    if (!w->statics || !w->bound) return rp_fail(err, RP_NOMEM, "static inputs of %s", w->name);
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        w->statics[i] = (graph_input){.name = o->inputs[i].name, .size = o->inputs[i].size};
        RP_TRY(w->device->ops->alloc(w->device, HAL_DEVICE_MEMORY, o->inputs[i].size,
                                     &w->statics[i].ptr, err));
        w->n_statics++;
    }
    return RP_OK;
}

rp_status graph_wrapper_new(hal_device *device, graph_state *state, const graph_runnable *r,
                            const graph_wrapper_options *o, graph_wrapper **out, rp_error *err) {
    rp_status st;
    graph_wrapper *w = base_alloc(sizeof *w);

    if (!w) return rp_fail(err, RP_NOMEM, "graph wrapper");
    *w = (graph_wrapper){.device = device,
                         .state = state,
                         .runnable = *r,
                         .mode = o->mode,
                         .head = o->head,
                         .copy_inputs = o->copy_inputs,
                         .num_warmups = o->num_warmups};
    w->name = base_strdup(o->name);
    w->index = base_map_new();
    st = w->name && w->index ? RP_OK : rp_fail(err, RP_NOMEM, "graph wrapper");
    if (st == RP_OK) RP_TRY_OUT(alloc_statics(w, o, err));
out:
    if (st == RP_OK)
        *out = w;
    else
        graph_wrapper_free(w);
    return st;
}

static void drop_entries(graph_wrapper *w) {
    for (uint32_t i = 0; i < w->n_entries; i++) {
        w->state->graph_bytes -= w->entries[i].graph->bytes;
        device_graph_free(w->entries[i].graph);
        base_free(w->entries[i].addr);
    }
    w->n_entries = 0;
}

void graph_wrapper_clear(graph_wrapper *w) {
    base_map *fresh = base_map_new();

    drop_entries(w);
    /* Without memory for a new index the old one goes anyway: find() then reports every key missing
     * and a capture says RP_NOMEM. */
    base_map_free(w->index);
    w->index = fresh;
}

void graph_wrapper_free(graph_wrapper *w) {
    if (!w) return;
    drop_entries(w);
    for (uint32_t i = 0; i < w->n_statics; i++)
        w->device->ops->release(w->device, w->statics[i].ptr, w->statics[i].size);
    base_free(w->statics);
    base_free(w->bound);
    base_free(w->entries);
    base_map_free(w->index);
    base_free(w->name);
    base_free(w);
}

static wrapper_entry *find(const graph_wrapper *w, const rp_batch_descriptor *key) {
    uint32_t packed[GRAPH_DESCRIPTOR_WORDS];
    uint64_t i;

    if (!w->index) return NULL;
    graph_descriptor_pack(key, packed);
    return base_map_get(w->index, packed, sizeof packed, &i) ? &w->entries[i] : NULL;
}

bool graph_wrapper_has(const graph_wrapper *w, const rp_batch_descriptor *key) {
    return find(w, key) != NULL;
}

uint32_t graph_wrapper_count(const graph_wrapper *w) {
    return w->n_entries;
}

/* With copy_inputs: copies the call's inputs to our buffers and makes *in point to those. */
static rp_status stage_inputs(graph_wrapper *w, const graph_input **in, uint32_t n_in,
                              rp_error *err) {
    if (!w->copy_inputs) return RP_OK;
    if (n_in != w->n_statics)
        return rp_fail(err, RP_INVALID, "%s was made for %u inputs and called with %u", w->name,
                       w->n_statics, n_in);
    for (uint32_t i = 0; i < n_in; i++) {
        if ((*in)[i].size > w->statics[i].size)
            return rp_fail(err, RP_INVALID, "input '%s' of %s has %zu bytes, its static buffer %zu",
                           w->statics[i].name, w->name, (*in)[i].size, w->statics[i].size);
        w->bound[i] = (graph_input){w->statics[i].name, w->statics[i].ptr, (*in)[i].size};
        if ((*in)[i].ptr != w->statics[i].ptr && (*in)[i].size)
            RP_TRY(w->device->ops->copy(w->device, w->statics[i].ptr, (*in)[i].ptr, (*in)[i].size,
                                        err));
    }
    *in = w->bound;
    return RP_OK;
}

static rp_status check_inputs(const graph_wrapper *w, const wrapper_entry *e,
                              const rp_batch_descriptor *key, const graph_input *in, uint32_t n_in,
                              rp_error *err) {
    char text[GRAPH_DESCRIPTOR_TEXT];

    if (w->copy_inputs) return RP_OK; /* always our own buffers */
    if (n_in != e->n_addr)
        return rp_fail(err, RP_INVALID, "%s %s was captured with %u inputs and called with %u",
                       w->name, graph_descriptor_text(key, text), e->n_addr, n_in);
    for (uint32_t i = 0; i < n_in; i++)
        if (in[i].ptr != e->addr[i])
            return rp_fail(
                err, RP_INVALID,
                "input '%s' of %s %s is at %p, its graph was captured with %p: keep inputs "
                "in place%s",
                in[i].name, w->name, graph_descriptor_text(key, text), in[i].ptr, e->addr[i],
                w->mode == RP_CUDAGRAPH_PIECEWISE ? " or set cudagraph_copy_inputs" : "");
    return RP_OK;
}

static rp_status grow_entries(graph_wrapper *w, rp_error *err) {
    uint32_t cap = w->cap_entries ? w->cap_entries * 2 : 16;
    wrapper_entry *p;

    if (w->entries && w->n_entries < w->cap_entries) return RP_OK;
    p = base_realloc_array(w->entries, cap, sizeof *p);
    if (!p) return rp_fail(err, RP_NOMEM, "graph entries of %s", w->name);
    w->entries = p;
    w->cap_entries = cap;
    return RP_OK;
}

static rp_status add_entry(graph_wrapper *w, const rp_batch_descriptor *key, wrapper_entry e,
                           rp_error *err) {
    uint32_t packed[GRAPH_DESCRIPTOR_WORDS];

    if (!w->index) return rp_fail(err, RP_NOMEM, "graph index of %s", w->name);
    RP_TRY(grow_entries(w, err));
    graph_descriptor_pack(key, packed);
    RP_TRY(base_map_put(w->index, packed, sizeof packed, w->n_entries, err));
    w->entries[w->n_entries++] = e;
    return RP_OK;
}

/* Runs the list as a capture will find it: what the machine does once at a first run is over by then. */
static rp_status warm_up(graph_wrapper *w, const rp_batch_descriptor *key, const graph_input *in,
                         uint32_t n_in, rp_error *err) {
    const hal_launch *list = NULL;
    uint32_t n = 0;
    size_t scratch = 0;

    if (w->num_warmups == 0) return RP_OK;
    RP_TRY(w->runnable.list(w->runnable.user, key, in, n_in, &list, &n, &scratch, err));
    for (uint32_t i = 0; i < w->num_warmups; i++)
        RP_TRY(w->device->ops->launch(w->device, list, n, scratch, err));
    return w->device->ops->synchronize(w->device, err);
}

/* in is staged already. Launches nothing. */
static rp_status capture(graph_wrapper *w, const rp_batch_descriptor *key, const graph_input *in,
                         uint32_t n_in, rp_error *err) {
    rp_status st;
    const hal_launch *list = NULL;
    uint32_t n = 0;
    size_t scratch = 0;
    wrapper_entry e = {.n_addr = n_in};
    graph_finisher *f = w->state->finisher;
    char text[GRAPH_DESCRIPTOR_TEXT], label[160];

    graph_descriptor_text(key, text);
    (void)snprintf(label, sizeof label, "%s %s", w->name, text);
    RP_TRY_OUT(w->runnable.list(w->runnable.user, key, in, n_in, &list, &n, &scratch, err));
    e.addr = base_alloc_array(n_in, sizeof *e.addr);
    if (!e.addr) RP_TRY_OUT(rp_fail(err, RP_NOMEM, "input addresses of %s", label));
    for (uint32_t i = 0; i < n_in; i++) e.addr[i] = in[i].ptr;
    if (f) RP_TRY_OUT(graph_finisher_reserve(f, err));
    RP_TRY_OUT((f ? device_graph_begin : device_graph_new)(w->device, list, n, scratch, label,
                                                           &e.graph, err));
    RP_TRY_OUT(add_entry(w, key, e, err));
    w->state->captures++;
    if (f && e.graph->begun)
        graph_finisher_add(f, e.graph); /* whose bytes it adds up */
    else
        w->state->graph_bytes += e.graph->bytes;
out:
    if (st != RP_OK) {
        device_graph_free(e.graph);
        base_free(e.addr);
    }
    return st;
}

static rp_status pass_through(graph_wrapper *w, const rp_dispatch *d, const graph_input *in,
                              uint32_t n_in, rp_error *err) {
    const hal_launch *list = NULL;
    uint32_t n = 0;
    size_t scratch = 0;

    w->state->passed++;
    RP_TRY(w->runnable.list(w->runnable.user, w->head ? &d->head_key : &d->key, in, n_in, &list, &n,
                            &scratch, err));
    return w->device->ops->launch(w->device, list, n, scratch, err);
}

/* A graph is missing and capturing is over: refused, or run launch by launch under the same key. */
static rp_status missing(graph_wrapper *w, const rp_batch_descriptor *key, const graph_input *in,
                         uint32_t n_in, rp_error *err) {
    const hal_launch *list = NULL;
    uint32_t n = 0;
    size_t scratch = 0;
    char text[GRAPH_DESCRIPTOR_TEXT], what[160];

    (void)snprintf(what, sizeof what, "%s %s", w->name, graph_descriptor_text(key, text));
    w->state->late++;
    graph_state_skip(w->state, what, "not captured before sealing");
    if (w->state->sealed == CONFIG_SEALED_FATAL || w->state->require_graph)
        return rp_fail(err, RP_UNSUPPORTED,
                       "graph of %s is missing after sealing: capture this size at start "
                       "(cudagraph_capture_sizes) or set sealed to warn",
                       what);
    base_log(RP_LOG_WARNING, "graph of %s is missing after sealing, running without", what);
    w->state->passed++;
    RP_TRY(w->runnable.list(w->runnable.user, key, in, n_in, &list, &n, &scratch, err));
    return w->device->ops->launch(w->device, list, n, scratch, err);
}

static bool own_mode(const graph_wrapper *w, const rp_dispatch *d,
                     const rp_batch_descriptor **key) {
    *key = w->head ? &d->head_key : &d->key;
    return (w->head ? d->head_mode : d->mode) == w->mode;
}

bool graph_wrapper_lacks(const graph_wrapper *w, const rp_dispatch *d) {
    const rp_batch_descriptor *key;

    return own_mode(w, d, &key) && !find(w, key);
}

rp_status graph_wrapper_capture(graph_wrapper *w, const rp_dispatch *d, const graph_input *in,
                                uint32_t n_in, rp_error *err) {
    const rp_batch_descriptor *key;

    if (!own_mode(w, d, &key) || find(w, key)) return RP_OK;
    RP_TRY(stage_inputs(w, &in, n_in, err));
    RP_TRY(warm_up(w, key, in, n_in, err));
    return capture(w, key, in, n_in, err);
}

rp_status graph_wrapper_call(graph_wrapper *w, const rp_dispatch *d, const graph_input *in,
                             uint32_t n_in, rp_error *err) {
    const rp_batch_descriptor *key;
    wrapper_entry *e;

    if (!own_mode(w, d, &key)) return pass_through(w, d, in, n_in, err);
    RP_TRY(stage_inputs(w, &in, n_in, err));
    e = find(w, key);
    if (!e) {
        if (!graph_state_may_capture(w->state)) return missing(w, key, in, n_in, err);
        if (w->num_warmups)
            base_log_ch(RP_LOG_CH_CUDAGRAPHS, false,
                        "capturing %s inside a step, without warm-up: its inputs are live",
                        w->name);
        RP_TRY(capture(w, key, in, n_in, err));
        e = find(w, key);
    }
    RP_TRY(check_inputs(w, e, key, in, n_in, err));
    RP_TRY(device_graph_launch(e->graph, err));
    w->state->replays++;
    return RP_OK;
}
