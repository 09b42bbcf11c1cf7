/* The sampler. gen/embed/draw.cu gives the same tokens on devices.
 *
 * Invariants: the result is a function of (logits, sampling values, seed, step), with ties broken by
 * the lower token id and sums taken in a fixed order in double; nothing else of the batch enters.
 * Never sorts the vocabulary: the best k come out of one pass, and top_p first drops what cannot be
 * in the nucleus. */
#include "engine/sampler.h"

#include <math.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "engine/logits.h"
#include "gen/best.h"

struct engine_sampler {
    uint32_t n;    /* vocabulary */
    int32_t *cand; /* candidate ids */
    float *weight; /* by id, relative to the best */
    double total;  /* of the weights that top_p is a share of */
};

rp_status engine_sampler_new(uint32_t vocab_size, engine_sampler **out, rp_error *err) {
    engine_sampler *s = base_alloc(sizeof *s);

    if (!s) return rp_fail(err, RP_NOMEM, "sampler");
    s->n = vocab_size;
    s->cand = base_alloc_array(vocab_size, sizeof *s->cand);
    s->weight = base_alloc_array(vocab_size, sizeof *s->weight);
    if (vocab_size < 1 || !s->cand || !s->weight) {
        engine_sampler_free(s);
        return rp_fail(err, vocab_size ? RP_NOMEM : RP_INVALID, "sampler of a vocabulary of %u",
                       vocab_size);
    }
    *out = s;
    return RP_OK;
}

void engine_sampler_free(engine_sampler *s) {
    if (!s) return;
    base_free(s->cand);
    base_free(s->weight);
    base_free(s);
}

rp_status engine_sampler_blame(const engine_sampler *s, float best, int32_t id, rp_error *err) {
    if (best == -INFINITY)
        return rp_fail(err, RP_INTERNAL, "all %u logits are -inf; no token can be chosen", s->n);
    return rp_fail(err, RP_INTERNAL, "logit of token %d is %g; the step computed garbage", id,
                   (double)best);
}

void engine_sampler_logprobs(const engine_sampler *s, const float *logits, const int32_t *tokens,
                             uint32_t n, double *out) {
    float top;
    uint32_t at;
    double sum = 0;
    bool sound = n > 0 && engine_logits_best(logits, s->n, &top, &at);

    for (uint32_t i = 0; sound && i < s->n; i++) sum += exp((double)logits[i] - (double)top);
    for (uint32_t i = 0; i < n; i++)
        out[i] = sound ? (double)logits[tokens[i]] - (double)top - log(sum) : NAN;
}

double engine_sampler_logprob(const engine_sampler *s, const float *logits, int32_t token) {
    double lp;

    engine_sampler_logprobs(s, logits, &token, 1, &lp);
    return lp;
}

/* a goes before b: larger logit, then smaller id. */
static bool before(const float *x, int32_t a, int32_t b) {
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

/* A heap with the last in order on top, so that the best k are found in one pass. */
static void sift_down(const float *x, int32_t *h, uint32_t n, uint32_t i) {
    int32_t v = h[i];

    for (uint32_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && before(x, h[c], h[c + 1])) c++;
        if (!before(x, v, h[c])) break;
        h[i] = h[c];
    }
    h[i] = v;
}

/* Leaves the best k of the first n candidates in cand, best first. */
static void select_best(engine_sampler *s, const float *x, uint32_t n, uint32_t k) {
    int32_t *h = s->cand;

    for (uint32_t i = k / 2; i-- > 0;) sift_down(x, h, k, i);
    for (uint32_t i = k; i < n; i++)
        if (before(x, h[i], h[0])) {
            h[0] = h[i];
            sift_down(x, h, k, 0);
        }
    while (k > 1) {
        int32_t last = h[0];

        h[0] = h[--k];
        h[k] = last;
        sift_down(x, h, k, 0);
    }
}

