/* The real model against the float32 reference: teacher forcing over every step of the oracle. */
#include <jansson.h>
#include <math.h>

#include "support/check.h"
#include "support/engines.h"

#define TOP 16
#define MAX_STEPS 4096

static json_t *cases;

typedef struct tally {
    json_t *top5;  /* of this case */
    uint32_t step; /* within the case */
    uint32_t steps, same, sure, sure_same;
    double worst; /* distance of an oracle top-5 logit */
    float *rows;  /* kept logits: TOP a step */
    size_t n_rows;
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
    if (t->rows && t->n_rows < MAX_STEPS)
        memcpy(t->rows + t->n_rows++ * TOP, top_logits, k * sizeof *top_logits);
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

static void check_default(uint32_t step) {
    tally t = score_all((const char *[]){NULL}, step);
    printf("default numerics, step %u: top-1 %u of %u\n", step, t.same, t.steps);
    assert_true(t.steps > 700);
    assert_true(t.same * 1000.0 >= t.steps * 995.0);
}

static void default_decode_agrees(void **state) {
    (void)state;
    check_default(1);
}

static void default_prefill_agrees(void **state) {
    (void)state;
    check_default(480);
}

static void exact_is_within_bounds(void **state) {
    (void)state;
    tally t = score_all((const char *[]){"numerics=exact", NULL}, 480);
    printf("exact: worst top-5 logit off by %.2g, %u of %u steps with margin >= 0.02 equal\n",
           t.worst, t.sure_same, t.sure);
    assert_true(t.steps > 700);
    assert_true(t.worst <= 2e-3);
    assert_int_equal(t.sure_same, t.sure);
}

/* Logits must not know how the tokens were cut into forwards. */
static void chunks_are_bit_equal(void **state) {
    static const uint32_t steps[] = {480, 1, 7, 16};
    tally t[4] = {{0}};
    (void)state;
    rp_engine *e = engine_must(model(), (const char *[]){NULL});
    for (size_t i = 0; i < 4; i++) {
        t[i].rows = calloc(MAX_STEPS, TOP * sizeof(float));
        for (size_t c = 0; c < json_array_size(cases); c += 5)
            score_case(e, json_array_get(cases, c), steps[i], &t[i]);
        assert_int_equal(t[i].n_rows, t[0].n_rows);
        assert_memory_equal(t[i].rows, t[0].rows, t[0].n_rows * TOP * sizeof(float));
    }
    for (size_t i = 0; i < 4; i++) free(t[i].rows);
    rp_engine_close(e);
}

/* Free-running text follows the oracle until two logits are too close to call. */
static void run_follows_the_oracle(void **state) {
    (void)state;
    rp_engine *e = engine_must(model(), (const char *[]){NULL});
    for (size_t c = 0; c < json_array_size(cases); c++) {
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
        cmocka_unit_test(default_decode_agrees),  cmocka_unit_test(default_prefill_agrees),
        cmocka_unit_test(exact_is_within_bounds), cmocka_unit_test(chunks_are_bit_equal),
        cmocka_unit_test(run_follows_the_oracle),
    };
    cases = json_load_file("test/model/oracle/smollm2_greedy.json", 0, NULL);
    int failed = cases ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    json_decref(cases);
    return failed;
}
