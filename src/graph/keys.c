/* Key sets.
 *
 * Invariants: a key is a pure function of (ladders, kind, indices); DECODE keys satisfy
 * num_tokens = num_reqs * uniform_query_len and num_logits = num_tokens (each row is sampled or
 * verified); MIXED keys have num_reqs = min(num_tokens, max_num_seqs), which no real step of that
 * many tokens exceeds. FULL keeps DECODE keys beside MIXED ones, so that a decode step pays for its
 * own requests alone. */
#include "graph/keys.h"

#include <string.h>

#include "base/alloc.h"

static void ladder_done(graph_ladder *l) {
    base_free(l->size);
    base_free(l->pad);
    memset(l, 0, sizeof *l);
}

static rp_status ladder_check(const char *what, const int64_t *v, size_t n, int64_t limit,
                              const char *limit_name, rp_error *err) {
    for (size_t i = 0; i < n; i++) {
        if (v[i] < 1 || (i > 0 && v[i] <= v[i - 1]))
            return rp_fail(err, RP_CONFIG,
                           "%s: size %lld at index %zu is not above the one before; give positive "
                           "sizes in ascending order",
                           what, (long long)v[i], i);
        if (v[i] > limit)
            return rp_fail(err, RP_CONFIG, "%s: size %lld cannot be reached, %s is %lld", what,
                           (long long)v[i], limit_name, (long long)limit);
    }
    return RP_OK;
}

static rp_status ladder_init(graph_ladder *l, const int64_t *v, size_t n, rp_error *err) {
    if (n == 0) return RP_OK;
    l->size = base_alloc_array(n, sizeof *l->size);
    l->pad = base_alloc_array((size_t)v[n - 1] + 1, sizeof *l->pad);
    if (!l->size || !l->pad) return rp_fail(err, RP_NOMEM, "padding table of %zu sizes", n);
    for (size_t i = 0; i < n; i++) l->size[i] = (int32_t)v[i];
    l->n = (uint32_t)n;
    l->max = l->size[n - 1];
    for (int32_t t = 0, i = 0; t <= l->max; t++) {
        if (t > l->size[i]) i++;
        l->pad[t] = i;
    }
    return RP_OK;
}

/* 1, 2, 4, 8, 16, 24, ... and max itself; out holds at most 4 + max / 8 values. */
static size_t default_head_sizes(int32_t max, int64_t *out) {
    size_t n = 0;

    for (int32_t v = 1; v < max; v = v < 8 ? v * 2 : v + 8) out[n++] = v;
    out[n++] = max;
    return n;
}

static rp_status head_init(graph_keys *k, const graph_params *p, rp_error *err) {
    int64_t *def = NULL;
    rp_status st;

    if (p->head_sizes) {
        RP_TRY(ladder_check("sizes of head graphs", p->head_sizes, p->n_head_sizes,
                            p->max_num_batched_tokens, "max_num_batched_tokens", err));
        return ladder_init(&k->head, p->head_sizes, p->n_head_sizes, err);
    }
    def = base_alloc_array((size_t)p->max_num_seqs / 8 + 6, sizeof *def);
    if (!def) return rp_fail(err, RP_NOMEM, "sizes of head graphs");
    st = ladder_init(&k->head, def, default_head_sizes(p->max_num_seqs, def), err);
    base_free(def);
    return st;
}

static rp_status logits_init(graph_keys *k, const graph_params *p, rp_error *err) {
    int64_t def[2] = {1, p->max_num_seqs};

    if (!p->mixed_logits) return ladder_init(&k->logits, def, p->max_num_seqs > 1 ? 2 : 1, err);
    RP_TRY(ladder_check("logit rows of mixed graphs", p->mixed_logits, p->n_mixed_logits,
                        p->max_num_batched_tokens, "max_num_batched_tokens", err));
    return ladder_init(&k->logits, p->mixed_logits, p->n_mixed_logits, err);
}

