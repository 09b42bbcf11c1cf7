/* Weights that engines share (support/shared_weights.c), on the emulated GPU. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/shared_weights.h"

static void needs_a_gpu(void **state) {
    SKIP_TEST("%s", (const char *)*state);
}

int main(void) {
    const char *why = NULL;
    if (gpu_emulate(&why)) return shared_weights_run("cuda:0", "engine_shared_cuda");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(needs_a_gpu, (void *)(uintptr_t)why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
