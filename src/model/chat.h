/* Chat templates: a list of messages to the text that the model was trained on. */
#ifndef MODEL_CHAT_H
#define MODEL_CHAT_H

#include "base/str.h"

typedef enum model_chat_kind {
    MODEL_CHAT_NONE,   /* no template: the contents, one after the other */
    MODEL_CHAT_CHATML, /* <|im_start|>role\ncontent<|im_end|>\n */
    MODEL_CHAT_FOREIGN /* the model's own, which is not known here: model_chat_apply refuses */
} model_chat_kind;

/* A value; model_chat_done frees. */
typedef struct model_chat {
    model_chat_kind kind;
    char *system; /* system message to insert when the first message is none, or NULL */
} model_chat;

typedef struct model_message {
    base_str role, content;
} model_message;

/* The template that name asks for: "chatml" (the model's own default system message if it has
 * one), "none", or "auto" / NULL for the one in source, which is the Jinja text from the model
 * or empty. RP_UNSUPPORTED, naming --chat-template, for a Jinja text that is not ChatML: *c is
 * FOREIGN then, for callers to whom a template may not matter. RP_CONFIG for another name. */
rp_status model_chat_init(model_chat *c, const char *name, base_str source,
                          rp_error *err) RP_MUST_USE;
void model_chat_done(model_chat *c);
/* Appends the prompt; with generation_prompt it ends where the assistant's answer starts.
 * RP_INVALID for no messages or an empty role, RP_UNSUPPORTED as model_chat_init for FOREIGN. */
rp_status model_chat_apply(const model_chat *c, const model_message *messages, size_t n,
                           bool generation_prompt, base_buf *out, rp_error *err) RP_MUST_USE;

#endif
