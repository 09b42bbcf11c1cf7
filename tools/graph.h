/* Graph files, shared by the commands that read them. */
#ifndef TOOLS_GRAPH_H
#define TOOLS_GRAPH_H

#include "tools/output.h"

/* Reads and checks a graph in text form; NULL after printing, with the exit code in *rc. */
rp_graph *tool_read_graph(const char *path, int *rc);
/* Of commands that take models, too: "-" and names that end with .ir. */
bool tool_is_graph(const char *name);

#endif
