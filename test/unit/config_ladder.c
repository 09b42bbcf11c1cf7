/* The capture ladder: both formulas, the user's own list, clipping, refusals. */
#include "support/check.h"

#include "base/alloc.h"
#include "config/ladder.h"

static int64_t default_sizes[] = {512};

static config_ints list(int64_t *v, size_t n) {
    return (config_ints){.set = true, .n = n, .v = v};
}
#define LIST(...) list((int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static config_ladder_in input(rp_cudagraph_mode mode, int64_t seqs, int64_t tokens) {
    static config_ints atom = {.set = true, .n = 1, .v = default_sizes};
    return (config_ladder_in){.mode = mode,
                              .max_num_seqs = seqs,
                              .max_num_batched_tokens = tokens,
                              .query_len = 1,
                              .cuda_graph_sizes = &atom};
}

static void is(const config_ints *got, config_ints want) {
    char a[2048] = "", b[2048] = "";
    for (size_t i = 0; i < got->n; i++)
        (void)snprintf(a + strlen(a), sizeof a - strlen(a), "%lld ", (long long)got->v[i]);
    for (size_t i = 0; i < want.n; i++)
        (void)snprintf(b + strlen(b), sizeof b - strlen(b), "%lld ", (long long)want.v[i]);
    assert_string_equal(a, b);
}

static config_ladder build(const config_ladder_in *in) {
    config_ladder l = {0};
    rp_error err = {0};
    CHECK_OK(config_ladder_build(in, &l, &err), &err);
    return l;
}

static void refuses(const config_ladder_in *in, const char *text) {
    config_ladder l;
    rp_error err = {0};
    assert_int_equal(config_ladder_build(in, &l, &err), RP_CONFIG);
    assert_string_equal(err.text, text);
    assert_null(l.decode.v);
    assert_null(l.tokens.v);
}

static void atom_default_has_36_sizes(void **state) {
    (void)state;
    config_ladder_in in = input(RP_CUDAGRAPH_PIECEWISE, 512, 16384);
    config_ladder l = build(&in);
    assert_int_equal(l.tokens.n, 36);
    assert_int_equal(l.decode.n, 0);
    assert_int_equal(l.tokens.v[3], 8);
    assert_int_equal(l.tokens.v[4], 16);
    assert_int_equal(l.tokens.v[5], 32);
    assert_int_equal(l.tokens.v[35], 512);
    assert_int_equal(l.n_notes, 0);
    config_ladder_done(&l);
}

static void atom_drops_what_exceeds_n_and_adds_n(void **state) {
    (void)state;
    config_ints five = LIST(5), forty = LIST(40);
    config_ladder_in in = input(RP_CUDAGRAPH_PIECEWISE, 512, 16384);
    in.cuda_graph_sizes = &five;
    config_ladder l = build(&in);
    is(&l.tokens, LIST(1, 2, 4, 5));
    config_ladder_done(&l);
    in.cuda_graph_sizes = &forty;
    l = build(&in);
    is(&l.tokens, LIST(1, 2, 4, 8, 16, 32, 40));
    config_ladder_done(&l);
}

static void decode_counts_requests_and_ends_at_the_limit(void **state) {
    (void)state;
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 37, 100);
    config_ladder l = build(&in);
    is(&l.decode, LIST(1, 2, 4, 8, 16, 32, 37));
    is(&l.tokens, LIST(1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 100));
    config_ladder_done(&l);
    in.mode = RP_CUDAGRAPH_FULL_DECODE_ONLY;
    l = build(&in);
    is(&l.decode, LIST(1, 2, 4, 8, 16, 32, 37));
    assert_int_equal(l.tokens.n, 0);
    config_ladder_done(&l);
    in = input(RP_CUDAGRAPH_FULL, 600, 16384); /* more requests than N: the limit is a rung */
    l = build(&in);
    assert_int_equal(l.decode.v[l.decode.n - 1], 600);
    assert_int_equal(l.decode.v[l.decode.n - 2], 512);
    assert_int_equal(l.tokens.v[l.tokens.n - 1], 512);
    config_ladder_done(&l);
}

static void several_sizes_are_taken_as_they_are(void **state) {
    (void)state;
    config_ints own = LIST(32, 3, 3, 8);
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 16, 512);
    in.cuda_graph_sizes = &own;
    config_ladder l = build(&in);
    is(&l.decode, LIST(3, 8));
    is(&l.tokens, LIST(3, 8, 32));
    assert_int_equal(l.n_notes, 2);
    assert_string_equal(l.notes[0].what, "cuda_graph_sizes above 16 for FULL decode");
    assert_string_equal(l.notes[1].what, "decode batches of more than 8 requests");
    config_ladder_done(&l);
}

