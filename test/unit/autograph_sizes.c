/* Random sizes without marked rows (support/size_storms.c), on the host and on the emulated GPU. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/size_storms.h"

int main(void) {
    const char *why = NULL;
    int failed = size_storms_run("cpu", 10000, "autograph_sizes");
    if (gpu_emulate(&why))
        return failed + size_storms_run("cuda:0", 3000, "autograph_sizes on a GPU");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
