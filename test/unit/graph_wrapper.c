/* The wrapper on a real device: replay equals eager, one key for both, addresses checked or copied,
 * sealing, and nothing left behind by a failed capture. */
#include "support/heard.h"

#include "base/alloc.h"
#include "graph/wrapper.h"

enum { MAX = 8 };

/* out[i] = in[i] * 2 + tokens; a small runnable whose launches depend on key and input address. */
typedef struct doubler {
    hal_device *d;
    float *in, *out; /* device memory */
    void *arg[2];
    long long dim[1];
    hal_launch launch;
    uint32_t lists;
    bool stray;    /* point outside every registered range */
    bool in_place; /* read what is written: a second run shows */
} doubler;

static void double_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                          void *scratch) {
    const float *in = arg[0];
    float *out = arg[1];
    (void)scratch;
    for (long long i = begin; i < end; i++) out[i] = in[i] * 2 + (float)dim[0];
}

static rp_status doubler_list(void *user, const rp_batch_descriptor *key, const graph_input *in,
                              uint32_t n_in, const hal_launch **out, uint32_t *out_n,
                              size_t *out_scratch, rp_error *err) {
    static float outside[MAX];
    doubler *b = user;
    (void)err;
    b->lists++;
    b->arg[0] = n_in ? in[0].ptr : b->in_place ? b->out : b->in;
    b->arg[1] = b->stray ? outside : b->out;
    b->dim[0] = key->num_tokens;
    b->launch = (hal_launch){.kind = HAL_KERNEL,
                             .name = "double",
                             .fn = {.host = double_kernel},
                             .arg = b->arg,
                             .n_arg = 2,
                             .dim = b->dim,
                             .items = key->num_tokens,
                             .grain = 1};
    *out = &b->launch;
    *out_n = 1;
    *out_scratch = 0;
    return RP_OK;
}

typedef struct fixture {
    doubler b;
    graph_state state;
    graph_wrapper *w;
} fixture;

static float *get_memory(hal_device *d) {
    void *p = NULL;
    rp_error err = {0};
    CHECK_OK(d->ops->alloc(d, HAL_MAPPED_MEMORY, MAX * sizeof(float), &p, &err), &err);
    return p;
}

static void open_fixture(fixture *f, config_sealed sealed, const graph_wrapper_options *o) {
    rp_error err = {0};
    graph_runnable r;
    memset(f, 0, sizeof *f);
    CHECK_OK(hal_cpu_open(1, &f->b.d, &err), &err);
    f->b.in = get_memory(f->b.d);
    f->b.out = get_memory(f->b.d);
    graph_state_init(&f->state, sealed, false);
    r = (graph_runnable){.user = &f->b, .list = doubler_list};
    CHECK_OK(graph_wrapper_new(f->b.d, &f->state, &r, o, &f->w, &err), &err);
}

static void close_fixture(fixture *f) {
    graph_wrapper_free(f->w);
    assert_int_equal(f->state.graph_bytes, 0);
    f->b.d->ops->release(f->b.d, f->b.in, MAX * sizeof(float));
    f->b.d->ops->release(f->b.d, f->b.out, MAX * sizeof(float));
    hal_close(f->b.d);
    assert_int_equal(base_live(), 0);
}

static rp_dispatch step_of(rp_cudagraph_mode mode, int32_t tokens) {
    rp_batch_descriptor key = {.num_tokens = tokens, .num_reqs = -1, .num_logits = -1};
    return (rp_dispatch){.mode = mode,
                         .key = key,
                         .head_mode = mode,
                         .head_key = key,
                         .num_tokens = tokens,
                         .padded = tokens,
                         .reason = "",
                         .head_reason = ""};
}

static const graph_wrapper_options plain = {.name = "piece_0", .mode = RP_CUDAGRAPH_PIECEWISE};

static void check_out(const fixture *f, const float *in, int32_t tokens) {
    for (int i = 0; i < tokens; i++) assert_true(f->b.out[i] == in[i] * 2 + (float)tokens);
}

