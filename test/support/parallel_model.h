/* A second architecture, in the public API alone: LayerNorm with bias, attention and a GELU network side by side on
 * one normed input (as GPT-J), one KV head, learned positions beside a partial half-split rope, biases on
 * the projections, and an untied head over the rows that want logits. */
#ifndef SUPPORT_PARALLEL_MODEL_H
#define SUPPORT_PARALLEL_MODEL_H

#include <reprise/reprise.h>

enum {
    PM_LAYERS = 2,
    PM_WIDTH = 96,
    PM_HEADS = 4,
    PM_HEAD_DIM = 24,
    PM_ROPE_DIM = 16,
    PM_FFN = 160,
    PM_VOCAB = 83, /* no multiple of anything */
    PM_POSITIONS = 40,
    PM_BLOCK = 4,
    PM_BLOCKS = 24,
    PM_MAX_TOKENS = 32,
    PM_MAX_SEQS = 4,
    PM_TABLE = 10
};

typedef struct parallel_model_options {
    rp_dtype weights; /* of projections and head */
    rp_dtype kv;
    rp_numerics numerics;
} parallel_model_options;

/* Inputs in order: tokens, positions, slots, seqs i32[T], block_tables i32[S,PM_TABLE], rows i32[R]. One output, the logits
 * f32[R,PM_VOCAB]. Free with rp_graph_free. */
rp_status parallel_model_new(const parallel_model_options *opt, rp_graph **out,
                             rp_error *err) RP_MUST_USE;

#endif
