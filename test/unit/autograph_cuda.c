/* Functions with kernels of their own (support/user_functions.c), threads at once (support/thread_functions.c), compiled graphs of
 * several (support/captured_lists.c) and arguments in memory of the host (support/small_arguments.c), on the emulated GPU. */
#include "support/captured_lists.h"
#include "support/check.h"
#include "support/gpu.h"
#include "support/small_arguments.h"
#include "support/thread_functions.h"
#include "support/user_functions.h"

static void needs_a_gpu(void **state) {
    SKIP_TEST("%s", (const char *)*state);
}

int main(void) {
    const char *why = NULL;
    if (gpu_emulate(&why))
        return user_functions_run("cuda:0", "autograph_cuda") +
               thread_functions_run("cuda:0", "autograph_cuda: threads") +
               captured_lists_run("cuda:0", "autograph_cuda: lists") +
               small_arguments_run("cuda:0", "autograph_cuda: small arguments");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(needs_a_gpu, (void *)(uintptr_t)why)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
