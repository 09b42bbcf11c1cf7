/* Functions over rows (support/row_functions.c), on the CPU and on the emulated GPU. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/row_functions.h"

int main(void) {
    const char *why = NULL;
    int failed = row_functions_run("cpu", 10300, "autograph_rows: cpu");
    if (gpu_emulate(&why)) return failed + row_functions_run("cuda:0", 300, "autograph_rows: cuda");
    printf("skip: %s\n", why);
    return failed;
}
