/* One request whose logits are no numbers: it ends with its own error, its neighbours give the bits they would have given
 * without it, and the KV blocks that it leaves behind, full of NaN, harm nobody who gets them next. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/heard.h"
#include "support/trees.h"

#define SMALL \
    "max_num_seqs=4", "max_num_batched_tokens=16", "max_model_len=64", "threads=1", "sealed=fatal"
enum { N = 3, OUT = 14 };

static const char *const modes[][3] = {
    {"level=3", "cudagraph_mode=FULL_AND_PIECEWISE", "async_scheduling=false"},
    {"level=3", "cudagraph_mode=FULL", "async_scheduling=false"},
    {"level=3", "cudagraph_mode=PIECEWISE", "async_scheduling=true"},
    {"level=0", "cudagraph_mode=NONE", "async_scheduling=false"}};

static rp_engine *open_mode(size_t i) {
    return engine_must("synthetic:tiny",
                       (const char *[]){SMALL, modes[i][0], modes[i][1], modes[i][2], NULL});
}

static uint64_t submit(rp_engine *e, int i) {
    static const uint32_t lengths[N] = {9, 21, 5};
    int32_t ids[32];
    rp_error err = {0};
    rp_request_options r = RP_REQUEST_OPTIONS_INIT;
    uint64_t id = 0;
    for (uint32_t k = 0; k < lengths[i]; k++) ids[k] = (int32_t)(k * 31 + (uint32_t)i * 17) % 250;
    r.prompt_ids = ids;
    r.n_prompt_ids = lengths[i];
    r.max_tokens = OUT;
    r.ignore_eos = true;
    CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
    return id;
}

static rp_result result(rp_engine *e, uint64_t id) {
    rp_error err = {0};
    rp_result r = RP_RESULT_INIT;
    CHECK_OK(rp_engine_result(e, id, &r, &err), &err);
    return r;
}

/* At most n steps, or all that there are. */
static void run(rp_engine *e, int n) {
    rp_error err = {0};
    bool more = true;
    for (int i = 0; more && (n < 0 || i < n); i++) CHECK_OK(rp_engine_step(e, &more, &err), &err);
}

static engine_request *request_of(rp_engine *e, uint64_t id) {
    engine_job *j = e->jobs[id % ENGINE_JOB_LISTS];
    while (j->id != id) j = j->next;
    return j->req;
}

/* Every byte of the blocks that the request holds, also those past its last position. */
static uint32_t poison_blocks(rp_engine *e, uint64_t id, int32_t *out, uint32_t most) {
    uint32_t n, planes = 2 * model_source_hparams(e->source)->n_layer,
                n_blocks = engine_kv_n_usable(e->kv) + 1;
    const int32_t *table = engine_kv_table(e->kv, request_of(e, id)->seq, &n);
    size_t size;
    uint8_t *kv = engine_runner_kv(e->runner, &size);
    size_t block = size / planes / n_blocks;
    assert_in_range(n, 1, most);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = table[i];
        for (uint32_t p = 0; p < planes; p++)
            memset(kv + (p * (size_t)n_blocks + (size_t)table[i]) * block, 0xff, block);
    }
    return n;
}

static void check_tokens(rp_engine *e, uint64_t id, const int32_t *want) {
    rp_result r = result(e, id);
    assert_string_equal(r.finish_reason, "length");
    assert_string_equal(r.error, "");
    assert_int_equal(r.n_output_ids, OUT);
    assert_memory_equal(r.output_ids, want, OUT * sizeof *want);
}

static bool holds_one_of(rp_engine *e, uint64_t id, const int32_t *blocks, uint32_t n) {
    uint32_t have;
    const int32_t *table = engine_kv_table(e->kv, request_of(e, id)->seq, &have);
    for (uint32_t i = 0; i < have; i++)
        for (uint32_t k = 0; k < n; k++)
            if (table[i] == blocks[k]) return true;
    return false;
}

