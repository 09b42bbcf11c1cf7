/* Calls with views on every device, emulated, real or none. */
#ifndef SUPPORT_VIEWED_CALLS_H
#define SUPPORT_VIEWED_CALLS_H

/* Drawn views as inputs and outputs of a compiled graph, in memory of the host and of the device: every byte of the memory around
 * them is that of a dense call whose results were put in their places one by one. */
void viewed_calls_check(const char *device, int draws);
/* The same of functions that compile themselves, also with a graph break, and captured. */
void viewed_jits_check(const char *device, int draws);
/* Of such functions in each way that captures, with views of some sizes: results as there, and no call is captured once each size was there. */
void viewed_graphs_check(const char *device, int draws);

#endif
