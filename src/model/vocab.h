/* The vocabulary of a byte-level BPE: token texts by id, ids by text, merges by text.
 *
 * Views into a mapped GGUF, one table each; nothing is copied, so loading 49152 tokens takes
 * about a millisecond. Immutable after init: thread-safe. */
#ifndef MODEL_VOCAB_H
#define MODEL_VOCAB_H

#include "model/gguf.h"

#define MODEL_NO_ID UINT32_MAX

/* As numbered in tokenizer.ggml.token_type. */
typedef enum model_token_kind {
    MODEL_TOKEN_NORMAL = 1,
    MODEL_TOKEN_UNKNOWN = 2,
    MODEL_TOKEN_CONTROL = 3,
    MODEL_TOKEN_USER = 4,
    MODEL_TOKEN_UNUSED = 5,
    MODEL_TOKEN_BYTE = 6
} model_token_kind;

typedef struct model_vocab {
    const char *path; /* of the file, for messages */
    uint32_t n_tokens;
    const uint8_t *texts; /* length-prefixed strings, back to back */
    uint32_t *offsets;    /* of each token in texts */
    const uint8_t *kinds; /* packed i32, or NULL: all normal */
    uint32_t *slots;      /* texts to ids; 0 is free */
    uint32_t mask;
    unsigned id_bits, merge_bits; /* of a slot that hold the number */
    uint32_t n_merges;
    const uint8_t *merges; /* length-prefixed strings "left right", back to back, best first */
    uint32_t *merge_slots; /* offset + 1 */
    uint32_t merge_mask;
    uint32_t max_merge; /* bytes of the longest */
} model_vocab;

/* Borrows g. RP_CORRUPT for arrays of different lengths. */
rp_status model_vocab_init(model_vocab *v, const model_gguf *g, rp_error *err) RP_MUST_USE;
void model_vocab_done(model_vocab *v);
/* Makes the tables that only encoding needs. RP_CORRUPT for a token that appears twice. */
rp_status model_vocab_index(model_vocab *v, rp_error *err) RP_MUST_USE;

/* id < n_tokens. */
base_str model_vocab_text(const model_vocab *v, uint32_t id);
model_token_kind model_vocab_kind(const model_vocab *v, uint32_t id);
/* After model_vocab_index. MODEL_NO_ID when no token has this text. */
uint32_t model_vocab_find(const model_vocab *v, const char *text, size_t len);
/* Rank (smaller is merged first) of "left right", or MODEL_NO_ID. */
uint32_t model_vocab_merge(const model_vocab *v, const char *pair, size_t len);

/* GPT-2's alphabet: the two ways between a byte and the character that stands for it. */
uint32_t model_byte_to_char(uint8_t byte);
/* -1 for a character that stands for no byte. */
int model_char_to_byte(uint32_t c);

#endif
