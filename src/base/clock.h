/* Monotonic time and time since the process was started. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

int64_t base_now_ns(void);
/* Nanoseconds since the kernel created this process (CLOCK_BOOTTIME against /proc/self/stat;
 * resolution 10 ms) or since the first call of base_now_ns when that cannot be read. */
int64_t base_process_age_ns(void);
/* Peak resident set (VmHWM) in bytes; 0 when unknown. */
uint64_t base_peak_rss(void);

#endif
