/* Asks the kernel; nothing here fails. Thread-safe. */
#include "base/host.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

void base_machine(char out[BASE_MACHINE_SIZE]) {
    struct utsname u;
    (void)snprintf(out, BASE_MACHINE_SIZE, "%s", uname(&u) == 0 ? u.machine : "unknown");
}

uint64_t base_memory_size(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
}
