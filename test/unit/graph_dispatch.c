/* Descriptors, key sets, dispatcher: every reachable step gets a key that capture makes too, or a
 * reason; FULL before PIECEWISE before NONE; padding never cuts. */
#include "support/check.h"

#include "base/alloc.h"
#include "graph/capture.h"
#include "graph/descriptor.h"

static uint64_t rng_state = 1;

static uint32_t rnd(uint32_t n) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33) % n;
}

static const int64_t sizes_8[] = {1, 2, 4, 8}, sizes_32[] = {1, 2, 4, 8, 16, 32}, sizes_one[] = {5};

#define PARAMS(m, seqs, tok, q, dec, mix)                                     \
    {                                                                         \
        .mode = (m), .max_num_seqs = (seqs), .max_num_batched_tokens = (tok), \
        .uniform_query_len = (q), .decode_sizes = (dec),                      \
        .n_decode_sizes = sizeof(dec) / sizeof(dec)[0], .mixed_sizes = (mix), \
        .n_mixed_sizes = sizeof(mix) / sizeof(mix)[0]                         \
    }

static const rp_cudagraph_mode modes[] = {RP_CUDAGRAPH_NONE, RP_CUDAGRAPH_PIECEWISE,
                                          RP_CUDAGRAPH_FULL, RP_CUDAGRAPH_FULL_DECODE_ONLY,
                                          RP_CUDAGRAPH_FULL_AND_PIECEWISE};

static bool same_dispatch_key(const graph_item *it, const rp_dispatch *d, bool head) {
    if (head)
        return it->kind == GRAPH_HEAD &&
               graph_descriptor_equal(&it->dispatch.head_key, &d->head_key);
    return it->kind != GRAPH_HEAD && it->dispatch.mode == d->mode &&
           graph_descriptor_equal(&it->dispatch.key, &d->key);
}

static bool captured(const graph_item *items, uint32_t n, const rp_dispatch *d, bool head) {
    for (uint32_t i = 0; i < n; i++)
        if (same_dispatch_key(&items[i], d, head)) return true;
    return false;
}

/* What must hold for any record, whatever the configuration. */
static void check_record(const graph_dispatcher *g, const graph_step_shape *s, const rp_dispatch *d,
                         const graph_item *items, uint32_t n) {
    const graph_params *p = &g->keys.p;
    bool decode = s->max_query_len == p->uniform_query_len &&
                  s->num_tokens == s->num_reqs * p->uniform_query_len;
    rp_cudagraph_mode routine = decode ? rp_cudagraph_decode_mode(p->mode)
                                       : rp_cudagraph_mixed_mode(p->mode);
    assert_int_equal(graph_is_uniform(g, s), decode);
    assert_int_equal(d->num_tokens, s->num_tokens);
    assert_true(d->padded >= s->num_tokens && d->padded_reqs >= s->num_reqs);
    assert_true(d->padded_logits >= s->num_logits);
    assert_true(d->padded <= g->keys.p.max_num_batched_tokens);
    assert_true(d->padded_reqs <= g->keys.p.max_num_seqs);
    if (d->mode == RP_CUDAGRAPH_NONE) {
        assert_int_equal(d->padded, s->num_tokens);
        assert_true(d->reason[0] != 0);
        assert_int_equal(d->head_mode, RP_CUDAGRAPH_NONE);
        return;
    }
    assert_true(rp_cudagraph_has_mode(g->keys.p.mode, d->mode));
    assert_true(captured(items, n, d, false));
    assert_int_equal(d->key.num_tokens, d->padded);
    /* Below the routine's own mode only with a reason, and never without one above it. */
    assert_int_equal(d->reason[0] != 0, d->mode != routine);
    if (d->mode == RP_CUDAGRAPH_FULL) {
        assert_int_equal(d->head_mode, RP_CUDAGRAPH_FULL);
        assert_int_equal(d->key.num_reqs, d->padded_reqs);
        assert_int_equal(d->key.num_logits, d->padded_logits);
    } else if (d->head_mode == RP_CUDAGRAPH_PIECEWISE) {
        assert_true(captured(items, n, d, true));
    } else {
        assert_true(s->num_logits == 0 || d->head_reason[0] != 0);
    }
}

