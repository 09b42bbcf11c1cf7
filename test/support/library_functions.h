/* Functions that call a library of others over the driver: cuBLAS, opened where it is. */
#ifndef SUPPORT_LIBRARY_FUNCTIONS_H
#define SUPPORT_LIBRARY_FUNCTIONS_H

int library_functions_run(const char *device, const char *group);

#endif
