/* Results that are arguments, states, or parts of outputs, on any device. */
#ifndef SUPPORT_RESULT_FUNCTIONS_H
#define SUPPORT_RESULT_FUNCTIONS_H

int result_functions_run(const char *device, const char *group);

#endif
