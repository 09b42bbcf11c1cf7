/* Requests as their submitters see them: prompt to ids, ids to text, stop strings, results. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "engine/engine.h"

static engine_job *find_job(const rp_engine *e, uint64_t id) {
    engine_job *j = e ? e->jobs : NULL;
    while (j && (j->id != id || j->released)) j = j->next;
    return j;
}

/* --- prompts -------------------------------------------------------------------- */

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

static rp_status prompt_ids(rp_engine *e, const rp_request_options *r, model_ids *out,
                            rp_error *err) {
    int given = (r->prompt != NULL) + (r->n_messages > 0) + (r->prompt_ids != NULL);
    if (given != 1)
        return rp_fail(
            err, RP_INVALID,
            "a request wants exactly one of prompt, messages and prompt_ids; %d are given", given);
    if (r->prompt_ids) return copy_ids(r->prompt_ids, r->n_prompt_ids, out, err);
    if (r->n_messages) return ids_of_messages(e, r->messages, r->n_messages, out, err);
    if (r->raw || e->chat.kind == MODEL_CHAT_NONE)
        return ids_of_text(e, base_str_of(r->prompt),
                           MODEL_ENCODE_ADD_SPECIAL | MODEL_ENCODE_PARSE_SPECIAL, out, err);
    rp_message user = {"user", r->prompt};
    return ids_of_messages(e, &user, 1, out, err);
}

/* --- text of a running request -------------------------------------------------------- */

static void emit(engine_job *j) {
    if (j->piece.len == 0) return;
    base_buf_add(&j->text, j->piece.data, j->piece.len);
    if (j->o.on_text && !j->released &&
        !j->o.on_text(j->o.user, j->id, j->piece.data, j->piece.len))
        j->aborted = true;
    base_buf_clear(&j->piece);
}

/* After each output token: text that is whole, and whether a stop string has come. */
static bool on_token(void *user, const engine_request *r) {
    engine_job *j = user;
    base_buf *chars = &j->chars;
    uint32_t id = (uint32_t)r->output[r->n_output - 1];
    if (model_tokenizer_is_end(model_source_tokenizer(j->e->source), id) && !j->o.ignore_eos)
        return true;
    base_buf_clear(chars);
    rp_status st = model_detok_push(&j->detok, id, chars, &j->err);
    if (st == RP_OK && chars->len)
        st = model_stop_push(&j->stop, (base_str){chars->data, chars->len}, &j->piece, &j->err);
    emit(j);
    return st != RP_OK || j->stop.hit || j->aborted;
}

/* What was held back: half a character becomes U+FFFD, the start of a stop string is text after all. */
static rp_status flush_text(engine_job *j, rp_error *err) {
    base_buf chars;
    rp_status st = RP_OK;
    if (j->stop.hit) return RP_OK;
    base_buf_init(&chars, 0);
    RP_TRY_OUT(model_detok_flush(&j->detok, &chars, err));
    if (chars.len)
        RP_TRY_OUT(model_stop_push(&j->stop, (base_str){chars.data, chars.len}, &j->piece, err));
    if (!j->stop.hit) st = model_stop_flush(&j->stop, &j->piece, err);
out:
    base_buf_done(&chars);
    return st;
}

