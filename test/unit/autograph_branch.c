/* Branches and loops (support/branches.c), on the host and on the emulated GPU. */
#include "support/branches.h"
#include "support/check.h"
#include "support/gpu.h"

int main(void) {
    const char *why = NULL;
    int failed = branches_run("cpu", "autograph_branch");
    if (gpu_emulate(&why)) return failed + branches_run("cuda:0", "autograph_branch on a GPU");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
