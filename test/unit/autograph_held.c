/* Outputs held while memory grows (support/held_outputs.c), on the host and on the emulated GPU. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/held_outputs.h"

int main(void) {
    const char *why = NULL;
    int failed = held_outputs_run("cpu", "autograph_held");
    if (gpu_emulate(&why)) return failed + held_outputs_run("cuda:0", "autograph_held on a GPU");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
