/* Hidden states of a prompt: their products with the output matrix are the logits that scoring gives. */
#include "support/check.h"

#include <math.h>

#include "base/alloc.h"
#include "model/weights.h"
#include "reprise/reprise.h"
#include "support/engines.h"
#include "support/gpu.h"

enum { N = 21 };
static const char *const model = "synthetic:tiny,dtype=f32";

typedef struct states {
    uint32_t n, width;
    float *row[N];
} states;

static void keep(void *user, uint32_t position, const float *row, uint32_t width) {
    states *s = user;
    assert_int_equal(position, s->n);
    s->width = width;
    s->row[s->n] = base_alloc_array(width, sizeof(float));
    memcpy(s->row[s->n++], row, width * sizeof(float));
}

static void done(states *s) {
    for (uint32_t i = 0; i < s->n; i++) base_free(s->row[i]);
    *s = (states){0};
}

static const int32_t *ids(void) {
    static int32_t v[N + 1];
    for (int i = 0; i <= N; i++) v[i] = 3 + 7 * i % 50;
    return v;
}

static states hidden(rp_engine *e, bool normed) {
    states s = {0};
    rp_error err = {0};
    rp_hidden_options o = RP_HIDDEN_OPTIONS_INIT;
    o.prompt_ids = ids();
    o.n_prompt_ids = N;
    o.normed = normed;
    o.on_token = keep;
    o.user = &s;
    CHECK_OK(rp_engine_hidden(e, &o, &err), &err);
    assert_int_equal(s.n, N);
    return s;
}

/* The logits of the token in front of `position`, whose largest scoring tells. */
typedef struct oracle {
    const states *s;
    const float *matrix;
    uint32_t n;
} oracle;

static void compare(void *user, uint32_t position, int32_t id, double logprob, uint32_t k,
                    const int32_t *top_ids, const float *top) {
    oracle *o = user;
    (void)id, (void)logprob;
    for (uint32_t i = 0; i < k; i++) {
        double sum = 0;
        for (uint32_t c = 0; c < o->s->width; c++)
            sum += (double)o->s->row[position - 1][c] *
                   (double)o->matrix[(size_t)top_ids[i] * o->s->width + c];
        if (fabs(sum - (double)top[i]) > 1e-4 * (1 + fabs(sum)))
            fail_msg("position %u, id %d: %g, not %g", position, top_ids[i], sum, (double)top[i]);
    }
    o->n++;
}

static const float *matrix_of(model_source *s, const char *name) {
    model_tensor t;
    rp_error err = {0};
    const uint8_t *data;
    if (model_source_tensor(s, name, &t, NULL) != RP_OK) return NULL;
    CHECK_OK(model_source_data(s, t.idx, &data, &err), &err);
    return (const float *)(const void *)data;
}

static void check_engine(const char *device, const char *level, const char *tokens) {
    const char *const settings[] = {
        device, level, tokens, "numerics=exact", "max_model_len=64", "max_num_seqs=2", NULL};
    rp_engine *e = engine_must(model, settings);
    model_source *s = NULL;
    rp_error err = {0};
    CHECK_OK(model_source_open_synthetic(model, &s, &err), &err);
    const float *matrix = matrix_of(s, "output.weight"), *w = matrix_of(s, "output_norm.weight");
    if (!matrix) matrix = matrix_of(s, "token_embd.weight");
    states normed = hidden(e, true), plain = hidden(e, false);
    oracle o = {&normed, matrix, 0};
    rp_score_options how = RP_SCORE_OPTIONS_INIT;
    how.top_logits = 5;
    how.on_token = compare;
    how.user = &o;
    (void)must_score(e, ids(), 1, N + 1, how);
    assert_int_equal(o.n, N);
    for (uint32_t i = 0; i < N; i++) {
        double squares = 0;
        for (uint32_t c = 0; c < plain.width; c++)
            squares += (double)plain.row[i][c] * (double)plain.row[i][c];
        const double by = 1 /
                          sqrt(squares / plain.width + (double)model_source_hparams(s)->rms_eps);
        for (uint32_t c = 0; c < plain.width; c++) {
            const double want = (double)plain.row[i][c] * by * (double)w[c];
            assert_true(fabs(want - (double)normed.row[i][c]) <= 1e-4 * (1 + fabs(want)));
        }
    }
    done(&normed);
    done(&plain);
    model_source_free(s);
    rp_engine_close(e);
}

static void they_make_the_logits(void **state) {
    (void)state;
    check_engine("device=cpu", "level=0", "max_num_batched_tokens=64");
    check_engine("device=cpu", "level=2", "max_num_batched_tokens=64");
    check_engine("device=cpu", "level=3",
                 "max_num_batched_tokens=8"); /* the prompt takes several steps */
}

static void a_gpu_leaves_them_to_the_host(void **state) {
    const char *why;
    (void)state;
    if (!gpu_emulate(&why)) SKIP_TEST("%s", why);
    check_engine("device=cuda:0", "level=2", "max_num_batched_tokens=16");
}