/* The least of the sizes that holds n; 0: none does. */
static int32_t least(const int64_t *sizes, size_t n_sizes, int32_t n) {
    for (size_t i = 0; i < n_sizes; i++)
        if (sizes[i] >= n) return (int32_t)sizes[i];
    return 0;
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

/* The rules again, by a search through the lists that were given. */
static rp_dispatch choice(const graph_params *p, const graph_step_shape *s) {
    static const int64_t head[] = {1, 2, 4, 8, 16};
    const int64_t logits[] = {1, p->max_num_seqs};
    const rp_dispatch none = {
        .padded = s->num_tokens, .padded_reqs = s->num_reqs, .padded_logits = s->num_logits};
    bool decode = s->max_query_len == p->uniform_query_len &&
                  s->num_tokens == s->num_reqs * p->uniform_query_len;
    rp_cudagraph_mode mixed = rp_cudagraph_mixed_mode(p->mode);
    int32_t reqs = least(p->decode_sizes, p->n_decode_sizes, s->num_reqs);
    int32_t tokens = least(p->mixed_sizes, p->n_mixed_sizes, s->num_tokens);
    rp_dispatch d = none;
    d.mode = d.head_mode = RP_CUDAGRAPH_FULL;
    if (decode && rp_cudagraph_decode_mode(p->mode) == RP_CUDAGRAPH_FULL && reqs) {
        d.padded_reqs = reqs;
        d.padded = d.padded_logits = reqs * p->uniform_query_len;
        return d;
    }
    int32_t rows = least(logits, 2, s->num_logits);
    if (mixed == RP_CUDAGRAPH_FULL && tokens && rows) {
        d.padded = tokens;
        d.padded_reqs = smaller(tokens, p->max_num_seqs);
        d.padded_logits = smaller(rows, tokens);
        return d;
    }
    d = none;
    d.mode = d.head_mode = RP_CUDAGRAPH_NONE;
    if (!rp_cudagraph_has_mode(p->mode, RP_CUDAGRAPH_PIECEWISE) || !tokens) return d;
    if ((decode ? rp_cudagraph_decode_mode(p->mode) : mixed) == RP_CUDAGRAPH_NONE) return d;
    d.mode = RP_CUDAGRAPH_PIECEWISE;
    d.padded = tokens;
    rows = s->num_logits ? least(head, 5, s->num_logits) : 0;
    if (rows) d.padded_logits = rows;
    if (rows) d.head_mode = RP_CUDAGRAPH_PIECEWISE;
    return d;
}

/* Also what a key leaves open, which names and keys of captures are made of. */
static void check_choice(const graph_params *p, const graph_step_shape *s, const rp_dispatch *d) {
    rp_dispatch want = choice(p, s);
    bool same = d->mode == want.mode && d->head_mode == want.head_mode &&
                d->padded == want.padded && d->padded_reqs == want.padded_reqs &&
                d->padded_logits == want.padded_logits;
    if (!same)
        fail_msg("mode %d, %d tokens of %d requests, %d rows: %d %d %d %d %d", p->mode,
                 s->num_tokens, s->num_reqs, s->num_logits, d->mode, d->head_mode, d->padded,
                 d->padded_reqs, d->padded_logits);
    assert_int_equal(d->num_reqs, s->num_reqs);
    assert_int_equal(d->num_logits, s->num_logits);
    if (d->mode == RP_CUDAGRAPH_NONE) {
        assert_int_equal(d->key.num_tokens, s->num_tokens);
        assert_int_equal(d->key.num_reqs, s->num_reqs);
        assert_int_equal(d->key.num_logits, s->num_logits);
    }
    if (d->head_mode == RP_CUDAGRAPH_NONE) assert_int_equal(d->head_key.num_logits, s->num_logits);
    if (d->head_mode != RP_CUDAGRAPH_FULL) {
        assert_int_equal(d->head_key.num_tokens, -1);
        assert_int_equal(d->head_key.num_reqs, -1);
    }
}

static graph_step_shape random_step(const graph_params *p) {
    int32_t q = p->uniform_query_len, most = p->max_num_batched_tokens;
    graph_step_shape s;

    s.num_reqs = 1 + (int32_t)rnd((uint32_t)p->max_num_seqs);
    s.num_tokens = s.num_reqs;
    if (rnd(2) && s.num_reqs * q <= most) {
        s.num_tokens = s.num_reqs * q;
        s.max_query_len = q;
    } else {
        s.num_tokens += (int32_t)rnd((uint32_t)(most - s.num_reqs + 1));
        s.max_query_len = s.num_tokens - s.num_reqs + 1;
        if (q < s.max_query_len && s.num_tokens < q * s.num_reqs) s.max_query_len = q;
    }
    s.num_logits = rnd(8) == 0 ? (int32_t)rnd((uint32_t)s.num_tokens + 1)
                               : (int32_t)rnd((uint32_t)s.num_reqs + 1);
    return s;
}

static void every_step_gets_a_captured_key_or_a_reason(void **state) {
    (void)state;
    for (int q = 1; q <= 3; q++)
        for (size_t m = 0; m < 5; m++)
            for (int list = 0; list < 3; list++) {
                graph_params p = PARAMS(modes[m], 16, 48, q, sizes_8, sizes_32);
                if (list == 1) p.mixed_sizes = sizes_one, p.n_mixed_sizes = 1;
                if (list == 2) p.n_decode_sizes = 0;
                graph_dispatcher g;
                graph_item *items;
                uint32_t n;
                rp_error err = {0};
                CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
                CHECK_OK(graph_items(&g, &items, &n, &err), &err);
                for (int i = 0; i < 3000; i++) {
                    graph_step_shape s = random_step(&g.keys.p);
                    rp_dispatch d;
                    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
                    check_record(&g, &s, &d, items, n);
                    check_choice(&p, &s, &d);
                }
                base_free(items);
                graph_dispatcher_done(&g);
            }
    assert_int_equal(base_live(), 0);
}

/* Rows of logits that mixed steps are captured with, whatever they are, some of them as many as the tokens or more. */
static void mixed_steps_have_the_logits_they_were_captured_with(void **state) {
    static const int64_t rows[] = {1, 6, 7, 9};
    (void)state;
    for (size_t n = 1; n <= 4; n++) {
        graph_params p = PARAMS(RP_CUDAGRAPH_FULL, 16, 48, 1, sizes_8, sizes_32);
        p.mixed_logits = rows;
        p.n_mixed_logits = n;
        graph_dispatcher g;
        graph_item *items;
        uint32_t n_items;
        rp_error err = {0};
        CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
        CHECK_OK(graph_items(&g, &items, &n_items, &err), &err);
        for (int i = 0; i < 3000; i++) {
            graph_step_shape s = random_step(&g.keys.p);
            rp_dispatch d;
            size_t at = 0;
            CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
            check_record(&g, &s, &d, items, n_items);
            if (graph_is_uniform(&g, &s) && s.num_reqs <= 8) continue;
            while (at < n && rows[at] < s.num_logits) at++;
            const bool full = s.num_tokens <= 32 && at < n;
            assert_int_equal(d.mode, full ? RP_CUDAGRAPH_FULL : RP_CUDAGRAPH_NONE);
            if (full) assert_int_equal(d.padded_logits, rows[at] < d.padded ? rows[at] : d.padded);
        }
        base_free(items);
        graph_dispatcher_done(&g);
    }
    assert_int_equal(base_live(), 0);
}

/* Twice the same key would be captured twice and served once. */
static void keys_and_names_are_distinct(void **state) {
    (void)state;
    for (size_t m = 0; m < 5; m++) {
        graph_params p = PARAMS(modes[m], 16, 48, 1, sizes_8, sizes_32);
        graph_dispatcher g;
        graph_item *items;
        uint32_t n;
        rp_error err = {0};
        CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
        CHECK_OK(graph_items(&g, &items, &n, &err), &err);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < i; j++) {
                bool hi = items[i].kind == GRAPH_HEAD, hj = items[j].kind == GRAPH_HEAD;
                const rp_batch_descriptor *a = hi ? &items[i].dispatch.head_key
                                                  : &items[i].dispatch.key;
                const rp_batch_descriptor *b = hj ? &items[j].dispatch.head_key
                                                  : &items[j].dispatch.key;
                char ta[GRAPH_DESCRIPTOR_TEXT], tb[GRAPH_DESCRIPTOR_TEXT];
                assert_false(graph_descriptor_equal(a, b));
                assert_true(graph_descriptor_hash(a) != graph_descriptor_hash(b));
                assert_string_not_equal(graph_descriptor_text(a, ta), graph_descriptor_text(b, tb));
            }
        base_free(items);
        graph_dispatcher_done(&g);
    }
}

