/* On a machine with a GPU: automatic graphs over kernels of the user's own. */
#include "support/branches.h"
#include "support/check.h"
#include "support/defects.h"
#include "support/user_functions.h"

int main(void) {
    int failed = defects_run("cuda:0", "gpu/autograph: defects");
    failed += branches_run("cuda:0", "gpu/autograph: branches");
    return failed + user_functions_run("cuda:0", "gpu/autograph: functions");
}