static void say_stop(engine_job *j, int32_t last) {
    const model_tokenizer *t = model_source_tokenizer(j->e->source);
    rp_error no_text = {0};
    base_buf_clear(&j->chars);
    if (j->stop.hit)
        (void)snprintf(j->why, sizeof j->why, "stop string '%.80s'",
                       j->stop_strings[j->stop.which]);
    else if (model_tokenizer_bytes(t, (uint32_t)last, true, &j->chars, &no_text) == RP_OK)
        (void)snprintf(j->why, sizeof j->why, "stop token %.*s",
                       (int)(j->chars.len < 80 ? j->chars.len : 80), j->chars.data);
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

/* Whatever is wrong with the text of one request is an error of that request. */
static void finish_text(engine_job *j) {
    rp_error err = {0};
    bool failed = j->err.code == RP_OK && flush_text(j, &err) != RP_OK;
    emit(j);
    if (!failed && j->err.code == RP_OK) failed = base_buf_status(&j->text, &err) != RP_OK;
    if (failed) j->err = err;
    say_why(j);
    j->finished = true;
}

/* --- submit ------------------------------------------------------------------------------ */

static void free_job(engine_job *j) {
    if (!j) return;
    engine_request_free(j->req);
    model_detok_done(&j->detok);
    model_stop_done(&j->stop);
    base_buf_done(&j->text);
    base_buf_done(&j->piece);
    base_buf_done(&j->chars);
    engine_logprobs_done(&j->logprobs);
    for (uint32_t i = 0; j->stop_strings && i < j->o.n_stop; i++) base_free(j->stop_strings[i]);
    base_free(j->stop_strings);
    base_free(j);
}

static rp_status copy_stops(engine_job *j, const rp_request_options *r, rp_error *err) {
    j->stop_strings = base_alloc_array(r->n_stop + 1u, sizeof *j->stop_strings);
    if (!j->stop_strings) return rp_fail(err, RP_NOMEM, "stop strings");
    for (uint32_t i = 0; i < r->n_stop; i++)
        if (!(j->stop_strings[i] = base_strdup(r->stop[i])))
            return rp_fail(err, RP_NOMEM, "stop strings");
    return model_stop_init(&j->stop, (const char *const *)j->stop_strings, r->n_stop, err);
}

/* Room for the text of all tokens, so that a step allocates nothing. Tokens are four bytes on average; a text that
 * is longer than this grows. */
static rp_status reserve_text(engine_job *j, rp_error *err) {
    enum { BYTES_A_TOKEN = 16, LONG_TOKEN = 256 };
    uint32_t tokens = j->req->max_tokens < j->e->max_model_len ? j->req->max_tokens
                                                               : j->e->max_model_len;
    size_t n = (size_t)tokens * BYTES_A_TOKEN + LONG_TOKEN;
    base_buf_reserve(&j->text, n);
    base_buf_reserve(&j->piece, LONG_TOKEN);
    base_buf_reserve(&j->chars, LONG_TOKEN);
    base_buf_reserve(&j->detok.bytes, LONG_TOKEN);
    base_buf_reserve(&j->stop.held, LONG_TOKEN + j->stop.max_len);
    if (j->text.failed || j->piece.failed || j->chars.failed || j->detok.bytes.failed ||
        j->stop.held.failed)
        return rp_fail(err, RP_NOMEM, "text of %u tokens", tokens);
    return RP_OK;
}

static rp_status reserve_logprobs(engine_job *j, rp_error *err) {
    uint32_t vocab = model_source_hparams(j->e->source)->n_vocab, k = j->o.top_logprobs;
    uint32_t room = j->e->max_model_len - j->req->n_prompt;
    if (!j->o.logprobs && k == 0) return RP_OK;
    if (k > RP_MAX_TOP)
        return rp_fail(err, RP_CONFIG, "top_logprobs %u; at most %d", k, RP_MAX_TOP);
    return engine_logprobs_init(&j->logprobs, j->req->max_tokens < room ? j->req->max_tokens : room,
                                k < vocab ? k : vocab, err);
}

static rp_status make_request(rp_engine *e, engine_job *j, const rp_request_options *r,
                              rp_error *err) {
    model_ids ids = {0};
    rp_status st = prompt_ids(e, r, &ids, err);
    engine_request_options o = {.id = j->id,
                                .prompt = (const int32_t *)ids.ids,
                                .n_prompt = (uint32_t)ids.n,
                                .max_tokens = r->max_tokens ? r->max_tokens : e->max_model_len,
                                .sampling = {.temperature = r->sampling.temperature,
                                             .top_p = r->sampling.top_p,
                                             .min_p = r->sampling.min_p,
                                             .top_k = r->sampling.top_k,
                                             .seed = r->sampling.seed},
                                .stop = on_token,
                                .user = j};
    if (st == RP_OK) st = check_prompt(e, &ids, err);
    if (st == RP_OK) st = engine_request_new(&o, &j->req, err);
    model_ids_done(&ids);
    if (st == RP_OK) st = reserve_text(j, err);
    if (st == RP_OK) st = reserve_logprobs(j, err);
    if (st == RP_OK) st = engine_sched_add(e->sched, j->req, err);
    return st;
}

rp_status rp_engine_submit(rp_engine *e, const rp_request_options *given, uint64_t *out_id,
                           rp_error *err) {
    base_error_clear(err);
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    if (!e || !out_id)
        return rp_fail(err, RP_INVALID, "rp_engine_submit: engine and out_id must be given");
    RP_TRY(base_options_take(&r, sizeof r, given, "rp_request_options", err));
    if (!e->sched)
        return rp_fail(err, RP_INVALID, "the engine was opened without capture and runs nothing");
    engine_job *j = base_alloc(sizeof *j);
    if (!j) return rp_fail(err, RP_NOMEM, "request");
    j->e = e;
    j->id = e->next_id;
    j->o = r;
    base_buf_init(&j->text, 0);
    base_buf_init(&j->piece, 0);
    base_buf_init(&j->chars, 0);
    model_detok_init(&j->detok, model_source_tokenizer(e->source), false);
    rp_status st = copy_stops(j, &r, err);
    if (st == RP_OK) st = make_request(e, j, &r, err);
    if (st != RP_OK) {
        free_job(j);
        return st;
    }
    if (!e->t_submit) e->t_submit = base_now_ns();
    engine_job **at = &e->jobs;
    while (*at) at = &(*at)->next;
    *at = j;
    e->next_id++;
    *out_id = j->id;
    return RP_OK;
}

/* --- steps ---------------------------------------------------------------------------------- */

static uint32_t tokens_of(const engine_batch *b) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (b->entry[i].req) n += b->entry[i].n_tokens;
    return n;
}

