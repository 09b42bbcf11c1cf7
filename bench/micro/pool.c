/* What the cpu pool costs on this machine: a barrier between two launches, a wake-up while the
 * workers spin, a wake-up after they have parked, and the same with more threads than cores.
 * Prints one line a figure: name, threads, median and 95th percentile in nanoseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "hal/cpu/pool.h"

enum { SAMPLES = 400, BARRIERS = 1000 };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, uint32_t n_threads, double *v, size_t n) {
    qsort(v, n, sizeof *v, compare);
    printf("%-22s threads %2u  median %9.0f ns  p95 %9.0f ns\n", name, n_threads, v[n / 2],
           v[n * 95 / 100]);
    (void)fflush(stdout);
}

static void nothing(void *user, uint32_t t) {
    (void)user, (void)t;
}

static void barriers(void *user, uint32_t t) {
    for (int i = 0; i < BARRIERS; i++) cpu_pool_barrier(user, t);
}

static void bench_barrier(cpu_pool *p, int samples) {
    static double v[SAMPLES];
    cpu_pool_run(p, barriers, p);
    for (int i = 0; i < samples; i++) {
        int64_t t0 = base_now_ns();
        cpu_pool_run(p, barriers, p);
        v[i] = (double)(base_now_ns() - t0) / BARRIERS;
    }
    report("barrier", cpu_pool_size(p), v, (size_t)samples);
}

static void bench_wake(cpu_pool *p, const char *name, long pause_ns, int samples) {
    static double v[SAMPLES];
    for (int i = 0; i < samples; i++) {
        struct timespec ts = {0, pause_ns};
        if (pause_ns) (void)nanosleep(&ts, NULL);
        int64_t t0 = base_now_ns();
        cpu_pool_run(p, nothing, NULL);
        v[i] = (double)(base_now_ns() - t0);
    }
    report(name, cpu_pool_size(p), v, (size_t)samples);
}

int main(void) {
    uint32_t cores = cpu_cores_granted(), sizes[] = {1, 2, cores, 4 * cores};
    printf("%u cores granted\n", cores);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (i && sizes[i] <= sizes[i - 1]) continue;
        cpu_pool *p = NULL;
        rp_error err = {0};
        if (cpu_pool_new(sizes[i], &p, &err) != RP_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        int samples = sizes[i] > cores ? 20 : SAMPLES;
        bench_barrier(p, samples);
        bench_wake(p, "run, workers spinning", 0, samples);
        bench_wake(p, "run, workers parked", 2000000, samples);
        cpu_pool_free(p);
    }
    return 0;
}