static void text_says_what_the_key_is(void **state) {
    (void)state;
    char t[GRAPH_DESCRIPTOR_TEXT];
    rp_batch_descriptor d = {.num_tokens = 8, .num_reqs = 8, .num_logits = 8, .uniform = true};
    assert_string_equal(graph_descriptor_text(&d, t), "decode_r8_q1_t8");
    d.num_reqs = 4;
    d.num_logits = 4;
    assert_string_equal(graph_descriptor_text(&d, t), "decode_r4_q2_t8_l4");
    d = (rp_batch_descriptor){.num_tokens = 256, .num_reqs = 64, .num_logits = 1};
    assert_string_equal(graph_descriptor_text(&d, t), "mixed_r64_t256_l1");
    d.num_reqs = d.num_logits = -1;
    assert_string_equal(graph_descriptor_text(&d, t), "piece_t256");
    d = (rp_batch_descriptor){.num_tokens = -1, .num_reqs = -1, .num_logits = 4};
    assert_string_equal(graph_descriptor_text(&d, t), "head_l4");
}

typedef struct expectation {
    rp_cudagraph_mode mode;
    graph_step_shape s;
    rp_cudagraph_mode want;
    const char *key, *reason;
} expectation;

/* The rules one by one. Sizes: decode 1 2 4 8, tokens 1 .. 32, 16 requests, 48 tokens. */
static void rules_choose_what_the_modes_promise(void **state) {
    (void)state;
    static const expectation cases[] = {
        {RP_CUDAGRAPH_FULL_AND_PIECEWISE, {3, 3, 1, 3}, RP_CUDAGRAPH_FULL, "decode_r4_q1_t4", ""},
        {RP_CUDAGRAPH_FULL_AND_PIECEWISE,
         {9, 9, 1, 9},
         RP_CUDAGRAPH_PIECEWISE,
         "piece_t16",
         "more requests than the largest decode graph (8)"},
        {RP_CUDAGRAPH_FULL_AND_PIECEWISE, {10, 2, 9, 1}, RP_CUDAGRAPH_PIECEWISE, "piece_t16", ""},
        {RP_CUDAGRAPH_FULL_AND_PIECEWISE,
         {33, 2, 32, 1},
         RP_CUDAGRAPH_NONE,
         "mixed_r2_t33_l1",
         "more tokens than the largest graph (32)"},
        {RP_CUDAGRAPH_FULL_DECODE_ONLY, {8, 8, 1, 8}, RP_CUDAGRAPH_FULL, "decode_r8_q1_t8", ""},
        {RP_CUDAGRAPH_FULL_DECODE_ONLY,
         {8, 7, 2, 7},
         RP_CUDAGRAPH_NONE,
         "mixed_r7_t8_l7",
         "FULL_DECODE_ONLY has no graphs for prefill and mixed batches"},
        {RP_CUDAGRAPH_FULL, {20, 1, 20, 1}, RP_CUDAGRAPH_FULL, "mixed_r16_t32_l1", ""},
        {RP_CUDAGRAPH_FULL, {20, 1, 20, 0}, RP_CUDAGRAPH_FULL, "mixed_r16_t32_l1", ""},
        {RP_CUDAGRAPH_FULL, {20, 5, 16, 5}, RP_CUDAGRAPH_FULL, "mixed_r16_t32_l16", ""},
        {RP_CUDAGRAPH_FULL,
         {20, 1, 20, 20},
         RP_CUDAGRAPH_NONE,
         "mixed_r1_t20_l20",
         "more logit rows than the largest graph (16)"},
        {RP_CUDAGRAPH_FULL, {12, 12, 1, 12}, RP_CUDAGRAPH_FULL, "mixed_r16_t16_l16", ""},
        {RP_CUDAGRAPH_FULL, {4, 4, 1, 4}, RP_CUDAGRAPH_FULL, "decode_r4_q1_t4", ""},
        {RP_CUDAGRAPH_PIECEWISE, {4, 4, 1, 4}, RP_CUDAGRAPH_PIECEWISE, "piece_t4", ""},
        {RP_CUDAGRAPH_NONE,
         {4, 4, 1, 4},
         RP_CUDAGRAPH_NONE,
         "mixed_r4_t4_l4",
         "cudagraph_mode is NONE"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const expectation *c = &cases[i];
        graph_params p = PARAMS(c->mode, 16, 48, 1, sizes_8, sizes_32);
        graph_dispatcher g;
        rp_dispatch d;
        rp_error err = {0};
        char t[GRAPH_DESCRIPTOR_TEXT];
        CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
        CHECK_OK(graph_dispatch(&g, &c->s, &d, &err), &err);
        assert_int_equal(d.mode, c->want);
        assert_string_equal(graph_descriptor_text(&d.key, t), c->key);
        assert_string_equal(d.reason, c->reason);
        graph_dispatcher_done(&g);
    }
}

static void head_is_padded_by_its_own_ladder(void **state) {
    (void)state;
    graph_params p = PARAMS(RP_CUDAGRAPH_PIECEWISE, 16, 48, 1, sizes_8, sizes_32);
    graph_dispatcher g;
    rp_dispatch d;
    rp_error err = {0};
    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
    graph_step_shape s = {.num_tokens = 30, .num_reqs = 10, .max_query_len = 21, .num_logits = 10};
    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
    assert_int_equal(d.head_key.num_logits, 16);
    assert_int_equal(d.padded_logits, 16);
    s.num_logits = 0; /* no prompt ends in this step: no head at all */
    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
    assert_int_equal(d.padded_logits, 0);
    assert_int_equal(d.head_mode, RP_CUDAGRAPH_NONE);
    assert_string_equal(d.head_reason, "");
    s.num_logits = 17; /* teacher forcing */
    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
    assert_int_equal(d.mode, RP_CUDAGRAPH_PIECEWISE);
    assert_int_equal(d.head_mode, RP_CUDAGRAPH_NONE);
    assert_int_equal(d.padded_logits, 17);
    assert_string_equal(d.head_reason, "more logit rows than the largest head graph (16)");
    graph_dispatcher_done(&g);
}

static void sealed_and_dropped_keys_are_not_chosen(void **state) {
    (void)state;
    graph_params p = PARAMS(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 16, 48, 1, sizes_8, sizes_32);
    graph_dispatcher g;
    rp_dispatch d;
    rp_error err = {0};
    graph_step_shape s = {.num_tokens = 4, .num_reqs = 4, .max_query_len = 1, .num_logits = 4};
    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
    graph_dispatcher_mark(&g, GRAPH_DECODE, 2, 0, GRAPH_KEY_DROPPED);
    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
    assert_int_equal(d.mode, RP_CUDAGRAPH_PIECEWISE);
    assert_string_equal(d.reason, "the graph of this size could not be captured");
    graph_dispatcher_seal(&g);
    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
    assert_int_equal(d.mode, RP_CUDAGRAPH_NONE);
    assert_string_equal(d.reason, "the graph of this size was not captured before sealing");
    graph_dispatcher_mark(&g, GRAPH_PIECE, 2, 0, GRAPH_KEY_CAPTURED);
    graph_dispatcher_mark(&g, GRAPH_HEAD, 2, 0, GRAPH_KEY_CAPTURED);
    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
    assert_int_equal(d.mode, RP_CUDAGRAPH_PIECEWISE);
    assert_int_equal(d.head_mode, RP_CUDAGRAPH_PIECEWISE);
    graph_dispatcher_mark(&g, GRAPH_DECODE, 2, 0, GRAPH_KEY_CAPTURED);
    CHECK_OK(graph_dispatch(&g, &s, &d, &err), &err);
    assert_int_equal(d.mode, RP_CUDAGRAPH_FULL);
    graph_dispatcher_done(&g);
}

static void impossible_steps_and_sizes_are_refused(void **state) {
    (void)state;
    static const graph_step_shape bad[] = {{0, 1, 1, 0},  {1, 0, 1, 0},   {1, 2, 1, 1},
                                           {4, 2, 0, 1},  {4, 2, 5, 1},   {4, 2, 3, 5},
                                           {4, 2, 3, -1}, {49, 2, 48, 1}, {20, 17, 4, 1}};
    static const int64_t falling[] = {4, 2}, zero[] = {0, 1}, huge[] = {1, 49};
    graph_params p = PARAMS(RP_CUDAGRAPH_FULL, 16, 48, 1, sizes_8, sizes_32);
    graph_dispatcher g;
    rp_dispatch d;
    rp_error err = {0};
    CHECK_OK(graph_dispatcher_init(&g, &p, &err), &err);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const graph_step_shape *s = &bad[i];
        char want[160];
        err = (rp_error){0};
        assert_int_equal(graph_dispatch(&g, s, &d, &err), RP_INVALID);
        if (s->num_tokens > 48 || s->num_reqs > 16)
            (void)snprintf(want, sizeof want,
                           "step of %d requests and %d tokens is beyond max_num_seqs 16 or "
                           "max_num_batched_tokens 48",
                           s->num_reqs, s->num_tokens);
        else
            (void)snprintf(
                want, sizeof want,
                "no step has %d tokens of %d requests with at most %d each and %d logit rows",
                s->num_tokens, s->num_reqs, s->max_query_len, s->num_logits);
        assert_string_equal(err.text, want);
    }
    /* the largest step there may be */
    CHECK_OK(graph_dispatch(&g, &(graph_step_shape){48, 16, 33, 48}, &d, &err), &err);
    graph_dispatcher_done(&g);

    p.n_mixed_sizes = 2;
    p.mixed_sizes = falling;
    assert_int_equal(graph_dispatcher_init(&g, &p, NULL), RP_CONFIG);
    p.mixed_sizes = zero;
    assert_int_equal(graph_dispatcher_init(&g, &p, NULL), RP_CONFIG);
    p.mixed_sizes = huge;
    err = (rp_error){0};
    assert_int_equal(graph_dispatcher_init(&g, &p, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "49"));
    assert_non_null(strstr(err.text, "48"));
    p.mixed_sizes = sizes_32;
    p.n_mixed_sizes = sizeof sizes_32 / sizeof *sizes_32;
    p.n_head_sizes = p.n_mixed_logits = 2; /* the other two ladders */
    for (int i = 0; i < 3; i++) {
        const int64_t *ladder = i == 0 ? falling : i == 1 ? zero : huge;
        p.mode = RP_CUDAGRAPH_PIECEWISE;
        p.head_sizes = ladder;
        err = (rp_error){0};
        assert_int_equal(graph_dispatcher_init(&g, &p, &err), RP_CONFIG);
        assert_non_null(strstr(err.text, "sizes of head graphs"));
        p.head_sizes = NULL;
        p.mode = RP_CUDAGRAPH_FULL;
        p.mixed_logits = ladder;
        err = (rp_error){0};
        assert_int_equal(graph_dispatcher_init(&g, &p, &err), RP_CONFIG);
        assert_non_null(strstr(err.text, "logit rows of mixed graphs"));
        p.mixed_logits = NULL;
    }
    p.max_num_seqs = 7; /* a batch of 8 is more, whatever its tokens */
    err = (rp_error){0};
    assert_int_equal(graph_dispatcher_init(&g, &p, &err), RP_CONFIG);
    assert_string_equal(
        err.text, "decode capture sizes: size 8 cannot be reached, the largest decode batch is 7");
    p.max_num_seqs = 16;
    p.uniform_query_len = 12; /* 8 requests of 12 tokens are more than 48 */
    err = (rp_error){0};
    assert_int_equal(graph_dispatcher_init(&g, &p, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "the largest decode batch is 4"));
    assert_int_equal(base_live(), 0);
}

