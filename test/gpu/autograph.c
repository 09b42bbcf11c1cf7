/* On a machine with a GPU: automatic graphs over kernels of the user's own and of cuBLAS. */
#include "support/branches.h"
#include "support/captured_lists.h"
#include "support/check.h"
#include "support/defects.h"
#include "support/library_functions.h"
#include "support/outside_functions.h"
#include "support/result_functions.h"
#include "support/row_functions.h"
#include "support/safety.h"
#include "support/size_storms.h"
#include "support/small_arguments.h"
#include "support/thread_functions.h"
#include "support/user_functions.h"

int main(void) {
    int failed = defects_run("cuda:0", "gpu/autograph: defects");
    failed += branches_run("cuda:0", "gpu/autograph: branches");
    failed += library_functions_run("cuda:0", "gpu/autograph: libraries");
    failed += row_functions_run("cuda:0", 10300, "gpu/autograph: rows");
    failed += size_storms_run("cuda:0", 10000, "gpu/autograph: sizes");
    failed += safety_run("cuda:0", "gpu/autograph: safety");
    failed += captured_lists_run("cuda:0", "gpu/autograph: lists");
    failed += result_functions_run("cuda:0", "gpu/autograph: results");
    failed += outside_functions_run("cuda:0", "gpu/autograph: outside");
    failed += thread_functions_run("cuda:0", "gpu/autograph: threads");
    failed += small_arguments_run("cuda:0", "gpu/autograph: small arguments");
    return failed + user_functions_run("cuda:0", "gpu/autograph: functions");
}
