/* What a callback may do to the engine that calls it: submit, abort and release at any moment and of any request, its own
 * included; step, score and close are refused with one line. Nothing is freed under the caller (run under ASan). */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/trees.h"

enum { N = 6, OUT = 10 };
static const char *const small[] = {
    "level=3",          "max_num_seqs=3", "max_num_batched_tokens=16",
    "max_model_len=48", "threads=1",      NULL};

typedef struct stage {
    rp_engine *e;
    uint64_t id[N];
    int calls, at; /* the call in which to act */
    void (*act)(struct stage *s, uint64_t self);
    int target;
    uint64_t submitted;
    bool keep_on;
} stage;

static rp_request_options request(stage *s);

static bool on_text(void *user, uint64_t id, const char *text, size_t len) {
    stage *s = user;
    char copy[256];
    assert_true(len < sizeof copy);
    memcpy(copy, text, len);
    if (s->calls++ == s->at) s->act(s, id);
    assert_memory_equal(copy, text, len); /* borrowed until this returns, whatever was called */
    return s->keep_on;
}

static rp_request_options request(stage *s) {
    rp_request_options r = plain_request(OUT);
    r.on_text = on_text;
    r.user = s;
    return r;
}

static void submit_all(stage *s) {
    rp_error err = {0};
    rp_request_options r = request(s);
    for (int i = 0; i < N; i++) CHECK_OK(rp_engine_submit(s->e, &r, &s->id[i], &err), &err);
}

static void release_target(stage *s, uint64_t self) {
    rp_result res = RP_RESULT_INIT;
    uint64_t id = s->target < 0 ? self : s->id[s->target];
    rp_engine_release(s->e, id);
    rp_engine_release(s->e, id); /* twice is once */
    assert_int_equal(rp_engine_result(s->e, id, &res, NULL), RP_NOT_FOUND);
    rp_engine_abort(s->e, id);
}

static void abort_target(stage *s, uint64_t self) {
    rp_engine_abort(s->e, s->target < 0 ? self : s->id[s->target]);
}

static void release_all(stage *s, uint64_t self) {
    (void)self;
    for (int i = N; i-- > 0;) rp_engine_release(s->e, s->id[i]);
}

static void submit_one(stage *s, uint64_t self) {
    static char long_stop[5000];
    const char *const stop[] = {long_stop};
    rp_error err = {0};
    rp_request_options r = request(s);
    (void)self;
    memset(long_stop, 'x', sizeof long_stop - 1);
    r.stop = stop;
    r.n_stop = 1;
    CHECK_OK(rp_engine_submit(s->e, &r, &s->submitted, &err), &err);
}

/* Every text of what was left alone is the one it has alone. */
static void play(rp_engine *e, stage s, const int32_t *want) {
    rp_error err = {0};
    size_t live;
    s.e = e;
    live = base_live();
    submit_all(&s);
    must_run(e, -1);
    for (int i = 0; i < N; i++) {
        rp_result res = RP_RESULT_INIT;
        if (rp_engine_result(e, s.id[i], &res, NULL) != RP_OK) continue;
        if (strcmp(res.finish_reason, "abort") != 0) {
            assert_string_equal(res.finish_reason, "length");
            assert_memory_equal(res.output_ids, want, OUT * sizeof *want);
        }
        rp_engine_release(e, s.id[i]);
    }
    rp_engine_release(e, s.submitted);
    CHECK_OK(engine_kv_check(e->kv, &err), &err);
    assert_int_equal(engine_kv_n_free(e->kv), engine_kv_n_usable(e->kv));
    assert_int_equal(base_live(), live);
}

static void any_request_may_go_at_any_moment(void **state) {
    static void (*const acts[])(stage *, uint64_t) = {release_target, abort_target, release_all,
                                                      submit_one};
    int32_t want[OUT];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, OUT, want), OUT);
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
        for (int target = -1; target < N; target++)
            for (int at = 0; at < 40; at += 6)
                for (int keep = 0; keep < 2; keep++)
                    play(e, (stage){.act = acts[a], .target = target, .at = at, .keep_on = keep},
                         want);
    rp_engine_close(e);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void step_inside(stage *s, uint64_t self) {
    rp_error err = {0};
    bool more;
    (void)self;
    assert_int_equal(rp_engine_step(s->e, &more, &err), RP_INVALID);
    assert_string_equal(err.text, "rp_engine_step inside a callback of the same engine; return "
                                  "from the callback first");
}

