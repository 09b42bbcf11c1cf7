/* The real model against the float32 reference: teacher forcing over every step of the oracle, on the cpu or another device (support/elsewhere.h). What README.md
 * says of it is what is asserted here, and stands there in these words. */
#include <jansson.h>
#include <math.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "support/check.h"
#include "support/elsewhere.h"
#include "support/engines.h"
#include "support/thorough.h"

#define TOP 16
#define DEVICE (runs_elsewhere() ? "device=cuda:0" : "device=cpu")

/* In README.md: steps, all of them the same token by default, and how far off the exact numerics are at most. */
#define STEPS 797
#define EXACT_WORST 6 /* e-5, rounded up */

static json_t *cases;

typedef struct tally {
    json_t *top5;  /* of this case */
    uint32_t step; /* within the case */
    uint32_t steps, same, sure, sure_same;
    double worst; /* distance of an oracle top-5 logit */
} tally;

static int32_t *ids_of(json_t *list, uint32_t *n) {
    *n = (uint32_t)json_array_size(list);
    int32_t *ids = calloc(*n + 1u, sizeof *ids);
    for (uint32_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static double logit_of(json_t *top5, size_t i) {
    return json_number_value(json_array_get(json_array_get(top5, i), 1));
}

static int32_t id_of(json_t *top5, size_t i) {
    return (int32_t)json_integer_value(json_array_get(json_array_get(top5, i), 0));
}

static void on_token(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                     const int32_t *top_ids, const float *top_logits) {
    tally *t = user;
    json_t *want = json_array_get(t->top5, t->step++);
    (void)position;
    (void)id;
    (void)logprob;
    bool same = top_ids[0] == id_of(want, 0);
    t->steps++;
    t->same += same;
    if (logit_of(want, 0) - logit_of(want, 1) >= 0.02) {
        t->sure++;
        t->sure_same += same;
    }
    for (size_t i = 0; i < json_array_size(want); i++) {
        double d = INFINITY;
        for (uint32_t j = 0; j < k; j++)
            if (top_ids[j] == id_of(want, i)) d = fabs((double)top_logits[j] - logit_of(want, i));
        if (d > t->worst) t->worst = d;
    }
}

static void score_case(rp_engine *e, json_t *c, uint32_t step, tally *t) {
    rp_error err = {0};
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    uint32_t np, ng;
    int32_t *prompt = ids_of(json_object_get(c, "prompt_ids"), &np),
            *greedy = ids_of(json_object_get(c, "greedy_ids"), &ng);
    t->top5 = json_object_get(c, "top5");
    t->step = 0;
    o.prompt_ids = prompt;
    o.n_prompt_ids = np;
    o.continuation_ids = greedy;
    o.n_continuation_ids = ng;
    o.step = step;
    o.top_logits = TOP;
    o.on_token = on_token;
    o.user = t;
    CHECK_OK(rp_engine_score(e, &o, NULL, &err), &err);
    assert_int_equal(t->step, ng);
    free(prompt);
    free(greedy);
}

static const char *model(void) {
    const char *path = getenv("REPRISE_TEST_MODEL");
    if (!path) SKIP_TEST("REPRISE_TEST_MODEL names no GGUF file of SmolLM2");
    return path;
}

static tally score_all(const char *const *settings, uint32_t step) {
    tally t = {0};
    rp_engine *e = engine_must(model(), settings);
    for (size_t i = 0; i < json_array_size(cases); i++)
        score_case(e, json_array_get(cases, i), step, &t);
    rp_engine_close(e);
    return t;
}

/* README.md in one line. */
static const char *readme(void) {
    static char text[1 << 16];
    FILE *f = fopen("README.md", "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = 0;
    for (char *p = text; *p; p++)
        if (*p == '\n') *p = ' ';
    return text;
}

/* Of the cpu; elsewhere the same is asserted, and README.md need not be there. */
static void readme_says(const char *words) {
    if (runs_elsewhere()) return;
    if (!strstr(readme(), words)) fail_msg("README.md does not say: %s", words);
}

/* That a score is the same, by prefill of every fourth case and token by token of one: chunks_are_bit_equal looks at what both choose in all. */
static void default_score_agrees(void **state) {
    tally t = {0};
    (void)state;
    rp_engine *e = engine_must(model(), (const char *[]){DEVICE, NULL});
    score_case(e, json_array_get(cases, 0), 1, &t);
    for (size_t i = 1; i < json_array_size(cases); i += THOROUGH() ? 1 : 4)
        score_case(e, json_array_get(cases, i), 480, &t);
    rp_engine_close(e);
    printf("default numerics, by scores: top-1 %u of %u\n", t.same, t.steps);
    assert_true(t.steps > STEPS / 5);
    assert_int_equal(t.same, t.steps);
}

static void exact_is_within_bounds(void **state) {
    char words[120];
    (void)state;
    tally t = score_all((const char *[]){DEVICE, "numerics=exact", NULL}, 480);
    printf("exact: worst top-5 logit off by %.2g, %u of %u steps with margin >= 0.02 equal\n",
           t.worst, t.sure_same, t.sure);
    assert_int_equal(t.steps, STEPS);
    assert_int_equal((int)ceil(t.worst * 1e5), EXACT_WORST);
    assert_int_equal(t.sure_same, t.sure);
    (void)snprintf(words, sizeof words, "with `--numerics exact` every top-5 logit is within %de-5",
                   EXACT_WORST);
    readme_says(words);
}

static int32_t largest(const float *logits, size_t n) {
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return (int32_t)at;
}

/* Hashes of the logits after every position of a sequence that is taken in chunks of `step`, and the token that is chosen there;
 * free both with free. */
static base_hash128 *rows_of(rp_engine *e, const int32_t *ids, uint32_t n, uint32_t step,
                             int32_t **chosen) {
    size_t vocab = model_source_hparams(e->source)->n_vocab;
    const engine_sched_options so = {.max_num_seqs = 1,
                                     .max_num_batched_tokens = step,
                                     .max_model_len = e->max_model_len,
                                     .prefill_chunk = step,
                                     .vocab_size = (uint32_t)vocab};
    const engine_request_options ro = {.id = UINT64_MAX,
                                       .prompt = ids,
                                       .n_prompt = n,
                                       .all_logits = true,
                                       .sampling = ENGINE_SAMPLING_GREEDY};
    rp_error err = {0};
    engine_sched *scheduler = NULL;
    engine_request *r = NULL;
    base_hash128 *rows = calloc(n + 1u, sizeof *rows);
    *chosen = calloc(n + 1u, sizeof **chosen);
    uint32_t seen = 0, most = engine_runner_rows_at_once(e->runner);
    CHECK_OK(engine_sched_new(&so, e->kv, &scheduler, &err), &err);
    CHECK_OK(engine_request_new(&ro, &r, &err), &err);
    CHECK_OK(engine_sched_add(scheduler, r, &err), &err);
    while (!engine_sched_take_finished(scheduler)) {
        const engine_batch *b = NULL;
        const float *logits = NULL;
        int32_t token = 0;
        CHECK_OK(engine_sched_next(scheduler, &b, &err), &err);
        assert_non_null(b);
        assert_true(b->num_logits <= step && seen + b->num_logits <= n);
        CHECK_OK(engine_run_batch(e, b, &logits, &err), &err);
        for (uint32_t i = 0; i < b->num_logits; i++) {
            if (i && i % most == 0) CHECK_OK(engine_runner_rows(e->runner, i, &logits, &err), &err);
            (*chosen)[seen] = largest(logits + i % most * vocab, vocab);
            rows[seen++] = base_hash(logits + i % most * vocab, vocab * sizeof *logits);
        }
        engine_sched_commit(scheduler, &token);
    }
    assert_int_equal(seen, n);
    engine_sched_free(scheduler);
    engine_request_free(r);
    return rows;
}

/* In how many steps of a case the token is that of the reference; chosen: from the last of its prompt on. */
static uint32_t as_reference(json_t *one, const int32_t *chosen) {
    json_t *top5 = json_object_get(one, "top5");
    uint32_t same = 0;
    for (size_t i = 0; i < json_array_size(top5); i++)
        same += chosen[i] == id_of(json_array_get(top5, i), 0);
    return same;
}

/* Logits must not know how the tokens were cut into forwards: all of them, after every position of every case, one by one, and
 * of half of them in 7 or 16, with THOROUGH of all in both. What one token at a time chooses is the reference's. */
static void chunks_are_bit_equal(void **state) {
    static const uint32_t steps[] = {480, 1, 7, 16};
    uint32_t n_rows = 0, same = 0;
    char words[160];
    (void)state;
    rp_engine *e = engine_must(model(), (const char *[]){DEVICE, NULL});
    for (size_t c = 0; c < json_array_size(cases); c++) {
        uint32_t np, ng;
        json_t *one = json_array_get(cases, c);
        int32_t *ids = ids_of(json_object_get(one, "prompt_ids"), &np),
                *greedy = ids_of(json_object_get(one, "greedy_ids"), &ng);
        ids = realloc(ids, (np + ng) * sizeof *ids);
        memcpy(ids + np, greedy, ng * sizeof *ids);
        int32_t *chosen;
        base_hash128 *want = rows_of(e, ids, np + ng, steps[0], &chosen);
        free(chosen);
        for (size_t s = 1; s < sizeof steps / sizeof *steps; s++) {
            if (s > 1 && s != 2 + c % 4 && !THOROUGH()) continue;
            base_hash128 *got = rows_of(e, ids, np + ng, steps[s], &chosen);
            for (uint32_t i = 0; i < np + ng; i++)
                if (memcmp(&got[i], &want[i], sizeof *got) != 0)
                    fail_msg("case %zu: other logits after token %u of %u in steps of %u", c, i,
                             np + ng, steps[s]);
            if (steps[s] == 1) same += as_reference(one, chosen + np - 1);
            free(chosen);
            free(got);
        }
        n_rows += np + ng;
        free(want);
        free(ids);
        free(greedy);
    }
    printf("%u rows of logits, %zu ways; by decode: top-1 %u of %u\n", n_rows,
           sizeof steps / sizeof *steps, same, STEPS);
    assert_int_equal(same, STEPS);
    assert_true(n_rows > 1500);
    (void)snprintf(words, sizeof words,
                   "float32 reference (%d teacher-forced steps): the default numerics choose the "
                   "same token in every step, by decode and by prefill",
                   STEPS);
    readme_says(words);
    rp_engine_close(e);
}

/* Free-running text follows the oracle until two logits are too close to call; that each token is the reference's where the one before
 * is, chunks_are_bit_equal looks at in all cases. */
static void run_follows_the_oracle(void **state) {
    (void)state;
    rp_engine *e = engine_must(model(), (const char *[]){DEVICE, NULL});
    for (size_t c = 0; c < json_array_size(cases); c += THOROUGH() ? 1 : 4) {
        uint32_t np, ng, n;
        json_t *one = json_array_get(cases, c), *top5 = json_object_get(one, "top5");
        int32_t *prompt = ids_of(json_object_get(one, "prompt_ids"), &np),
                *want = ids_of(json_object_get(one, "greedy_ids"), &ng);
        int32_t *got = calloc(ng + 1u, sizeof *got);
        n = engine_greedy(e, prompt, np, ng, got);
        assert_int_equal(n, ng);
        for (uint32_t i = 0; i < ng; i++) {
            json_t *t = json_array_get(top5, i);
            if (logit_of(t, 0) - logit_of(t, 1) < 0.02) break;
            if (got[i] != want[i])
                fail_msg("case %zu, step %u: %d, expected %d", c, i, got[i], want[i]);
        }
        free(prompt);
        free(want);
        free(got);
    }
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_score_agrees),
        cmocka_unit_test(exact_is_within_bounds),
        cmocka_unit_test(chunks_are_bit_equal),
        cmocka_unit_test(run_follows_the_oracle),
    };
    cases = json_load_file("test/model/oracle/smollm2_greedy.json", 0, NULL);
    int failed = cases ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    json_decref(cases);
    return failed;
}
