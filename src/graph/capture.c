/* The capture ladder.
 *
 * Largest first, so that a planned arena or a pool is as large as it gets from the start. Capturing
 * writes no live state: the caller's dummy step stores nothing (slots -1). A key that cannot be
 * captured is dropped with its reason, and the dispatcher no longer chooses it. */
#include "graph/capture.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/descriptor.h"
#include "graph/finish.h"

static uint32_t ladder_of(const graph_dispatcher *d, graph_kind kind) {
    const graph_keys *k = &d->keys;

    switch (kind) {
    case GRAPH_PIECE:
        return rp_cudagraph_has_mode(k->p.mode, RP_CUDAGRAPH_PIECEWISE) ? k->tokens.n : 0;
    case GRAPH_HEAD: return k->head.n;
    case GRAPH_MIXED: return k->logits.n ? k->tokens.n : 0;
    case GRAPH_DECODE: return k->decode.n;
    case GRAPH_KIND_COUNT_: break;
    }
    return 0;
}

static uint32_t width_of(const graph_dispatcher *d, graph_kind kind, uint32_t i) {
    return kind == GRAPH_MIXED ? graph_keys_logits(&d->keys, i) : 1;
}

static uint32_t count_items(const graph_dispatcher *d) {
    uint32_t n = 0;

    for (int kind = 0; kind < GRAPH_KIND_COUNT_; kind++)
        for (uint32_t i = 0; i < ladder_of(d, (graph_kind)kind); i++)
            n += width_of(d, (graph_kind)kind, i);
    return n;
}

rp_status graph_items(const graph_dispatcher *d, graph_item **out, uint32_t *n, rp_error *err) {
    uint32_t total = count_items(d), at = 0;
    graph_item *v = base_alloc_array(total, sizeof *v);

    if (!v) return rp_fail(err, RP_NOMEM, "capture list of %u keys", total);
    for (int k = 0; k < GRAPH_KIND_COUNT_; k++) {
        graph_kind kind = (graph_kind)k;

        for (uint32_t i = ladder_of(d, kind); i-- > 0;)
            for (uint32_t j = width_of(d, kind, i); j-- > 0;) {
                v[at] = (graph_item){.kind = kind, .i = i, .j = j};
                graph_dispatch_of(d, kind, i, j, &v[at].dispatch);
                at++;
            }
    }
    *out = v;
    *n = total;
    return RP_OK;
}

static const rp_batch_descriptor *item_key(const graph_item *it) {
    return it->kind == GRAPH_HEAD ? &it->dispatch.head_key : &it->dispatch.key;
}

static rp_status capture_one(graph_dispatcher *d, graph_state *state, const graph_capture_ops *ops,
                             const graph_item *it, graph_capture_report *r, rp_error *err) {
    rp_error local = {0};
    rp_status st = ops->capture(ops->user, it, &local);
    char text[GRAPH_DESCRIPTOR_TEXT];

    graph_descriptor_text(item_key(it), text);
    if (st == RP_OK) {
        graph_dispatcher_mark(d, it->kind, it->i, it->j, GRAPH_KEY_CAPTURED);
        r->captured++;
        r->keys[it->kind]++;
        if (item_key(it)->num_tokens > r->largest) r->largest = item_key(it)->num_tokens;
        return RP_OK;
    }
    if (st != RP_UNSUPPORTED || state->require_graph)
        return rp_fail(err, st, "capturing %s: %s", text,
                       local.text[0] ? local.text : rp_status_name(st));
    graph_dispatcher_mark(d, it->kind, it->i, it->j, GRAPH_KEY_DROPPED);
    graph_state_skip(state, text, local.text[0] ? local.text : rp_status_name(st));
    r->dropped++;
    return RP_OK;
}

/* No graph of the ladder is finished any more by anybody. */
static rp_status stop_finishing(graph_state *state, rp_error *err) {
    rp_error why = {0};
    uint64_t bytes;
    rp_status st = graph_finisher_close(state->finisher, &bytes, &why);
    state->finisher = NULL;
    state->graph_bytes += bytes;
    return st == RP_OK ? RP_OK : rp_fail(err, st, "capturing: %s", why.text);
}

rp_status graph_capture(graph_dispatcher *d, graph_state *state, const graph_capture_ops *ops,
                        graph_capture_report *out, rp_error *err) {
    rp_status st;
    graph_item *items = NULL;
    uint32_t n = 0;
    graph_capture_report r = {0};
    int64_t start = base_now_ns();
    uint64_t graphs = state->captures, bytes = state->graph_bytes;

    RP_TRY_OUT(graph_items(d, &items, &n, err));
    RP_TRY_OUT(graph_finisher_open(&state->finisher, err));
    for (uint32_t i = 0; i < n; i++) {
        RP_TRY_OUT(capture_one(d, state, ops, &items[i], &r, err));
        if (ops->progress && !ops->progress(ops->user, i + 1, n, &items[i]))
            RP_TRY_OUT(
                rp_fail(err, RP_CANCELLED, "stopped after capturing %u of %u sizes", i + 1, n));
    }
    RP_TRY_OUT(stop_finishing(state, err));
    r.seconds = (double)(base_now_ns() - start) * 1e-9;
    r.graphs = state->captures - graphs;
    r.bytes = state->graph_bytes - bytes;
    base_log_ch(RP_LOG_CH_CUDAGRAPHS, false,
                "Graph capturing finished in %.3f secs, took %.2f MiB: %llu graphs for %u keys, "
                "%u dropped",
                r.seconds, (double)r.bytes / (1 << 20), (unsigned long long)r.graphs, r.captured,
                r.dropped);
    *out = r;
out:
    (void)stop_finishing(state, NULL); /* after a failure, which is the one to tell */
    base_free(items);
    return st;
}
