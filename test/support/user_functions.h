/* Functions with kernels of their own, on a GPU, emulated or real. */
#ifndef SUPPORT_USER_FUNCTIONS_H
#define SUPPORT_USER_FUNCTIONS_H

int user_functions_run(const char *device, const char *group);

#endif