static void vllm_steps_when_a_maximum_is_given(void **state) {
    (void)state;
    config_ladder_in in = input(RP_CUDAGRAPH_PIECEWISE, 256, 16384);
    in.max_capture_size = (config_oint){true, 512};
    config_ladder l = build(&in);
    assert_int_equal(l.tokens.n, 51);
    is(&(config_ints){.v = l.tokens.v, .n = 5}, LIST(1, 2, 4, 8, 16));
    is(&(config_ints){.v = l.tokens.v + 33, .n = 4}, LIST(248, 256, 272, 288));
    config_ladder_done(&l);

    in.max_capture_size.v = 257; /* off the stride */
    l = build(&in);
    assert_int_equal(l.tokens.v[l.tokens.n - 1], 256);
    assert_int_equal(l.n_notes, 1);
    assert_string_equal(
        l.notes[0].what,
        "max_cudagraph_capture_size=257 becomes 256 for the token counts of PIECEWISE graphs");
    config_ladder_done(&l);

    config_ladder_in both = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 64, 512);
    both.max_capture_size = (config_oint){true, 20}; /* decode takes the 20 all the same */
    l = build(&both);
    assert_int_equal(l.decode.v[l.decode.n - 1], 20);
    assert_int_equal(l.tokens.v[l.tokens.n - 1], 16);
    assert_string_equal(l.notes[0].what, "max_cudagraph_capture_size=20 becomes 16 for the token "
                                         "counts of prefill and mixed batches");
    assert_non_null(strstr(l.notes[0].reason, "decode batches have a ladder of their own"));
    config_ladder_done(&l);

    in.max_num_batched_tokens = 257; /* a limit of the batch is a rung */
    l = build(&in);
    assert_int_equal(l.tokens.v[l.tokens.n - 1], 257);
    config_ladder_done(&l);
}

static void vllm_decode_covers_the_request_limit(void **state) {
    (void)state;
    for (int64_t seqs = 100; seqs <= 101; seqs++) {
        config_ladder_in in = input(RP_CUDAGRAPH_FULL_DECODE_ONLY, seqs, 16384);
        in.max_capture_size = (config_oint){true, 512};
        config_ladder l = build(&in);
        assert_int_equal(l.decode.v[l.decode.n - 1], seqs);
        config_ladder_done(&l);
    }
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_DECODE_ONLY, 100, 16384);
    in.max_capture_size = (config_oint){true, 40}; /* never above the maximum */
    config_ladder l = build(&in);
    is(&l.decode, LIST(1, 2, 4, 8, 16, 24, 32, 40));
    assert_string_equal(l.notes[0].what, "decode batches of more than 40 requests");
    config_ladder_done(&l);
}

/* Also where a step has fewer tokens than one request wants: one graph, for one. */
static void a_step_holds_one_request_at_least(void **state) {
    (void)state;
    for (int64_t tokens = 4; tokens <= 11; tokens++) {
        config_ladder_in in = input(RP_CUDAGRAPH_FULL_DECODE_ONLY, 100, tokens);
        in.query_len = 5;
        config_ladder l = build(&in);
        assert_int_equal(l.decode.v[l.decode.n - 1], tokens < 10 ? 1 : 2);
        config_ladder_done(&l);
    }
}

static void all_is_every_request_count(void **state) {
    (void)state;
    config_sizes all = {.set = true, .word = true};
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 20, 40);
    in.capture_sizes = &all;
    config_ladder l = build(&in);
    assert_int_equal(l.decode.n, 20);
    for (int i = 0; i < 20; i++) assert_int_equal(l.decode.v[i], i + 1);
    is(&l.tokens, LIST(1, 2, 4, 8, 16, 32, 40));
    assert_string_equal(l.notes[0].what, "cudagraph_capture_sizes=all for mixed batches");
    config_ladder_done(&l);
}

static void interactivity_captures_small_sizes_exactly(void **state) {
    (void)state;
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 10, 48);
    in.interactivity = true;
    config_ladder l = build(&in);
    is(&l.decode, LIST(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    assert_int_equal(l.tokens.n, 33);
    assert_int_equal(l.tokens.v[32], 48);
    config_ladder_done(&l);
}

static void explicit_sizes_win(void **state) {
    (void)state;
    config_sizes own = LIST(8, 1, 4, 4, 200);
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 8, 512);
    in.capture_sizes = &own;
    config_ladder l = build(&in);
    is(&l.decode, LIST(1, 4, 8));
    is(&l.tokens, LIST(1, 4, 8, 200));
    assert_int_equal(l.n_notes, 1);
    assert_string_equal(l.notes[0].what, "cudagraph_capture_sizes above 8 for FULL decode");
    config_ladder_done(&l);
    in.mode = RP_CUDAGRAPH_NONE;
    l = build(&in);
    assert_int_equal(l.tokens.n + l.decode.n, 0);
    config_ladder_done(&l);
}

