/* Text to token ids and back.
 *
 * Byte-level BPE from GGUF metadata, or plain bytes for the synthetic models. The tables that
 * only encoding needs are made by the first encode. Thread-safe. */
#ifndef MODEL_TOKENIZER_H
#define MODEL_TOKENIZER_H

#include "model/bpe.h"

typedef struct model_tokenizer model_tokenizer;

typedef enum model_encode_flags {
    MODEL_ENCODE_ADD_SPECIAL = 1,  /* BOS and EOS as the model asks for */
    MODEL_ENCODE_PARSE_SPECIAL = 2 /* "<|im_start|>" in text is that token */
} model_encode_flags;

/* Borrows g. RP_UNSUPPORTED names another tokenizer model or pre-tokenizer. */
rp_status model_tokenizer_new(const model_gguf *g, model_tokenizer **out,
                              rp_error *err) RP_MUST_USE;
/* Ids 0 to 255 are the bytes, 256 <|endoftext|> (EOS), 257 <|im_start|> (BOS), 258 <|im_end|>;
 * ids from 259 on decode as "<id>". n_vocab >= 259, else RP_INVALID. */
rp_status model_tokenizer_bytes_new(uint32_t n_vocab, model_tokenizer **out,
                                    rp_error *err) RP_MUST_USE;
void model_tokenizer_free(model_tokenizer *t); /* NULL is fine */

uint32_t model_tokenizer_n_vocab(const model_tokenizer *t);
/* MODEL_NO_ID when the model has none. */
uint32_t model_tokenizer_bos(const model_tokenizer *t);
uint32_t model_tokenizer_eos(const model_tokenizer *t);
/* Ends a generation: EOS, end of turn, end of message. */
bool model_tokenizer_is_end(const model_tokenizer *t, uint32_t id);
/* All of these ids; borrowed. */
const uint32_t *model_tokenizer_ends(const model_tokenizer *t, size_t *n);
bool model_tokenizer_is_control(const model_tokenizer *t, uint32_t id);

/* Appends the ids of text (any bytes) to *out. Bytes without a token are left out and counted in
 * *n_dropped (may be NULL); decode(encode(x)) == x when that is 0. */
rp_status model_tokenizer_encode(model_tokenizer *t, base_str text, unsigned flags, model_ids *out,
                                 size_t *n_dropped, rp_error *err) RP_MUST_USE;
/* Appends the bytes of one token, which need not be whole characters. Control tokens have none
 * unless special. RP_INVALID for an id outside the vocabulary. */
rp_status model_tokenizer_bytes(const model_tokenizer *t, uint32_t id, bool special, base_buf *out,
                                rp_error *err) RP_MUST_USE;
/* Appends the bytes of n tokens. */
rp_status model_tokenizer_decode(const model_tokenizer *t, const uint32_t *ids, size_t n,
                                 bool special, base_buf *out, rp_error *err) RP_MUST_USE;
/* The id of a token by its exact text, MODEL_NO_ID if none; for control tokens. */
rp_status model_tokenizer_find(model_tokenizer *t, base_str text, uint32_t *out,
                               rp_error *err) RP_MUST_USE;

#endif