uint32_t engine_sampler_top(engine_sampler *s, const float *logits, uint32_t k, int32_t *out_ids,
                            float *out_logits) {
    if (k > s->n) k = s->n;
    if (k == 0) return 0;
    for (uint32_t i = 0; i < s->n; i++) s->cand[i] = (int32_t)i;
    select_best(s, logits, s->n, k);
    for (uint32_t i = 0; i < k; i++) {
        out_ids[i] = s->cand[i];
        out_logits[i] = logits[s->cand[i]];
    }
    return k;
}

/* Candidates whose weight is at least `least`, in order of ids. Returns how many. */
static uint32_t gather(engine_sampler *s, double least) {
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        s->cand[n] = (int32_t)i;
        n += (double)s->weight[i] >= least && s->weight[i] > 0;
    }
    return n;
}

/* Candidates that top_p may keep: what is lighter than its share of the 1 - top_p that is cut off
 * cannot reach the nucleus. */
static uint32_t gather_for_top_p(engine_sampler *s, const engine_sampling *p) {
    double least = p->min_p, share;

    s->total = p->min_p > 0 ? 0 : engine_logits_sum(s->weight, s->n);
    for (uint32_t i = 0; i < s->n && p->min_p > 0; i++)
        if ((double)s->weight[i] >= p->min_p) s->total += (double)s->weight[i];
    share = (1 - p->top_p) * s->total / (double)s->n * 0.999;
    return gather(s, share > least ? share : least);
}

/* The candidates that may be drawn, best first. Returns how many. */
static uint32_t nucleus(engine_sampler *s, const engine_sampling *p, const float *x) {
    bool by_k = p->top_k > 0 && (uint32_t)p->top_k < s->n;
    uint32_t n = by_k ? gather(s, p->min_p) : gather_for_top_p(s, p), kept;
    double cum = 0;

    if (by_k) {
        uint32_t k = (uint32_t)p->top_k < n ? (uint32_t)p->top_k : n;

        select_best(s, x, n, k);
        n = k;
        s->total = 0;
        for (uint32_t i = 0; i < n; i++) s->total += (double)s->weight[s->cand[i]];
    } else {
        select_best(s, x, n, n);
    }
    if (p->top_p >= 1) return n;
    for (kept = 0; kept < n && (kept == 0 || cum < p->top_p * s->total); kept++)
        cum += (double)s->weight[s->cand[kept]];
    return kept;
}

static int32_t draw_of(const engine_sampler *s, uint32_t n, double u) {
    double sum = 0, cum = 0;

    for (uint32_t i = 0; i < n; i++) sum += (double)s->weight[s->cand[i]];
    for (uint32_t i = 0; i < n; i++) {
        cum += (double)s->weight[s->cand[i]];
        if (u * sum < cum) return s->cand[i];
    }
    return s->cand[n - 1];
}

/* Counted, so the n-th draw of a request needs no state: it does not depend on which other requests
 * shared its steps, nor on whether it was preempted. */
double engine_sampler_uniform(uint64_t seed, uint64_t step) {
    return (double)(base_philox_bits(seed, step) >> 11) * 0x1p-53;
}

static int32_t sample(engine_sampler *s, const engine_sampling *p, const float *x, float top,
                      uint64_t step) {
    double u = engine_sampler_uniform(p->seed, step);
    bool by_k = p->top_k > 0 && (uint32_t)p->top_k < s->n;

    engine_logits_weights(x, s->n, top, p->temperature, s->weight);
    if (by_k || p->top_p < 1) return draw_of(s, nucleus(s, p, x), u);
    if (p->min_p > 0) return draw_of(s, gather(s, p->min_p), u);
    return (int32_t)engine_logits_draw(s->weight, s->n, u);
}

rp_status engine_sampler_pick(engine_sampler *s, const engine_sampling *p, const float *logits,
                              uint64_t step, int32_t *out_token, rp_error *err) {
    int32_t at = (int32_t)gen_best(logits, s->n);
    float top = logits[at];

    if (!engine_logits_sound(top)) return engine_sampler_blame(s, top, at, err);
    *out_token = p->temperature >= ENGINE_GREEDY_BELOW ? sample(s, p, logits, top, step) : at;
    return RP_OK;
}
