/* Tokens drawn within a step, by the kernels that the emulated GPU runs, against the host's sampler. */
#include "support/check.h"

#include "base/alloc.h"
#include "support/border.h"
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_draw_as_the_host_draws),
        cmocka_unit_test(requests_get_the_tokens_of_the_cpu),
    };
    if (gpu_emulate(&why_not)) why_not = NULL;
    return cmocka_run_group_tests_name("engine_draw", tests, NULL, NULL);
}
