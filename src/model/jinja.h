/* Recognises the one family of Jinja chat templates that is known, ChatML. */
#ifndef MODEL_JINJA_H
#define MODEL_JINJA_H

#include "base/str.h"

/* Appends to *canon the template without what does not change its meaning: blanks outside of
 * strings, kinds of quotes, joined neighbouring strings, dashes of tags. False when it contains
 * what this reader does not understand (text between tags, comments, unclosed tags). */
bool model_jinja_canon(base_str source, base_buf *canon);
/* True when the canonical template is ChatML. *system is the default system message, still
 * inside of canon, or empty with ptr NULL. */
bool model_jinja_is_chatml(base_str canon, base_str *system);

#endif
