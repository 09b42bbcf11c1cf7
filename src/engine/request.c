/* Requests.
 *
 * Invariants: output has room for all tokens it may get before the request runs; the stop token is
 * part of the output (text drops it). Holds no KV blocks itself: the scheduler does. */
#include "engine/request.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

rp_status engine_sampling_check(const engine_sampling *s, rp_error *err) {
    if (!(s->temperature >= 0 && s->temperature <= 1e6))
        return rp_fail(err, RP_CONFIG, "temperature %g is not in 0..1e6; 0 is greedy",
                       s->temperature);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return rp_fail(err, RP_CONFIG, "top_p %g is not in (0, 1]; 1 turns it off", s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return rp_fail(err, RP_CONFIG, "min_p %g is not in [0, 1]; 0 turns it off", s->min_p);
    if (s->top_k < -1)
        return rp_fail(err, RP_CONFIG, "top_k %d is below -1; 0 turns it off", s->top_k);
    return RP_OK;
}

const char *engine_finish_name(engine_finish f) {
    static const char *const names[] = {"", "stop", "length", "abort", "error"};

    return (size_t)f < sizeof names / sizeof names[0] ? names[f] : "unknown";
}

static rp_status copy_ids(int32_t **out, const int32_t *v, uint32_t n, rp_error *err) {
    *out = base_alloc_array(n, sizeof **out);
    if (!*out) return rp_fail(err, RP_NOMEM, "%u token ids", n);
    if (n) memcpy(*out, v, n * sizeof **out);
    return RP_OK;
}

rp_status engine_request_new(const engine_request_options *o, engine_request **out, rp_error *err) {
    rp_status st;
    engine_request *r = NULL;

    if (o->n_prompt == 0)
        return rp_fail(err, RP_CONFIG, "prompt is empty: give at least one token");
    RP_TRY(engine_sampling_check(&o->sampling, err));
    r = base_alloc(sizeof *r);
    if (!r) return rp_fail(err, RP_NOMEM, "request");
    *r = (engine_request){.id = o->id,
                          .n_prompt = o->n_prompt,
                          .max_tokens = o->max_tokens,
                          .sampling = o->sampling,
                          .n_stop_ids = o->n_stop_ids,
                          .all_logits = o->all_logits,
                          .draws_within = o->draws_within,
                          .told_at_once = o->told_at_once,
                          .explained = o->explained,
                          .stop = o->stop,
                          .user = o->user};
    RP_TRY_OUT(copy_ids(&r->prompt, o->prompt, o->n_prompt, err));
    RP_TRY_OUT(copy_ids(&r->stop_ids, o->stop_ids, o->n_stop_ids, err));
    *out = r;
    r = NULL;
out:
    engine_request_free(r);
    return st;
}

void engine_request_free(engine_request *r) {
    if (!r) return;
    assert(r->state == ENGINE_NEW || r->state == ENGINE_FINISHED);
    base_free(r->prompt);
    base_free(r->output);
    base_free(r->stop_ids);
    base_free(r);
}

uint32_t engine_request_len(const engine_request *r) {
    return r->n_prompt + r->n_output;
}

int32_t engine_request_token(const engine_request *r, uint32_t position) {
    assert(position < engine_request_len(r));
    return position < r->n_prompt ? r->prompt[position] : r->output[position - r->n_prompt];
}

uint32_t engine_request_total(const engine_request *r) {
    return engine_request_len(r) + r->n_pending;
}

bool engine_request_over(const engine_request *r) {
    return r->aborting || (r->n_pending && r->n_output + r->n_pending == r->max_output);
}

bool engine_request_draws(const engine_request *r) {
    return r->sampling.temperature >= ENGINE_GREEDY_BELOW;
}

bool engine_request_draws_within(const engine_request *r) {
    return r->draws_within && engine_request_draws(r);
}

bool engine_request_watched(const engine_request *r) {
    return r->explained || (engine_request_draws(r) && !r->draws_within);
}

uint32_t engine_request_left(const engine_request *r) {
    return engine_request_over(r) ? 0 : engine_request_total(r) - r->n_computed;
}

rp_status engine_request_reserve(engine_request *r, uint32_t n, rp_error *err) {
    base_free(r->output);
    r->max_output = 0;
    r->output = base_alloc_array(n, sizeof *r->output);
    if (!r->output) return rp_fail(err, RP_NOMEM, "%u output tokens", n);
    r->max_output = n;
    return RP_OK;
}

void engine_request_append(engine_request *r, int32_t token) {
    assert(r->n_output < r->max_output);
    r->output[r->n_output++] = token;
    if (r->n_output == r->max_output) r->finish = ENGINE_FINISH_LENGTH;
    for (uint32_t i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == token) r->finish = ENGINE_FINISH_STOP;
}

void engine_request_tell(engine_request *r) {
    if (r->n_told == r->n_output) return;
    assert(r->n_told + 1 == r->n_output);
    r->n_told = r->n_output;
    if (r->stop && r->stop(r->user, r)) r->finish = ENGINE_FINISH_STOP;
}
