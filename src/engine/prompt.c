/* Prompts as ids: of texts, of conversations, of ids that are checked; and ids as text, for callers. */
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/engine.h"

static rp_status ids_of_text(rp_engine *e, base_str text, unsigned flags, model_ids *out,
                             rp_error *err) {
    size_t dropped = 0;
    RP_TRY(
        model_tokenizer_encode(model_source_tokenizer(e->source), text, flags, out, &dropped, err));
    if (dropped)
        base_log(RP_LOG_WARNING,
                 "%zu bytes of the prompt have no token: the model does not see them", dropped);
    e->dropped_bytes += dropped;
    return RP_OK;
}

static rp_status ids_of_messages(rp_engine *e, const rp_message *m, uint32_t n, model_ids *out,
                                 rp_error *err) {
    rp_status st = RP_OK;
    base_buf text;
    base_buf_init(&text, 0);
    model_message *list = base_alloc_array(n + 1u, sizeof *list);
    if (!list) return rp_fail(err, RP_NOMEM, "%u messages", n);
    for (uint32_t i = 0; i < n; i++)
        list[i] = (model_message){base_str_of(m[i].role), base_str_of(m[i].content)};
    RP_TRY_OUT(model_chat_apply(&e->chat, list, n, true, &text, err));
    st = ids_of_text(e, (base_str){text.data, text.len},
                     MODEL_ENCODE_ADD_SPECIAL | MODEL_ENCODE_PARSE_SPECIAL, out, err);
out:
    base_free(list);
    base_buf_done(&text);
    return st;
}

rp_status engine_ids_check(const rp_engine *e, const char *part, const int32_t *ids, uint32_t n,
                           rp_error *err) {
    uint32_t n_vocab = model_source_hparams(e->source)->n_vocab;
    if (!ids && n > 0)
        return rp_fail(err, RP_INVALID, "%u ids of the %s, and no list of them", n, part);
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return rp_fail(err, RP_CONFIG,
                           "token id %d at position %u of the %s is outside the vocabulary of %u; "
                           "ids go from 0 to %u",
                           ids[i], i, part, n_vocab, n_vocab - 1);
    return RP_OK;
}

static rp_status copy_ids(const int32_t *ids, uint32_t n, model_ids *out, rp_error *err) {
    for (uint32_t i = 0; i < n; i++) RP_TRY(model_ids_push(out, (uint32_t)ids[i], err));
    return RP_OK;
}

/* What the user can mend is told before the scheduler, whose caller could have known better, refuses it. */
static rp_status check_prompt(const rp_engine *e, const model_ids *ids, rp_error *err) {
    if (ids->n == 0)
        return rp_fail(err, RP_CONFIG,
                       "the prompt has no token; give at least one character or id");
    if (ids->n >= e->max_model_len)
        return rp_fail(err, RP_CONFIG,
                       "prompt of %zu tokens leaves no room in max_model_len %u; shorten it or "
                       "raise max_model_len",
                       ids->n, e->max_model_len);
    return engine_ids_check(e, "prompt", (const int32_t *)ids->ids, (uint32_t)ids->n, err);
}

static rp_status ids_of(rp_engine *e, const rp_request_options *r, model_ids *out, rp_error *err) {
    int given = (r->prompt != NULL) + (r->n_messages > 0) + (r->prompt_ids != NULL);
    if (given != 1)
        return rp_fail(
            err, RP_INVALID,
            "a request wants exactly one of prompt, messages and prompt_ids; %d are given", given);
    if (r->prompt_ids) return copy_ids(r->prompt_ids, r->n_prompt_ids, out, err);
    if (r->n_messages) return ids_of_messages(e, r->messages, r->n_messages, out, err);
    if (r->raw)
        return ids_of_text(e, base_str_of(r->prompt),
                           MODEL_ENCODE_ADD_SPECIAL | MODEL_ENCODE_PARSE_SPECIAL, out, err);
    rp_message user = {"user", r->prompt};
    return ids_of_messages(e, &user, 1, out, err);
}

rp_status engine_prompt_ids(rp_engine *e, const rp_request_options *r, model_ids *out,
                            rp_error *err) {
    RP_TRY(ids_of(e, r, out, err));
    return check_prompt(e, out, err);
}

/* --- for callers ----------------------------------------------------------------- */

static rp_status hand_over(model_ids *ids, rp_status st, int32_t **out, uint32_t *out_n,
                           rp_error *err) {
    if (st == RP_OK) {
        *out = base_alloc_array(ids->n + 1u, sizeof **out);
        if (*out) {
            memcpy(*out, ids->ids, ids->n * sizeof **out);
            *out_n = (uint32_t)ids->n;
        } else {
            st = rp_fail(err, RP_NOMEM, "%zu ids", ids->n);
        }
    }
    model_ids_done(ids);
    return st;
}

rp_status rp_engine_tokenize(rp_engine *e, const char *text, size_t len, int32_t **out,
                             uint32_t *out_n, rp_error *err) {
    base_error_clear(err);
    model_ids ids = {0};
    if (!e || (!text && len) || !out || !out_n)
        return rp_fail(err, RP_INVALID,
                       "rp_engine_tokenize: engine, text, out and out_n must be given");
    rp_status st = ids_of_text(e, (base_str){text, len},
                               MODEL_ENCODE_ADD_SPECIAL | MODEL_ENCODE_PARSE_SPECIAL, &ids, err);
    return hand_over(&ids, st, out, out_n, err);
}

rp_status rp_engine_chat_ids(rp_engine *e, const rp_message *messages, uint32_t n, int32_t **out,
                             uint32_t *out_n, rp_error *err) {
    base_error_clear(err);
    model_ids ids = {0};
    if (!e || (!messages && n) || !out || !out_n)
        return rp_fail(err, RP_INVALID,
                       "rp_engine_chat_ids: engine, messages, out and out_n must be given");
    return hand_over(&ids, ids_of_messages(e, messages, n, &ids, err), out, out_n, err);
}

rp_status rp_engine_detokenize(rp_engine *e, const int32_t *ids, uint32_t n, char **out,
                               rp_error *err) {
    base_error_clear(err);
    base_buf b;
    if (!e || (!ids && n) || !out)
        return rp_fail(err, RP_INVALID, "rp_engine_detokenize: engine, ids and out must be given");
    base_buf_init(&b, 0);
    rp_status st = model_tokenizer_decode(model_source_tokenizer(e->source), (const uint32_t *)ids,
                                          n, true, &b, err);
    if (st == RP_OK) st = base_buf_status(&b, err);
    if (st == RP_OK) *out = base_buf_take(&b);
    base_buf_done(&b);
    return st;
}

void rp_engine_text_free(void *p) {
    base_free(p);
}
