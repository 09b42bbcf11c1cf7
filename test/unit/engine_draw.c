/* Tokens drawn within a step, by the kernels that the emulated GPU runs, against the host's sampler. */
#include "support/check.h"

#include "base/alloc.h"
#include "engine/engine.h"
#include "support/border.h"
#include "support/engines.h"
#include "support/gpu.h"

static const char *why_not;

#define NEEDS_GPU() \
    if (why_not) SKIP_TEST("%s", why_not)

static void kernels_draw_as_the_host_draws(void **state) {
    static const uint32_t sizes[] = {1, 7, 256, 257, 1000, 3000, 20001};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t round = 0; round < (sizes[i] > 5000 ? 1 : 2); round++)
            border_check_draws("cuda:0", sizes[i], sizes[i] > 5000 ? 16 : 48, 100 * round + i);
    assert_int_equal(base_live(), 0);
}

static void requests_get_the_tokens_of_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    gpu_check_draws("synthetic:tiny");
    assert_int_equal(base_live(), 0);
}

/* By who draws: the host where log probabilities of either kind are asked for, and where all memory is its own. */
static void who_draws_is_counted(void **state) {
    static const char *const devices[] = {"device=cpu", "device=cuda:0"};
    rp_error err = {0};
    (void)state;
    for (int gpu = 0; gpu < 2 - (why_not != NULL); gpu++) {
        rp_engine *e = engine_must("synthetic:tiny",
                                   (const char *[]){devices[gpu], "level=0", "cudagraph_mode=NONE",
                                                    "max_model_len=32", "max_num_seqs=4", NULL});
        for (uint32_t how = 0; how < 5; how++) {
            rp_request_options r = plain_request(2);
            uint64_t id;
            r.sampling.temperature = how < 4 ? 1 : 0;
            r.logprobs = how == 1 || how == 4;
            r.top_logprobs = how == 2 ? 3 : 0;
            CHECK_OK(rp_engine_submit(e, &r, &id, &err), &err);
        }
        assert_int_equal(e->draws[ENGINE_DRAW_WITHIN], gpu ? 2 : 0);
        assert_int_equal(e->draws[ENGINE_DRAW_LOGPROBS], gpu ? 2 : 0);
        assert_int_equal(e->draws[ENGINE_DRAW_UNIFIED], gpu ? 0 : 4);
        assert_int_equal(e->draws[ENGINE_DRAW_VOCAB], 0);
        must_run(e, -1);
        rp_engine_close(e);
    }
    NEEDS_GPU();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_draw_as_the_host_draws),
        cmocka_unit_test(requests_get_the_tokens_of_the_cpu),
        cmocka_unit_test(who_draws_is_counted),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("engine_draw", tests, NULL, NULL);
}
