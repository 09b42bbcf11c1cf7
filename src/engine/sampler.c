/* The sampler.
 *
 * Invariants: the result is a function of (logits, sampling values, seed, step), with ties broken by
 * the lower token id and sums taken in a fixed order in double; nothing else of the batch enters.
 * Candidates are kept in a heap by (logit, id), so that a small nucleus costs no full sort. */
#include "engine/sampler.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/philox.h"

struct engine_sampler {
    uint32_t n;     /* vocabulary */
    int32_t *cand;  /* candidate ids; a heap, then the popped ones at its end */
    double *weight; /* of the candidates that were kept, in order of keeping */
    int32_t *kept;
};

rp_status engine_sampler_new(uint32_t vocab_size, engine_sampler **out, rp_error *err) {
    engine_sampler *s = base_alloc(sizeof *s);

    if (!s) return rp_fail(err, RP_NOMEM, "sampler");
    s->n = vocab_size;
    s->cand = base_alloc_array(vocab_size, sizeof *s->cand);
    s->kept = base_alloc_array(vocab_size, sizeof *s->kept);
    s->weight = base_alloc_array(vocab_size, sizeof *s->weight);
    if (vocab_size < 1 || !s->cand || !s->kept || !s->weight) {
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
    base_free(s->kept);
    base_free(s->weight);
    base_free(s);
}

/* The largest logit. Lanes, so that the compiler can use vector maxima; NaN is caught on the way. */
static bool max_logit(const float *x, uint32_t n, float *out) {
    enum { LANES = 16 };
    float m[LANES], best;
    uint32_t bad = 0, i = 0;

    for (int l = 0; l < LANES; l++) m[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float v = x[i + (uint32_t)l];

            m[l] = v > m[l] ? v : m[l];
            bad |= v != v;
        }
    for (; i < n; i++) {
        m[0] = x[i] > m[0] ? x[i] : m[0];
        bad |= x[i] != x[i];
    }
    best = m[0];
    for (int l = 1; l < LANES; l++) best = m[l] > best ? m[l] : best;
    *out = best;
    return !bad && isfinite(best);
}

static rp_status bad_logits(const engine_sampler *s, const float *x, rp_error *err) {
    for (uint32_t i = 0; i < s->n; i++)
        if (isnan(x[i]) || x[i] == INFINITY)
            return rp_fail(err, RP_INTERNAL, "logit of token %u is %g; the step computed garbage",
                           i, (double)x[i]);
    return rp_fail(err, RP_INTERNAL, "all %u logits are -inf; no token can be chosen", s->n);
}

static int32_t first_equal(const float *x, uint32_t n, float v) {
    uint32_t i = 0;

    while (i < n && x[i] != v) i++;
    return (int32_t)i;
}

double engine_sampler_logprob(const engine_sampler *s, const float *logits, int32_t token) {
    float top;
    double sum = 0;

    (void)max_logit(logits, s->n, &top);
    for (uint32_t i = 0; i < s->n; i++) sum += exp((double)logits[i] - (double)top);
    return (double)logits[token] - (double)top - log(sum);
}

/* a goes before b: larger logit, then smaller id. */
static bool before(const float *x, int32_t a, int32_t b) {
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

static void sift_down(const float *x, int32_t *h, uint32_t n, uint32_t i) {
    int32_t v = h[i];

    for (uint32_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && before(x, h[c + 1], h[c])) c++;
        if (!before(x, h[c], v)) break;
        h[i] = h[c];
    }
    h[i] = v;
}

static void heapify(const float *x, int32_t *h, uint32_t n) {
    for (uint32_t i = n / 2; i-- > 0;) sift_down(x, h, n, i);
}

static int32_t pop(const float *x, int32_t *h, uint32_t *n) {
    int32_t top = h[0];

    h[0] = h[--*n];
    if (*n) sift_down(x, h, *n, 0);
    return top;
}

uint32_t engine_sampler_top(engine_sampler *s, const float *logits, uint32_t k, int32_t *out_ids,
                            float *out_logits) {
    uint32_t n = s->n;

    if (k > n) k = n;
    for (uint32_t i = 0; i < n; i++) s->cand[i] = (int32_t)i;
    heapify(logits, s->cand, n);
    for (uint32_t i = 0; i < k; i++) {
        out_ids[i] = pop(logits, s->cand, &n);
        out_logits[i] = logits[out_ids[i]];
    }
    return k;
}

/* Tokens whose probability relative to the best is at least min_p; what is below e^-50 of the best is
 * beyond what a draw of 53 bits can reach. In order of ids. Returns how many. */
static uint32_t gather(engine_sampler *s, const float *x, float top, const engine_sampling *p) {
    double cut = (double)top + p->temperature * (p->min_p > 0 ? log(p->min_p) : -50.0);
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        s->cand[n] = (int32_t)i;
        n += (double)x[i] >= cut;
    }
    return n;
}