static void count_step(rp_engine *e, const engine_batch *b, int64_t t0, int64_t t1) {
    engine_times *t = &e->times;
    double ms = (double)(t1 - t0) / 1e6;
    t->steps++;
    if (b->n_prefills == 0) {
        t->decode_ms += ms;
        t->decode_tokens += tokens_of(b);
    } else {
        t->prefill_ms += ms;
        t->prefill_tokens += tokens_of(b);
    }
    if (t->ttft_ms == 0.0 && b->num_logits > 0) {
        t->ttft_ms = (double)(t1 - e->t_submit) / 1e6;
        t->wall_to_first_ms = (double)base_process_age_ns() / 1e6;
    }
}

/* Nothing is under way, and what was is to be computed again, by whoever wants it still. */
static void fall_idle(rp_engine *e) {
    engine_runner_drain(e->runner);
    engine_sched_cancel(e->sched);
    e->flight = NULL;
    e->seen_ns = 0;
}

/* A step that nobody is left for is waited for: whoever finds the scheduler idle has the device for himself. */
static void settle(rp_engine *e) {
    if (e->flight && engine_sched_idle(e->sched)) fall_idle(e);
}

/* Texts that come at the end may end others. */
static void take_finished(rp_engine *e) {
    engine_request *r;
    while (e->sched && (r = engine_sched_take_finished(e->sched))) finish_text(r->user);
    settle(e);
}

/* Frees what was released, once nobody can be looking at it. */
static void reap(rp_engine *e) {
    for (engine_job **at = &e->jobs; *at && e->n_released;) {
        engine_job *j = *at;
        if (!j->released || !j->finished) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        e->n_released--;
        free_job(j);
    }
}

rp_status engine_enter(rp_engine *e, const char *name, rp_error *err) {
    if (e->calling)
        return rp_fail(err, RP_INVALID,
                       "%s inside a callback of the same engine; return from the callback first",
                       name);
    e->calling = true;
    return RP_OK;
}

rp_status engine_leave(rp_engine *e, const char *name, rp_status st, rp_error *err) {
    take_finished(e);
    e->calling = false;
    reap(e);
    if (!e->close_refused) return st;
    e->close_refused = false;
    if (st != RP_OK) return st;
    return rp_fail(err, RP_INVALID,
                   "rp_engine_close was called inside a callback and closed nothing; close the "
                   "engine after %s returns",
                   name);
}

static rp_status launch(rp_engine *e, const engine_batch *b, rp_error *err) {
    const hal_counters *c = hal_device_counters(e->device);
    uint64_t before = c->launches + c->graph_launches;
    RP_TRY(engine_runner_launch(e->runner, b, e->kv, err));
    e->times.step_launches = c->launches + c->graph_launches - before;
    return RP_OK;
}

static rp_status receive(rp_engine *e, rp_error *err) {
    RP_TRY(engine_runner_wait(e->runner, err));
    e->t_seen = base_now_ns();
    /* Parts of both files are read where they are mapped: before anybody believes the logits. */
    RP_TRY(model_source_check_whole(e->source, err));
    return engine_weights_check_whole(e->weights, err);
}

rp_status engine_run_step(rp_engine *e, const engine_batch *b, rp_error *err) {
    RP_TRY(launch(e, b, err));
    return receive(e, err);
}

rp_status engine_run_batch(rp_engine *e, const engine_batch *b, const float **logits,
                           rp_error *err) {
    uint32_t most = engine_runner_max_rows(e->runner);
    RP_TRY(engine_run_step(e, b, err));
    return engine_runner_logits(e->runner, 0, b->num_logits < most ? b->num_logits : most, logits,
                                err);
}

/* The first launch of a call that began at t0 is over. */
static void count_host(rp_engine *e, const engine_batch *b, int64_t t0) {
    engine_times *t = &e->times;
    if (e->queues && e->seen_ns && b->n_prefills == 0)
        t->host_ns[t->host_steps++ % ENGINE_HOST_STEPS] = e->seen_ns + base_now_ns() - t0;
    e->seen_ns = 0;
}

