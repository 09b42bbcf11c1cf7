/* From the results of a step to the tokens of its entries.
 *
 * Greedy tokens come with the step, and those that it draws; logits are asked for where the host draws, or log probabilities are wanted, and rows side by side come in one copy. Entries
 * whose request has ended since the step was launched get nothing. */
#include <stdio.h>

#include "engine/engine.h"
#include "engine/logits.h"

typedef struct picker {
    rp_engine *e;
    const engine_batch *b;
    engine_best best;
} picker;

/* Its token is the step's. */
static bool is_chosen(const engine_batch_entry *x) {
    return !engine_request_draws(x->req) || x->req->draws_within;
}

/* Row r of the step is the one that x samples from. */
static bool wants_logits(const picker *p, const engine_batch_entry *x, uint32_t r) {
    return x->req && x->samples && engine_logits_sound(p->best.logit[r]) &&
           engine_request_watched(x->req);
}

/* Entry i, which samples, has row r of the step; logits: of that row, where it wants them. */
static rp_status take(const picker *p, uint32_t i, uint32_t r, const float *logits, rp_error *err) {
    rp_engine *e = p->e;
    const engine_batch_entry *x = &p->b->entry[i];
    if (!engine_logits_sound(p->best.logit[r])) {
        engine_job *j = x->req->user;
        char who[40];
        (void)snprintf(who, sizeof who, "request %llu", (unsigned long long)j->id);
        engine_garbage_row(e, who, p->best.logit[r], p->best.id[r], &j->err);
        return RP_OK;
    }
    if (is_chosen(x))
        e->tokens[i] = p->best.id[r];
    else
        RP_TRY(engine_sampler_pick(e->sampler, &x->req->sampling, logits, x->req->n_output,
                                   &e->tokens[i], err));
    if (x->req->explained) {
        engine_job *j = x->req->user;
        engine_logprobs_put(&j->logprobs, e->sampler, logits, x->req->n_output, e->tokens[i]);
    }
    return RP_OK;
}

/* Entries [i, n) that sample from rows side by side, the first from row r, and want logits, as many as there are at once. Returns how many. */
static uint32_t run_from(const picker *p, uint32_t i, uint32_t r) {
    const uint32_t most = engine_runner_rows_at_once(p->e->runner);
    uint32_t n = 0;
    while (n < most && i + n < p->b->n && wants_logits(p, &p->b->entry[i + n], r + n)) {
        n++;
        if (i + n < p->b->n && p->b->entry[i + n].n_logits != 1) break;
    }
    return n;
}

rp_status engine_pick_tokens(rp_engine *e, const engine_batch *b, rp_error *err) {
    const picker p = {e, b, engine_runner_best(e->runner)};
    const size_t stride = model_source_hparams(e->source)->n_vocab;
    uint32_t row = 0;
    for (uint32_t i = 0; i < b->n;) {
        const engine_batch_entry *x = &b->entry[i];
        e->tokens[i] = -1;
        row += x->n_logits;
        if (!wants_logits(&p, x, row - 1)) {
            if (x->req && x->samples) RP_TRY(take(&p, i, row - 1, NULL, err));
            i++;
            continue;
        }
        const uint32_t n = run_from(&p, i, row - 1);
        const float *logits;
        RP_TRY(engine_runner_logits(e->runner, row - 1, n, &logits, err));
        for (uint32_t k = 0; k < n; k++) {
            e->tokens[i + k] = -1;
            RP_TRY(take(&p, i + k, row - 1 + k, logits + k * stride, err));
        }
        row += n - 1;
        i += n;
    }
    return RP_OK;
}