static void unworkable_lists_are_refused(void **state) {
    (void)state;
    config_sizes big = LIST(1, 1024), wide = LIST(64, 128), none = {.set = true}, two = LIST(1, 2);
    config_ladder_in in = input(RP_CUDAGRAPH_PIECEWISE, 8, 512);
    in.capture_sizes = &big;
    refuses(&in,
            "cudagraph_capture_sizes: size 1024 exceeds max_num_batched_tokens=512; drop it or "
            "raise the limit");
    in.mode = RP_CUDAGRAPH_FULL_DECODE_ONLY;
    in.capture_sizes = &wide;
    refuses(&in, "cudagraph_capture_sizes: size 128 exceeds max_num_seqs=8; drop it or raise the "
                 "limit");
    in.mode = RP_CUDAGRAPH_FULL_AND_PIECEWISE;
    refuses(&in, "cudagraph_capture_sizes: no size is within max_num_seqs=8, so FULL decode has no "
                 "graph; add one");
    in.capture_sizes = &none;
    refuses(&in, "cudagraph_capture_sizes=[] leaves nothing to capture for "
                 "cudagraph_mode=FULL_AND_PIECEWISE; give sizes, or cudagraph_mode=NONE");
    in.capture_sizes = &two;
    in.max_capture_size = (config_oint){true, 8};
    refuses(&in,
            "max_cudagraph_capture_size=8 disagrees with cudagraph_capture_sizes, whose largest "
            "is 2; give one of the two");
    in.max_capture_size.v = 0;
    refuses(&in, "max_cudagraph_capture_size=0 leaves nothing to capture for "
                 "cudagraph_mode=FULL_AND_PIECEWISE; raise it, or set cudagraph_mode=NONE");
}

static void wider_queries_leave_room_for_fewer_requests(void **state) {
    (void)state;
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_DECODE_ONLY, 64, 64);
    in.query_len = 3;
    config_ladder l = build(&in);
    is(&l.decode, LIST(1, 2, 4, 8, 16, 21));
    config_ladder_done(&l);
    in.max_capture_size = (config_oint){true, 2};
    refuses(&in, "max_cudagraph_capture_size=2 holds no decode step of 3 tokens; raise it, or set "
                 "cudagraph_mode=NONE");
}

/* For every limit: ascending, within limits, and the limit itself is covered. */
static void default_ladders_have_no_cliff(void **state) {
    (void)state;
    for (int64_t seqs = 1; seqs <= 300; seqs++)
        for (int vllm = 0; vllm < 2; vllm++) {
            config_ladder_in in = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, seqs, seqs + 13);
            if (vllm) in.max_capture_size = (config_oint){true, 512};
            config_ladder l = build(&in);
            for (size_t i = 1; i < l.decode.n; i++) assert_true(l.decode.v[i - 1] < l.decode.v[i]);
            for (size_t i = 1; i < l.tokens.n; i++) assert_true(l.tokens.v[i - 1] < l.tokens.v[i]);
            assert_int_equal(l.decode.v[l.decode.n - 1], seqs);
            assert_int_equal(l.tokens.v[l.tokens.n - 1], seqs + 13);
            config_ladder_done(&l);
        }
}

