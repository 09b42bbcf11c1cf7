/* How fast threads can read so many bytes from memory: the limit of a decode step, which reads every weight once.
 *
 * Each thread owns one contiguous part and only loads it, with the widest vectors granted, from four places in turn, with
 * and without asking ahead; a pass starts for all at once and ends with the last. Prints the median and the
 * best GB/s of the passes of the faster way. Memory is asked for in large pages, so that the limit is not too low.
 * Usage: read_limit BYTES [THREADS [PASSES]]; needs no library. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/stream.h"

enum { MAX_THREADS = 64, MAX_PASSES = 1000 };
static const base_stream_fn *way;
static pthread_barrier_t start, stop;
static size_t part, n_passes;
static char *memory;
static atomic_llong sink;

static void *work(void *arg) {
    const char *mine = memory + *(size_t *)arg * part;
    for (size_t i = 0; i < n_passes * BASE_STREAM_WAYS; i++) {
        (void)pthread_barrier_wait(&start);
        atomic_fetch_or(&sink, way[i % BASE_STREAM_WAYS](mine, part));
        (void)pthread_barrier_wait(&stop);
    }
    return NULL;
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static pthread_t thread[MAX_THREADS];
    static size_t index[MAX_THREADS];
    static double rate[BASE_STREAM_WAYS][MAX_PASSES];
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    size_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 2;
    n_passes = argc > 3 ? strtoull(argv[3], NULL, 10) : 40;
    if (bytes < 1 << 20 || n < 1 || n > MAX_THREADS || n_passes < 1 || n_passes > MAX_PASSES) {
        fprintf(stderr, "usage: read_limit BYTES [THREADS [PASSES]]\n");
        return 2;
    }
    way = base_stream_ways();
    part = bytes / n / 4096 * 4096;
    memory = mmap(NULL, part * n + (4u << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                  -1, 0);
    if (memory == MAP_FAILED) {
        perror("read_limit: mmap");
        return 1;
    }
    memory += (2u << 20) - (size_t)memory % (2u << 20);
    (void)madvise(memory, part * n, MADV_HUGEPAGE);
    memset(memory, 1, part * n);
    (void)pthread_barrier_init(&start, NULL, (unsigned)n + 1);
    (void)pthread_barrier_init(&stop, NULL, (unsigned)n + 1);
    for (size_t i = 0; i < n; i++) {
        index[i] = i;
        if (pthread_create(&thread[i], NULL, work, &index[i]) != 0) {
            fprintf(stderr, "read_limit: no thread %zu\n", i);
            return 1;
        }
    }
    for (size_t i = 0; i < n_passes * BASE_STREAM_WAYS; i++) {
        double t0 = now();
        (void)pthread_barrier_wait(&start);
        (void)pthread_barrier_wait(&stop);
        rate[i % BASE_STREAM_WAYS][i / BASE_STREAM_WAYS] = (double)(part * n) / (now() - t0) / 1e9;
    }
    for (size_t i = 0; i < n; i++) (void)pthread_join(thread[i], NULL);
    size_t fast = 0;
    for (size_t w = 0; w < BASE_STREAM_WAYS; w++) {
        qsort(rate[w], n_passes, sizeof **rate, ascending);
        if (rate[w][n_passes / 2] > rate[fast][n_passes / 2]) fast = w;
    }
    printf("%.2f %.2f\n", rate[fast][n_passes / 2], rate[fast][n_passes - 1]);
    return 0;
}