/* Requests go on as if nobody had asked. */
static void requests_are_not_disturbed(void **state) {
    int32_t before[6], after[6];
    rp_engine *e = engine_must(model, (const char *[]){"max_model_len=64", NULL});
    (void)state;
    (void)engine_greedy(e, plain_prompt, 5, 6, before);
    states s = hidden(e, false);
    done(&s);
    (void)engine_greedy(e, plain_prompt, 5, 6, after);
    assert_memory_equal(before, after, sizeof before);
    rp_engine_close(e);
}

static void bad_calls_are_refused(void **state) {
    static const int32_t wrong[] = {1, -1};
    const rp_request_options r = plain_request(4);
    rp_engine *e = engine_must(model, (const char *[]){"max_model_len=64", NULL});
    rp_hidden_options o = RP_HIDDEN_OPTIONS_INIT;
    rp_error err = {0};
    states s = {0};
    (void)state;
    o.prompt_ids = wrong;
    o.n_prompt_ids = 2;
    assert_int_equal(rp_engine_hidden(NULL, &o, &err), RP_INVALID);
    assert_int_equal(rp_engine_hidden(e, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "on_token is NULL"));
    o.on_token = keep;
    o.user = &s;
    assert_int_equal(rp_engine_hidden(e, &o, &err), RP_CONFIG);
    o.n_prompt_ids = 0;
    assert_int_equal(rp_engine_hidden(e, &o, &err), RP_CONFIG);
    assert_non_null(strstr(err.text, "a prompt of 1 to 64 ids, not 0"));
    o.prompt_ids = NULL;
    o.n_prompt_ids = 2;
    assert_int_equal(rp_engine_hidden(e, &o, &err), RP_INVALID);
    assert_string_equal(err.text, "2 ids of the prompt, and no list of them");
    o.prompt_ids = wrong;
    o.n_prompt_ids = 1;
    (void)must_submit(e, &r);
    assert_int_equal(rp_engine_hidden(e, &o, &err), RP_INVALID);
    assert_non_null(strstr(err.text, "no requests under way"));
    must_run(e, -1);
    CHECK_OK(rp_engine_hidden(e, &o, &err), &err);
    assert_int_equal(s.n, 1);
    done(&s);
    rp_engine_close(e);
}

static void count(void *user, uint32_t position, const float *row, uint32_t width) {
    (void)position, (void)row, (void)width;
    ++*(uint32_t *)user;
}

/* Nothing is generated, so that a prompt may be as long as the model's context is. */
static void a_prompt_may_fill_the_context(void **state) {
    enum { LEN = 32 };
    int32_t all[LEN + 1];
    uint32_t n = 0;
    rp_engine *e =
        engine_must(model, (const char *[]){"level=0", "max_model_len=32", "max_num_seqs=1", NULL});
    rp_hidden_options o = RP_HIDDEN_OPTIONS_INIT;
    rp_error err = {0};
    (void)state;
    for (int32_t i = 0; i <= LEN; i++) all[i] = i + 3;
    o.prompt_ids = all;
    o.n_prompt_ids = LEN;
    o.on_token = count;
    o.user = &n;
    CHECK_OK(rp_engine_hidden(e, &o, &err), &err);
    assert_int_equal(n, LEN);
    o.n_prompt_ids = LEN + 1;
    assert_int_equal(rp_engine_hidden(e, &o, &err), RP_CONFIG);
    assert_string_equal(err.text, "hidden states want a prompt of 1 to 32 ids, not 33");
    rp_engine_close(e);
}

/* What is made at the first call and fails on the way leaves nothing, and a later call makes it. */
static void every_allocation_may_fail(void **state) {
    uint32_t n = 0;
    uint64_t nth = 0;
    rp_status st = RP_NOMEM;
    rp_engine *e = engine_must(model, (const char *[]){"level=0", "max_model_len=64", NULL});
    rp_hidden_options o = RP_HIDDEN_OPTIONS_INIT;
    (void)state;
    o.prompt_ids = ids();
    o.n_prompt_ids = 2;
    o.on_token = count;
    o.user = &n;
    while (st != RP_OK) {
        rp_error err = {0};
        const size_t live = base_live();
        (void)base_alloc_fail_nth(++nth);
        st = rp_engine_hidden(e, &o, &err);
        (void)base_alloc_fail_nth(0);
        if (st != RP_OK && (st != RP_NOMEM || base_live() != live || n))
            fail_msg("allocation %d: %s, %d tokens, %d left", (int)nth, err.text, (int)n,
                     (int)(base_live() - live));
    }
    assert_int_equal(n, 2);
    rp_engine_close(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_make_the_logits),
        cmocka_unit_test(a_gpu_leaves_them_to_the_host),
        cmocka_unit_test(requests_are_not_disturbed),
        cmocka_unit_test(bad_calls_are_refused),
        cmocka_unit_test(a_prompt_may_fill_the_context),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
