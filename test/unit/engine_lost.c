/* A GPU that is lost to the process: every request ends with the cause, each call gives the same line, all engines on that GPU are told, closing
 * gives everything back, and what can be opened afterwards opens. On a real GPU the first test alone, which loses it for good. */
#include "support/check.h"

#include "engine/engine.h"
#include "support/engines.h"
#include "support/gpu.h"
#include "support/trees.h"

#define MODEL "synthetic:tiny"
enum { ILLEGAL_ADDRESS = 700, N_OUT = 9 };

static const char *why_not;
static const char *const on_gpu[] = {"device=cuda:0", "max_num_seqs=2", "max_model_len=64", NULL};
static const char *const on_cpu[] = {"device=cpu", "max_num_seqs=2", "max_model_len=64", NULL};

static void same_line(rp_status st, const rp_error *err, const char *line) {
    assert_int_equal(st, RP_DEVICE);
    assert_string_equal(err->text, line);
    assert_null(strchr(err->text, '\n'));
}

static rp_status step(rp_engine *e, rp_error *err) {
    bool more = true;
    return rp_engine_step(e, &more, err);
}

/* Every call that wants the device. */
static void all_calls_tell(rp_engine *e, const char *line) {
    rp_error err = {0};
    rp_request_options r = plain_request(3);
    rp_score_options s = RP_SCORE_OPTIONS_INIT;
    rp_hidden_options h = RP_HIDDEN_OPTIONS_INIT;
    rp_profile_options p = RP_PROFILE_OPTIONS_INIT;
    uint64_t id = 0;
    double perplexity;
    char *text = NULL;
    s.prompt_ids = s.continuation_ids = h.prompt_ids = plain_prompt;
    s.n_prompt_ids = s.n_continuation_ids = h.n_prompt_ids = 5;
    for (int i = 0; i < 2; i++) {
        same_line(step(e, &err), &err, line);
        same_line(rp_engine_submit(e, &r, &id, &err), &err, line);
        same_line(rp_engine_score(e, &s, &perplexity, &err), &err, line);
        same_line(rp_engine_hidden(e, &h, &err), &err, line);
        same_line(rp_engine_profile(e, &p, &text, &err), &err, line);
    }
    CHECK_OK(rp_engine_summary(e, &text, &err), &err);
    rp_engine_text_free(text);
}

static void ended_with(rp_engine *e, uint64_t id, const char *line) {
    rp_result r = must_result(e, id);
    assert_string_equal(r.finish_reason, "error");
    assert_string_equal(r.error, line);
    assert_string_equal(r.finish_detail, line);
    rp_engine_release(e, id);
}

static void cannot_open(const char *line) {
    rp_error err = {0};
    assert_null(engine_with(MODEL, on_gpu, &err));
    same_line(err.code, &err, line);
}

/* Two that run, and one that waits for its turn. */
static void serve_and_lose(const char *async, bool for_good, char line[480]) {
    const char *how[] = {on_gpu[0], on_gpu[1], on_gpu[2], async, NULL};
    uint64_t id[3];
    rp_error err = {0};
    rp_engine *e = engine_must(MODEL, how);
    rp_request_options r = plain_request(20);
    for (int i = 0; i < 3; i++) id[i] = must_submit(e, &r);
    must_run(e, 4);
    const uint32_t n = must_result(e, id[0]).n_output_ids;
    assert_true(n >= 2);
    gpu_lose(ILLEGAL_ADDRESS, for_good);
    assert_int_equal(step(e, &err), RP_DEVICE);
    (void)snprintf(line, 480, "%s", err.text);
    /* What came before stays, and a token whose text was still to be made may come to it. */
    assert_in_range(must_result(e, id[0]).n_output_ids, n, n + 1);
    for (int i = 0; i < 3; i++) ended_with(e, id[i], line);
    all_calls_tell(e, line);
    rp_engine_close(e);
}

static void expect(const char *line, const char *part) {
    if (!strstr(line, part)) fail_msg("'%s' does not say '%s'", line, part);
}

static void all_end_with_the_cause(void **state) {
    char line[480];
    int32_t ids[N_OUT];
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    serve_and_lose("async_scheduling=true", true, line);
    expect(line, "cuda:0 is lost to this process: ");
    expect(line, "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, 700)");
    expect(line, ", last launched: graph ");
    expect(line, "; close what uses it and start a new process");
    for (int i = 0; i < 2; i++) cannot_open(line);
    rp_engine *e = engine_must(MODEL, on_cpu);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, N_OUT, ids), N_OUT);
    rp_engine_close(e);
    if (!gpu_is_real()) gpu_find_again();
}

