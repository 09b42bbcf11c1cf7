/* Asks the kernel; nothing here fails. Thread-safe. */
#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

void base_machine(char out[BASE_MACHINE_SIZE]) {
    struct utsname u;
    (void)snprintf(out, BASE_MACHINE_SIZE, "%s", uname(&u) == 0 ? u.machine : "unknown");
}

char *base_processor(void) {
    char *text = NULL, *name = NULL;
    size_t size = 0;
    if (base_file_read("/proc/cpuinfo", 16u << 20, &text, &size, NULL) == RP_OK) {
        const char *at = strstr(text, "model name"), *colon = at ? strchr(at, ':') : NULL;
        if (colon) colon += strspn(colon, ": \t");
        if (colon) name = base_strndup(colon, strcspn(colon, "\n"));
    }
    base_free(text);
    return name;
}

uint64_t base_memory_size(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_MAX;
}
