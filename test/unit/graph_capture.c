/* The capture ladder and coverage: order, progress, dropping, report; the table against brute force. */
#include "support/check.h"
#include "support/heard.h"

#include "base/alloc.h"
#include "graph/capture.h"
#include "graph/coverage.h"
#include "graph/descriptor.h"

static const int64_t decode[] = {1, 2, 4, 8}, tokens[] = {1, 2, 4, 8, 16};

static graph_params params(rp_cudagraph_mode mode) {
    return (graph_params){.mode = mode,
                          .max_num_seqs = 8,
                          .max_num_batched_tokens = 24,
                          .decode_sizes = decode,
                          .n_decode_sizes = 4,
                          .mixed_sizes = tokens,
                          .n_mixed_sizes = 5};
}

typedef struct recorder {
    graph_state *state;
    char order[1024];
    uint32_t calls, progressed, stop_after, refuse_tokens;
    rp_status refusal;
} recorder;

static rp_status record(void *user, const graph_item *item, rp_error *err) {
    recorder *r = user;
    char t[GRAPH_DESCRIPTOR_TEXT];
    const rp_batch_descriptor *k = item->kind == GRAPH_HEAD ? &item->dispatch.head_key
                                                            : &item->dispatch.key;
    r->calls++;
    if (r->refuse_tokens && k->num_tokens == (int32_t)r->refuse_tokens)
        return rp_fail(err, r->refusal, "no room for %u tokens", r->refuse_tokens);
    (void)snprintf(r->order + strlen(r->order), sizeof r->order - strlen(r->order), "%s ",
                   graph_descriptor_text(k, t));
    r->state->captures += 2;
    r->state->graph_bytes += 100;
    return RP_OK;
}

static bool progress(void *user, uint32_t done, uint32_t total, const graph_item *item) {
    recorder *r = user;
    (void)item;
    assert_int_equal(done, r->progressed + 1);
    assert_true(done <= total);
    r->progressed = done;
    return done != r->stop_after;
}

typedef struct run {
    graph_dispatcher g;
    graph_state state;
    recorder rec;
    graph_capture_ops ops;
    graph_capture_report report;
} run;

static void start(run *r, rp_cudagraph_mode mode) {
    graph_params p = params(mode);
    rp_error err = {0};
    memset(r, 0, sizeof *r);
    CHECK_OK(graph_dispatcher_init(&r->g, &p, &err), &err);
    graph_state_init(&r->state, CONFIG_SEALED_WARN, false);
    r->rec.state = &r->state;
    r->ops = (graph_capture_ops){&r->rec, record, progress};
}

static void largest_first_pieces_before_steps(void **state) {
    (void)state;
    run r;
    rp_error err = {0};
    start(&r, RP_CUDAGRAPH_FULL_AND_PIECEWISE);
    CHECK_OK(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), &err);
    assert_string_equal(r.rec.order, "piece_t16 piece_t8 piece_t4 piece_t2 piece_t1 "
                                     "head_l8 head_l4 head_l2 head_l1 "
                                     "decode_r8_q1_t8 decode_r4_q1_t4 decode_r2_q1_t2 "
                                     "decode_r1_q1_t1 ");
    assert_int_equal(r.report.captured, 13);
    assert_int_equal(r.report.keys[GRAPH_PIECE], 5);
    assert_int_equal(r.report.keys[GRAPH_DECODE], 4);
    assert_int_equal(r.report.largest, 16);
    assert_int_equal(r.report.graphs, 26);
    assert_int_equal(r.report.bytes, 1300);
    assert_true(r.report.seconds >= 0);
    assert_int_equal(r.rec.progressed, 13);
    graph_dispatcher_done(&r.g);

    start(&r, RP_CUDAGRAPH_FULL);
    CHECK_OK(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), &err);
    assert_string_equal(r.rec.order,
                        "mixed_r8_t16_l8 mixed_r8_t16_l1 mixed_r8_t8_l8 mixed_r8_t8_l1 "
                        "mixed_r4_t4_l4 mixed_r4_t4_l1 mixed_r2_t2_l2 mixed_r2_t2_l1 "
                        "mixed_r1_t1_l1 decode_r8_q1_t8 decode_r4_q1_t4 decode_r2_q1_t2 "
                        "decode_r1_q1_t1 ");
    graph_dispatcher_done(&r.g);

    start(&r, RP_CUDAGRAPH_NONE);
    CHECK_OK(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), &err);
    assert_int_equal(r.rec.calls, 0);
    graph_dispatcher_done(&r.g);
}

