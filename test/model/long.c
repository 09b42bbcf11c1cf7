/* Long sequences: 4096 positions of a small Llama against float64 numbers that share no code with us
 * (test/model/oracle/make_long.py), for each way to turn positions, as prefill and token by token. */
#include <jansson.h>
#include <math.h>

#include "support/check.h"
#include "support/engines.h"
#include "support/long_llama.h"
#include "support/trees.h"

enum { TOP = 16 };

/* Float32 angles of position 4095 are off by some 1e-4; a wrong position is off by more than 1. */
static const double bound = 2e-3;

static json_t *oracle;

typedef struct comparison {
    json_t *rows;
    const char *what;
    size_t next;
    uint32_t tokens, first, last;
    double worst, sum;
} comparison;

static void compare(comparison *c, uint32_t position, double got, double want) {
    double d = fabs(got - want);
    if (d > c->worst) c->worst = d;
    if (!(d <= bound))
        fail_msg("%s: at position %u %.6f, expected %.6f", c->what, position, got, want);
}

static void on_token(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                     const int32_t *top_ids, const float *top_logits) {
    comparison *c = user;
    json_t *row = json_array_get(c->rows, c->next), *top = json_object_get(row, "top");
    if (c->tokens++ == 0) c->first = position;
    c->last = position;
    c->sum += logprob;
    assert_int_equal(id, long_llama_token(position));
    if (position != (uint32_t)json_integer_value(json_object_get(row, "position"))) return;
    c->next++;
    assert_int_equal(id, json_integer_value(json_object_get(row, "id")));
    compare(c, position, logprob, json_real_value(json_object_get(row, "logprob")));
    for (size_t i = 0; i < json_array_size(top); i++) {
        json_t *pair = json_array_get(top, i);
        double got = NAN;
        for (uint32_t j = 0; j < k; j++)
            if (top_ids[j] == json_integer_value(json_array_get(pair, 0)))
                got = (double)top_logits[j];
        compare(c, position, got, json_real_value(json_array_get(pair, 1)));
    }
}

static double score(rp_engine *e, comparison *c, uint32_t step) {
    static int32_t ids[LONG_POSITIONS];
    uint32_t n_prompt = (uint32_t)json_integer_value(json_object_get(oracle, "prompt"));
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    for (uint32_t i = 0; i < LONG_POSITIONS; i++) ids[i] = long_llama_token(i);
    o.step = step;
    o.top_logits = TOP;
    o.on_token = on_token;
    o.user = c;
    double perplexity = must_score(e, ids, n_prompt, LONG_POSITIONS, o);
    assert_int_equal(c->first, n_prompt);
    assert_int_equal(c->last, LONG_POSITIONS - 1);
    assert_int_equal(c->tokens, LONG_POSITIONS - n_prompt);
    return perplexity;
}

static void check_rope(long_rope rope) {
    /* token by token is the same for all of them but for the tables */
    static const uint32_t steps[] = {512, 1};
    const size_t n_steps = rope == LONG_PLAIN ? 2 : 1;
    const char *name = long_rope_name(rope);
    json_t *want = json_object_get(json_object_get(oracle, "ropes"), name);
    rp_engine *e = engine_must(long_llama_write(tree_new(name), rope),
                               (const char *[]){"threads=2", "max_num_seqs=1", NULL});
    assert_non_null(want);
    for (size_t i = 0; i < n_steps; i++) {
        comparison c = {.rows = json_object_get(want, "rows"), .what = name};
        double perplexity = score(e, &c, steps[i]);
        assert_int_equal(c.next, json_array_size(c.rows));
        compare(&c, 0, log(perplexity), log(json_real_value(json_object_get(want, "perplexity"))));
        compare(&c, 0, log(perplexity), -c.sum / c.tokens);
        printf("%s, steps of %u: worst deviation %.2g\n", name, steps[i], c.worst);
    }
    rp_engine_close(e);
}

/* --- the default numerics, whose cache is float16 ----------------------------------------- */

typedef struct answers {
    double logprob[LONG_POSITIONS];
    int32_t best[LONG_POSITIONS];
} answers;

static void keep(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                 const int32_t *top_ids, const float *top_logits) {
    answers *a = user;
    (void)id;
    (void)k;
    (void)top_logits;
    a->logprob[position] = logprob;
    a->best[position] = top_ids[0];
}

static void answer(const char *numerics, answers *out) {
    static int32_t ids[LONG_POSITIONS];
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    rp_error err = {0};
    rp_engine *e = engine_must("synthetic:tiny",
                               (const char *[]){numerics, "threads=2", "max_model_len=4096", NULL});
    for (uint32_t i = 0; i < LONG_POSITIONS; i++) ids[i] = long_llama_token(i);
    o.prompt_ids = ids;
    o.n_prompt_ids = 1;
    o.continuation_ids = ids + 1;
    o.n_continuation_ids = LONG_POSITIONS - 1;
    o.top_logits = 1;
    o.on_token = keep;
    o.user = out;
    CHECK_OK(rp_engine_score(e, &o, NULL, &err), &err);
    rp_engine_close(e);
}

/* The float32 numbers are those of the oracle above; these are near them up to the last position. */
static void default_numerics_stay_near(void **state) {
    static answers want, got;
    uint32_t same = 0;
    double worst = 0;
    (void)state;
    answer("numerics=exact", &want);
    answer("numerics=default", &got);
    for (uint32_t i = 1; i < LONG_POSITIONS; i++) {
        double d = fabs(got.logprob[i] - want.logprob[i]);
        if (d > worst) worst = d;
        if (!(d <= 0.05))
            fail_msg("position %u: log probability %.6f, %.6f with exact numerics", i,
                     got.logprob[i], want.logprob[i]);
        same += got.best[i] == want.best[i];
    }
    printf("default numerics: worst deviation %.2g, the same token at %u of %d positions\n", worst,
           same, LONG_POSITIONS - 1);
    assert_true(same >= LONG_POSITIONS - 20);
}

/* ------------------------------------------------------------------------------------------ */

static void plain(void **state) {
    (void)state;
    check_rope(LONG_PLAIN);
}

static void linear_scaling(void **state) {
    (void)state;
    check_rope(LONG_LINEAR);
}

static void divided_frequencies(void **state) {
    (void)state;
    check_rope(LONG_FREQS);
}

static void part_of_each_head(void **state) {
    (void)state;
    check_rope(LONG_PARTIAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(linear_scaling),
        cmocka_unit_test(divided_frequencies),
        cmocka_unit_test(part_of_each_head),
        cmocka_unit_test(default_numerics_stay_near),
    };
    oracle = json_load_file("test/model/oracle/long.json", 0, NULL);
    int failed = oracle ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    json_decref(oracle);
    return failed;
}
