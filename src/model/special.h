/* Special tokens: texts that are matched before anything is cut or merged. */
#ifndef MODEL_SPECIAL_H
#define MODEL_SPECIAL_H

#include "model/vocab.h"

typedef struct model_special_token {
    base_str text; /* borrowed */
    uint32_t id;
    model_token_kind kind;
} model_special_token;

/* Immutable after sort: thread-safe. Zero-initialise. */
typedef struct model_specials {
    model_special_token *tokens; /* by first byte, then longest first */
    size_t n, cap;
    uint32_t first[257]; /* tokens that start with byte b: first[b] to first[b + 1] */
} model_specials;

rp_status model_specials_add(model_specials *s, base_str text, uint32_t id, model_token_kind kind,
                             rp_error *err) RP_MUST_USE;
/* After the last add, before the first find. */
void model_specials_sort(model_specials *s);
void model_specials_done(model_specials *s);
/* The leftmost special token of text from byte at on, of those at one place the longest.
 * Without parse only user-defined tokens count, not control tokens. NULL when there is none. */
const model_special_token *model_specials_find(const model_specials *s, base_str text, size_t at,
                                               bool parse, size_t *out_at);

#endif
