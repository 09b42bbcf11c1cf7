/* A decode step as a file for trace viewers. */
#ifndef TOOLS_TRACE_H
#define TOOLS_TRACE_H

#include <jansson.h>
#include <stdio.h>

/* Writes the timeline of a measurement (rp_engine_profile) in the Trace Event Format, which Perfetto and chrome://tracing open: the
 * step as served on one track, its pieces with their launches, one behind the other, on a second. Prints what is wrong;
 * gives the exit code. */
int tool_write_trace(FILE *f, const char *path, const json_t *summary, const json_t *times);

#endif
