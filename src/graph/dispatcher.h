/* Decides, once a step, which graph serves it. FULL before PIECEWISE before NONE.
 *
 * One thread at a time; the record it fills is a plain value whose reason texts are borrowed from
 * the dispatcher. */
#ifndef GRAPH_DISPATCHER_H
#define GRAPH_DISPATCHER_H

#include "graph/keys.h"

/* The real sizes of a step. */
typedef struct graph_step_shape {
    int32_t num_tokens;
    int32_t num_reqs;
    int32_t max_query_len; /* most query tokens of one request */
    int32_t num_logits;    /* rows that need logits; 0 when every prompt is cut short */
} graph_step_shape;

/* Why a step runs below the configured mode. */
#define GRAPH_REASONS(X)                                                           \
    X(NONE, "")                                                                    \
    X(MODE, "cudagraph_mode is NONE")                                              \
    X(DECODE_ONLY, "FULL_DECODE_ONLY has no graphs for prefill and mixed batches") \
    X(REQS, "more requests than the largest decode graph")                         \
    X(TOKENS, "more tokens than the largest graph")                                \
    X(LOGITS, "more logit rows than the largest graph")                            \
    X(HEAD, "more logit rows than the largest head graph")                         \
    X(DROPPED, "the graph of this size could not be captured")                     \
    X(UNCAPTURED, "the graph of this size was not captured before sealing")

typedef enum graph_reason {
#define GRAPH_REASON_ENUM(id, text) GRAPH_REASON_##id,
    GRAPH_REASONS(GRAPH_REASON_ENUM)
#undef GRAPH_REASON_ENUM
        GRAPH_REASON_COUNT_
} graph_reason;

typedef struct graph_dispatcher {
    graph_keys keys;
    bool sealed; /* only captured keys are chosen */
    /* One graph_key_status a key; MIXED at i * logits.n + j. */
    uint8_t *status[GRAPH_KIND_COUNT_];
    char reasons[GRAPH_REASON_COUNT_][128];
} graph_dispatcher;

typedef enum graph_key_status {
    GRAPH_KEY_WANTED,
    GRAPH_KEY_CAPTURED,
    GRAPH_KEY_DROPPED
} graph_key_status;

rp_status graph_dispatcher_init(graph_dispatcher *d, const graph_params *p,
                                rp_error *err) RP_MUST_USE;
void graph_dispatcher_done(graph_dispatcher *d);

/* RP_INVALID for sizes that no step can have (no tokens, more requests than tokens, ...). */
rp_status graph_dispatch(const graph_dispatcher *d, const graph_step_shape *s, rp_dispatch *out,
                         rp_error *err) RP_MUST_USE;
/* max_query_len is the uniform one and every request has it. */
bool graph_is_uniform(const graph_dispatcher *d, const graph_step_shape *s);

/* The record with which a key is captured: the largest step that the key serves. For HEAD only the
 * head's part is meant (mode is NONE). */
void graph_dispatch_of(const graph_dispatcher *d, graph_kind kind, uint32_t i, uint32_t j,
                       rp_dispatch *out);
/* DROPPED: the key is not chosen any more. */
void graph_dispatcher_mark(graph_dispatcher *d, graph_kind kind, uint32_t i, uint32_t j,
                           graph_key_status status);
graph_key_status graph_dispatcher_status(const graph_dispatcher *d, graph_kind kind, uint32_t i,
                                         uint32_t j);
/* From now on only keys marked CAPTURED are chosen. */
void graph_dispatcher_seal(graph_dispatcher *d);

#endif
