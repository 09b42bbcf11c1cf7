/* The defects of MagiCompiler's AutoCudaGraph (support/defects.c), on the host and on the emulated GPU. */
#include "support/check.h"
#include "support/defects.h"
#include "support/gpu.h"

int main(void) {
    const char *why = NULL;
    int failed = defects_run("cpu", "autograph_defects");
    if (gpu_emulate(&why)) return failed + defects_run("cuda:0", "autograph_defects on a GPU");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
