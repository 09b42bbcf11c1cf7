/* What is known about an answer beside its text: log probabilities, which are those of teacher forcing bit for bit, and
 * why it ended. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "support/engines.h"

enum { N = 4, TOKENS = 9, K = 5 };
static const char *const small[] = {
    "level=3",          "max_num_seqs=3", "max_num_batched_tokens=16",
    "max_model_len=40", "threads=1",      NULL};
typedef struct listener {
    const rp_result *want;
    uint32_t n;
} listener;

static void compare(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                    const int32_t *top_ids, const float *top_logits) {
    listener *l = user;
    const rp_result *r = l->want;
    assert_int_equal(position, r->n_prompt_ids + l->n);
    assert_int_equal(id, r->output_ids[l->n]);
    assert_true(logprob == r->logprobs[l->n]);
    for (uint32_t i = 0; i < r->n_top; i++) {
        const double *top = r->top_logprobs + (size_t)l->n * r->n_top;
        assert_true(i < k && top_ids[i] == r->top_ids[(size_t)l->n * r->n_top + i]);
        assert_true(i == 0 || top[i] <= top[i - 1]);
        if (top_ids[i] == id) assert_true(top[i] == logprob);
        assert_true(fabs(top[i] - top[0] - (double)(top_logits[i] - top_logits[0])) < 1e-4);
    }
    l->n++;
}

/* Requests of one batch that ask for different things: sampled, with no, some and many alternatives. */
static void logprobs_are_those_of_scoring(void **state) {
    static const uint32_t tops[N] = {0, K, 1, RP_MAX_TOP};
    rp_error err = {0};
    uint64_t id[N], plain;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    size_t live = base_live();
    for (int i = 0; i < N; i++) {
        rp_request_options r = plain_request(TOKENS);
        r.sampling.temperature = 1.0;
        r.sampling.seed = (uint64_t)i;
        r.logprobs = i == 0;
        r.top_logprobs = tops[i];
        r.n_prompt_ids = (uint32_t)(2 + i);
        id[i] = must_submit(e, &r);
    }
    rp_request_options r = plain_request(TOKENS);
    plain = must_submit(e, &r);
    must_run(e, -1);
    for (int i = 0; i < N; i++) {
        rp_result got = must_result(e, id[i]);
        listener l = {&got, 0};
        rp_score_options o = RP_SCORE_OPTIONS_INIT;
        o.prompt_ids = got.prompt_ids;
        o.n_prompt_ids = got.n_prompt_ids;
        o.continuation_ids = got.output_ids;
        o.n_continuation_ids = got.n_output_ids;
        o.top_logits = RP_MAX_TOP;
        o.on_token = compare;
        o.user = &l;
        assert_int_equal(got.n_top, tops[i] < 288 ? tops[i] : 288);
        CHECK_OK(rp_engine_score(e, &o, NULL, &err), &err);
        assert_int_equal(l.n, TOKENS);
        rp_engine_release(e, id[i]);
    }
    rp_result got = must_result(e, plain);
    assert_null(got.logprobs);
    assert_null(got.top_ids);
    rp_engine_release(e, plain);
    assert_int_equal(base_live(), live);
    rp_engine_close(e);
}

/* Up to the end of the context, whatever was asked for: each token has its own, and no more is reserved than there can be. The
 * memory of 34 tokens is 8 bytes more than whole blocks of the allocator, which would notice one more. */
static void logprobs_fill_the_context(void **state) {
    static const uint32_t most[] = {0, 34, 35, 36, 1000, UINT32_MAX};
    rp_error err = {0};
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        rp_request_options r = plain_request(most[i]);
        r.n_prompt_ids = 5;
        r.logprobs = true;
        r.top_logprobs = i % 2 ? RP_MAX_TOP : 0;
        uint64_t id = must_submit(e, &r);
        must_run(e, -1);
        rp_result got = must_result(e, id);
        listener l = {&got, 0};
        rp_score_options o = RP_SCORE_OPTIONS_INIT;
        o.prompt_ids = got.prompt_ids;
        o.n_prompt_ids = got.n_prompt_ids;
        o.continuation_ids = got.output_ids;
        o.n_continuation_ids = got.n_output_ids - 1; /* the last one has no place in the context */
        o.top_logits = RP_MAX_TOP;
        o.on_token = compare;
        o.user = &l;
        CHECK_OK(rp_engine_score(e, &o, NULL, &err), &err);
        assert_int_equal(l.n, o.n_continuation_ids);
        rp_engine_release(e, id);
    }
    rp_engine_close(e);
}

