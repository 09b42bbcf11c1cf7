/* reprise synth: a synthetic model as a file, to measure loading where there are no weights. */
#include <stdio.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/output.h"

int tool_synth(tool_args *a) {
    const char *path = tool_get(a, TOOL_FLAG_OUT);
    uint64_t bytes = 0;
    rp_error err = {0};
    if (!path) return tool_usage("synth needs --out FILE");
    if (a->json && strcmp(path, "-") == 0)
        return tool_usage("--json and --out - both want standard output");
    rp_status st = rp_model_synthesize(a->pos[0], path, &bytes, &err);
    if (st != RP_OK) return tool_fail(st, &err);
    if (a->json)
        return tool_event(
                   "synth",
                   json_pack("{s:o,s:I}", "file", tool_json_text(path), "bytes", (json_int_t)bytes),
                   10)
                   ? 0
                   : TOOL_EXIT_FAILED;
    if (!tool_on(a, TOOL_FLAG_QUIET))
        (void)fprintf(stderr, "%s: %.1f MB of weights\n", path, (double)bytes / 1e6);
    return 0;
}
