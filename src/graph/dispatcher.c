/* The dispatcher.
 *
 * Invariants: a record's key is made by graph_key for capture and replay alike; padded sizes are
 * never below the real ones; mode NONE carries the real sizes and a reason; a record that stayed at
 * the mode the configuration promises has an empty reason. Deciding never allocates. It does not
 * look at attention: what the attention back end supports is resolved into the mode before. */
#include "graph/dispatcher.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Texts name the bound where there is one, so that a reader knows what to raise. */
static void reasons_init(graph_dispatcher *d) {
#define GRAPH_REASON_TEXT(id, text) [GRAPH_REASON_##id] = text,
    static const char *const texts[] = {GRAPH_REASONS(GRAPH_REASON_TEXT)};
#undef GRAPH_REASON_TEXT
    const graph_keys *k = &d->keys;
    const struct {
        graph_reason r;
        int32_t bound;
    } bounds[] = {{GRAPH_REASON_REQS, k->decode.max},
                  {GRAPH_REASON_TOKENS, k->tokens.max},
                  {GRAPH_REASON_LOGITS, k->logits.max},
                  {GRAPH_REASON_HEAD, k->head.max}};

    for (size_t i = 0; i < GRAPH_REASON_COUNT_; i++)
        (void)snprintf(d->reasons[i], sizeof d->reasons[i], "%s", texts[i]);
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        (void)snprintf(d->reasons[bounds[i].r], sizeof d->reasons[0], "%s (%d)", texts[bounds[i].r],
                       bounds[i].bound);
}

static size_t n_keys(const graph_keys *k, graph_kind kind) {
    switch (kind) {
    case GRAPH_PIECE:
        return rp_cudagraph_has_mode(k->p.mode, RP_CUDAGRAPH_PIECEWISE) ? k->tokens.n : 0;
    case GRAPH_HEAD: return k->head.n;
    case GRAPH_MIXED: return (size_t)k->tokens.n * k->logits.n;
    case GRAPH_DECODE: return k->decode.n;
    case GRAPH_KIND_COUNT_: break;
    }
    return 0;
}

rp_status graph_dispatcher_init(graph_dispatcher *d, const graph_params *p, rp_error *err) {
    memset(d, 0, sizeof *d);
    RP_TRY(graph_keys_init(&d->keys, p, err));
    reasons_init(d);
    for (int kind = 0; kind < GRAPH_KIND_COUNT_; kind++) {
        d->status[kind] = base_alloc_array(n_keys(&d->keys, (graph_kind)kind) + 1, 1);
        if (!d->status[kind]) {
            graph_dispatcher_done(d);
            return rp_fail(err, RP_NOMEM, "status of graph keys");
        }
    }
    return RP_OK;
}

void graph_dispatcher_done(graph_dispatcher *d) {
    if (!d) return;
    graph_keys_done(&d->keys);
    for (int kind = 0; kind < GRAPH_KIND_COUNT_; kind++) {
        base_free(d->status[kind]);
        d->status[kind] = NULL;
    }
}

static size_t key_index(const graph_dispatcher *d, graph_kind kind, uint32_t i, uint32_t j) {
    return kind == GRAPH_MIXED ? (size_t)i * d->keys.logits.n + j : i;
}

void graph_dispatcher_mark(graph_dispatcher *d, graph_kind kind, uint32_t i, uint32_t j,
                           graph_key_status status) {
    d->status[kind][key_index(d, kind, i, j)] = (uint8_t)status;
}

graph_key_status graph_dispatcher_status(const graph_dispatcher *d, graph_kind kind, uint32_t i,
                                         uint32_t j) {
    return (graph_key_status)d->status[kind][key_index(d, kind, i, j)];
}

void graph_dispatcher_seal(graph_dispatcher *d) {
    d->sealed = true;
}

static graph_reason usable(const graph_dispatcher *d, graph_kind kind, int32_t i, int32_t j) {
    graph_key_status st = graph_dispatcher_status(d, kind, (uint32_t)i, (uint32_t)j);

    if (st == GRAPH_KEY_DROPPED) return GRAPH_REASON_DROPPED;
    if (d->sealed && st != GRAPH_KEY_CAPTURED) return GRAPH_REASON_UNCAPTURED;
    return GRAPH_REASON_NONE;
}

