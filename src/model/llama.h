/* The Llama architecture written in the tensor API: a model graph and a head graph.
 *
 * model: i32 inputs token_ids[T], positions[T], slots[T], seqs[T], block_tables[S,B]; params under their GGUF names and
 * rope.cos, rope.sin f32[P, rope_dim/2]; states k.<layer>, v.<layer> [NB, kv_heads, 16, head_dim]; outputs: enum
 * model_output. head: these under their names, and rows i32[R], those with logits: all that comes behind the attention of the last
 * layer, of which others need keys and values alone; outputs: enum model_head_output. */
#ifndef MODEL_LLAMA_H
#define MODEL_LLAMA_H

#include "ir/graph.h"
#include "model/weights.h"
#include "reprise/nn.h"
#include "reprise/support.h"

#define MODEL_KV_BLOCK 16

/* Of the model: what the last layer gets, "last" f32[T, n_embd], and what its heads have read, "heads" f32[T, n_head * head_dim]. */
enum model_output { MODEL_LAST, MODEL_HEADS, MODEL_N_RESULTS };
/* Under which names the head gets them; NULL behind the last. */
extern const char *const model_output_names[MODEL_N_RESULTS + 1];
/* Of the head: f32[R, n_vocab]; the largest of each row f32[R, 1] and its token i32[R, 1], of equals the first, a NaN as largest. */
enum model_head_output { MODEL_HEAD_LOGITS, MODEL_HEAD_BEST, MODEL_HEAD_ID, MODEL_N_HEAD };

typedef struct model_graph_options {
    rp_numerics numerics;
    int64_t max_tokens;  /* largest T and R */
    int64_t max_seqs;    /* largest S */
    int64_t first, last; /* model: T is one of these; 0, 0: any up to max_tokens */
} model_graph_options;

/* What the model graph says of itself: its sizes that are no numbers, and the states that it writes. */
extern const rp_support model_llama_support;
/* Owned by the caller (rp_graph_free). */
rp_status model_llama_graph(const model_source *src, const model_graph_options *opt, rp_graph **out,
                            rp_error *err) RP_MUST_USE;
rp_status model_llama_head(const model_source *src, const model_graph_options *opt, rp_graph **out,
                           rp_error *err) RP_MUST_USE;
/* What the head does in front of its logits, for every row: the outputs of the model graph in, what leaves the last layer and that behind the
 * output norm out. */
rp_status model_llama_hidden(const model_source *src, const model_graph_options *opt,
                             rp_graph **out, rp_error *err) RP_MUST_USE;
/* Whether the model graph can have the op, for some weight type and numerics. Known without tracing. */
bool model_llama_has_op(ir_op op);
/* Type of the KV cache: f16 for block-quantised weights, the weights' own float type, f32 with exact numerics. */
rp_dtype model_kv_dtype(const model_source *src, rp_numerics numerics);
/* cos and sin of positions [first, end): rows of rope_dim/2 values, row p at its own place in the tables. freqs: divisors
 * of rope_freqs, or NULL. */
void model_rope_rows(const model_hparams *hp, const float *freqs, int64_t first, int64_t end,
                     float *cos_out, float *sin_out);

#endif
