/* Streaming text: token ids to whole characters, and stop strings in what was written. */
#ifndef MODEL_DETOK_H
#define MODEL_DETOK_H

#include "model/tokenizer.h"

/* Turns ids into text that is valid UTF-8 at every moment: holds back a character until its last
 * byte has come; bytes that cannot become one are U+FFFD. One thread at a time. */
typedef struct model_detok {
    const model_tokenizer *tokenizer;
    bool special; /* write control tokens as text */
    base_buf
        bytes; /* of one token and what is held; kept so that a step after the first that needs it allocates nothing */
    char held[4];
    size_t n_held;
} model_detok;

/* Borrows t. */
void model_detok_init(model_detok *d, const model_tokenizer *t, bool special);
void model_detok_done(model_detok *d);
/* Appends the text that id completes, perhaps none. */
rp_status model_detok_push(model_detok *d, uint32_t id, base_buf *out, rp_error *err) RP_MUST_USE;
/* At the end: what is held back becomes U+FFFD. The stream can be used again. */
rp_status model_detok_flush(model_detok *d, base_buf *out, rp_error *err) RP_MUST_USE;

/* Passes text on except for what may yet turn out to be the start of a stop string, and ends
 * before the first stop string. One thread at a time. */
typedef struct model_stop {
    const char *const *strings;
    size_t n_strings;
    size_t max_len;
    base_buf held;
    bool hit;
    size_t which; /* the string that was hit */
} model_stop;

/* Borrows strings. RP_CONFIG for one that is empty or not UTF-8. */
rp_status model_stop_init(model_stop *s, const char *const *strings, size_t n,
                          rp_error *err) RP_MUST_USE;
void model_stop_done(model_stop *s);
/* Appends what of text is safe to show. After a hit nothing more is passed on. */
rp_status model_stop_push(model_stop *s, base_str text, base_buf *out, rp_error *err) RP_MUST_USE;
/* At the end: appends what was held back, unless there was a hit. */
rp_status model_stop_flush(model_stop *s, base_buf *out, rp_error *err) RP_MUST_USE;

#endif
