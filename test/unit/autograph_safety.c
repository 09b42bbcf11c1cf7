/* What keeps replays safe (support/safety.c), on the host, on the device that runs nothing, and on the emulated GPU. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/safety.h"

int main(void) {
    const char *why = NULL;
    int failed = safety_run("cpu", "autograph_safety: cpu");
    failed += safety_run("null", "autograph_safety: null");
    if (gpu_emulate(&why)) return failed + safety_run("cuda:0", "autograph_safety: cuda");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
