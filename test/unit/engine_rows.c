/* Logits are kept for the rows that are asked for, not for every token of a step: the ledger says how many bytes that is,
 * and scoring, which asks for every row, gets them chunk by chunk with the bits of one row at a time. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/trees.h"

enum { PROMPT = 7, N = 150, TOP = 3 };

typedef struct scores {
    double logprob[N];
    int32_t top_id[N][TOP];
    float top[N][TOP];
    uint32_t n;
} scores;

static void keep(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                 const int32_t *top_ids, const float *top_logits) {
    scores *s = user;
    (void)id;
    assert_int_equal(position, PROMPT + s->n);
    assert_int_equal(k, TOP);
    s->logprob[s->n] = logprob;
    memcpy(s->top_id[s->n], top_ids, sizeof s->top_id[0]);
    memcpy(s->top[s->n++], top_logits, sizeof s->top[0]);
}

static void score(rp_engine *e, uint32_t step, scores *out) {
    int32_t ids[N];
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < N; i++) ids[i] = (i * 37 + 5) % 250;
    o.step = step;
    o.top_logits = TOP;
    o.on_token = keep;
    o.user = out;
    (void)must_score(e, ids, PROMPT, N, o);
    assert_int_equal(out->n, N - PROMPT);
}

static void every_position_is_scored_in_chunks(void **state) {
    static const char *const modes[] = {"cudagraph_mode=FULL_AND_PIECEWISE", "cudagraph_mode=FULL",
                                        "cudagraph_mode=NONE"};
    static scores one, many;
    (void)state;
    for (size_t m = 0; m < 3; m++) {
        rp_engine *e = engine_must(
            "synthetic:tiny",
            (const char *[]){"level=3", modes[m], "max_num_seqs=2", "max_num_batched_tokens=150",
                             "max_model_len=160", "cudagraph_copy_inputs=true", NULL});
        /* forwards of one row, of less than a chunk, of a chunk, of several and a part, of one part */
        static const uint32_t steps[] = {20, 32, 33, 64, 100, 0};
        score(e, 1, &one);
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            score(e, steps[i], &many);
            if (memcmp(&one, &many, sizeof one) != 0)
                fail_msg("%s: forwards of %u give other logits than one by one", modes[m],
                         steps[i]);
        }
        rp_engine_close(e);
    }
}

/* Tokens of a step, requests -> rows kept. */
static void the_ledger_counts_rows_that_are_asked_for(void **state) {
    static const struct {
        int tokens, seqs, rows;
    } cases[] = {{8192, 64, 64}, {8192, 2, 32}, {16, 2, 16}, {64, 64, 64}, {512, 100, 100}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char tokens[40], seqs[40];
        (void)snprintf(tokens, sizeof tokens, "max_num_batched_tokens=%d", cases[i].tokens);
        (void)snprintf(seqs, sizeof seqs, "max_num_seqs=%d", cases[i].seqs);
        rp_engine *e =
            engine_must("synthetic:tiny", (const char *[]){"level=0", "cudagraph_mode=NONE",
                                                           "max_model_len=64", tokens, seqs, NULL});
        size_t vocab = model_source_hparams(e->source)->n_vocab;
        assert_int_equal(engine_count(e, "memory.logits"),
                         (size_t)cases[i].rows * vocab * sizeof(float));
        /* the ledger is what the device was asked for: nothing is left out */
        const hal_counters *c = hal_device_counters(e->device);
        long long sum = engine_count(e, "memory.kv") + engine_count(e, "memory.arena") +
                        engine_count(e, "memory.constants") + engine_count(e, "memory.inputs") +
                        engine_count(e, "memory.logits");
        assert_int_equal(sum, c->live_bytes);
        rp_engine_close(e);
    }
}

int main(void) {
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position_is_scored_in_chunks),
        cmocka_unit_test(the_ledger_counts_rows_that_are_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
