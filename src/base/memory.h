/* How much memory this process may still take: what the machine has left, and what limits leave of it. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

/* Bytes, the least of: what the kernel says is available, with swap; what the process's control group (v1 or v2) and those above leave,
 * where files in memory count as free; what RLIMIT_AS leaves. UINT64_MAX where none is known. Thread-safe. */
uint64_t base_memory_available(void);
/* For tests: looks for /proc and /sys below this folder, whose text is borrowed, and at no RLIMIT_AS. NULL: as always. */
void base_memory_root(const char *dir);

#endif
