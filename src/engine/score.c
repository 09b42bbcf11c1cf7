/* Teacher forcing: prompt and continuation as one prompt, in steps of a chosen size, logits of every position. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "base/status.h"
#include "engine/alone.h"
#include "gen/best.h"

typedef struct scorer {
    rp_engine *e;
    const rp_score_options *o;
    engine_alone own;
    int32_t *ids, *top_ids;
    float *top;
    uint32_t n, seen; /* positions whose logits have come */
    double sum;
} scorer;

static int32_t token_at(const scorer *s, uint32_t position) {
    return s->ids[position];
}

/* Row of logits after `position` predicts position + 1. */
static rp_status take_row(scorer *s, const float *row, uint32_t position, rp_error *err) {
    uint32_t next = position + 1;
    if (next < s->o->n_prompt_ids || next >= s->n) return RP_OK;
    int32_t id = token_at(s, next);
    double lp = engine_sampler_logprob(s->e->sampler, row, id);
    rp_error why = {0};
    if (isnan(lp)) {
        int64_t best = gen_best(row, model_source_hparams(s->e->source)->n_vocab);
        engine_garbage_row(s->e, "scoring", row[best], (int32_t)best, &why);
        return rp_fail(err, why.code, "scoring token %d at position %u: %s", id, next, why.text);
    }
    uint32_t k = engine_sampler_top(s->e->sampler, row, s->o->top_logits, s->top_ids, s->top);
    s->sum += lp;
    if (s->o->on_token) s->o->on_token(s->o->user, next, id, lp, k, s->top_ids, s->top);
    return RP_OK;
}

static rp_status run(scorer *s, rp_error *err) {
    const engine_batch *b = NULL;
    const float *logits;
    size_t stride = model_source_hparams(s->e->source)->n_vocab;
    uint32_t rows = engine_runner_rows_at_once(s->e->runner);
    for (;;) {
        RP_TRY(engine_alone_next(&s->own, &b, err));
        if (!b) return RP_OK;
        RP_TRY(engine_run_batch(s->e, b, &logits, err));
        for (uint32_t i = 0; i < b->num_logits; i++) {
            if (i && i % rows == 0) RP_TRY(engine_runner_rows(s->e->runner, i, &logits, err));
            RP_TRY(take_row(s, logits + i % rows * stride, s->seen + i, err));
        }
        s->seen += b->num_logits;
    }
}

static rp_status prepare(scorer *s, rp_error *err) {
    const rp_score_options *o = s->o;
    uint32_t step = o->step, batch = (uint32_t)s->e->config->max_num_batched_tokens.v;
    s->n = o->n_prompt_ids + o->n_continuation_ids;
    if (o->n_prompt_ids == 0 || o->n_continuation_ids == 0)
        return rp_fail(err, RP_CONFIG,
                       "scoring wants a prompt and a continuation; got %u and %u ids",
                       o->n_prompt_ids, o->n_continuation_ids);
    if (s->n < o->n_prompt_ids || s->n > s->e->max_model_len)
        return rp_fail(err, RP_CONFIG,
                       "prompt of %u and continuation of %u tokens do not fit max_model_len %u; "
                       "shorten them or raise max_model_len",
                       o->n_prompt_ids, o->n_continuation_ids, s->e->max_model_len);
    RP_TRY(engine_ids_check(s->e, "prompt", o->prompt_ids, o->n_prompt_ids, err));
    RP_TRY(engine_ids_check(s->e, "continuation", o->continuation_ids, o->n_continuation_ids, err));
    if (o->top_logits > RP_MAX_TOP)
        return rp_fail(err, RP_CONFIG, "top logits %u; at most %d", o->top_logits, RP_MAX_TOP);
    if (step > batch)
        return rp_fail(err, RP_CONFIG,
                       "step %u is above max_num_batched_tokens %u; raise that or lower the step",
                       step, batch);
    s->ids = base_alloc_array(s->n, sizeof *s->ids);
    s->top_ids = base_alloc_array(o->top_logits + 1u, sizeof *s->top_ids);
    s->top = base_alloc_array(o->top_logits + 1u, sizeof *s->top);
    if (!s->ids || !s->top_ids || !s->top) return rp_fail(err, RP_NOMEM, "scoring %u ids", s->n);
    memcpy(s->ids, o->prompt_ids, o->n_prompt_ids * sizeof *s->ids);
    memcpy(s->ids + o->n_prompt_ids, o->continuation_ids, o->n_continuation_ids * sizeof *s->ids);
    const engine_alone_options whole = {
        .what = "scoring wants", .ids = s->ids, .n = s->n, .chunk = step, .all_logits = true};
    return engine_alone_open(&s->own, s->e, &whole, err);
}

rp_status rp_engine_score(rp_engine *e, const rp_score_options *given, double *out_perplexity,
                          rp_error *err) {
    base_error_clear(err);
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    if (!e) return rp_fail(err, RP_INVALID, "rp_engine_score: engine is NULL");
    RP_TRY(base_options_take(&o, sizeof o, given, "rp_score_options", err));
    if (!e->sched)
        return rp_fail(err, RP_INVALID, "the engine was opened without capture and runs nothing");
    RP_TRY(engine_enter(e, "rp_engine_score", err));
    scorer s = {.e = e, .o = &o};
    rp_status st = prepare(&s, err);
    if (st == RP_OK) st = run(&s, err);
    if (st == RP_OK && out_perplexity) *out_perplexity = exp(-s.sum / o.n_continuation_ids);
    engine_alone_close(&s.own);
    base_free(s.ids);
    base_free(s.top_ids);
    base_free(s.top);
    return engine_leave(e, "rp_engine_score", st, err);
}
