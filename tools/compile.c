/* reprise compile: fills the cache ahead of time, so that later processes start warm. */
#include "tools/commands.h"
#include "tools/input.h"

int tool_compile(tool_args *a) {
    int rc = 0;
    tool_interrupt_init();
    rp_engine *e = tool_open(a, true, &rc);
    if (!e) return rc;
    json_t *o = tool_summary(a, e);
    if (!o) {
        rc = TOOL_EXIT_FAILED;
    } else if (a->json) {
        rc = tool_event("summary", o, 10) ? 0 : TOOL_EXIT_FAILED;
    } else {
        tool_print_summary(a, o, 0, 0);
        json_decref(o);
    }
    rp_engine_close(e);
    return rc;
}
