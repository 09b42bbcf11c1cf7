/* Steps that are launched while the one in front runs: whoever shares a batch, however its tokens are chosen and whatever ends it, a request gives
 * what it gives where each step is waited for, on the cpu and on the emulated GPU. */
#include "support/check.h"

#include <time.h>

#include "engine/engine.h"
#include "support/engines.h"
#include "support/gpu.h"
#include "support/trees.h"

static const char *why_not;

enum { N = 12, MOST = 24 };

typedef struct answer {
    int32_t ids[MOST];
    double logprobs[MOST];
    uint32_t n;
    char text[400], finish[16], detail[100];
} answer;

/* Every third draws, every fourth wants log probabilities, every fifth stops at a text; two are samples of one prompt. */
static uint64_t submit(rp_engine *e, int i) {
    static const char *const stop[] = {"a", "3"};
    int32_t ids[40];
    rp_error err = {0};
    uint64_t id = 0;
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    int kind = i == 7 ? 6 : i;
    r.n_prompt_ids = (uint32_t)(2 + kind * 29 % 37);
    for (uint32_t k = 0; k < r.n_prompt_ids; k++) ids[k] = ((int32_t)k * 31 + kind * 17) % 250;
    r.prompt_ids = ids;
    r.max_tokens = (uint32_t)(1 + i * 7 % MOST);
    r.ignore_eos = i % 2 == 0;
    r.logprobs = i % 4 == 3;
    if (i % 3 == 2) r.sampling = (rp_sampling){1.1, 0.9, 0, 20, (uint64_t)i};
    if (i % 5 == 4) {
        r.stop = stop;
        r.n_stop = 2;
    }
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    return id;
}

/* Requests come in while others run. */
static void serve(const char *const *settings, answer out[N]) {
    uint64_t id[N];
    rp_engine *e = engine_must("synthetic:tiny", settings);
    for (int i = 0; i < N; i++) {
        id[i] = submit(e, i);
        if (i % 3 == 2) must_run(e, 2);
    }
    must_run(e, -1);
    for (int i = 0; i < N; i++) {
        rp_result r = must_result(e, id[i]);
        out[i].n = r.n_output_ids;
        assert_true(out[i].n <= MOST);
        memcpy(out[i].ids, r.output_ids, r.n_output_ids * sizeof *r.output_ids);
        if (r.logprobs) memcpy(out[i].logprobs, r.logprobs, r.n_output_ids * sizeof *r.logprobs);
        (void)snprintf(out[i].text, sizeof out[i].text, "%s", r.text);
        (void)snprintf(out[i].finish, sizeof out[i].finish, "%s", r.finish_reason);
        (void)snprintf(out[i].detail, sizeof out[i].detail, "%s", r.finish_detail);
        rp_engine_release(e, id[i]);
    }
    assert_int_equal(engine_kv_n_free(e->kv), engine_kv_n_usable(e->kv));
    rp_engine_close(e);
}

static void check_device(const char *device, const char *mode) {
    static answer want[N], got[N];
    const char *how[] = {device,
                         mode,
                         "level=3",
                         "max_num_seqs=4",
                         "max_num_batched_tokens=24",
                         "max_model_len=64",
                         "async_scheduling=false",
                         NULL};
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    serve(how, want);
    how[6] = "async_scheduling=true";
    serve(how, got);
    for (int i = 0; i < N; i++)
        if (memcmp(&want[i], &got[i], sizeof want[i]) != 0)
            fail_msg("%s, %s: request %d: %u tokens, %s, are not %u, %s", device, mode, i, got[i].n,
                     got[i].detail, want[i].n, want[i].detail);
}

static void answers_are_those_of_steps_that_wait(void **state) {
    (void)state;
    check_device("device=cpu", "cudagraph_mode=FULL_AND_PIECEWISE");
    check_device("device=cpu", "cudagraph_mode=PIECEWISE");
    check_device("device=cpu", "cudagraph_mode=NONE");
}

static void so_they_are_on_a_gpu(void **state) {
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    check_device("device=cuda:0", "cudagraph_mode=FULL_AND_PIECEWISE");
    check_device("device=cuda:0", "cudagraph_mode=NONE");
}

static rp_engine *small(const char *async) {
    return engine_must("synthetic:tiny", (const char *[]){"max_num_seqs=4", "max_model_len=64",
                                                          "threads=1", async, NULL});
}

static long long steps_of(rp_engine *e) {
    return engine_count(e, "steps.full") + engine_count(e, "steps.piecewise") +
           engine_count(e, "steps.none");
}

