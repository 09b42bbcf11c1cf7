/* See decode_kernels.h. */
#include "support/decode_kernels.h"

#include <math.h>

#include "engine/engine.h"
#include "support/check.h"
#include "support/engines.h"

enum { FEW = 8, MOST = 64, TOKENS = 7 };

/* For up to n sequences. Few tokens a step, of more sequences the prompts of 9 at once: kernels for more rows are no decode step's, and most of what is compiled. Only
 * where there are most of them do all come at once: else the first end before the last begin, and no step is one of them all. */
static rp_engine *engine_of(const char *model, uint32_t n, bool own, const char *more) {
    return engine_must(model, (const char *[]){"device=cuda:0",
                                               n <= FEW ? "max_num_seqs=8" : "max_num_seqs=64",
                                               "max_model_len=1024",
                                               own ? "decode_kernels=true" : "decode_kernels=false",
                                               n <= FEW    ? "max_num_batched_tokens=64"
                                               : n == MOST ? "max_num_batched_tokens=1280"
                                                           : "max_num_batched_tokens=160",
                                               more, NULL});
}

rp_engine *decode_engine(const char *model, bool own, const char *more) {
    return engine_of(model, 1, own, more);
}

/* --- one sequence ------------------------------------------------------------------------ */

enum { TOP = 8, N_SCORES = 64, MOST_PROMPT = 900 };

typedef struct scores {
    uint32_t n;
    float logits[N_SCORES][TOP];
} scores;

static void on_token(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                     const int32_t *top_ids, const float *top_logits) {
    scores *s = user;
    (void)position, (void)id, (void)logprob, (void)top_ids;
    assert_true(s->n < N_SCORES && k == TOP);
    memcpy(s->logits[s->n++], top_logits, sizeof s->logits[0]);
}

/* Token by token, over three blocks of the cache. */
static scores score(const char *model, uint32_t prompt, bool own, const char *more,
                    uint64_t *steps) {
    rp_engine *e = decode_engine(model, own, more);
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    scores s = {0};
    int32_t ids[MOST_PROMPT + N_SCORES];
    for (uint32_t i = 0; i < prompt + N_SCORES; i++) ids[i] = (int32_t)((i * 31 + i / 7) % 250);
    o.step = 1;
    o.top_logits = TOP;
    o.on_token = on_token;
    o.user = &s;
    (void)must_score(e, ids, prompt, prompt + N_SCORES, o);
    if (steps) *steps = (uint64_t)engine_count(e, "decode_kernels.steps");
    rp_engine_close(e);
    assert_int_equal(s.n, N_SCORES);
    return s;
}

static double farthest(const scores *a, const scores *b) {
    double most = 0;
    for (uint32_t i = 0; i < N_SCORES; i++)
        for (int k = 0; k < TOP; k++) {
            const double d = fabs((double)a->logits[i][k] - (double)b->logits[i][k]);
            if (!(d <= most)) most = d;
        }
    return most;
}

/* --- several ------------------------------------------------------------------------------- */

typedef struct answers {
    int32_t ids[MOST][TOKENS];
    double logprobs[MOST][TOKENS];
} answers;

/* The i-th of n, whose prompts get shorter. */
static uint64_t submit(rp_engine *e, uint32_t i, uint32_t n, bool logprobs, double temperature) {
    int32_t prompt[40];
    rp_request_options r = plain_request(TOKENS);
    r.sampling.temperature = temperature;
    r.sampling.seed = i;
    r.n_prompt_ids = 2 + 5 * ((n - 1 - i) % FEW);
    for (uint32_t k = 0; k < r.n_prompt_ids; k++) prompt[k] = (int32_t)((i * 37 + k * 11) % 250);
    r.prompt_ids = prompt;
    r.logprobs = logprobs;
    return must_submit(e, &r);
}

/* poison: what a step may not read is NaN. */
static answers answer(rp_engine *e, uint32_t n, bool own, bool poison) {
    const long long before = own ? engine_count(e, "decode_kernels.steps") : 0;
    uint64_t id[MOST];
    answers a = {0};
    bool left = true;
    rp_error err = {0};
    (void)submit(e, 2, 3, true,
                 0); /* whose keys and values lie where those of the others come to lie */
    must_run(e, -1);
    for (uint32_t i = 0; i < n; i++) id[i] = submit(e, i, n, true, 0);
    while (left) {
        if (poison) CHECK_OK(engine_runner_poison(e->runner, &err), &err);
        CHECK_OK(rp_engine_step(e, &left, &err), &err);
    }
    for (uint32_t i = 0; i < n; i++) {
        const rp_result r = must_result(e, id[i]);
        assert_int_equal(r.n_output_ids, TOKENS);
        memcpy(a.ids[i], r.output_ids, sizeof a.ids[i]);
        memcpy(a.logprobs[i], r.logprobs, sizeof a.logprobs[i]);
    }
    if (own) assert_true(engine_count(e, "decode_kernels.steps") - before >= TOKENS - 1);
    return a;
}

