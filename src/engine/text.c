/* The text of a request, token by token: whole characters, stop strings, what its end says. */
#include <stdio.h>

#include "base/status.h"
#include "engine/engine.h"

static void emit(engine_job *j) {
    const base_buf *piece = &j->e->piece;
    if (piece->len == 0) return;
    base_buf_add(&j->text, piece->data, piece->len);
    if (j->o.on_text && !j->released && !j->o.on_text(j->o.user, j->id, piece->data, piece->len))
        j->aborted = true;
}

bool engine_text_token(void *user, const engine_request *r) {
    engine_job *j = user;
    base_buf *chars = &j->e->chars, *piece = &j->e->piece;
    uint32_t id = (uint32_t)r->output[r->n_output - 1];
    if (r->finish == ENGINE_FINISH_STOP) return true; /* the end of a sequence is no text */
    base_buf_clear(chars);
    base_buf_clear(piece);
    rp_status st = model_detok_push(&j->detok, id, chars, &j->err);
    if (st == RP_OK && chars->len)
        st = model_stop_push(&j->stop, (base_str){chars->data, chars->len}, piece, &j->err);
    emit(j);
    return st != RP_OK || j->stop.hit || j->aborted;
}

/* What was held back: half a character becomes U+FFFD, the start of a stop string is text after all. */
static rp_status flush_text(engine_job *j, rp_error *err) {
    base_buf *chars = &j->e->chars, *piece = &j->e->piece;
    base_buf_clear(chars);
    base_buf_clear(piece);
    if (j->stop.hit) return RP_OK;
    RP_TRY(model_detok_flush(&j->detok, chars, err));
    if (chars->len)
        RP_TRY(model_stop_push(&j->stop, (base_str){chars->data, chars->len}, piece, err));
    return j->stop.hit ? RP_OK : model_stop_flush(&j->stop, piece, err);
}

static void say_stop(engine_job *j, int32_t last) {
    const model_tokenizer *t = model_source_tokenizer(j->e->source);
    rp_error no_text = {0};
    base_buf *chars = &j->e->chars;
    base_buf_clear(chars);
    if (j->stop.hit)
        (void)snprintf(j->why, sizeof j->why, "stop string '%.80s'",
                       j->stop_strings[j->stop.which]);
    else if (model_tokenizer_bytes(t, (uint32_t)last, true, chars, &no_text) == RP_OK)
        (void)snprintf(j->why, sizeof j->why, "stop token %.*s",
                       (int)(chars->len < 80 ? chars->len : 80), chars->data);
    else
        (void)snprintf(j->why, sizeof j->why, "stop token %d", last);
}

/* What the finish reason leaves open: which stop, and which of the limits on length. */
static void say_why(engine_job *j) {
    const engine_request *r = j->req;
    const char *z = "stopped by its submitter";
    uint32_t limit = 0;
    if (!j->aborted && r->finish == ENGINE_FINISH_STOP && r->n_output > 0) {
        say_stop(j, r->output[r->n_output - 1]);
        return;
    }
    if (!j->aborted && r->finish == ENGINE_FINISH_LENGTH) {
        bool full = r->max_output < r->max_tokens; /* always, where no number was given */
        limit = full ? engine_request_len(r) : r->max_tokens;
        z = !full                          ? "max_tokens"
            : limit == j->e->max_model_len ? "context full: max_model_len"
                                           : "KV cache full: positions";
    }
    (void)snprintf(j->why, sizeof j->why, limit ? "%s %u" : "%s", z, limit);
}

void engine_text_finish(engine_job *j) {
    rp_error err = {0};
    if (j->err.code == RP_OK) { /* else the piece at hand may be another's */
        bool failed = flush_text(j, &err) != RP_OK;
        emit(j);
        if (failed || base_buf_status(&j->text, &err) != RP_OK) j->err = err;
    }
    say_why(j);
    j->finished = true;
}
