/* Thousands of calls of random sizes that are not marked as rows, on any device. */
#ifndef SUPPORT_SIZE_STORMS_H
#define SUPPORT_SIZE_STORMS_H

/* calls: in each storm. */
int size_storms_run(const char *device, int calls, const char *group);

#endif
