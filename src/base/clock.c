/* Monotonic time, the age of this process and its peak memory, read from /proc.
 * Nothing here allocates, so it may be called in a step. Thread-safe. */
#include "base/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t first_now; /* first value of base_now_ns; 0 = none yet */

static int64_t read_clock(clockid_t id) {
    struct timespec t = {0};
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t base_now_ns(void) {
    int64_t now = read_clock(CLOCK_MONOTONIC);
    if (atomic_load_explicit(&first_now, memory_order_relaxed) == 0) {
        int64_t none = 0;
        (void)atomic_compare_exchange_strong(&first_now, &none, now);
    }
    return now;
}

/* Reads a small /proc file as text; an empty text when it cannot. */
static void read_proc(const char *path, char *buf, size_t size) {
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len + 1 < size) {
        ssize_t n = read(fd, buf + len, size - 1 - len);
        if (n <= 0) break;
        len += (size_t)n;
    }
    if (fd >= 0) (void)close(fd);
    buf[len] = 0;
}

/* Field 22 of /proc/self/stat in nanoseconds since boot; -1 when it cannot be read. */
static int64_t process_start_ns(void) {
    char text[1024];
    read_proc("/proc/self/stat", text, sizeof text);
    const char *p = strrchr(text, ')'); /* the command name may hold anything */
    long hz = sysconf(_SC_CLK_TCK);
    if (!p || hz <= 0) return -1;
    for (int field = 2; field < 22; field++) {
        p = strchr(p + 1, ' ');
        if (!p) return -1;
    }
    int64_t ticks = 0;
    for (p++; *p >= '0' && *p <= '9'; p++) ticks = ticks * 10 + (*p - '0');
    return ticks * (1000000000 / hz);
}

int64_t base_process_age_ns(void) {
    int64_t start = process_start_ns();
    int64_t age = read_clock(CLOCK_BOOTTIME) - start;
    if (start >= 0 && age >= 0) return age;
    int64_t now = base_now_ns();
    return now - atomic_load(&first_now);
}

uint64_t base_peak_rss(void) {
    char text[4096];
    read_proc("/proc/self/status", text, sizeof text);
    const char *p = strstr(text, "VmHWM:");
    unsigned long long kib = 0;
    if (!p || sscanf(p, "VmHWM: %llu kB", &kib) != 1) return 0;
    return (uint64_t)kib * 1024;
}