static void replay_equals_eager_and_counts(void **state) {
    (void)state;
    fixture f;
    rp_error err = {0};
    open_fixture(&f, CONFIG_SEALED_WARN, &plain);
    const hal_counters *c = hal_device_counters(f.b.d);
    rp_dispatch piece = step_of(RP_CUDAGRAPH_PIECEWISE, 4), none = step_of(RP_CUDAGRAPH_NONE, 4);
    rp_dispatch full = step_of(RP_CUDAGRAPH_FULL, 4);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MAX; i++) f.b.in[i] = (float)(round * 10 + i);
        CHECK_OK(graph_wrapper_call(f.w, &piece, NULL, 0, &err), &err);
        check_out(&f, f.b.in, 4);
        memset(f.b.out, 0, MAX * sizeof(float));
        CHECK_OK(graph_wrapper_call(f.w, &none, NULL, 0, &err), &err);
        check_out(&f, f.b.in, 4);
        memset(f.b.out, 0, MAX * sizeof(float));
        CHECK_OK(graph_wrapper_call(f.w, &full, NULL, 0, &err), &err);
        check_out(&f, f.b.in, 4);
    }
    assert_int_equal(f.state.captures, 1);
    assert_int_equal(f.state.replays, 3);
    assert_int_equal(f.state.passed, 6);
    assert_int_equal(c->graph_builds, 1);
    assert_int_equal(c->graph_launches, 3);
    assert_int_equal(c->launches, 6);
    assert_true(f.state.graph_bytes > 0);
    close_fixture(&f);
}

static void replay_does_not_allocate(void **state) {
    (void)state;
    fixture f;
    rp_error err = {0};
    open_fixture(&f, CONFIG_SEALED_FATAL, &plain);
    for (int t = 1; t <= MAX; t++) {
        rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, t);
        CHECK_OK(graph_wrapper_capture(f.w, &d, NULL, 0, &err), &err);
        CHECK_OK(graph_wrapper_capture(f.w, &d, NULL, 0, &err), &err); /* there already */
    }
    assert_int_equal(graph_wrapper_count(f.w), MAX);
    assert_int_equal(hal_device_counters(f.b.d)->graph_launches, 0);
    graph_state_seal(&f.state);
    uint64_t before = base_alloc_count();
    for (int i = 0; i < 1000; i++) {
        rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 1 + i % MAX);
        CHECK_OK(graph_wrapper_call(f.w, &d, NULL, 0, &err), &err);
    }
    assert_int_equal(base_alloc_count(), before);
    close_fixture(&f);
}

static void input_at_a_new_address_is_named(void **state) {
    (void)state;
    fixture f;
    rp_error err = {0};
    open_fixture(&f, CONFIG_SEALED_WARN, &plain);
    float *other = get_memory(f.b.d);
    graph_input in = {"hidden", f.b.in, MAX * sizeof(float)};
    rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 2);
    CHECK_OK(graph_wrapper_call(f.w, &d, &in, 1, &err), &err);
    /* the last of several as well as the only one */
    graph_input two[] = {{"first", f.b.in, 4}, {"second", f.b.in, 4}};
    d = step_of(RP_CUDAGRAPH_PIECEWISE, 4);
    CHECK_OK(graph_wrapper_call(f.w, &d, two, 2, &err), &err);
    two[1].ptr = other;
    assert_int_equal(graph_wrapper_call(f.w, &d, two, 2, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "'second'"));
    err = (rp_error){0};
    d = step_of(RP_CUDAGRAPH_PIECEWISE, 2);
    in.ptr = other;
    assert_int_equal(graph_wrapper_call(f.w, &d, &in, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "'hidden'"));
    assert_non_null(strstr(err.text, "piece_t2"));
    assert_non_null(strstr(err.text, "cudagraph_copy_inputs"));
    err = (rp_error){0};
    assert_int_equal(graph_wrapper_call(f.w, &d, &in, 0, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "piece_t2 was captured with 1 inputs and called with 0"));
    err = (rp_error){0};
    in.ptr = f.b.in;
    CHECK_OK(graph_wrapper_call(f.w, &d, &in, 1, &err), &err);
    assert_int_equal(f.state.replays, 3);
    f.b.d->ops->release(f.b.d, other, MAX * sizeof(float));
    close_fixture(&f);
}

