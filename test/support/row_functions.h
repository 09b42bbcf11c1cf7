/* Functions over rows, which few graphs serve, on the device named. */
#ifndef SUPPORT_ROW_FUNCTIONS_H
#define SUPPORT_ROW_FUNCTIONS_H

/* storm: random calls of one test. */
int row_functions_run(const char *device, int storm, const char *group);

#endif
