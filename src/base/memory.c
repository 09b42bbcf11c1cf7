/* Reads a few small files of the kernel. What cannot be read limits nothing. */
#include "base/memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

enum { MOST_PATH = 1024, MOST_TEXT = 1 << 16 };
#define NO_LIMIT ((uint64_t)1 << 62) /* version 1 has a number for it, near 2^63 */

static const char *root; /* NULL: the machine's own */

void base_memory_root(const char *dir) {
    root = dir;
}

/* Owned by the caller (base_free); NULL where there is none. */
static char *read_text(const char *dir, const char *group, const char *name) {
    char path[2 * MOST_PATH], *text = NULL;
    size_t size;
    int n = snprintf(path, sizeof path, "%s%s%s/%s", root ? root : "", dir, group, name);
    if (n < 0 || (size_t)n >= sizeof path) return NULL;
    return base_file_read(path, MOST_TEXT, &text, &size, NULL) == RP_OK ? text : NULL;
}

/* The number behind a line's first word; 0 where no line begins with it. */
static uint64_t number_of(const char *text, const char *word) {
    const size_t n = strlen(word);
    uint64_t v = 0;
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, word, n) == 0 && at[n] == ' ')
            return sscanf(at + n, "%" SCNu64, &v) == 1 ? v : 0;
    }
    return 0;
}

static uint64_t of_machine(void) {
    char *text = read_text("/proc", "", "meminfo");
    uint64_t kb = text ? number_of(text, "MemAvailable:") : 0;
    uint64_t swap = text ? number_of(text, "SwapFree:") : 0;
    base_free(text);
    return kb ? (kb + swap) << 10 : UINT64_MAX;
}

/* The two forms of control groups. */
typedef struct hierarchy {
    const char *line; /* of /proc/self/cgroup, behind its number, in front of the path */
    const char *dir, *limit, *used, *inactive, *active;
} hierarchy;

static const hierarchy hierarchies[] = {
    {"::", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "active_file"},
    {":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file", "total_active_file"},
};

static bool read_number(const hierarchy *h, const char *group, const char *name, uint64_t *out) {
    char *text = read_text(h->dir, group, name);
    bool is = text && sscanf(text, "%" SCNu64, out) == 1; /* "max" is no limit */
    base_free(text);
    return is;
}

static uint64_t of_group(const hierarchy *h, const char *group) {
    uint64_t limit, used, files;
    if (!read_number(h, group, h->limit, &limit) || limit >= NO_LIMIT) return UINT64_MAX;
    if (!read_number(h, group, h->used, &used)) return UINT64_MAX;
    char *text = read_text(h->dir, group, "memory.stat");
    files = text ? number_of(text, h->inactive) + number_of(text, h->active) : 0;
    base_free(text);
    used -= files < used ? files : used;
    return used < limit ? limit - used : 0;
}

/* The process's group and those above. In a container, paths may be those of the host, and only the last one is there. */
static uint64_t of_groups(const hierarchy *h, const char *list) {
    uint64_t least = UINT64_MAX;
    char group[MOST_PATH];
    const char *at = strstr(list, h->line);
    if (!at || sscanf(at + strlen(h->line), "%1023[^\n]", group) != 1) return UINT64_MAX;
    for (;;) {
        char *end = strrchr(group, '/');
        if (end && !end[1]) *end = 0; /* the root */
        uint64_t left = of_group(h, group);
        if (left < least) least = left;
        if (!end || !*group) return least;
        *end = 0;
    }
}

static uint64_t of_all_groups(void) {
    uint64_t least = UINT64_MAX;
    char *list = read_text("/proc", "/self", "cgroup");
    for (size_t i = 0; list && i < sizeof hierarchies / sizeof *hierarchies; i++) {
        uint64_t left = of_groups(&hierarchies[i], list);
        if (left < least) least = left;
    }
    base_free(list);
    return least;
}

static uint64_t of_address_space(void) {
    struct rlimit limit;
    uint64_t pages;
    const long page = sysconf(_SC_PAGESIZE);
    if (root || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || page <= 0)
        return UINT64_MAX;
    char *text = read_text("/proc", "/self", "statm");
    bool known = text && sscanf(text, "%" SCNu64, &pages) == 1;
    base_free(text);
    if (!known) return UINT64_MAX;
    const uint64_t used = pages * (uint64_t)page;
    return used < limit.rlim_cur ? limit.rlim_cur - used : 0;
}

uint64_t base_memory_available(void) {
    const uint64_t each[] = {of_machine(), of_all_groups(), of_address_space()};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (each[i] < least) least = each[i];
    return least;
}
