/* Threads that share a manager, and streams that each have one, at the same time, on any device. */
#ifndef SUPPORT_THREAD_FUNCTIONS_H
#define SUPPORT_THREAD_FUNCTIONS_H

int thread_functions_run(const char *device, const char *group);

#endif
