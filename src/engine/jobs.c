/* Requests as their submitters see them: submitted, looked at, aborted, released. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "engine/engine.h"

static engine_job *find_job(const rp_engine *e, uint64_t id) {
    engine_job *j = e ? e->jobs[id % ENGINE_JOB_LISTS] : NULL;
    while (j && (j->id != id || j->released)) j = j->next;
    return j;
}

/* --- submit ------------------------------------------------------------------------------ */

static void free_job(engine_job *j) {
    if (!j) return;
    engine_request_free(j->req);
    model_detok_done(&j->detok);
    model_stop_done(&j->stop);
    base_buf_done(&j->text);
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
    enum { BYTES_A_TOKEN = 16 };
    uint32_t tokens = j->req->max_tokens < j->e->max_model_len ? j->req->max_tokens
                                                               : j->e->max_model_len;
    size_t n = (size_t)tokens * BYTES_A_TOKEN + ENGINE_LONG_TOKEN;
    base_buf_reserve(&j->text, n);
    base_buf_reserve(&j->detok.bytes, ENGINE_LONG_TOKEN);
    base_buf_reserve(&j->stop.held, ENGINE_LONG_TOKEN + j->stop.max_len);
    if (j->text.failed || j->detok.bytes.failed || j->stop.held.failed)
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

static engine_draw_reason draw_reason(const rp_engine *e, const rp_request_options *r) {
    const engine_draw_reason why = engine_runner_draws(e->runner);
    return why == ENGINE_DRAW_WITHIN && (r->logprobs || r->top_logprobs > 0) ? ENGINE_DRAW_LOGPROBS
                                                                             : why;
}

/* Where the tokens of a request that was added are drawn, if they are; what keeps a device from it is said. */
static void note_draw(rp_engine *e, const engine_job *j, engine_draw_reason why) {
    if (!engine_request_draws(j->req)) return;
    e->draws[why]++;
    if (why > ENGINE_DRAW_UNIFIED)
        base_log_ch(RP_LOG_CH_PERF_HINTS, false,
                    "request %llu: the host draws its tokens, each before the next step: %s",
                    (unsigned long long)j->id, engine_draw_reason_text(why));
}

static rp_status make_request(rp_engine *e, engine_job *j, const rp_request_options *r,
                              rp_error *err) {
    const engine_draw_reason why = draw_reason(e, r);
    model_ids ids = {0};
    size_t n_ends;
    const uint32_t *ends = model_tokenizer_ends(model_source_tokenizer(e->source), &n_ends);
    rp_status st = engine_prompt_ids(e, r, &ids, err);
    engine_request_options o = {.id = j->id,
                                .prompt = (const int32_t *)ids.ids,
                                .n_prompt = (uint32_t)ids.n,
                                .max_tokens = r->max_tokens ? r->max_tokens : e->max_model_len,
                                .sampling = {.temperature = r->sampling.temperature,
                                             .top_p = r->sampling.top_p,
                                             .min_p = r->sampling.min_p,
                                             .top_k = r->sampling.top_k,
                                             .seed = r->sampling.seed},
                                .stop_ids = (const int32_t *)ends,
                                .n_stop_ids = r->ignore_eos ? 0 : (uint32_t)n_ends,
                                .told_at_once = r->n_stop > 0,
                                .draws_within = why == ENGINE_DRAW_WITHIN,
                                .explained = r->logprobs || r->top_logprobs > 0,
                                .stop = engine_text_token,
                                .user = j};
    if (st == RP_OK) st = engine_request_new(&o, &j->req, err);
    model_ids_done(&ids);
    if (st == RP_OK) st = reserve_text(j, err);
    if (st == RP_OK) st = reserve_logprobs(j, err);
    if (st == RP_OK) st = engine_sched_add(e->sched, j->req, err);
    if (st == RP_OK) note_draw(e, j, why);
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
    RP_TRY(engine_check_lost(e, err));
    engine_job *j = base_alloc(sizeof *j);
    if (!j) return rp_fail(err, RP_NOMEM, "request");
    j->e = e;
    j->id = e->next_id;
    j->o = r;
    base_buf_init(&j->text, 0);
    model_detok_init(&j->detok, model_source_tokenizer(e->source), false);
    rp_status st = copy_stops(j, &r, err);
    if (st == RP_OK) st = make_request(e, j, &r, err);
    if (st != RP_OK) {
        free_job(j);
        return st;
    }
    if (!e->t_submit) e->t_submit = base_now_ns();
    engine_job **first = &e->jobs[j->id % ENGINE_JOB_LISTS];
    j->next = *first;
    *first = j;
    e->next_id++;
    *out_id = j->id;
    return RP_OK;
}

static void reap(rp_engine *e, engine_job **at) {
    while (*at && e->n_released) {
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

void engine_reap(rp_engine *e) {
    for (uint32_t i = 0; i < ENGINE_JOB_LISTS && e->n_released; i++) reap(e, &e->jobs[i]);
}

/* At once, unless a call is under way; what is in flight is done again for the others, where it may be part of it. */
static void abort_job(rp_engine *e, engine_job *j) {
    if (e->flight && !e->calling && j->req->state == ENGINE_RUNNING) engine_fall_idle(e);
    j->aborted = true;
    engine_sched_abort(e->sched, j->req);
    if (!e->calling) engine_settle(e);
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
                           .n_output_ids = j->req->n_told,
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
    engine_take_finished(e);
    e->calling = false;
    engine_reap(e);
}

void engine_jobs_free(rp_engine *e) {
    for (uint32_t i = 0; i < ENGINE_JOB_LISTS; i++)
        while (e->jobs[i]) {
            engine_job *j = e->jobs[i];
            e->jobs[i] = j->next;
            free_job(j);
        }
}