/* The limit is known beforehand; behind a stop there is one step, and nothing stays under way. */
static void only_a_stop_costs_a_step(void **state) {
    static const char *const settings[] = {"async_scheduling=false", "async_scheduling=true"};
    static const char *stop[1];
    char text[2] = "";
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        rp_engine *e = small(settings[ahead]);
        rp_request_options r = plain_request(9);
        uint64_t id = must_submit(e, &r);
        must_run(e, -1);
        assert_int_equal(steps_of(e), 9);
        assert_int_equal(engine_runner_in_flight(e->runner), 0);
        text[0] = must_result(e, id).text[4];
        stop[0] = text;
        r.stop = stop;
        r.n_stop = 1;
        id = must_submit(e, &r);
        must_run(e, -1);
        uint32_t n = must_result(e, id).n_output_ids;
        assert_string_equal(must_result(e, id).finish_reason, "stop");
        assert_true(n > 0 && n < 9);
        assert_int_equal(steps_of(e), 9 + n + (uint32_t)ahead);
        assert_int_equal(engine_runner_in_flight(e->runner), 0);
        assert_int_equal(engine_count(e, "decode_tokens") + engine_count(e, "prefill_tokens"),
                         2 * 5 + 8 + n - 1);
        rp_engine_close(e);
    }
}

/* Closed, aborted and released with a step under way. */
static void bad_moments(void **state) {
    (void)state;
    rp_engine *e = small("async_scheduling=true");
    rp_request_options r = plain_request(20);
    uint64_t a = must_submit(e, &r), b = must_submit(e, &r);
    must_run(e, 3);
    assert_int_equal(engine_runner_in_flight(e->runner), 1);
    rp_engine_abort(e, a);
    rp_engine_release(e, b);
    assert_true(engine_sched_idle(e->sched));
    must_run(e, -1);
    assert_string_equal(must_result(e, a).finish_reason, "abort");
    assert_int_equal(engine_runner_in_flight(e->runner), 0);
    assert_int_equal(engine_kv_n_free(e->kv), engine_kv_n_usable(e->kv));
    (void)must_submit(e, &r);
    must_run(e, 3);
    rp_engine_close(e);
}

static hal_device_ops real_ops;
static bool is_failing;

static rp_status failing_event(hal_event *v, rp_error *err) {
    if (is_failing) return rp_fail(err, RP_DEVICE, "no event");
    return real_ops.event_synchronize(v, err);
}

/* A step of scoring that failed is not taken for the first one of whoever comes next. */
static void a_failed_score_leaves_nothing_under_way(void **state) {
    int32_t want[9], got[9];
    rp_error err = {0};
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    (void)state;
    rp_engine *e = small("async_scheduling=false");
    const hal_device_ops *own = e->device->ops;
    hal_device_ops failing = real_ops = *own;
    failing.event_synchronize = failing_event;
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 9, want), 9);
    o.prompt_ids = (const int32_t[]){7, 8};
    o.n_prompt_ids = 2;
    o.continuation_ids = plain_prompt;
    o.n_continuation_ids = 3;
    e->device->ops = &failing;
    is_failing = true;
    double perplexity;
    assert_int_equal(rp_engine_score(e, &o, &perplexity, &err), RP_DEVICE);
    is_failing = false;
    assert_int_equal(engine_runner_in_flight(e->runner), 0);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 9, got), 9);
    assert_memory_equal(got, want, sizeof got);
    e->device->ops = own;
    rp_engine_close(e);
}

/* Nor is one that failed while the next was launched: both are made again, and give what they would have given. */
static void a_failed_step_leaves_nothing_under_way(void **state) {
    int32_t want[9];
    rp_error err = {0};
    uint64_t id = 0;
    bool more = true;
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    (void)state;
    rp_engine *e = small("async_scheduling=true");
    const hal_device_ops *own = e->device->ops;
    hal_device_ops failing = real_ops = *own;
    failing.event_synchronize = failing_event;
    assert_int_equal(engine_greedy(e, plain_prompt, 5, 9, want), 9);
    r.prompt_ids = plain_prompt;
    r.n_prompt_ids = 5;
    r.max_tokens = 9;
    r.ignore_eos = true;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    e->device->ops = &failing;
    must_run(e, 3);
    is_failing = true;
    assert_int_equal(rp_engine_step(e, &more, &err), RP_DEVICE);
    is_failing = false;
    assert_int_equal(engine_runner_in_flight(e->runner), 0);
    must_run(e, -1);
    rp_result got = must_result(e, id);
    assert_int_equal(got.n_output_ids, 9);
    assert_memory_equal(got.output_ids, want, sizeof want);
    e->device->ops = own;
    rp_engine_close(e);
}