/* 1, 2, 4, 8, then in eights, and the number of requests itself. */
static void heads_have_a_ladder_of_their_own(void **state) {
    static const struct {
        int32_t seqs;
        const char *order;
    } cases[] = {{1, "head_l1 "},
                 {2, "head_l2 head_l1 "},
                 {3, "head_l3 head_l2 head_l1 "},
                 {8, "head_l8 head_l4 head_l2 head_l1 "},
                 {9, "head_l9 head_l8 head_l4 head_l2 head_l1 "},
                 {24, "head_l24 head_l16 head_l8 head_l4 head_l2 head_l1 "},
                 {33, "head_l33 head_l32 head_l24 head_l16 head_l8 head_l4 head_l2 head_l1 "}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run r;
        rp_error err = {0};
        graph_params p = params(RP_CUDAGRAPH_PIECEWISE);
        start(&r, RP_CUDAGRAPH_PIECEWISE);
        graph_dispatcher_done(&r.g);
        p.max_num_seqs = cases[i].seqs;
        p.max_num_batched_tokens = 64;
        CHECK_OK(graph_dispatcher_init(&r.g, &p, &err), &err);
        CHECK_OK(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), &err);
        const char *heads = strstr(r.rec.order, "head_");
        assert_non_null(heads);
        assert_string_equal(heads, cases[i].order);
        graph_dispatcher_done(&r.g);
    }
}

/* After the ladder and sealing, every step that had a graph before has it still. */
static void sealed_after_the_ladder_serves_the_same_steps(void **state) {
    (void)state;
    static const rp_cudagraph_mode modes[] = {RP_CUDAGRAPH_PIECEWISE, RP_CUDAGRAPH_FULL,
                                              RP_CUDAGRAPH_FULL_DECODE_ONLY,
                                              RP_CUDAGRAPH_FULL_AND_PIECEWISE};
    for (size_t m = 0; m < 4; m++) {
        run r;
        rp_error err = {0};
        graph_coverage before, after;
        start(&r, modes[m]);
        CHECK_OK(graph_coverage_init(&before, &r.g, &err), &err);
        CHECK_OK(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), &err);
        graph_dispatcher_seal(&r.g);
        CHECK_OK(graph_coverage_init(&after, &r.g, &err), &err);
        assert_int_equal(before.eager, after.eager);
        assert_int_equal(before.padding, after.padding);
        assert_int_equal(before.n_runs, after.n_runs);
        graph_coverage_done(&before);
        graph_coverage_done(&after);
        graph_dispatcher_done(&r.g);
    }
    assert_int_equal(base_live(), 0);
}

static void unsupported_key_is_dropped_with_its_reason(void **state) {
    (void)state;
    run r;
    rp_error err = {0};
    graph_step_shape s = {.num_tokens = 13, .num_reqs = 2, .max_query_len = 12, .num_logits = 1};
    rp_dispatch d;
    start(&r, RP_CUDAGRAPH_PIECEWISE);
    r.rec.refuse_tokens = 16;
    r.rec.refusal = RP_UNSUPPORTED;
    CHECK_OK(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), &err);
    assert_int_equal(r.report.dropped, 1);
    assert_int_equal(r.report.captured, 8);
    assert_int_equal(r.report.largest, 8);
    assert_string_equal(r.state.skips[0].what, "piece_t16");
    assert_string_equal(r.state.skips[0].reason, "no room for 16 tokens");
    CHECK_OK(graph_dispatch(&r.g, &s, &d, &err), &err);
    assert_int_equal(d.mode, RP_CUDAGRAPH_NONE);
    graph_dispatcher_done(&r.g);

    start(&r, RP_CUDAGRAPH_PIECEWISE);
    r.state.require_graph = true;
    r.rec.refuse_tokens = 16;
    r.rec.refusal = RP_UNSUPPORTED;
    assert_int_equal(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "piece_t16"));
    graph_dispatcher_done(&r.g);
}

