/* Functions that choose memory (support/deciding_functions.c), on the host, on the device that runs nothing, and on the emulated GPU. */
#include "support/check.h"
#include "support/deciding_functions.h"
#include "support/gpu.h"

int main(void) {
    const char *why = NULL;
    int failed = deciding_functions_run("cpu", "autograph_deciding: cpu");
    failed += deciding_functions_run("null", "autograph_deciding: null");
    if (gpu_emulate(&why))
        return failed + deciding_functions_run("cuda:0", "autograph_deciding: cuda");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
