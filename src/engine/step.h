/* The step builder: writes a batch into the static inputs of the compiled model, padded to what the
 * dispatch record says, and fills the forward context. One thread at a time; no allocation after new.
 *
 * Declared padding: token 0, position 0, slot -1 (stores nothing), seqs -1 (attention gives zeros),
 * block-table rows 0 (the null block; up to the width of engine_step_extents), logit rows 0, cumulative lengths repeat the last value. */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "engine/scheduler.h"
#include "reprise/forward_context.h"

/* Borrowed arrays at fixed addresses: what graphs read. */
typedef struct engine_step_buffers {
    int32_t *token_ids;    /* [max_tokens]; -1 - r: that of logit row r of the step before */
    int32_t *positions;    /* [max_tokens] */
    int32_t *slots;        /* [max_tokens] */
    int32_t *seqs;         /* [max_tokens] */
    int32_t *block_tables; /* [max_seqs, max_blocks] */
    int32_t *rows;         /* [max_rows]: of which tokens the head makes logits */
    uint32_t max_tokens, max_seqs, max_blocks, max_rows;
} engine_step_buffers;

typedef struct engine_step engine_step;

rp_status engine_step_new(const engine_step_buffers *b, uint32_t block_size, engine_step **out,
                          rp_error *err) RP_MUST_USE;
void engine_step_free(engine_step *s); /* NULL is fine */

/* RP_INVALID when batch, record and buffers do not fit each other, RP_INTERNAL when a position has no
 * KV block; the buffers are not to be used then. *out borrows from s, the batch and the buffers. */
rp_status engine_step_build(engine_step *s, const engine_batch *batch, const engine_kv *kv,
                            const rp_dispatch *d, rp_forward_context *out,
                            rp_error *err) RP_MUST_USE;
/* The same for a step of padding alone: capture, warm-up, profile. Touches no live KV. Inputs that an earlier one padded are
 * left as they are. */
rp_status engine_step_dummy(engine_step *s, const rp_dispatch *d, rp_forward_context *out,
                            rp_error *err) RP_MUST_USE;
/* What a built step has written besides arrays of the sizes of its record. */
typedef struct engine_step_extent {
    uint32_t
        width; /* entries of each block-table row: enough for its longest sequence, and for whole chunks of any kernel */
    uint32_t n_draws; /* logit rows with parameters of a draw */
} engine_step_extent;
engine_step_extent engine_step_extents(const engine_step *s);
/* [max_seqs]: those (gen/draw.h). Borrowed from s. */
const int32_t *engine_step_draws(const engine_step *s);
/* [max_seqs]: a row of block tables has what it had in an earlier step where both have the same number, which is not 0, and the same width. Borrowed
 * from s. */
const uint64_t *engine_step_stamps(const engine_step *s);
/* Somebody else wrote to the buffers. */
void engine_step_dirty(engine_step *s);

#endif
