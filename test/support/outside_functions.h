/* Functions that write, beside the call's stream, memory that is not the call's and that their calls read. */
#ifndef SUPPORT_OUTSIDE_FUNCTIONS_H
#define SUPPORT_OUTSIDE_FUNCTIONS_H

int outside_functions_run(const char *device, const char *group);

#endif