static void score_inside(stage *s, uint64_t self) {
    rp_error err = {0};
    double ppl;
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    (void)self;
    o.prompt_ids = o.continuation_ids = plain_prompt;
    o.n_prompt_ids = o.n_continuation_ids = 5;
    assert_int_equal(rp_engine_score(s->e, &o, &ppl, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "rp_engine_score inside a callback"));
}

static void close_inside(stage *s, uint64_t self) {
    (void)self;
    rp_engine_close(s->e);
}

static uint32_t ids_of(rp_engine *e) {
    rp_error err = {0};
    int32_t *ids = NULL;
    uint32_t n = 0;
    CHECK_OK(rp_engine_tokenize(e, "abc", 3, &ids, &n, &err), &err);
    rp_engine_text_free(ids);
    return n;
}

static void read_inside(stage *s, uint64_t self) {
    rp_error err = {0};
    rp_result res = RP_RESULT_INIT;
    char *text = NULL;
    CHECK_OK(rp_engine_result(s->e, self, &res, &err), &err);
    CHECK_OK(rp_engine_summary(s->e, &text, &err), &err);
    rp_engine_text_free(text);
    assert_true(ids_of(s->e) > 0);
}

static void step_and_score_are_refused_reading_is_not(void **state) {
    static void (*const acts[])(stage *, uint64_t) = {step_inside, score_inside, read_inside};
    int32_t want[OUT];
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, OUT, want), OUT);
    (void)ids_of(e); /* what the tokenizer makes at its first text stays */
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++)
        play(e, (stage){.act = acts[a], .at = 4, .keep_on = true}, want);
    rp_engine_close(e);
}

static void closing_inside_closes_nothing_and_says_so(void **state) {
    rp_error err = {0};
    rp_status st = RP_OK;
    bool more = true;
    rp_result res = RP_RESULT_INIT;
    stage s = {.act = close_inside, .at = 4, .keep_on = true};
    int32_t want[OUT];
    (void)state;
    s.e = engine_must("synthetic:tiny", small);
    assert_int_equal(engine_greedy(s.e, plain_prompt, 5, OUT, want), OUT);
    submit_all(&s);
    while (more && st == RP_OK) st = rp_engine_step(s.e, &more, &err);
    assert_int_equal(st, RP_INVALID);
    assert_string_equal(err.text,
                        "rp_engine_close was called inside a callback and closed nothing; "
                        "close the engine after rp_engine_step returns");
    must_run(s.e, -1); /* and it goes on */
    for (int i = 0; i < N; i++) {
        CHECK_OK(rp_engine_result(s.e, s.id[i], &res, &err), &err);
        assert_memory_equal(res.output_ids, want, sizeof want);
    }
    rp_engine_close(s.e);
}

static void on_score(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                     const int32_t *top_ids, const float *top_logits) {
    stage *s = user;
    (void)position, (void)id, (void)logprob, (void)k, (void)top_ids, (void)top_logits;
    if (s->calls++ == s->at) s->act(s, s->submitted);
}

static void submit_and_release(stage *s, uint64_t self) {
    submit_one(s, self);
    rp_engine_release(s->e, s->submitted);
}

/* A score calls back, too. */
static void the_same_holds_while_scoring(void **state) {
    static void (*const acts[])(stage *, uint64_t) = {step_inside, score_inside, submit_and_release,
                                                      submit_one};
    rp_error err = {0};
    double want = 0, ppl = 0;
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    (void)state;
    rp_engine *e = engine_must("synthetic:tiny", small);
    o.prompt_ids = o.continuation_ids = plain_prompt;
    o.n_prompt_ids = o.n_continuation_ids = 5;
    CHECK_OK(rp_engine_score(e, &o, &want, &err), &err);
    size_t live = base_live();
    for (size_t a = 0; a < sizeof acts / sizeof *acts; a++) {
        stage s = {.e = e, .act = acts[a], .at = 2, .keep_on = true};
        o.on_token = on_score;
        o.user = &s;
        CHECK_OK(rp_engine_score(e, &o, &ppl, &err), &err);
        assert_memory_equal(&ppl, &want, sizeof ppl);
        must_run(e, -1);
        rp_engine_release(e, s.submitted);
        assert_int_equal(base_live(), live);
    }
    stage s = {.e = e, .act = close_inside, .at = 2};
    o.user = &s;
    assert_int_equal(rp_engine_score(e, &o, &ppl, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "after rp_engine_score returns"));
    rp_engine_close(e);
}

int main(void) {
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_request_may_go_at_any_moment),
        cmocka_unit_test(step_and_score_are_refused_reading_is_not),
        cmocka_unit_test(closing_inside_closes_nothing_and_says_so),
        cmocka_unit_test(the_same_holds_while_scoring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