static bool notes_ahead(const char *async) {
    const rp_config_note *notes;
    bool found = false;
    rp_engine *e = small(async);
    size_t n = rp_config_notes(rp_engine_config(e), &notes);
    for (size_t i = 0; i < n; i++)
        found = found || strcmp(notes[i].what, "async_scheduling=true") == 0;
    rp_engine_close(e);
    return found;
}

static void it_is_noted_where_nothing_overlaps(void **state) {
    (void)state;
    assert_true(notes_ahead("async_scheduling=true"));
    assert_false(notes_ahead("async_scheduling=false"));
    assert_false(notes_ahead("level=3"));
}

typedef struct last_words {
    rp_engine *e;
    uint64_t other; /* aborted at the first text */
    bool go_on;
} last_words;

static bool on_last_words(void *user, uint64_t id, const char *text, size_t len) {
    const last_words *w = user;
    (void)id;
    (void)text;
    (void)len;
    rp_engine_abort(w->e, w->other);
    return w->go_on;
}

/* The text that a request has held back comes when it has ended, and the one that gets it ends whoever is left. */
static void an_end_after_the_step_leaves_nothing_under_way(void **state) {
    static const char *stop[1];
    char held[64];
    (void)state;
    rp_engine *e = small("max_num_seqs=2");
    rp_request_options r = plain_request(9);
    uint64_t id = must_submit(e, &r);
    must_run(e, -1);
    (void)snprintf(held, sizeof held, "%s~", must_result(e, id).text);
    stop[0] = held;
    last_words first = {e, 0, true}, second = {e, 0, false};
    r.on_text = on_last_words;
    r.user = &first;
    r.stop = stop;
    r.n_stop = 1;
    second.other = must_submit(e, &r);
    r.user = &second;
    r.n_stop = 0;
    (void)must_submit(e, &r);
    r.on_text = NULL;
    first.other = must_submit(e, &r);
    e->runs_ahead = true;
    must_run(e, -1);
    assert_string_equal(must_result(e, first.other).finish_reason, "abort");
    assert_int_equal(must_result(e, first.other).n_output_ids, 0);
    assert_int_equal(engine_runner_in_flight(e->runner), 0);
    assert_true(must_score(e, plain_prompt, 2, 5, (rp_score_options)RP_SCORE_OPTIONS_INIT) > 0);
    rp_engine_close(e);
}

/* Only those that take part in it have to wait for the step under way. */
static void who_waits_ends_without_a_step(void **state) {
    (void)state;
    rp_engine *e = small("max_num_seqs=1");
    e->runs_ahead = true;
    rp_request_options r = plain_request(9);
    uint64_t id = must_submit(e, &r), waits = must_submit(e, &r);
    must_run(e, 3);
    rp_engine_abort(e, waits);
    assert_int_equal(engine_runner_in_flight(e->runner), 1);
    must_run(e, -1);
    assert_string_equal(must_result(e, waits).finish_reason, "abort");
    assert_int_equal(must_result(e, id).n_output_ids, 9);
    assert_int_equal(steps_of(e), 9);
    rp_engine_close(e);
}

/* A result counts what is in the cache: of a step under way nothing. */
static void computed_tokens_are_those_in_the_cache(void **state) {
    static const char *const settings[] = {"async_scheduling=false", "async_scheduling=true"};
    int32_t ids[13];
    (void)state;
    for (int i = 0; i < 13; i++) ids[i] = i * 7;
    for (int ahead = 0; ahead < 2; ahead++) {
        rp_engine *e = engine_must("synthetic:tiny",
                                   (const char *[]){"max_num_seqs=1", "max_num_batched_tokens=5",
                                                    "max_model_len=32", settings[ahead], NULL});
        rp_request_options r = plain_request(4);
        r.prompt_ids = ids;
        r.n_prompt_ids = 13;
        uint64_t id = must_submit(e, &r);
        static const uint64_t want[] = {5, 10, 13, 14, 15, 16};
        assert_int_equal(must_result(e, id).n_computed, 0);
        for (int i = 0; i < 6; i++) {
            must_run(e, 1);
            assert_int_equal(must_result(e, id).n_computed, want[i]);
            const int untold = ahead && i >= 2 && i < 5; /* its text is made in the call after */
            assert_int_equal(must_result(e, id).n_output_ids, (i < 2 ? 0 : i - 1) - untold);
        }
        rp_engine_close(e);
    }
}

typedef struct heard {
    rp_engine *e;
    uint32_t n, beside[3]; /* calls, by how many steps were under way */
} heard;

static bool hear(void *user, uint64_t id, const char *text, size_t len) {
    heard *h = user;
    (void)id, (void)text, (void)len;
    h->n++;
    h->beside[engine_runner_in_flight(h->e->runner)]++;
    return true;
}