static void copied_inputs_may_move(void **state) {
    (void)state;
    static const graph_input largest = {"hidden", NULL, 4 * sizeof(float)};
    graph_wrapper_options o = plain;
    fixture f;
    rp_error err = {0};
    float here[MAX] = {1, 2, 3, 4}, there[MAX] = {5, 6, 7, 8};
    o.copy_inputs = true;
    o.inputs = &largest;
    o.n_inputs = 1;
    open_fixture(&f, CONFIG_SEALED_WARN, &o);
    /* The first call is not the largest one. */
    rp_dispatch two = step_of(RP_CUDAGRAPH_PIECEWISE, 2), four = step_of(RP_CUDAGRAPH_PIECEWISE, 4);
    graph_input in = {"hidden", here, 2 * sizeof(float)};
    CHECK_OK(graph_wrapper_call(f.w, &two, &in, 1, &err), &err);
    check_out(&f, here, 2);
    in = (graph_input){"hidden", there, 4 * sizeof(float)};
    CHECK_OK(graph_wrapper_call(f.w, &four, &in, 1, &err), &err);
    check_out(&f, there, 4);
    in.ptr = here;
    CHECK_OK(graph_wrapper_call(f.w, &four, &in, 1, &err), &err);
    check_out(&f, here, 4);
    assert_true(there[0] == 5 && there[3] == 8); /* the caller's memory is not the static buffer */
    in.size = 5 * sizeof(float);
    assert_int_equal(graph_wrapper_call(f.w, &four, &in, 1, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "'hidden'"));
    err = (rp_error){0};
    assert_int_equal(graph_wrapper_call(f.w, &four, &in, 0, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "was made for 1 inputs and called with 0"));
    assert_int_equal(f.state.captures, 2);
    close_fixture(&f);
}

static void stray_address_fails_the_capture(void **state) {
    (void)state;
    fixture f;
    rp_error err = {0};
    open_fixture(&f, CONFIG_SEALED_WARN, &plain);
    rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 2);
    f.b.stray = true;
    assert_int_equal(graph_wrapper_call(f.w, &d, NULL, 0, &err), RP_INTERNAL);
    assert_non_null(strstr(err.text, "double"));
    assert_false(graph_wrapper_has(f.w, &d.key));
    f.b.stray = false;
    err = (rp_error){0};
    CHECK_OK(graph_wrapper_call(f.w, &d, NULL, 0, &err), &err);
    assert_true(graph_wrapper_has(f.w, &d.key));
    close_fixture(&f);
}

static void missing_graph_after_sealing_follows_the_policy(void **state) {
    (void)state;
    static const config_sealed policy[] = {CONFIG_SEALED_OFF, CONFIG_SEALED_WARN,
                                           CONFIG_SEALED_FATAL};
    for (int i = 0; i < 3; i++) {
        fixture f;
        rp_error err = {0};
        open_fixture(&f, policy[i], &plain);
        rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 3);
        graph_state_seal(&f.state);
        for (int k = 0; k < 3; k++) f.b.in[k] = (float)k;
        rp_status st = graph_wrapper_call(f.w, &d, NULL, 0, &err);
        if (policy[i] == CONFIG_SEALED_FATAL) {
            assert_int_equal(st, RP_UNSUPPORTED);
            assert_non_null(strstr(err.text, "piece_0 piece_t3"));
        } else {
            CHECK_OK(st, &err);
            check_out(&f, f.b.in, 3);
        }
        assert_int_equal(f.state.captures, policy[i] == CONFIG_SEALED_OFF);
        assert_int_equal(f.state.late, policy[i] != CONFIG_SEALED_OFF);
        if (policy[i] != CONFIG_SEALED_OFF) {
            assert_int_equal(graph_wrapper_call(f.w, &d, NULL, 0, NULL), st);
            assert_int_equal(f.state.passed, policy[i] == CONFIG_SEALED_WARN ? 2 : 0);
            assert_int_equal(f.state.n_skips, 1);
            assert_int_equal(f.state.skips[0].count, 2);
            assert_string_equal(f.state.skips[0].what, "piece_0 piece_t3");
            assert_string_equal(f.state.skips[0].reason, "not captured before sealing");
        }
        close_fixture(&f);
    }
}

