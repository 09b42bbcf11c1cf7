/* One function a command: runs it and gives the exit code. */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "tools/args.h"

int tool_run(tool_args *a);
int tool_score(tool_args *a);
int tool_eval(tool_args *a);
int tool_compile(tool_args *a);
int tool_bench(tool_args *a);
int tool_bisect(tool_args *a);
int tool_explain(tool_args *a);
int tool_cache(tool_args *a);
int tool_opt(tool_args *a);
int tool_doctor(tool_args *a);
int tool_synth(tool_args *a);
int tool_help(tool_args *a);
int tool_missing(tool_args *a);

/* Help of one command on standard output; of one that is not there, why not. Gives the exit code. */
int tool_help_command(const tool_command *c, bool markdown);
/* Why a command of TOOL_ABSENT is not there; gives the exit code. */
int tool_explain_absence(const tool_command *c);

#endif