static void init_survives_each_failure(void **state) {
    (void)state;
    graph_params p = PARAMS(RP_CUDAGRAPH_FULL_AND_PIECEWISE, 16, 48, 1, sizes_8, sizes_32);
    rp_status st = RP_NOMEM;
    FOR_EACH_ALLOC_FAILURE (n) {
        graph_dispatcher g;
        graph_item *items = NULL;
        uint32_t n_items;
        rp_error err = {0};
        st = graph_dispatcher_init(&g, &p, &err);
        if (st == RP_OK) {
            st = graph_items(&g, &items, &n_items, &err);
            base_free(items);
            graph_dispatcher_done(&g);
        }
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        assert_int_equal(base_live(), 0);
    }
    assert_int_equal(st, RP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_gets_a_captured_key_or_a_reason),
        cmocka_unit_test(mixed_steps_have_the_logits_they_were_captured_with),
        cmocka_unit_test(keys_and_names_are_distinct),
        cmocka_unit_test(text_says_what_the_key_is),
        cmocka_unit_test(rules_choose_what_the_modes_promise),
        cmocka_unit_test(head_is_padded_by_its_own_ladder),
        cmocka_unit_test(sealed_and_dropped_keys_are_not_chosen),
        cmocka_unit_test(impossible_steps_and_sizes_are_refused),
        cmocka_unit_test(init_survives_each_failure),
    };
    return cmocka_run_group_tests_name("graph_dispatch", tests, NULL, NULL);
}
