/* The capture ladder: every key of a configuration, largest first.
 *
 * Nobody ever sees a capture or its warm-up runs. They happen between steps only, when all that a step writes but the
 * KV cache is dead, and on a dummy step, which is all padding: it stores to no KV slot and reads the null block alone. So
 * does a graph that is made after start-up (sealed off): whoever runs steps makes it before the inputs of the step that
 * wants it are written. Only a wrapper that is called without that makes a graph inside a step, and then without warm-up. */
#ifndef GRAPH_CAPTURE_H
#define GRAPH_CAPTURE_H

#include "graph/dispatcher.h"
#include "graph/state.h"

/* One key to capture. HEAD: only the head's part of the record is meant. */
typedef struct graph_item {
    graph_kind kind;
    uint32_t i, j; /* position in the dispatcher's ladders */
    rp_dispatch dispatch;
} graph_item;

typedef struct graph_capture_ops {
    void *user;
    /* Fills the static inputs for a dummy step of this record and calls graph_wrapper_capture on
     * every wrapper concerned. RP_UNSUPPORTED: this key cannot be captured; it is dropped with the
     * error's text and capturing goes on. Any other failure ends it. */
    rp_status (*capture)(void *user, const graph_item *item, rp_error *err);
    /* (optional) After each key; false stops with RP_CANCELLED. */
    bool (*progress)(void *user, uint32_t done, uint32_t total, const graph_item *item);
} graph_capture_ops;

typedef struct graph_capture_report {
    double seconds;
    uint32_t captured, dropped; /* keys; a PIECEWISE key is one graph a piece */
    uint32_t keys[GRAPH_KIND_COUNT_];
    int32_t largest;        /* tokens of the largest key captured */
    uint64_t graphs, bytes; /* device graphs made, and what they hold */
} graph_capture_report;

/* All keys in capture order: pieces and head first, then whole steps, each from the largest down.
 * Owned by the caller (base_free); *n may be 0. */
rp_status graph_items(const graph_dispatcher *d, graph_item **out, uint32_t *n,
                      rp_error *err) RP_MUST_USE;

/* Runs the ladder and marks each key in d. Does not seal. *out is written on success. */
rp_status graph_capture(graph_dispatcher *d, graph_state *state, const graph_capture_ops *ops,
                        graph_capture_report *out, rp_error *err) RP_MUST_USE;

#endif
