/* Commands that are known and have nothing behind them yet: one line with the reason, exit 3. */
#include <string.h>

#include "tools/commands.h"
#include "tools/output.h"

int tool_explain_absence(const tool_command *c) {
    static const struct {
        const char *name, *reason;
    } why[] = {
        {"serve",
         "there is no HTTP server in this version; use reprise run --prompt-file for batches"},
    };
    for (size_t i = 0; i < sizeof why / sizeof *why; i++)
        if (strcmp(why[i].name, c->name) == 0)
            return tool_absent("%s is not supported here: %s", why[i].name, why[i].reason);
    return tool_absent("%s is not supported here", c->name);
}

int tool_missing(tool_args *a) {
    return tool_explain_absence(a->cmd);
}