bool graph_is_uniform(const graph_dispatcher *d, const graph_step_shape *s) {
    int32_t q = d->keys.p.uniform_query_len;

    return s->max_query_len == q && (int64_t)s->num_tokens == (int64_t)q * s->num_reqs;
}

static void put_full(rp_dispatch *out, rp_batch_descriptor key) {
    out->mode = out->head_mode = RP_CUDAGRAPH_FULL;
    out->key = out->head_key = key;
    out->padded = key.num_tokens;
    out->padded_reqs = key.num_reqs;
    out->padded_logits = key.num_logits;
}

static graph_reason try_decode(const graph_dispatcher *d, const graph_step_shape *s,
                               rp_dispatch *out) {
    int32_t i = graph_ladder_index(&d->keys.decode, s->num_reqs);
    graph_reason why;

    if (i < 0) return GRAPH_REASON_REQS;
    why = usable(d, GRAPH_DECODE, i, 0);
    if (why == GRAPH_REASON_NONE) put_full(out, graph_key(&d->keys, GRAPH_DECODE, (uint32_t)i, 0));
    return why;
}

static graph_reason try_mixed(const graph_dispatcher *d, const graph_step_shape *s,
                              rp_dispatch *out) {
    const graph_keys *k = &d->keys;
    int32_t i = graph_ladder_index(&k->tokens, s->num_tokens);
    int32_t j = graph_ladder_index(&k->logits, s->num_logits > 0 ? s->num_logits : 1);
    graph_reason why;

    if (i < 0) return GRAPH_REASON_TOKENS;
    if (j < 0) return GRAPH_REASON_LOGITS;
    why = usable(d, GRAPH_MIXED, i, j);
    if (why == GRAPH_REASON_NONE)
        put_full(out, graph_key(k, GRAPH_MIXED, (uint32_t)i, (uint32_t)j));
    return why;
}

/* The head is a graph of its own beside pieces. */
static graph_reason head_of(const graph_dispatcher *d, int32_t num_logits, rp_dispatch *out) {
    int32_t i;
    graph_reason why;

    if (num_logits == 0) return GRAPH_REASON_NONE;
    i = graph_ladder_index(&d->keys.head, num_logits);
    if (i < 0) return GRAPH_REASON_HEAD;
    why = usable(d, GRAPH_HEAD, i, 0);
    if (why != GRAPH_REASON_NONE) return why;
    out->head_mode = RP_CUDAGRAPH_PIECEWISE;
    out->head_key = graph_key(&d->keys, GRAPH_HEAD, (uint32_t)i, 0);
    out->padded_logits = out->head_key.num_logits;
    return why;
}

static graph_reason try_pieces(const graph_dispatcher *d, const graph_step_shape *s,
                               rp_dispatch *out) {
    int32_t i = graph_ladder_index(&d->keys.tokens, s->num_tokens);
    graph_reason why;

    if (i < 0) return GRAPH_REASON_TOKENS;
    why = usable(d, GRAPH_PIECE, i, 0);
    if (why != GRAPH_REASON_NONE) return why;
    out->mode = RP_CUDAGRAPH_PIECEWISE;
    out->key = graph_key(&d->keys, GRAPH_PIECE, (uint32_t)i, 0);
    out->padded = out->key.num_tokens;
    out->head_reason = d->reasons[head_of(d, s->num_logits, out)];
    return GRAPH_REASON_NONE;
}

/* The record of a step that runs op by op, before anything better is found. */
static void put_none(const graph_dispatcher *d, const graph_step_shape *s, rp_dispatch *out) {
    *out = (rp_dispatch){
        .mode = RP_CUDAGRAPH_NONE,
        .key = {.num_tokens = s->num_tokens, .num_reqs = s->num_reqs, .num_logits = s->num_logits},
        .head_mode = RP_CUDAGRAPH_NONE,
        .head_key = {.num_tokens = -1, .num_reqs = -1, .num_logits = s->num_logits},
        .num_tokens = s->num_tokens,
        .num_reqs = s->num_reqs,
        .num_logits = s->num_logits,
        .padded = s->num_tokens,
        .padded_reqs = s->num_reqs,
        .padded_logits = s->num_logits,
        .reason = d->reasons[GRAPH_REASON_NONE],
        .head_reason = d->reasons[GRAPH_REASON_NONE],
    };
}