/* But for that of the last token, and where a stop string is looked for: then before the step behind the next is launched. */
static void text_is_made_beside_two_steps(void **state) {
    static const char *const stop[] = {"never"};
    (void)state;
    for (uint32_t stops = 0; stops < 2; stops++) {
        rp_engine *e = small("async_scheduling=true");
        heard h = {.e = e};
        rp_request_options r = plain_request(9);
        r.on_text = hear;
        r.user = &h;
        r.stop = stop;
        r.n_stop = stops;
        (void)must_submit(e, &r);
        must_run(e, -1);
        assert_in_range(h.n, 7, 9); /* tokens that are half a character */
        assert_int_equal(h.beside[2] > 0, !stops);
        assert_true(h.beside[0] + h.beside[1] <= (stops ? 9 : 2));
        rp_engine_close(e);
    }
}

typedef struct enemy {
    rp_engine *e;
    uint64_t victim;
    uint32_t n, late; /* calls; of the victim, when it was aborted */
} enemy;

static bool strike(void *user, uint64_t id, const char *text, size_t len) {
    enemy *h = user;
    (void)id, (void)text, (void)len;
    if (++h->n == 2) rp_engine_abort(h->e, h->victim);
    return true;
}

static bool suffer(void *user, uint64_t id, const char *text, size_t len) {
    enemy *h = user;
    (void)id, (void)text, (void)len;
    h->late += h->n >= 2;
    return true;
}

/* Who aborts another while texts are made keeps no third one from its own. */
static void who_is_aborted_meanwhile_disturbs_nobody(void **state) {
    static const char *const settings[] = {"async_scheduling=false", "async_scheduling=true"};
    (void)state;
    for (int k = 0; k < 4; k++) { /* the victim is the first, or in front of the third */
        rp_engine *e = small(settings[k / 2]);
        const int32_t other[] = {9, 8, 7, 6};
        rp_request_options r = plain_request(9), mine = r;
        r.prompt_ids = other;
        r.n_prompt_ids = 4;
        uint64_t alone = must_submit(e, &r);
        must_run(e, -1);
        enemy h = {.e = e};
        mine.on_text = strike;
        mine.user = &h;
        uint64_t first = 0, third;
        rp_request_options theirs = r;
        theirs.on_text = suffer;
        theirs.user = &h;
        if (k % 2) first = must_submit(e, &theirs);
        (void)must_submit(e, &mine);
        h.victim = k % 2 ? first : must_submit(e, &theirs);
        third = must_submit(e, &r);
        must_run(e, -1);
        assert_true(h.n > 2);
        assert_int_equal(h.late, 0);
        assert_string_equal(must_result(e, h.victim).finish_reason, "abort");
        assert_string_equal(must_result(e, third).text, must_result(e, alone).text);
        assert_int_equal(must_result(e, third).n_output_ids, 9);
        assert_int_equal(engine_kv_n_free(e->kv), engine_kv_n_usable(e->kv));
        rp_engine_close(e);
    }
}

enum { NAP_MS = 4 };

/* While a caller looks at a token the device makes the next: it is no token of no time. */
static void a_step_under_way_takes_the_time_between_calls(void **state) {
    const struct timespec nap = {0, NAP_MS * 1000000L};
    (void)state;
    rp_engine *e = small("async_scheduling=true");
    e->queues = true; /* as if this device were one that works meanwhile */
    rp_request_options r = plain_request(9);
    (void)must_submit(e, &r);
    for (int i = 0; i < 9; i++) {
        must_run(e, 1);
        (void)nanosleep(&nap, NULL);
    }
    assert_int_equal(engine_count(e, "decode_tokens"), 8);
    assert_true(engine_number(e, "decode_ms") >= 8 * NAP_MS);
    rp_engine_close(e);
}

int main(void) {
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_steps_that_wait),
        cmocka_unit_test(so_they_are_on_a_gpu),
        cmocka_unit_test(only_a_stop_costs_a_step),
        cmocka_unit_test(bad_moments),
        cmocka_unit_test(a_failed_score_leaves_nothing_under_way),
        cmocka_unit_test(a_failed_step_leaves_nothing_under_way),
        cmocka_unit_test(it_is_noted_where_nothing_overlaps),
        cmocka_unit_test(an_end_after_the_step_leaves_nothing_under_way),
        cmocka_unit_test(who_waits_ends_without_a_step),
        cmocka_unit_test(computed_tokens_are_those_in_the_cache),
        cmocka_unit_test(text_is_made_beside_two_steps),
        cmocka_unit_test(who_is_aborted_meanwhile_disturbs_nobody),
        cmocka_unit_test(a_step_under_way_takes_the_time_between_calls),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