/* Of this ladder alone, although others came before. */
static void the_ladder_is_summed_up(void **state) {
    (void)state;
    run r;
    rp_error err = {0};
    base_buf heard;
    start(&r, RP_CUDAGRAPH_PIECEWISE);
    r.state.captures = 7;
    r.state.graph_bytes = 5 << 20;
    r.rec.refuse_tokens = 16;
    r.rec.refusal = RP_UNSUPPORTED;
    heard_start(&heard, "cudagraphs,perf_hints");
    CHECK_OK(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), &err);
    CHECK_HEARD(&heard, "[cudagraphs] skipping cudagraphs for piece_t16: no room for 16 tokens\n");
    CHECK_HEARD(
        &heard,
        "[perf_hints] piece_t16 runs kernel by kernel, not as a graph: no room for 16 tokens\n");
    CHECK_HEARD(&heard, "[cudagraphs] Graph capturing finished in ");
    CHECK_HEARD(&heard, " secs, took 0.00 MiB: 16 graphs for 8 keys, 1 dropped\n");
    base_buf_clear(&heard);
    graph_state_skip(&r.state, "piece_t16", "no room for 16 tokens"); /* said once */
    assert_int_equal(heard.len, 0);
    heard_done(&heard);
    assert_int_equal(r.report.graphs, 16);
    assert_int_equal(r.report.bytes, 800);
    assert_int_equal(r.report.keys[GRAPH_PIECE], 4);
    assert_int_equal(r.report.keys[GRAPH_HEAD], 4);
    assert_int_equal(r.state.skips[0].count, 2);
    graph_dispatcher_done(&r.g);
}

static void failure_and_cancelling_end_the_ladder(void **state) {
    (void)state;
    run r;
    rp_error err = {0};
    start(&r, RP_CUDAGRAPH_PIECEWISE);
    r.rec.refuse_tokens = 4;
    r.rec.refusal = RP_DEVICE;
    assert_int_equal(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), RP_DEVICE);
    assert_non_null(strstr(err.text, "piece_t4"));
    assert_non_null(strstr(err.text, "no room"));
    assert_int_equal(r.rec.calls, 3);
    graph_dispatcher_done(&r.g);

    start(&r, RP_CUDAGRAPH_PIECEWISE);
    err = (rp_error){0};
    r.rec.stop_after = 2;
    assert_int_equal(graph_capture(&r.g, &r.state, &r.ops, &r.report, &err), RP_CANCELLED);
    assert_string_equal(err.text, "stopped after capturing 2 of 9 sizes");
    assert_int_equal(r.rec.calls, 2);
    graph_dispatcher_done(&r.g);
    assert_int_equal(base_live(), 0);
}

static void coverage_equals_asking_one_by_one(void **state) {
    (void)state;
    graph_params p = params(RP_CUDAGRAPH_FULL_AND_PIECEWISE);
    graph_dispatcher g;
    graph_coverage c;
    rp_dispatch d;
    base_buf text;
    rp_error err = {0};
    int64_t padding = 0, eager = 0;
    p.n_decode_sizes = 3; /* 5 .. 8 requests fall to pieces */
    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
    CHECK_OK(graph_coverage_init(&c, &g, &err), &err);
    for (int32_t n = 1; n <= 8; n++) {
        CHECK_OK(graph_coverage_at(&g, n, 1, &d, &err), &err);
        padding += d.padded - n;
    }
    for (int32_t n = 2; n <= 24; n++) {
        CHECK_OK(graph_coverage_at(&g, 1, n, &d, &err), &err);
        padding += (n > 2 ? 2 : 1) * (int64_t)(d.padded - n); /* prefill and mixed pad alike */
        eager += d.mode == RP_CUDAGRAPH_NONE ? 2 : 0;
    }
    assert_int_equal(c.padding, padding);
    assert_int_equal(c.eager, eager);
    assert_int_equal(c.sizes, 8 + 23 + 22);
    base_buf_init(&text, 0);
    graph_coverage_text(&c, &text);
    CHECK_OK(base_buf_status(&text, &err), &err);
    assert_non_null(strstr(text.data, "3..4     FULL      decode_r4_q1_t4"));
    assert_non_null(strstr(text.data, "padding at most 1 rows"));
    char share[64];
    (void)snprintf(share, sizeof share, "graph, %.1f %% of all rows are padding\n",
                   100.0 * (double)padding / (double)(padding + c.tokens));
    assert_non_null(strstr(text.data, share));
    assert_non_null(strstr(text.data, "5..8     PIECEWISE piece_t8"));
    assert_non_null(strstr(text.data, "17..24    NONE (more tokens than the largest graph (16))"));
    base_buf_done(&text);
    graph_coverage_done(&c);
    graph_dispatcher_done(&g);
    assert_int_equal(base_live(), 0);
}