/* The victim computes its prompt (after 1 step) or its output (later) when its past turns to NaN. */
static void only_its_request_ends(void **state) {
    (void)state;
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
        for (int after = m ? 4 : 1; after < (m ? 5 : 8); after += 3) {
            int32_t want[N][OUT], blocks[8];
            uint64_t id[N], again[N];
            char text[1024]; /* of the victim, undisturbed */
            rp_error err = {0};
            base_buf heard;
            bool reused = false, more = true;
            rp_engine *e = open_mode(m);
            for (int i = 0; i < N; i++) {
                id[i] = submit(e, i);
                run(e, -1);
                memcpy(want[i], result(e, id[i]).output_ids, sizeof want[i]);
                if (i == 1) (void)snprintf(text, sizeof text, "%s", result(e, id[i]).text);
                rp_engine_release(e, id[i]);
            }
            for (int i = 0; i < N; i++) id[i] = submit(e, i);
            run(e, after);
            uint32_t n = poison_blocks(e, id[1], blocks, 8);
            heard_start(&heard, "");
            run(e, -1);
            CHECK_HEARD(&heard, "ends with an error: logit of token");
            heard_done(&heard);
            rp_result bad = result(e, id[1]);
            assert_string_equal(bad.finish_reason, "error");
            assert_non_null(strstr(bad.error, "logit of token"));
            assert_true(bad.n_output_ids < OUT);
            if (strncmp(text, bad.text, strlen(bad.text)) != 0)
                fail_msg("'%s' is no beginning of '%s'", bad.text, text);
            check_tokens(e, id[0], want[0]);
            check_tokens(e, id[2], want[2]);
            CHECK_OK(engine_kv_check(e->kv, &err), &err);
            assert_int_equal(engine_kv_n_free(e->kv), engine_kv_n_usable(e->kv));
            /* the NaN lie there still, and the next requests get those blocks */
            for (int i = 0; i < N; i++) again[i] = submit(e, i);
            while (more) {
                CHECK_OK(rp_engine_step(e, &more, &err), &err);
                for (int i = 0; i < N; i++)
                    if (request_of(e, again[i])->state == ENGINE_RUNNING)
                        reused |= holds_one_of(e, again[i], blocks, n);
            }
            assert_true(reused);
            for (int i = 0; i < N; i++) check_tokens(e, again[i], want[i]);
            rp_engine_close(e);
        }
}

typedef struct listener {
    rp_engine *e;
    const int32_t *poison_at; /* position after which the cache is spoiled */
    uint32_t calls;
} listener;

static void spoil(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                  const int32_t *top_ids, const float *top_logits) {
    listener *l = user;
    size_t size;
    void *kv = engine_runner_kv(l->e->runner, &size);
    (void)id, (void)k, (void)top_ids, (void)top_logits;
    assert_false(isnan(logprob));
    l->calls++;
    if ((int32_t)position == *l->poison_at) memset(kv, 0xff, size);
}

/* Scoring says where it met them instead of a perplexity of NaN, and the next one is right. */
static void scoring_says_where(void **state) {
    static const int32_t ids[20] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
    static const int32_t at = 12, never = -1;
    rp_error err = {0};
    double clean, ppl = -1;
    (void)state;
    rp_engine *e = open_mode(0);
    listener l = {.e = e, .poison_at = &never};
    rp_score_options o = RP_SCORE_OPTIONS_INIT;
    o.prompt_ids = ids;
    o.n_prompt_ids = 5;
    o.continuation_ids = ids + 5;
    o.n_continuation_ids = 15;
    o.step = 1;
    o.on_token = spoil;
    o.user = &l;
    CHECK_OK(rp_engine_score(e, &o, &clean, &err), &err);
    assert_int_equal(l.calls, 15);
    l = (listener){.e = e, .poison_at = &at};
    assert_int_equal(rp_engine_score(e, &o, &ppl, &err), RP_INTERNAL);
    assert_non_null(strstr(err.text, "scoring token 14 at position 13: logit of token"));
    assert_true(ppl < 0);
    err = (rp_error){0};
    l = (listener){.e = e, .poison_at = &never};
    CHECK_OK(rp_engine_score(e, &o, &ppl, &err), &err);
    assert_memory_equal(&clean, &ppl, sizeof ppl);
    rp_engine_close(e);
}

int main(void) {
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_request_ends),
        cmocka_unit_test(scoring_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
