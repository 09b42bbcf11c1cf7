/* Compiled graphs of several kernels in captures, on a GPU, emulated or real. */
#ifndef SUPPORT_CAPTURED_LISTS_H
#define SUPPORT_CAPTURED_LISTS_H

int captured_lists_run(const char *device, const char *group);

#endif
