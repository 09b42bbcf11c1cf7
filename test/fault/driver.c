/* Every call of the driver fails in turn in the life of an engine on a GPU: one clear error, or none where the call can be done without;
 * nothing is left on the GPU or of memory, and the next engine works. On the emulated GPU. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/engines.h"
#include "support/gpu.h"
#include "support/thorough.h"
#include "support/trees.h"

enum { N_OUT = 4, N_REQUESTS = 2, UNKNOWN = 999, OUT_OF_MEMORY = 2 };

static const char *why_not;
static const char *const settings[] = {"device=cuda:0",
                                       "level=3",
                                       "max_num_seqs=2",
                                       "max_num_batched_tokens=16",
                                       "max_model_len=64",
                                       "cudagraph_mode=FULL_AND_PIECEWISE",
                                       NULL};
static int32_t expected[N_OUT];

static rp_status serve(rp_engine *e, rp_error *err) {
    uint64_t id[N_REQUESTS];
    rp_status st = RP_OK;
    bool more = true;
    for (int i = 0; i < N_REQUESTS && st == RP_OK; i++) {
        rp_request_options r = plain_request(N_OUT);
        r.logprobs = i == 1; /* whose logits come to the host */
        st = rp_engine_submit(e, &r, &id[i], err);
    }
    while (more && st == RP_OK) st = rp_engine_step(e, &more, err);
    for (int i = 0; i < N_REQUESTS && st == RP_OK; i++) {
        rp_result r = must_result(e, id[i]);
        assert_int_equal(r.n_output_ids, N_OUT);
        assert_memory_equal(r.output_ids, expected, sizeof expected);
    }
    return st;
}

static rp_status live(rp_error *err) {
    rp_engine *e = engine_with("synthetic:tiny", settings, err);
    if (!e) return err->code;
    rp_status st = serve(e, err);
    rp_engine_close(e);
    return st;
}

static void check_error(unsigned n, int code, rp_status st, const rp_error *err) {
    if (err->code != st || !err->text[0] || strchr(err->text, '\n'))
        fail_msg("call %u: %s, which is no line: '%s'", n, rp_status_name(st), err->text);
    if (st != RP_DEVICE && st != RP_NOMEM && st != RP_UNSUPPORTED)
        fail_msg("call %u gives %d: %s: %s", n, code, rp_status_name(st), err->text);
}

static void check_nothing_left(unsigned n, size_t live_before, int files_before) {
    if (*gpu_left()) fail_msg("call %u: left on the GPU: %s", n, gpu_left());
    if (base_live() != live_before)
        fail_msg("call %u: %d blocks leaked", n, (int)(base_live() - live_before));
    assert_int_equal(tree_open_files(), files_before);
}

static void each_call_may_fail(void **state) {
    rp_error good = {0};
    unsigned tolerated = 0, n_failed = 0;
    (void)state;
    if (why_not) SKIP_TEST("%s", why_not);
    gpu_fail_nth(0, 0);
    CHECK_OK(live(&good), &good);
    const unsigned all = gpu_calls(), stride = THOROUGH() ? 4 : 13;
    const size_t live_before = base_live();
    const int files_before = (int)tree_open_files();
    assert_true(all > 100);
    bool came = true;
    for (unsigned n = 1; came; n += n_failed < 40 ? 1 : stride) {
        const int code = n % 3 ? UNKNOWN : OUT_OF_MEMORY;
        rp_error err = {0};
        gpu_fail_nth(n, code);
        rp_status st = live(&err);
        came = gpu_calls() >= n;
        gpu_fail_nth(0, 0);
        n_failed += came;
        tolerated += came && st == RP_OK;
        if (st != RP_OK) check_error(n, code, st, &err);
        check_nothing_left(n, live_before, files_before);
        CHECK_OK(live(&good), &good);
    }
    assert_true(n_failed > all / (2 * stride));
    printf("%u of %u calls failed, %u of them while closing or not needed\n", n_failed, all,
           tolerated);
}

int main(void) {
    if (setenv("REPRISE_CACHE_DIR", tree_new("cache"), 1) != 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_may_fail)};
    if (gpu_emulate(&why_not)) why_not = NULL;
    if (!why_not) {
        rp_engine *e = engine_must("synthetic:tiny", settings);
        if (engine_greedy(e, plain_prompt, 5, N_OUT, expected) != N_OUT) return 1;
        rp_engine_close(e);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