static void warmups_run_before_the_capture(void **state) {
    (void)state;
    for (uint32_t n = 0; n < 4; n++) {
        graph_wrapper_options o = plain;
        fixture f;
        rp_error err = {0};
        o.num_warmups = n;
        open_fixture(&f, CONFIG_SEALED_WARN, &o);
        rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 3);
        CHECK_OK(graph_wrapper_capture(f.w, &d, NULL, 0, &err), &err);
        assert_int_equal(hal_device_counters(f.b.d)->launches, n);
        assert_int_equal(hal_device_counters(f.b.d)->graph_launches, 0);
        close_fixture(&f);
    }
}

/* A capture inside a step: its inputs are live, so the launches run once, by the replay. */
static void a_call_never_warms_up(void **state) {
    (void)state;
    graph_wrapper_options o = plain;
    fixture f;
    rp_error err = {0};
    o.num_warmups = 3;
    open_fixture(&f, CONFIG_SEALED_OFF, &o);
    rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 4), other = step_of(RP_CUDAGRAPH_FULL, 4);
    f.b.in_place = true;
    for (int i = 0; i < MAX; i++) f.b.in[i] = f.b.out[i] = (float)i;
    assert_true(graph_wrapper_lacks(f.w, &d));
    assert_false(graph_wrapper_lacks(f.w, &other)); /* not its mode */
    base_buf heard;
    heard_start(&heard, "cudagraphs");
    CHECK_OK(graph_wrapper_call(f.w, &d, NULL, 0, &err), &err);
    CHECK_HEARD(&heard, "inside a step, without warm-up: its inputs are live\n");
    assert_false(graph_wrapper_lacks(f.w, &d));
    check_out(&f, f.b.in, 4);
    assert_int_equal(hal_device_counters(f.b.d)->launches, 0);
    assert_int_equal(hal_device_counters(f.b.d)->graph_launches, 1);
    base_buf_clear(&heard);
    CHECK_OK(graph_wrapper_call(f.w, &d, NULL, 0, &err), &err); /* there now */
    assert_int_equal(heard.len, 0);
    heard_done(&heard);
    close_fixture(&f);
}

static void head_wrapper_reads_the_head_of_the_record(void **state) {
    (void)state;
    graph_wrapper_options o = {.name = "head", .mode = RP_CUDAGRAPH_PIECEWISE, .head = true};
    fixture f;
    rp_error err = {0};
    open_fixture(&f, CONFIG_SEALED_WARN, &o);
    rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 6);
    d.head_key = (rp_batch_descriptor){.num_tokens = 2, .num_reqs = -1, .num_logits = 2};
    CHECK_OK(graph_wrapper_call(f.w, &d, NULL, 0, &err), &err);
    assert_true(graph_wrapper_has(f.w, &d.head_key));
    assert_false(graph_wrapper_has(f.w, &d.key));
    d.head_mode = RP_CUDAGRAPH_NONE;
    CHECK_OK(graph_wrapper_call(f.w, &d, NULL, 0, &err), &err);
    assert_int_equal(f.state.passed, 1);
    close_fixture(&f);
}