static rp_status keys_fill(graph_keys *k, const graph_params *p, rp_error *err) {
    rp_cudagraph_mode mixed = rp_cudagraph_mixed_mode(p->mode);
    int64_t reach = p->max_num_batched_tokens / k->p.uniform_query_len;

    if (reach > p->max_num_seqs) reach = p->max_num_seqs;
    if (rp_cudagraph_decode_mode(p->mode) == RP_CUDAGRAPH_FULL) {
        RP_TRY(ladder_check("decode capture sizes", p->decode_sizes, p->n_decode_sizes, reach,
                            "the largest decode batch", err));
        RP_TRY(ladder_init(&k->decode, p->decode_sizes, p->n_decode_sizes, err));
    }
    if (mixed != RP_CUDAGRAPH_NONE || rp_cudagraph_has_mode(p->mode, RP_CUDAGRAPH_PIECEWISE)) {
        RP_TRY(ladder_check("mixed capture sizes", p->mixed_sizes, p->n_mixed_sizes,
                            p->max_num_batched_tokens, "max_num_batched_tokens", err));
        RP_TRY(ladder_init(&k->tokens, p->mixed_sizes, p->n_mixed_sizes, err));
    }
    if (rp_cudagraph_has_mode(p->mode, RP_CUDAGRAPH_PIECEWISE)) RP_TRY(head_init(k, p, err));
    if (mixed == RP_CUDAGRAPH_FULL) RP_TRY(logits_init(k, p, err));
    return RP_OK;
}

rp_status graph_keys_init(graph_keys *k, const graph_params *p, rp_error *err) {
    rp_status st;

    memset(k, 0, sizeof *k);
    k->p = *p;
    k->p.decode_sizes = k->p.mixed_sizes = k->p.mixed_logits = k->p.head_sizes = NULL;
    if (k->p.uniform_query_len <= 0) k->p.uniform_query_len = 1;
    if (p->max_num_seqs < 1 || p->max_num_batched_tokens < 1)
        return rp_fail(err, RP_CONFIG,
                       "max_num_seqs %d and max_num_batched_tokens %d must be at least 1",
                       p->max_num_seqs, p->max_num_batched_tokens);
    st = keys_fill(k, p, err);
    if (st != RP_OK) graph_keys_done(k);
    return st;
}

void graph_keys_done(graph_keys *k) {
    if (!k) return;
    ladder_done(&k->tokens);
    ladder_done(&k->decode);
    ladder_done(&k->head);
    ladder_done(&k->logits);
}

int32_t graph_ladder_index(const graph_ladder *l, int32_t n) {
    return n < 0 || n > l->max || l->n == 0 ? -1 : l->pad[n];
}

static int32_t min_i32(int32_t a, int32_t b) {
    return a < b ? a : b;
}

uint32_t graph_keys_logits(const graph_keys *k, uint32_t i) {
    int32_t rows = min_i32(k->tokens.size[i], k->logits.max);

    return (uint32_t)graph_ladder_index(&k->logits, rows) + 1;
}

rp_batch_descriptor graph_key(const graph_keys *k, graph_kind kind, uint32_t i, uint32_t j) {
    rp_batch_descriptor d = {.num_tokens = -1, .num_reqs = -1, .num_logits = -1};

    switch (kind) {
    case GRAPH_PIECE: d.num_tokens = k->tokens.size[i]; break;
    case GRAPH_HEAD: d.num_logits = k->head.size[i]; break;
    case GRAPH_MIXED:
        d.num_tokens = k->tokens.size[i];
        d.num_reqs = min_i32(d.num_tokens, k->p.max_num_seqs);
        d.num_logits = min_i32(k->logits.size[j], d.num_tokens);
        break;
    case GRAPH_DECODE:
        d.num_reqs = k->decode.size[i];
        d.num_tokens = d.num_reqs * k->p.uniform_query_len;
        d.num_logits = d.num_tokens;
        d.uniform = true;
        break;
    case GRAPH_KIND_COUNT_: break;
    }
    return d;
}
