/* An interposed malloc for test/mem/run.sh, in LD_PRELOAD, so that it sees the command exactly as it is shipped.
 *
 * `reprise run` flushes its output after each token, so what is allocated between two flushes is what a step
 * allocates. When the process ends, a line "INTERVALS DIRTY CALLS" is added to the file that ALLOC_COUNT_FILE names:
 * intervals looked at (not the first WARM_UP, not the last two), how many of them allocated, and all calls of the
 * process. glibc only. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

enum { WARM_UP = 8, MAX_INTERVALS = 4096 };
static atomic_ullong calls;
static unsigned long long interval[MAX_INTERVALS], last_calls;
static unsigned n_intervals;
static int (*next_fflush)(FILE *f);

static void count(void) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

void *malloc(size_t n) {
    count();
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
    count();
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
    count();
    return __libc_realloc(p, n);
}
void *memalign(size_t align, size_t n) {
    count();
    return __libc_memalign(align, n);
}
void *aligned_alloc(size_t align, size_t n) {
    return memalign(align, n);
}
int posix_memalign(void **out, size_t align, size_t n) {
    void *p = memalign(align, n);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}

__attribute__((constructor)) static void find(void) {
    *(void **)(void *)&next_fflush = dlsym(RTLD_NEXT, "fflush");
}

int fflush(FILE *f) {
    if (f == stdout && n_intervals < MAX_INTERVALS) {
        unsigned long long now = atomic_load(&calls);
        interval[n_intervals++] = now - last_calls;
        last_calls = now;
    }
    return next_fflush(f);
}

__attribute__((destructor)) static void report(void) {
    char line[96];
    unsigned looked_at = 0, dirty = 0;
    const char *name = getenv("ALLOC_COUNT_FILE");
    for (unsigned i = WARM_UP; i + 2 < n_intervals; i++) {
        looked_at++;
        dirty += interval[i] != 0;
    }
    int n = snprintf(line, sizeof line, "%u %u %llu\n", looked_at, dirty, atomic_load(&calls));
    int fd = name ? open(name, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (fd < 0) return;
    if (write(fd, line, (size_t)n) != n) _exit(120);
    (void)close(fd);
}
