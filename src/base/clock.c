/* Monotonic time since this code was loaded, and the peak memory of the process, read from /proc.
 * Nothing here allocates, so it may be called in a step. Thread-safe. */
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t base_now_ns(void) {
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t base_thread_ns(void) {
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t loaded_at;

/* The kernel's start time of a process is that of its id, which a shell that ends in exec has held for long. */
__attribute__((constructor)) static void note_load(void) {
    loaded_at = base_now_ns();
}

int64_t base_process_age_ns(void) {
    return base_now_ns() - loaded_at;
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

uint64_t base_peak_rss(void) {
    char text[4096];
    read_proc("/proc/self/status", text, sizeof text);
    const char *p = strstr(text, "VmHWM:");
    unsigned long long kib = 0;
    if (!p || sscanf(p, "VmHWM: %llu kB", &kib) != 1) return 0;
    return (uint64_t)kib * 1024;
}