static void too_many_alternatives_are_refused(void **state) {
    rp_error err = {0};
    uint64_t id = 0;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_request_options r = plain_request(TOKENS);
    r.top_logprobs = RP_MAX_TOP + 1;
    assert_int_equal(rp_engine_submit(e, &r, &id, &err), RP_CONFIG);
    assert_string_equal(err.text, "top_logprobs 1025; at most 1024");
    rp_engine_close(e);
}

/* Beside a prompt that is only begun in its step and has no logits, and beside others that have. */
static void logprobs_are_of_their_own_row(void **state) {
    static int32_t ids[30];
    double alone[2], beside[2];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_request_options longer = plain_request(2), r = plain_request(2);
    longer.prompt_ids = ids;
    longer.n_prompt_ids = 30;
    r.logprobs = true;
    for (int others = 0; others < 2; others++) {
        if (others) (void)must_submit(e, &longer);
        uint64_t id = must_submit(e, &r);
        must_run(e, -1);
        memcpy(others ? beside : alone, must_result(e, id).logprobs, sizeof alone);
    }
    assert_memory_equal(beside, alone, sizeof alone);
    rp_engine_close(e);
}

static bool enough(void *user, uint64_t id, const char *text, size_t len) {
    (void)user, (void)id, (void)text, (void)len;
    return false;
}

static void each_end_has_its_reason(void **state) {
    static const char *const stops[] = {"zzz", "&"};
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    rp_request_options r = plain_request(TOKENS);
    struct {
        uint64_t id;
        const char *reason, *detail;
    } ends[6];
    ends[0].id = must_submit(e, &r);
    assert_string_equal(must_result(e, ends[0].id).finish_detail, "");
    ends[0].reason = "length", ends[0].detail = "max_tokens 9";
    r.max_tokens = 0;
    ends[1].id = must_submit(e, &r);
    ends[1].reason = "length", ends[1].detail = "context full: max_model_len 40";
    r.max_tokens = 1000; /* more than there is room for */
    ends[5].id = must_submit(e, &r);
    ends[5].reason = "length", ends[5].detail = "context full: max_model_len 40";
    r.max_tokens = 0;
    r.ignore_eos = false;
    r.prompt_ids = NULL;
    r.prompt = "hi";
    ends[2].id = must_submit(e, &r);
    ends[2].reason = "stop", ends[2].detail = "stop token <|endoftext|>";
    r.stop = stops;
    r.n_stop = 2;
    r.prompt = "three";
    ends[3].id = must_submit(e, &r);
    ends[3].reason = "stop", ends[3].detail = "stop string '&'";
    r.on_text = enough;
    ends[4].id = must_submit(e, &r);
    ends[4].reason = "abort", ends[4].detail = "stopped by its submitter";
    must_run(e, -1);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        for (int late = 0; late < 2; late++) {
            assert_string_equal(must_result(e, ends[i].id).finish_reason, ends[i].reason);
            assert_string_equal(must_result(e, ends[i].id).finish_detail, ends[i].detail);
            rp_engine_abort(e, ends[i].id); /* what has ended stays as it ended */
        }
    }
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logprobs_are_those_of_scoring),
        cmocka_unit_test(logprobs_are_of_their_own_row),
        cmocka_unit_test(logprobs_fill_the_context),
        cmocka_unit_test(too_many_alternatives_are_refused),
        cmocka_unit_test(each_end_has_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