/* As long as they choose the same tokens; after that they are about other texts. */
static void check_near(uint32_t n, const answers *got, const answers *want, double most) {
    uint32_t compared = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < TOKENS; k++, compared++) {
            const double d = fabs(got->logprobs[i][k] - want->logprobs[i][k]);
            if (!(d < most))
                fail_msg("%u sequences: of %u, token %u has %.6f, not %.6f", n, i, k,
                         got->logprobs[i][k], want->logprobs[i][k]);
            if (got->ids[i][k] != want->ids[i][k]) break;
        }
    assert_true(compared >= n); /* the first of each comes from a prompt */
}

void decode_check_scores(const char *model, uint32_t prompt, double most) {
    uint64_t steps = 0;
    const scores own = score(model, prompt, true, NULL, &steps),
                 all = score(model, prompt, false, NULL, NULL);
    const double far = farthest(&own, &all);
    assert_true(steps >= N_SCORES);
    if (!(far > 0 && far < most)) fail_msg("%s: logits are off by %g", model, far);
    const scores again = score(model, prompt, true, "async_scheduling=false", NULL);
    assert_memory_equal(&own, &again, sizeof own);
}

void decode_check_together(const char *model, const uint32_t *n, size_t count, const char *more,
                           double most) {
    rp_engine *const by_own = engine_of(model, n[count - 1], true, more), *const by_all = engine_of(
                                                                              model, n[count - 1],
                                                                              false, more);
    for (size_t c = 0; c < count; c++) {
        const answers own = answer(by_own, n[c], true, false),
                      all = answer(by_all, n[c], false, false);
        check_near(n[c], &own, &all, most);
        for (uint32_t i = 0; !more && i < n[c]; i++) /* of a prompt, which is no decode step */
            assert_true(own.logprobs[i][0] == all.logprobs[i][0]);
    }
    rp_engine_close(by_own);
    rp_engine_close(by_all);
}

void decode_check_poisoned(const char *model, uint32_t n) {
    rp_engine *e = engine_of(model, n, true, NULL);
    const answers a = answer(e, n, true, false), b = answer(e, n, true, true);
    assert_memory_equal(&a, &b, sizeof a);
    rp_engine_close(e);
}

/* --- logits that nobody reads ---------------------------------------------------------------- */

/* Whether the last step of n requests at once left logits, of which there were none before it. */
static bool leaves_logits(rp_engine *e, uint32_t n, bool logprobs, double temperature, answers *a) {
    const long long before = engine_count(e, "decode_kernels.steps");
    uint64_t id[MOST];
    const float *row = NULL;
    bool left = true;
    rp_error err = {0};
    for (uint32_t i = 0; i < n; i++) id[i] = submit(e, i, n, logprobs, temperature);
    while (left) {
        CHECK_OK(engine_runner_poison(e->runner, &err), &err);
        CHECK_OK(rp_engine_step(e, &left, &err), &err);
    }
    for (uint32_t i = 0; i < n; i++) {
        const rp_result r = must_result(e, id[i]);
        assert_int_equal(r.n_output_ids, TOKENS);
        memcpy(a->ids[i], r.output_ids, sizeof a->ids[i]);
    }
    assert_true(engine_count(e, "decode_kernels.steps") - before >= TOKENS - 1);
    CHECK_OK(engine_runner_logits(e->runner, 0, 1, &row, &err), &err);
    return row[0] == row[0];
}

void decode_check_unread(const char *model, uint32_t n) {
    rp_engine *e = engine_of(model, n, true, "async_scheduling=false");
    for (int drawn = 0; drawn < 2; drawn++) {
        answers read = {0}, unread = {0};
        assert_true(leaves_logits(e, n, true, drawn * 0.8, &read));
        assert_int_equal(leaves_logits(e, n, false, drawn * 0.8, &unread), drawn);
        assert_memory_equal(&read, &unread, sizeof read);
    }
    rp_engine_close(e);
}
