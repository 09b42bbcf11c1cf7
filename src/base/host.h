/* The machine that this process runs on. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdint.h>

/* The processor architecture as `uname -m` prints it, "unknown" when the kernel does not say. */
enum { BASE_MACHINE_SIZE = 66 };
void base_machine(char out[BASE_MACHINE_SIZE]);
/* "model name" of the first processor in /proc/cpuinfo, owned by the caller (base_free); NULL where that is not known. */
char *base_processor(void);
/* Bytes of memory of the machine; UINT64_MAX where that is not known. */
uint64_t base_memory_size(void);

#endif
