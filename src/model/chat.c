/* Chat templates by name or by recognition of the model's own. ChatML is the one that is known;
 * any other is refused with the way out, never replaced by a similar one. */
#include "model/chat.h"

#include "base/alloc.h"
#include "base/str.h"
#include "model/jinja.h"

/* Fills c when source is ChatML; *is_chatml says so. */
static rp_status recognise(model_chat *c, base_str source, bool *is_chatml, rp_error *err) {
    rp_status st = RP_OK;
    base_buf canon;
    base_str system = {NULL, 0};
    base_buf_init(&canon, 0);
    *is_chatml = model_jinja_canon(source, &canon) &&
                 model_jinja_is_chatml((base_str){canon.data, canon.len}, &system);
    if (canon.failed) {
        st = rp_fail(err, RP_NOMEM, "no memory for the chat template");
        goto out;
    }
    if (*is_chatml && system.ptr) {
        c->system = base_strndup(system.ptr, system.len);
        if (!c->system) {
            st = rp_fail(err, RP_NOMEM, "no memory for the chat template");
            goto out;
        }
    }
    if (*is_chatml) c->kind = MODEL_CHAT_CHATML;
out:
    base_buf_done(&canon);
    return st;
}

static rp_status refuse(rp_error *err) {
    return rp_fail(err, RP_UNSUPPORTED,
                   "the model's chat template is not ChatML, the only one that is supported: "
                   "choose one with --chat-template chatml or --chat-template none");
}

rp_status model_chat_init(model_chat *c, const char *name, base_str source, rp_error *err) {
    bool is_chatml = false;
    *c = (model_chat){.kind = MODEL_CHAT_NONE};
    if (name && base_same_word(name, "none")) return RP_OK;
    bool force = name && base_same_word(name, "chatml");
    if (name && !force && !base_same_word(name, "auto"))
        return rp_fail(err, RP_CONFIG,
                       "unknown chat template '%s': --chat-template takes auto, chatml or none",
                       name);
    if (source.len > 0) RP_TRY(recognise(c, source, &is_chatml, err));
    if (force) c->kind = MODEL_CHAT_CHATML;
    if (force || is_chatml || source.len == 0) return RP_OK;
    c->kind = MODEL_CHAT_FOREIGN;
    return refuse(err);
}

void model_chat_done(model_chat *c) {
    base_free(c->system);
    *c = (model_chat){.kind = MODEL_CHAT_NONE};
}

static void chatml_message(base_str role, base_str content, base_buf *out) {
    base_buf_puts(out, "<|im_start|>");
    base_buf_add(out, role.ptr, role.len);
    base_buf_putc(out, '\n');
    base_buf_add(out, content.ptr, content.len);
    base_buf_puts(out, "<|im_end|>\n");
}

rp_status model_chat_apply(const model_chat *c, const model_message *messages, size_t n,
                           bool generation_prompt, base_buf *out, rp_error *err) {
    if (c->kind == MODEL_CHAT_FOREIGN) return refuse(err);
    if (n == 0) return rp_fail(err, RP_INVALID, "a chat needs at least one message");
    for (size_t i = 0; i < n; i++)
        if (messages[i].role.len == 0)
            return rp_fail(err, RP_INVALID, "message %zu has no role: system, user or assistant",
                           i + 1);
    if (c->kind == MODEL_CHAT_NONE) {
        for (size_t i = 0; i < n; i++)
            base_buf_add(out, messages[i].content.ptr, messages[i].content.len);
        return base_buf_status(out, err);
    }
    if (c->system && !base_str_eq(messages[0].role, "system"))
        chatml_message(base_str_of("system"), base_str_of(c->system), out);
    for (size_t i = 0; i < n; i++) chatml_message(messages[i].role, messages[i].content, out);
    if (generation_prompt) base_buf_puts(out, "<|im_start|>assistant\n");
    return base_buf_status(out, err);
}
