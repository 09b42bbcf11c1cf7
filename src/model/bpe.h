/* Byte-level BPE: merges the bytes of one piece into tokens. */
#ifndef MODEL_BPE_H
#define MODEL_BPE_H

#include "model/vocab.h"

/* Growing list of token ids. Zero-initialise; model_ids_done frees. */
typedef struct model_ids {
    uint32_t *ids;
    size_t n, cap;
} model_ids;

rp_status model_ids_push(model_ids *ids, uint32_t id, rp_error *err) RP_MUST_USE;
void model_ids_done(model_ids *ids);

/* Scratch of one encoding, reused from piece to piece. One thread at a time. */
typedef struct model_bpe model_bpe;

/* Borrows v, which must be indexed. */
rp_status model_bpe_new(const model_vocab *v, model_bpe **out, rp_error *err) RP_MUST_USE;
void model_bpe_free(model_bpe *b); /* NULL is fine */
/* Appends the tokens of one piece. Bytes for which the vocabulary has no token are left out, as
 * the reference implementations do, and counted in *n_dropped. */
rp_status model_bpe_piece(model_bpe *b, base_str piece, model_ids *out, size_t *n_dropped,
                          rp_error *err) RP_MUST_USE;

#endif