static void clear_and_capture_again_stays_flat(void **state) {
    (void)state;
    fixture f;
    rp_error err = {0};
    size_t live = 0;
    open_fixture(&f, CONFIG_SEALED_WARN, &plain);
    for (int i = 0; i < 1000; i++) {
        for (int t = 1; t <= 3; t++) {
            rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, t);
            CHECK_OK(graph_wrapper_call(f.w, &d, NULL, 0, &err), &err);
        }
        graph_wrapper_clear(f.w);
        assert_int_equal(graph_wrapper_count(f.w), 0);
        if (i == 0) live = base_live();
        assert_int_equal(base_live(), live);
    }
    close_fixture(&f);
}

static void capture_survives_each_failure(void **state) {
    (void)state;
    static const graph_input largest = {"hidden", NULL, 4 * sizeof(float)};
    rp_status st = RP_NOMEM;
    for (int copy = 0; copy < 2; copy++) {
        fixture f;
        graph_wrapper_options o = plain;
        float here[4] = {1, 2, 3, 4};
        o.copy_inputs = copy;
        o.inputs = &largest;
        o.n_inputs = (uint32_t)copy;
        open_fixture(&f, CONFIG_SEALED_WARN, &o);
        size_t live = base_live();
        graph_runnable r = {.user = &f.b, .list = doubler_list};
        FOR_EACH_ALLOC_FAILURE (n) {
            graph_wrapper *w = NULL;
            graph_input in = {"hidden", copy ? here : f.b.in, 4 * sizeof(float)};
            rp_error err = {0};
            rp_dispatch d = step_of(RP_CUDAGRAPH_PIECEWISE, 4);
            st = graph_wrapper_new(f.b.d, &f.state, &r, &o, &w, &err);
            if (st == RP_OK) st = graph_wrapper_call(w, &d, &in, 1, &err);
            if (st != RP_OK) {
                assert_int_equal(st, RP_NOMEM);
                assert_true(!w || !graph_wrapper_has(w, &d.key));
            }
            graph_wrapper_free(w);
            assert_int_equal(base_live(), live);
        }
        assert_int_equal(st, RP_OK);
        close_fixture(&f);
    }
}