/* --- both formulas, size by size --------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool is_rung(bool vllm, bool small, int64_t v) {
    if (small && v <= 32) return true;
    if (v == 1 || v == 2 || v == 4) return true;
    return vllm ? v % (v < 256 ? 8 : 16) == 0 : v == 8 || v % 16 == 0;
}

static void holds(const config_ints *got, int64_t v, bool want, const char *what) {
    if (config_ints_has(got, v) != want)
        fail_msg("%s: size %lld is %s", what, (long long)v, want ? "missing" : "too much");
}

/* What a ladder must hold: rungs up to its bound, and the bound itself but where vLLM leaves it out. */
static void check_ladder(const config_ladder_in *in, const config_ladder *l, const char *what) {
    bool full = rp_cudagraph_decode_mode(in->mode) == RP_CUDAGRAPH_FULL;
    bool mixed = rp_cudagraph_mixed_mode(in->mode) != RP_CUDAGRAPH_NONE;
    bool all = in->capture_sizes != NULL, capped = in->max_capture_size.set, vllm = capped && !all;
    int64_t batch = in->max_num_batched_tokens, n = in->cuda_graph_sizes->v[0];
    int64_t requests = least(in->max_num_seqs, batch / in->query_len ? batch / in->query_len : 1);
    int64_t tokens = least(batch, capped ? in->max_capture_size.v : n);
    int64_t decode = capped
                         ? least(requests, least(in->max_capture_size.v, vllm ? batch : INT64_MAX) /
                                               in->query_len)
                         : requests;
    for (int64_t v = 1; v <= batch + 40; v++) {
        bool small = in->interactivity;
        int64_t last = all || capped ? decode : least(n, requests);
        bool rung = v <= last && (all || is_rung(vllm, small, v));
        holds(&l->decode, v, full && (rung || v == last || v == decode), what);
        rung = v <= tokens && is_rung(vllm, small, v);
        holds(&l->tokens, v, mixed && (rung || (v == tokens && (!vllm || tokens == batch))), what);
    }
    for (size_t i = 1; i < l->decode.n; i++) assert_true(l->decode.v[i - 1] < l->decode.v[i]);
    for (size_t i = 1; i < l->tokens.n; i++) assert_true(l->tokens.v[i - 1] < l->tokens.v[i]);
    assert_true(l->decode.n == 0 || l->decode.v[l->decode.n - 1] <= batch);
}

static void each_size_is_there_or_not(void **state) {
    static const rp_cudagraph_mode modes[] = {RP_CUDAGRAPH_PIECEWISE, RP_CUDAGRAPH_FULL,
                                              RP_CUDAGRAPH_FULL_DECODE_ONLY,
                                              RP_CUDAGRAPH_FULL_AND_PIECEWISE};
    static const int64_t seqs[] = {1, 7, 64, 300}, batches[] = {8, 100, 257, 600},
                         queries[] = {1, 3};
    static int64_t steps[][1] = {{1}, {5}, {40}, {512}};
    static const int64_t caps[] = {0, 3, 50, 300, 1000}; /* 0: none */
    static const config_sizes all = {.set = true, .word = true};
    (void)state;
    for (unsigned at = 0; at < 4 * 4 * 4 * 2 * 4 * 5 * 4; at++) {
        unsigned x = at;
        char what[160];
        config_ladder_in in = input(modes[x % 4], seqs[x / 4 % 4], batches[x / 16 % 4]);
        in.query_len = queries[x / 64 % 2];
        config_ints n = list(steps[x / 128 % 4], 1);
        in.cuda_graph_sizes = &n;
        int64_t cap = caps[x / 512 % 5];
        in.max_capture_size = (config_oint){cap > 0, cap};
        x /= 2560;
        in.interactivity = x % 2;
        if (x / 2) in.capture_sizes = &all;
        (void)snprintf(what, sizeof what, "mode %d, %lld of %lld by %lld, N %lld, cap %lld%s%s",
                       (int)in.mode, (long long)in.max_num_seqs,
                       (long long)in.max_num_batched_tokens, (long long)in.query_len,
                       (long long)n.v[0], (long long)cap, in.interactivity ? ", small" : "",
                       in.capture_sizes ? ", all" : "");
        config_ladder l = build(&in);
        check_ladder(&in, &l, what);
        config_ladder_done(&l);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    size_t before = base_live();
    config_ladder_in in = input(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 64, 512);
    FOR_EACH_ALLOC_FAILURE (n) {
        config_ladder l;
        rp_error err = {0};
        if (config_ladder_build(&in, &l, &err) == RP_OK)
            config_ladder_done(&l);
        else
            assert_int_equal(err.code, RP_NOMEM);
        assert_int_equal(base_live(), before);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(atom_default_has_36_sizes),
        cmocka_unit_test(atom_drops_what_exceeds_n_and_adds_n),
        cmocka_unit_test(decode_counts_requests_and_ends_at_the_limit),
        cmocka_unit_test(several_sizes_are_taken_as_they_are),
        cmocka_unit_test(vllm_steps_when_a_maximum_is_given),
        cmocka_unit_test(vllm_decode_covers_the_request_limit),
        cmocka_unit_test(a_step_holds_one_request_at_least),
        cmocka_unit_test(all_is_every_request_count),
        cmocka_unit_test(interactivity_captures_small_sizes_exactly),
        cmocka_unit_test(explicit_sizes_win),
        cmocka_unit_test(unworkable_lists_are_refused),
        cmocka_unit_test(wider_queries_leave_room_for_fewer_requests),
        cmocka_unit_test(default_ladders_have_no_cliff),
        cmocka_unit_test(each_size_is_there_or_not),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
