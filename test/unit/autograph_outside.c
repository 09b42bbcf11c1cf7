/* Memory outside of a call that is written beside its stream (support/outside_functions.c), on the host, on the device that runs nothing,
 * and on the emulated GPU. */
#include "support/check.h"
#include "support/gpu.h"
#include "support/outside_functions.h"

int main(void) {
    const char *why = NULL;
    int failed = outside_functions_run("cpu", "autograph_outside: cpu");
    failed += outside_functions_run("null", "autograph_outside: null");
    if (gpu_emulate(&why))
        return failed + outside_functions_run("cuda:0", "autograph_outside: cuda");
    print_message("not on a GPU: %s\n", why);
    return failed;
}
