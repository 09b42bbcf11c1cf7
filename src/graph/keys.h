/* Which keys exist for a configuration, and the one function that makes a key.
 *
 * Four kinds: PIECE (by tokens), HEAD (by logit rows), MIXED (a whole step by tokens and logit rows)
 * and DECODE (a whole uniform step by requests). Immutable after init. */
#ifndef GRAPH_KEYS_H
#define GRAPH_KEYS_H

#include <stddef.h>

#include "base/status.h"
#include "reprise/dispatch.h"

typedef enum graph_kind {
    GRAPH_PIECE,
    GRAPH_HEAD,
    GRAPH_MIXED,
    GRAPH_DECODE,
    GRAPH_KIND_COUNT_
} graph_kind;

/* Lists are borrowed during init, ascending, from the configuration's ladders. */
typedef struct graph_params {
    rp_cudagraph_mode mode;
    int32_t max_num_seqs;
    int32_t max_num_batched_tokens;
    int32_t uniform_query_len;   /* 1 + speculative tokens; 0 is taken as 1 */
    const int64_t *decode_sizes; /* request counts (decode_capture_sizes) */
    size_t n_decode_sizes;
    const int64_t *mixed_sizes; /* token counts (mixed_capture_sizes) */
    size_t n_mixed_sizes;
    /* Logit rows of mixed FULL keys; NULL: 1 and max_num_seqs. */
    const int64_t *mixed_logits;
    size_t n_mixed_logits;
    /* Logit rows of head graphs; NULL: 1, 2, 4, 8, then 8-steps, and max_num_seqs. */
    const int64_t *head_sizes;
    size_t n_head_sizes;
} graph_params;

/* A ladder with its padding table: pad[n] is the index of the first size >= n, for n in 0..max. */
typedef struct graph_ladder {
    int32_t *size;
    int32_t *pad;
    uint32_t n;
    int32_t max; /* 0 when empty */
} graph_ladder;

typedef struct graph_keys {
    graph_params p; /* list pointers are NULL here */
    graph_ladder tokens, decode, head;
    graph_ladder logits; /* MIXED */
} graph_keys;

/* Keys the mode has no use for are left out. RP_CONFIG for sizes that are not ascending, not positive
 * or beyond what the scheduler can reach. */
rp_status graph_keys_init(graph_keys *k, const graph_params *p, rp_error *err) RP_MUST_USE;
void graph_keys_done(graph_keys *k);

/* Index of the size that n is padded to, -1 when n is above the ladder. */
int32_t graph_ladder_index(const graph_ladder *l, int32_t n);

/* The key function: capture and replay both come here. i: index in the kind's ladder; j: index in
 * `logits` for MIXED, else ignored. */
rp_batch_descriptor graph_key(const graph_keys *k, graph_kind kind, uint32_t i, uint32_t j);
/* Number of logit buckets that differ for the i-th token count (MIXED). */
uint32_t graph_keys_logits(const graph_keys *k, uint32_t i);

#endif