static void steps_count_their_reasons(void **state) {
    (void)state;
    graph_state s;
    rp_error err = {0};
    rp_dispatch d = step_of(RP_CUDAGRAPH_NONE, 5);
    d.num_reqs = 5;
    d.reason = "more tokens than the largest graph (4)";
    graph_state_init(&s, CONFIG_SEALED_WARN, false);
    for (int i = 0; i < 3; i++) CHECK_OK(graph_state_step(&s, &d, &err), &err);
    d = step_of(RP_CUDAGRAPH_PIECEWISE, 5);
    d.padded = 8;
    CHECK_OK(graph_state_step(&s, &d, &err), &err);
    assert_int_equal(s.steps[RP_CUDAGRAPH_NONE], 3);
    assert_int_equal(s.n_skips, 1);
    assert_int_equal(s.skips[0].count, 3);
    assert_int_equal(s.tokens, 20);
    assert_int_equal(s.padding, 3);
    for (int i = 0; i < 2 * GRAPH_MAX_SKIPS; i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "thing %d", i);
        graph_state_skip(&s, what, "some reason");
    }
    assert_int_equal(s.n_skips, GRAPH_MAX_SKIPS);
    assert_int_equal(s.lost_skips, GRAPH_MAX_SKIPS + 1);
    graph_state_init(&s, CONFIG_SEALED_WARN, true);
    d.head_reason = "no head graph";
    assert_int_equal(graph_state_step(&s, &d, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no head graph"));
}

static void captures_and_slow_steps_are_heard(void **state) {
    (void)state;
    fixture f;
    rp_error err = {0};
    base_buf heard;
    rp_dispatch piece = step_of(RP_CUDAGRAPH_PIECEWISE, 4), odd = step_of(RP_CUDAGRAPH_NONE, 5);
    open_fixture(&f, CONFIG_SEALED_WARN, &plain);
    heard_start(&heard, "bytecode,perf_hints");
    for (int i = 0; i < 2; i++) /* said at the capture, not at replays */
        CHECK_OK(graph_wrapper_call(f.w, &piece, NULL, 0, &err), &err);
    odd.reason = "more tokens than the largest graph (4)";
    piece.num_tokens = piece.num_reqs = 2;
    for (int i = 0; i < 2; i++) { /* once each */
        CHECK_OK(graph_state_step(&f.state, &odd, &err), &err);
        CHECK_OK(graph_state_step(&f.state, &piece, &err), &err);
    }
    piece.num_tokens = piece.num_reqs = 4; /* as captured */
    CHECK_OK(graph_state_step(&f.state, &piece, &err), &err);
    for (int n = 8; n <= 16; n *= 2) { /* an eighth, and less */
        rp_dispatch larger = step_of(RP_CUDAGRAPH_PIECEWISE, n);
        larger.num_tokens = larger.num_reqs = n - 1;
        CHECK_OK(graph_state_step(&f.state, &larger, &err), &err);
    }
    CHECK_HEARD(&heard, "[bytecode]    0 LAUNCH double items 4 grain 1, barrier\n");
    char *hints = strstr(heard.data, "[perf_hints]");
    assert_string_equal(
        hints, "[perf_hints] prefill or mixed step runs kernel by kernel, not as a graph: more "
               "tokens than the largest graph (4)\n"
               "[perf_hints] decode step of 2 tokens is padded by 2 rows to the captured size 4; "
               "add the size to cudagraph_capture_sizes\n"
               "[perf_hints] decode step of 7 tokens is padded by 1 rows to the captured size 8; "
               "add the size to cudagraph_capture_sizes\n");
    *hints = 0;
    assert_ptr_equal(strstr(heard.data, "REPLAY LIST"), heard.data + 11);
    assert_null(strstr(heard.data + 12, "REPLAY LIST"));
    heard_done(&heard);
    close_fixture(&f);
}

/* Each size is told of once, and no more of them than a list holds. */
static void hints_end(void **state) {
    graph_state s = {0};
    rp_error err = {0};
    base_buf heard;
    int told = 0;
    (void)state;
    graph_state_init(&s, CONFIG_SEALED_WARN, false);
    heard_start(&heard, "perf_hints");
    for (int again = 0; again < 2; again++)
        for (int n = 1; n <= GRAPH_MAX_HINTS + 2; n++) {
            rp_dispatch d = step_of(RP_CUDAGRAPH_FULL, 2 * n);
            d.num_tokens = d.num_reqs = n;
            CHECK_OK(graph_state_step(&s, &d, &err), &err);
        }
    for (const char *z = heard.data; (z = strstr(z, " is padded by ")) != NULL; z++) told++;
    assert_int_equal(told, GRAPH_MAX_HINTS);
    assert_non_null(strstr(heard.data, "step of 32 tokens is padded by 32 rows"));
    heard_done(&heard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_and_slow_steps_are_heard),
        cmocka_unit_test(hints_end),
        cmocka_unit_test(replay_equals_eager_and_counts),
        cmocka_unit_test(replay_does_not_allocate),
        cmocka_unit_test(input_at_a_new_address_is_named),
        cmocka_unit_test(copied_inputs_may_move),
        cmocka_unit_test(stray_address_fails_the_capture),
        cmocka_unit_test(missing_graph_after_sealing_follows_the_policy),
        cmocka_unit_test(warmups_run_before_the_capture),
        cmocka_unit_test(a_call_never_warms_up),
        cmocka_unit_test(head_wrapper_reads_the_head_of_the_record),
        cmocka_unit_test(clear_and_capture_again_stays_flat),
        cmocka_unit_test(capture_survives_each_failure),
        cmocka_unit_test(steps_count_their_reasons),
    };
    return cmocka_run_group_tests_name("graph_wrapper", tests, NULL, NULL);
}
