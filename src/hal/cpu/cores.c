/* How many cores this process may use. A container's quota counts: threads beyond it are stopped by the
 * kernel in the middle of a step. Makes no assumption about sockets or siblings. */
#include <sched.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/file.h"
#include "hal/cpu/pool.h"

/* Cores by cgroup quota, rounded up; 0 = no quota. */
static uint32_t cgroup_cores(void) {
    char *text = NULL;
    size_t size = 0;
    long long quota = 0, period = 0;
    if (base_file_read("/sys/fs/cgroup/cpu.max", 256, &text, &size, NULL) != RP_OK) return 0;
    int n = sscanf(text, "%lld %lld", &quota, &period); /* "max 100000" without a quota */
    base_free(text);
    if (n != 2 || quota <= 0 || period <= 0) return 0;
    return (uint32_t)((quota + period - 1) / period);
}

uint32_t cpu_cores_granted(void) {
    cpu_set_t set;
    uint32_t n = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0) n = (uint32_t)CPU_COUNT(&set);
    uint32_t quota = cgroup_cores();
    if (quota && quota < n) n = quota;
    return n ? n : 1;
}