static void steps_that_wait_tell_it_too(void **state) {
    char line[480];
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    if (gpu_is_real()) SKIP_TEST("the GPU is lost by now");
    serve_and_lose("async_scheduling=false", false, line);
    expect(line, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

/* Where the driver gives a new context. */
static void another_opens_where_it_can(void **state) {
    int32_t want[N_OUT], got[N_OUT];
    char line[480];
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    if (gpu_is_real()) SKIP_TEST("the GPU is lost by now");
    rp_engine *e = engine_must(MODEL, on_gpu);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, N_OUT, want), N_OUT);
    rp_engine_close(e);
    for (int i = 0; i < 2; i++) {
        serve_and_lose("async_scheduling=true", false, line);
        e = engine_must(MODEL, on_gpu);
        assert_int_equal(engine_greedy(e, plain_prompt, 5, N_OUT, got), N_OUT);
        assert_memory_equal(got, want, sizeof want);
        rp_engine_close(e);
    }
}

/* One of the same device and one by itself, one idle and one with requests, and a stream. */
static void all_on_the_gpu_are_told(void **state) {
    rp_error err = {0};
    rp_device *d = NULL;
    rp_stream *s = NULL;
    rp_engine *other = NULL;
    char line[480];
    void *p = NULL;
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    if (gpu_is_real()) SKIP_TEST("the GPU is lost by now");
    CHECK_OK(rp_device_open("cuda:0", 1, &d, &err), &err);
    CHECK_OK(rp_stream_open(d, &s, &err), &err);
    CHECK_OK(rp_device_alloc(d, 64, &p, &err), &err);
    rp_engine_options o = RP_ENGINE_OPTIONS_INIT;
    o.model = MODEL;
    o.device = d;
    CHECK_OK(rp_engine_open(&o, &other, &err), &err);
    rp_engine *idle = engine_must(MODEL, on_gpu), *busy = engine_must(MODEL, on_gpu);
    rp_request_options r = plain_request(20);
    uint64_t a = must_submit(busy, &r), b = must_submit(other, &r);
    must_run(busy, 3);
    must_run(other, 2);
    gpu_lose(ILLEGAL_ADDRESS, false);
    assert_int_equal(step(busy, &err), RP_DEVICE);
    (void)snprintf(line, sizeof line, "%s", err.text);
    ended_with(busy, a, line);
    all_calls_tell(idle, line);
    all_calls_tell(other, line);
    ended_with(other, b, line);
    same_line(rp_stream_fill(s, p, 0, 64, &err), &err, line);
    same_line(rp_stream_synchronize(s, &err), &err, line);
    rp_engine_close(busy);
    cannot_open(line); /* others still hold what is lost */
    rp_engine_close(idle);
    rp_engine_close(other);
    rp_device_free(d, p);
    rp_stream_close(s);
    rp_device_close(d);
    int32_t ids[N_OUT];
    rp_engine *e = engine_must(MODEL, on_gpu);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, N_OUT, ids), N_OUT);
    rp_engine_close(e);
}

/* A call that fails and leaves the context as it was: the step is done again, and memory that is short stays what it is. */
static void other_failures_are_of_the_step(void **state) {
    enum { UNKNOWN = 999, OUT_OF_MEMORY = 2 };
    int32_t want[N_OUT];
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    if (gpu_is_real()) SKIP_TEST("a real driver does not fail when it is told to");
    rp_engine *e = engine_must(MODEL, on_gpu);
    assert_int_equal(engine_greedy(e, plain_prompt, 5, N_OUT, want), N_OUT);
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_request_options r = plain_request(N_OUT);
        uint64_t id = must_submit(e, &r);
        must_run(e, 2);
        gpu_fail_nth(1, i ? OUT_OF_MEMORY : UNKNOWN);
        assert_int_equal(step(e, &err), i ? RP_NOMEM : RP_DEVICE);
        assert_null(strstr(err.text, "is lost"));
        must_run(e, -1);
        rp_result got = must_result(e, id);
        assert_int_equal(got.n_output_ids, N_OUT);
        assert_memory_equal(got.output_ids, want, sizeof want);
        rp_engine_release(e, id);
    }
    rp_engine_close(e);
}

/* What a request failed for before that stays its own. */
static void a_cause_of_its_own_is_told(void **state) {
    static const char own[] = "a row of logits is no number";
    rp_error err = {0};
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    if (gpu_is_real()) SKIP_TEST("the GPU is lost by now");
    rp_engine *e = engine_must(MODEL, on_gpu);
    rp_request_options r = plain_request(20);
    const uint64_t a = must_submit(e, &r), b = must_submit(e, &r);
    must_run(e, 3);
    engine_job *j = e->jobs[a % ENGINE_JOB_LISTS];
    while (j->id != a) j = j->next;
    (void)rp_fail(&j->err, RP_DEVICE, "%s", own);
    gpu_lose(ILLEGAL_ADDRESS, false);
    assert_int_equal(step(e, &err), RP_DEVICE);
    ended_with(e, a, own);
    ended_with(e, b, err.text);
    rp_engine_close(e);
}

int main(void) {
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_end_with_the_cause),
        cmocka_unit_test(steps_that_wait_tell_it_too),
        cmocka_unit_test(another_opens_where_it_can),
        cmocka_unit_test(all_on_the_gpu_are_told),
        cmocka_unit_test(other_failures_are_of_the_step),
        cmocka_unit_test(a_cause_of_its_own_is_told),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
