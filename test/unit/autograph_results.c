/* Results that are arguments, states, or parts of outputs (support/result_functions.c), on the host and on the emulated GPU. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/result_functions.h"

int main(void) {
    const char *why = NULL;
    int failed = result_functions_run("cpu", "autograph_results");
    if (gpu_emulate(&why))
        return failed + result_functions_run("cuda:0", "autograph_results on a GPU");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
