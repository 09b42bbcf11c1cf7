/* Several small arguments in memory of the host, on a GPU, emulated or real. */
#ifndef SUPPORT_SMALL_ARGUMENTS_H
#define SUPPORT_SMALL_ARGUMENTS_H

int small_arguments_run(const char *device, const char *group);

#endif
