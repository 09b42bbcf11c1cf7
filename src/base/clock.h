/* Monotonic time and time since the program was started. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t base_now_ns(void);
/* Time that this thread has run, without what others were given of its core. */
int64_t base_thread_ns(void);
/* Nanoseconds since the first code of this library ran: ahead of main() in a program that links it, at dlopen() in others. */
int64_t base_process_age_ns(void);
/* Peak resident set (VmHWM) in bytes; 0 when unknown. */
uint64_t base_peak_rss(void);

#endif
