/* Functions whose calls are the same ones each time, but with memory or bytes that they choose by a value, or in turns. */
#ifndef SUPPORT_DECIDING_FUNCTIONS_H
#define SUPPORT_DECIDING_FUNCTIONS_H

int deciding_functions_run(const char *device, const char *group);

#endif