static double weight_of(const float *x, int32_t id, float top, double temperature) {
    return exp(((double)x[id] - (double)top) / temperature);
}

/* Keeps the k best, then of those the fewest that reach top_p of their sum. Fills kept and weight
 * in falling order. */
static uint32_t keep_best(engine_sampler *s, const float *x, float top, const engine_sampling *p,
                          uint32_t n, uint32_t k) {
    double total = 0, cum = 0;
    uint32_t kept = 0, left = n;

    if (k == n)
        for (uint32_t i = 0; i < n; i++) total += weight_of(x, s->cand[i], top, p->temperature);
    heapify(x, s->cand, n);
    for (; kept < k; kept++) {
        if (k == n && kept > 0 && cum >= p->top_p * total) return kept;
        s->kept[kept] = pop(x, s->cand, &left);
        s->weight[kept] = weight_of(x, s->kept[kept], top, p->temperature);
        cum += s->weight[kept];
    }
    if (k == n || p->top_p >= 1) return kept;
    total = cum;
    cum = 0;
    for (kept = 0; kept < k && (kept == 0 || cum < p->top_p * total); kept++)
        cum += s->weight[kept];
    return kept;
}

static uint32_t keep_all(engine_sampler *s, const float *x, float top, const engine_sampling *p,
                         uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        s->kept[i] = s->cand[i];
        s->weight[i] = weight_of(x, s->cand[i], top, p->temperature);
    }
    return n;
}

static int32_t draw(const engine_sampler *s, uint32_t n, double u) {
    double sum = 0, cum = 0;

    for (uint32_t i = 0; i < n; i++) sum += s->weight[i];
    for (uint32_t i = 0; i < n; i++) {
        cum += s->weight[i];
        if (u * sum < cum) return s->kept[i];
    }
    return s->kept[n - 1];
}

static int32_t sample(engine_sampler *s, const engine_sampling *p, const float *x, float top,
                      uint64_t step) {
    uint32_t n = gather(s, x, top, p);
    uint32_t k = p->top_k > 0 && (uint32_t)p->top_k < n ? (uint32_t)p->top_k : n;

    n = k < n || p->top_p < 1 ? keep_best(s, x, top, p, n, k) : keep_all(s, x, top, p, n);
    return draw(s, n, engine_philox_uniform(p->seed, step));
}

rp_status engine_sampler_pick(engine_sampler *s, const engine_sampling *p, const float *logits,
                              uint64_t step, int32_t *out_token, float *out_logprob,
                              rp_error *err) {
    float top;
    int32_t token;

    if (!max_logit(logits, s->n, &top)) return bad_logits(s, logits, err);
    token = p->temperature > 0 ? sample(s, p, logits, top, step) : first_equal(logits, s->n, top);
    *out_token = token;
    *out_logprob = p->logprobs ? (float)engine_sampler_logprob(s, logits, token) : 0;
    return RP_OK;
}

rp_status engine_sampler_batch(engine_sampler *s, const engine_batch *batch, const float *logits,
                               size_t stride, int32_t *tokens, float *logprobs, rp_error *err) {
    size_t row = 0;

    for (uint32_t i = 0; i < batch->n; i++) {
        const engine_batch_entry *e = &batch->entry[i];

        row += e->n_logits;
        tokens[i] = -1;
        logprobs[i] = 0;
        if (!e->samples) continue;
        RP_TRY(engine_sampler_pick(s, &e->req->sampling, logits + (row - 1) * stride,
                                   e->req->n_output, &tokens[i], &logprobs[i], err));
    }
    return RP_OK;
}