/* Sizes of one graph are told with those of the next only where these have as much padding. */
static void runs_of_other_padding_are_told_apart(void **state) {
    static const int64_t sizes[] = {4, 8, 16};
    static const char *const lines[] = {
        "decode, requests:\n      1..8     PIECEWISE piece_t4, every 4 to piece_t8 padding at most "
        "3 "
        "rows\n",
        "      9..12    PIECEWISE piece_t16                padding at most 7 rows\n"};
    (void)state;
    graph_params p = params(RP_CUDAGRAPH_PIECEWISE);
    graph_dispatcher g;
    graph_coverage c;
    base_buf text;
    rp_error err = {0};
    p.max_num_seqs = 12; /* 9 to 12 have the graph of 16 tokens */
    p.mixed_sizes = sizes;
    p.n_mixed_sizes = 3;
    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
    CHECK_OK(graph_coverage_init(&c, &g, &err), &err);
    base_buf_init(&text, 0);
    graph_coverage_text(&c, &text);
    for (int i = 0; i < 2; i++)
        if (!strstr(text.data, lines[i])) fail_msg("no %s in\n%s", lines[i], text.data);
    base_buf_done(&text);
    graph_coverage_done(&c);
    graph_dispatcher_done(&g);
}

/* One sequence at a time: no batch of two is told of. */
static void coverage_of_one_sequence_has_no_batches(void **state) {
    (void)state;
    graph_params p = params(RP_CUDAGRAPH_FULL_AND_PIECEWISE);
    graph_dispatcher g;
    graph_coverage c;
    rp_error err = {0};
    p.max_num_seqs = 1;
    p.n_decode_sizes = 1;
    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
    CHECK_OK(graph_coverage_init(&c, &g, &err), &err);
    for (uint32_t i = 0; i < c.n_runs; i++) assert_int_not_equal(c.runs[i].kind, GRAPH_COVER_BATCH);
    assert_int_equal(c.sizes, 1 + (p.max_num_batched_tokens - 1));
    graph_coverage_done(&c);
    graph_dispatcher_done(&g);
}

/* Runs of one length are one line only where they are padded alike: the last one ends with the requests, not with its graph. */
static void coverage_keeps_paddings_apart(void **state) {
    static const int64_t sizes[] = {4, 8, 16};
    graph_params p = params(RP_CUDAGRAPH_PIECEWISE);
    graph_dispatcher g;
    graph_coverage c;
    base_buf text;
    rp_error err = {0};
    (void)state;
    p.max_num_seqs = 12;
    p.mixed_sizes = sizes;
    p.n_mixed_sizes = 3;
    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
    CHECK_OK(graph_coverage_init(&c, &g, &err), &err);
    base_buf_init(&text, 0);
    graph_coverage_text(&c, &text);
    const char *one = strstr(text.data, " 1..8 "), *other = strstr(text.data, " 9..12 ");
    if (!one || !other) fail_msg("%s", text.data);
    assert_non_null(strstr(one, "padding at most 3 rows"));
    assert_true(strstr(one, "padding at most 3 rows") < other);
    assert_true(strstr(other, "padding at most 7 rows") < strchr(other, '\n'));
    base_buf_done(&text);
    graph_coverage_done(&c);
    graph_dispatcher_done(&g);
}