static graph_reason try_full(const graph_dispatcher *d, const graph_step_shape *s, bool uniform,
                             rp_dispatch *out) {
    rp_cudagraph_mode mode = d->keys.p.mode;
    graph_reason why = GRAPH_REASON_NONE;

    if (uniform && rp_cudagraph_decode_mode(mode) == RP_CUDAGRAPH_FULL) {
        why = try_decode(d, s, out);
        if (why == GRAPH_REASON_NONE) return why;
    }
    if (rp_cudagraph_mixed_mode(mode) != RP_CUDAGRAPH_FULL) return why;
    return try_mixed(d, s, out);
}

static rp_status shape_check(const graph_dispatcher *d, const graph_step_shape *s, rp_error *err) {
    const graph_params *p = &d->keys.p;

    if (s->num_tokens < 1 || s->num_reqs < 1 || s->num_reqs > s->num_tokens ||
        s->max_query_len < 1 || s->max_query_len > s->num_tokens || s->num_logits < 0 ||
        s->num_logits > s->num_tokens)
        return rp_fail(
            err, RP_INVALID,
            "no step has %d tokens of %d requests with at most %d each and %d logit rows",
            s->num_tokens, s->num_reqs, s->max_query_len, s->num_logits);
    if (s->num_reqs > p->max_num_seqs || s->num_tokens > p->max_num_batched_tokens)
        return rp_fail(err, RP_INVALID,
                       "step of %d requests and %d tokens is beyond max_num_seqs %d or "
                       "max_num_batched_tokens %d",
                       s->num_reqs, s->num_tokens, p->max_num_seqs, p->max_num_batched_tokens);
    return RP_OK;
}

rp_status graph_dispatch(const graph_dispatcher *d, const graph_step_shape *s, rp_dispatch *out,
                         rp_error *err) {
    rp_cudagraph_mode mode = d->keys.p.mode;
    bool uniform = graph_is_uniform(d, s);
    rp_cudagraph_mode routine = uniform ? rp_cudagraph_decode_mode(mode)
                                        : rp_cudagraph_mixed_mode(mode);
    graph_reason full = GRAPH_REASON_NONE, pieces;

    RP_TRY(shape_check(d, s, err));
    put_none(d, s, out);
    if (routine == RP_CUDAGRAPH_NONE) {
        out->reason =
            d->reasons[mode == RP_CUDAGRAPH_NONE ? GRAPH_REASON_MODE : GRAPH_REASON_DECODE_ONLY];
        return RP_OK;
    }
    if (routine == RP_CUDAGRAPH_FULL) {
        full = try_full(d, s, uniform, out);
        if (full == GRAPH_REASON_NONE) return RP_OK;
        out->reason = d->reasons[full];
    }
    if (!rp_cudagraph_has_mode(mode, RP_CUDAGRAPH_PIECEWISE)) return RP_OK;
    pieces = try_pieces(d, s, out);
    if (pieces != GRAPH_REASON_NONE) out->reason = d->reasons[pieces];
    return RP_OK;
}

void graph_dispatch_of(const graph_dispatcher *d, graph_kind kind, uint32_t i, uint32_t j,
                       rp_dispatch *out) {
    rp_batch_descriptor key = graph_key(&d->keys, kind, i, j);
    int32_t seqs = d->keys.p.max_num_seqs;
    graph_step_shape s = {.num_tokens = key.num_tokens > 0 ? key.num_tokens : key.num_logits,
                          .num_reqs = key.num_reqs,
                          .num_logits = key.num_logits > 0 ? key.num_logits : 0};

    if (s.num_reqs < 0) s.num_reqs = s.num_tokens < seqs ? s.num_tokens : seqs;
    put_none(d, &s, out);
    if (kind == GRAPH_MIXED || kind == GRAPH_DECODE) {
        put_full(out, key);
    } else if (kind == GRAPH_PIECE) {
        out->mode = RP_CUDAGRAPH_PIECEWISE;
        out->key = key;
    } else {
        out->head_mode = RP_CUDAGRAPH_PIECEWISE;
        out->head_key = key;
    }
}
