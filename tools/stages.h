/* The stages of compiling a model as files, for commands that look at its graphs. */
#ifndef TOOLS_STAGES_H
#define TOOLS_STAGES_H

#include "tools/output.h"

/* A temporary folder that the engine writes into, and what the command was configured to. */
typedef struct tool_stages {
    char folder[4200];
    rp_compilation_config *config; /* as it was before */
} tool_stages;

/* Ahead of tool_open. Prints what is wrong; gives the exit code. */
int tool_stages_open(tool_args *a, tool_stages *s);
/* Removes the folder, and then ends the process where nobody reads standard output any more. Also after a failure. */
void tool_stages_done(tool_stages *s);

/* The files whose names begin with prefix and end with ".ir", the graph of the model ahead of its head: what is the name between
 * both. Until one gives something other than 0, which is given then. */
typedef int (*tool_stage_fn)(void *user, const char *what, const char *path);
int tool_stages_each(const tool_stages *s, const char *prefix, tool_stage_fn fn, void *user);

#endif