/* Mixed batches are told of together with prompts only where each of their sizes is served as a prompt of that size is. */
static void coverage_joins_what_is_alike(void **state) {
    static const rp_cudagraph_mode modes[] = {RP_CUDAGRAPH_NONE, RP_CUDAGRAPH_PIECEWISE,
                                              RP_CUDAGRAPH_FULL, RP_CUDAGRAPH_FULL_DECODE_ONLY,
                                              RP_CUDAGRAPH_FULL_AND_PIECEWISE};
    int joined = 0, apart = 0;
    (void)state;
    for (size_t m = 0; m < 5; m++)
        for (int q = 1; q <= 4; q++)
            for (uint32_t n_decode = 0; n_decode < 4; n_decode++)
                for (uint32_t n_mixed = 1; n_mixed <= 5; n_mixed++) {
                    graph_params p = params(modes[m]);
                    graph_dispatcher g;
                    graph_coverage c;
                    base_buf text;
                    rp_error err = {0};
                    bool alike = true;
                    p.uniform_query_len = q;
                    p.n_decode_sizes = n_decode;
                    p.n_mixed_sizes = n_mixed;
                    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
                    CHECK_OK(graph_coverage_init(&c, &g, &err), &err);
                    for (int32_t n = 3; n <= p.max_num_batched_tokens; n++) {
                        rp_dispatch a, b;
                        const int32_t reqs = n - 1 < p.max_num_seqs ? n - 1 : p.max_num_seqs;
                        const graph_step_shape mixed = {n, reqs, n - reqs + 1, reqs};
                        CHECK_OK(graph_coverage_at(&g, 1, n, &a, &err), &err);
                        CHECK_OK(graph_dispatch(&g, &mixed, &b, &err), &err);
                        alike &=
                            a.mode == b.mode && strcmp(a.reason, b.reason) == 0 &&
                            (a.mode == RP_CUDAGRAPH_NONE || graph_descriptor_equal(&a.key, &b.key));
                    }
                    base_buf_init(&text, 0);
                    graph_coverage_text(&c, &text);
                    bool told = strstr(text.data, "one request, and mixed batches") != NULL;
                    if (told && !alike)
                        fail_msg("mode %d, queries of %d: %s", (int)modes[m], q, text.data);
                    joined += told;
                    apart += !told;
                    base_buf_done(&text);
                    graph_coverage_done(&c);
                    graph_dispatcher_done(&g);
                }
    assert_true(joined > 20 && apart > 20);
}

static void ladder_survives_each_failure(void **state) {
    (void)state;
    rp_status st = RP_NOMEM;
    FOR_EACH_ALLOC_FAILURE (n) {
        graph_params p = params(RP_CUDAGRAPH_FULL);
        graph_dispatcher g;
        graph_state s;
        graph_coverage c;
        graph_capture_report rep;
        rp_error err = {0};
        recorder rec = {.state = &s};
        graph_capture_ops ops = {&rec, record, NULL};
        graph_state_init(&s, CONFIG_SEALED_WARN, false);
        st = graph_dispatcher_init(&g, &p, &err);
        if (st == RP_OK) {
            st = graph_capture(&g, &s, &ops, &rep, &err);
            if (st == RP_OK) st = graph_coverage_init(&c, &g, &err);
            if (st == RP_OK) graph_coverage_done(&c);
            graph_dispatcher_done(&g);
        }
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        assert_int_equal(base_live(), 0);
    }
    assert_int_equal(st, RP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest_first_pieces_before_steps),
        cmocka_unit_test(heads_have_a_ladder_of_their_own),
        cmocka_unit_test(sealed_after_the_ladder_serves_the_same_steps),
        cmocka_unit_test(unsupported_key_is_dropped_with_its_reason),
        cmocka_unit_test(the_ladder_is_summed_up),
        cmocka_unit_test(failure_and_cancelling_end_the_ladder),
        cmocka_unit_test(coverage_equals_asking_one_by_one),
        cmocka_unit_test(runs_of_other_padding_are_told_apart),
        cmocka_unit_test(coverage_of_one_sequence_has_no_batches),
        cmocka_unit_test(coverage_joins_what_is_alike),
        cmocka_unit_test(coverage_keeps_paddings_apart),
        cmocka_unit_test(ladder_survives_each_failure),
    };
    return cmocka_run_group_tests_name("graph_capture", tests, NULL, NULL);
}