/* Launches b unless it is under way, and what can go behind it; then gets what b gave. */
static rp_status run_both(rp_engine *e, const engine_batch *b, const engine_batch **out_next,
                          rp_error *err) {
    int64_t t0 = base_now_ns();
    const engine_batch *next = NULL;
    if (engine_runner_in_flight(e->runner) == 0) {
        RP_TRY(launch(e, b, err));
        count_host(e, b, t0);
    }
    if (e->runs_ahead && engine_is_handed_on(b)) next = engine_sched_ahead(e->sched);
    if (next) {
        RP_TRY(launch(e, next, err));
        count_host(e, next, t0);
    }
    RP_TRY(receive(e, err));
    RP_TRY(engine_pick_tokens(e, b, err));
    *out_next = next;
    return RP_OK;
}

static rp_status step(rp_engine *e, rp_error *err) {
    const engine_batch *b = e->flight, *next = NULL;
    /* The device was at it while the host was not. */
    int64_t t0 = b && e->queues ? e->t_counted : base_now_ns();
    if (!b) RP_TRY(engine_sched_next(e->sched, &b, err));
    if (!b) return RP_OK;
    rp_status st = run_both(e, b, &next, err);
    if (st != RP_OK) {
        fall_idle(e);
        return st;
    }
    e->t_counted = base_now_ns();
    count_step(e, b, t0, e->t_counted);
    bool decode = b->n_prefills == 0;
    engine_sched_commit(e->sched, e->tokens);
    e->flight = next;
    e->seen_ns = decode ? base_now_ns() - e->t_seen : 0;
    return RP_OK;
}

rp_status rp_engine_step(rp_engine *e, bool *out_more, rp_error *err) {
    base_error_clear(err);
    if (!e || !out_more || !e->sched)
        return rp_fail(err, RP_INVALID, "rp_engine_step wants an engine with graphs and out_more");
    RP_TRY(engine_enter(e, "rp_engine_step", err));
    RP_TRY(engine_leave(e, "rp_engine_step", step(e, err), err));
    *out_more = !engine_sched_idle(e->sched);
    return RP_OK;
}

/* At once, unless a call is under way; what is in flight is done again for the others, where it may be part of it. */
static void abort_job(rp_engine *e, engine_job *j) {
    if (e->flight && !e->calling && j->req->state == ENGINE_RUNNING) fall_idle(e);
    j->aborted = true;
    engine_sched_abort(e->sched, j->req);
    if (!e->calling) settle(e);
}

void rp_engine_abort(rp_engine *e, uint64_t id) {
    engine_job *j = find_job(e, id);
    if (!j || j->finished) return;
    abort_job(e, j);
}

/* --- results ---------------------------------------------------------------------------------- */

rp_status rp_engine_result(const rp_engine *e, uint64_t id, rp_result *out, rp_error *err) {
    base_error_clear(err);
    if (!e) return rp_fail(err, RP_INVALID, "rp_engine_result: engine must be given");
    const engine_job *j = find_job(e, id);
    if (!j) return rp_fail(err, RP_NOT_FOUND, "request %llu is not known", (unsigned long long)id);
    bool failed = j->finished && j->err.code != RP_OK;
    const rp_result own = {.size = sizeof own,
                           .id = id,
                           .prompt_ids = j->req->prompt,
                           .n_prompt_ids = j->req->n_prompt,
                           .output_ids = j->req->output,
                           .n_output_ids = j->req->n_output,
                           .text = j->text.data ? j->text.data : "",
                           .finish_reason = failed       ? "error"
                                            : j->aborted ? "abort"
                                                         : engine_finish_name(j->req->finish),
                           .finish_detail = failed ? j->err.text : j->why,
                           .error = failed ? j->err.text : "",
                           .logprobs = j->logprobs.chosen,
                           .top_logprobs = j->logprobs.k ? j->logprobs.top : NULL,
                           .top_ids = j->logprobs.k ? j->logprobs.top_ids : NULL,
                           .n_top = j->logprobs.k,
                           .n_computed = j->req->n_computed - j->req->n_flying};
    return base_result_give(out, &own, sizeof own, "rp_result", err);
}

void rp_engine_release(rp_engine *e, uint64_t id) {
    engine_job *j = find_job(e, id);
    if (!j) return;
    j->released = true;
    e->n_released++;
    if (!j->finished) abort_job(e, j);
    if (e->calling) return; /* its end frees it */
    e->calling = true;
    take_finished(e);
    e->calling = false;
    reap(e);
}

void engine_jobs_free(rp_engine *e) {
    while (e->jobs) {
        engine_job *j = e->jobs;
        e->jobs = j->next;
        free_job(j);
    }
}

/* --- tokens -------------------------------------------------------------------------------------- */

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
