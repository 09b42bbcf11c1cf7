/* Two runs of a function beside each other, the one that was the call and the one that is captured: whether the second made the calls of the
 * first, with memory that is the same for each of them. */
#ifndef AUTOGRAPH_TWIN_H
#define AUTOGRAPH_TWIN_H

#include "autograph/manager.h"

typedef struct autograph_run {
    const rp_value *args; /* as the function was given them */
    const rp_call *call;
    const hal_trace *trace;
} autograph_run;

/* RP_UNSUPPORTED, the reason, where they differ: in a call, in a value of one, or in which tensor of the arguments, output, temp or
 * other memory it was given, and which byte of it. */
rp_status autograph_runs_alike(const autograph_run runs[2], rp_error *err) RP_MUST_USE;

#endif
