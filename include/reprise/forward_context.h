/* What a step tells the layers beside its tensors. Handed down as an argument, never a global.
 *
 * Field names are ATOM's and vLLM's. All arrays are borrowed for the step. Thread rule: written by
 * the step builder before the step runs, immutable until it is done. */
#ifndef REPRISE_FORWARD_CONTEXT_H
#define REPRISE_FORWARD_CONTEXT_H

#include <stddef.h>

#include "reprise/dispatch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_context {
    const int32_t *positions; /* [padded tokens] */
    bool is_prefill;          /* at least one request computes more than uniform decode does */
    bool is_dummy;            /* capture, warm-up or profile: writes no live KV */
    bool is_draft;            /* forward of a draft model */
    int32_t batch_size;       /* real requests */
    int32_t graph_bs;         /* requests after padding */
} rp_context;

typedef struct rp_attention_metadata {
    const int32_t *cu_seqlens_q; /* [graph_bs + 1]; the padded tail repeats the last value */
    const int32_t *cu_seqlens_k; /* [graph_bs + 1], over context_lens */
    const int32_t
        *slot_mapping;         /* [padded tokens]: block * block_size + offset, -1 stores nothing */
    const int32_t *token_seqs; /* [padded tokens]: row of block_tables, -1 on padding */
    const int32_t *context_lens; /* [graph_bs]: keys after this step, 0 on padding */
    const int32_t *block_tables; /* [graph_bs, block_tables_stride]; block 0 is the null block */
    int32_t block_tables_stride;
    int32_t block_size;
    int32_t max_seqlen_q, max_seqlen_k;
    int32_t num_actual_tokens, num_prefills, num_decodes;
} rp_attention_metadata;

/* One layer's cache. */
typedef struct rp_kv_cache_tensor {
    const char *layer;
    void *k, *v;
    size_t size; /* bytes of each */
} rp_kv_cache_tensor;

typedef struct rp_dp_metadata {
    int32_t dp_size, dp_rank;
    const int32_t *num_tokens_across_dp; /* [dp_size] */
    const int32_t *cu_tokens_across_dp;  /* [dp_size] */
    int32_t max_tokens_across_dp;
} rp_dp_metadata;

typedef struct rp_spec_decode_metadata {
    const int32_t *draft_token_ids;
    const int32_t *num_draft_tokens; /* [batch_size] */
    const int32_t *cu_num_draft_tokens;
    const int32_t *target_logits_indices;
    const int32_t *bonus_logits_indices;
    const int32_t *logits_indices;
    int32_t max_spec_len;
} rp_spec_decode_metadata;

typedef struct rp_forward_context {
    const char *const *no_compile_layers; /* names of the layers that run outside compiled code */
    uint32_t num_no_compile_layers;
    rp_attention_metadata attn_metadata;
    const rp_kv_cache_tensor *kv_cache_data; /* one a layer */
    uint32_t num_kv_cache_data;
    rp_context context;
    const rp_dp_metadata *dp_metadata;                   /* NULL on one rank */
    const rp_spec_decode_metadata *spec_decode_metadata; /* NULL without drafts */
    rp_batch_descriptor batch_descriptor;
    rp_cudagraph_mode cudagraph_runtime_mode;
    rp_dispatch dispatch; /* the record that the two above were filled from */
} rp_forward_context;

#ifdef __cplusplus
}
#endif
#endif
