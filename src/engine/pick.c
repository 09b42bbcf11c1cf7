/* From the results of a step to the tokens of its entries.
 *
 * Greedy tokens come with the step; logits are asked for where a request draws, wants log probabilities, or has no number to choose by, and
 * rows side by side come in one copy. */
#include <stdio.h>

#include "engine/engine.h"
#include "engine/logits.h"

typedef struct picker {
    rp_engine *e;
    const engine_batch *b;
    engine_best best;
} picker;

static bool is_greedy(const engine_batch_entry *x) {
    return x->req->sampling.temperature < ENGINE_GREEDY_BELOW;
}

/* Row r of the step is the one that x samples from. */
static bool wants_logits(const picker *p, const engine_batch_entry *x, uint32_t r) {
    const engine_job *j = x->req->user;
    return x->samples &&
           (!is_greedy(x) || j->logprobs.max || !engine_logits_sound(p->best.logit[r]));
}

/* Entry i has row r of the step; logits: of that row, where it wants them. */
static void take(const picker *p, uint32_t i, uint32_t r, const float *logits) {
    rp_engine *e = p->e;
    const engine_batch_entry *x = &p->b->entry[i];
    engine_job *j = x->req->user;
    char who[40];
    if (is_greedy(x) && engine_logits_sound(p->best.logit[r])) {
        e->tokens[i] = p->best.id[r];
    } else if (engine_sampler_pick(e->sampler, &x->req->sampling, logits, x->req->n_output,
                                   &e->tokens[i], NULL) != RP_OK) {
        (void)snprintf(who, sizeof who, "request %llu", (unsigned long long)j->id);
        engine_garbage_row(e, who, logits, &j->err);
        return;
    }
    if (j->logprobs.max)
        engine_logprobs_put(&j->logprobs, e->sampler, logits, x->req->n_output, e->tokens[i]);
}

/* Entries [i, n) that sample from rows side by side, the first from row r, and want logits. Returns how many. */
static uint32_t run_from(const picker *p, uint32_t i, uint32_t r) {
    uint32_t n = 0;
    while (i + n < p->b->n && wants_logits(p, &p->b->entry[i + n], r + n)) {
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
        uint32_t n = x->samples ? run_from(&p, i, row - 1) : 0;
        if (n == 0) {
            if (x->samples) take(&p, i, row - 1, NULL);
            i++;
            continue;
        }
        const float *logits;
        RP_TRY(engine_runner_logits(e->runner, row - 1, n, &logits, err));
        for (uint32_t k = 0; k < n; k++) {
            e->tokens[i + k] = -1;
            take(&p, i + k, row - 1 + k, logits + k * stride);
        }
        row += n - 1;
        i += n;
    }
    return RP_OK;
}
