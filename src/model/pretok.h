/* Pre-tokenizers: cut text into the pieces inside of which BPE merges. */
#ifndef MODEL_PRETOK_H
#define MODEL_PRETOK_H

#include "base/str.h"

/* Immutable after new: thread-safe. */
typedef struct model_pretok model_pretok;
/* One walk over one text. One thread at a time. */
typedef struct model_pretok_run model_pretok_run;

/* RP_UNSUPPORTED lists the known names; compiles nothing. */
rp_status model_pretok_known(base_str name, rp_error *err) RP_MUST_USE;
/* name as in tokenizer.ggml.pre. RP_UNSUPPORTED as above. */
rp_status model_pretok_new(base_str name, model_pretok **out, rp_error *err) RP_MUST_USE;
void model_pretok_free(model_pretok *p); /* NULL is fine */

/* Borrows p. */
rp_status model_pretok_run_new(const model_pretok *p, model_pretok_run **out,
                               rp_error *err) RP_MUST_USE;
void model_pretok_run_free(model_pretok_run *run); /* NULL is fine */
/* text is borrowed until the next start or the free. */
void model_pretok_start(model_pretok_run *run, base_str text);
/* The next piece, empty at the end. The pieces laid end to end are the text; bytes that are not
 * UTF-8 come in pieces of their own. */
rp_status model_pretok_next(model_pretok_run *run, base_str *out, rp_error *err) RP_MUST_USE;

#endif
