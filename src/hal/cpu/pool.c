/* The thread pool: a job counter that wakes the workers, a counter each that says they are done, and
 * a dissemination barrier between the launches of one job: in round r thread t tells thread t + 2^r
 * and waits for thread t - 2^r, so two threads meet in one cache line transfer.
 *
 * Counters only grow, so nothing is reset between jobs. Threads block all signals and have no
 * affinity. Where more threads than granted cores run, nobody spins: whoever waits gives its core
 * away. Knows nothing of launches. */
#include "hal/cpu/pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "hal/cpu/wait.h"

enum { MAX_ROUNDS = 16 };

/* Between jobs workers park early; inside of a job the wait is short or the other is not running. */
static const cpu_patience job_patience = {80 * 1000, 0}, job_patience_crowded = {0, 0};
static const cpu_patience meet_patience = {100 * 1000, 1000 * 1000},
                          meet_patience_crowded = {2 * 1000, 200 * 1000};

bool cpu_pool_crowded = false;

typedef struct worker {
    cpu_cell done;              /* jobs finished */
    cpu_cell round[MAX_ROUNDS]; /* barrier: written by one other thread each */
    uint32_t barriers;          /* barriers passed; own */
    uint32_t idx;
    pthread_t thread;
    cpu_pool *pool;
} worker;

struct cpu_pool {
    cpu_cell job;   /* jobs started */
    cpu_pool_fn fn; /* NULL: leave */
    void *user;
    uint32_t n, n_started, n_rounds;
    const cpu_patience *between, *within;
    int64_t waited; /* by thread 0, beyond spinning */
    worker *w;
};

void cpu_pool_barrier(cpu_pool *p, uint32_t thread) {
    worker *me = &p->w[thread];
    uint32_t count = ++me->barriers;
    for (uint32_t r = 0, step = 1; r < p->n_rounds; r++, step *= 2) {
        cpu_cell_set(&p->w[(thread + step) % p->n].round[r], count);
        int64_t ns = cpu_cell_wait(&me->round[r], count, p->within);
        if (thread == 0) p->waited += ns;
    }
}

static void *worker_main(void *arg) {
    worker *me = arg;
    cpu_pool *p = me->pool;
    for (uint32_t job = 1;; job++) {
        (void)cpu_cell_wait(&p->job, job, p->between);
        if (!p->fn) return NULL;
        p->fn(p->user, me->idx);
        cpu_cell_set(&me->done, job);
    }
}

void cpu_pool_run(cpu_pool *p, cpu_pool_fn fn, void *user) {
    if (p->n == 1) {
        fn(user, 0);
        return;
    }
    uint32_t job = p->w[0].done.value + 1;
    p->fn = fn;
    p->user = user;
    cpu_cell_set(&p->job, job);
    fn(user, 0);
    for (uint32_t t = 1; t < p->n; t++) p->waited += cpu_cell_wait(&p->w[t].done, job, p->within);
    p->w[0].done.value = job;
}

int64_t cpu_pool_waited(const cpu_pool *p) {
    return p->waited;
}

uint32_t cpu_pool_size(const cpu_pool *p) {
    return p->n;
}

static rp_status start_thread(worker *w, rp_error *err) {
    int code = base_sys_fails() ? EAGAIN : pthread_create(&w->thread, NULL, worker_main, w);
    if (code)
        return rp_fail(err, RP_DEVICE,
                       "thread %u of the cpu pool could not be started: %s; use "
                       "fewer --threads",
                       w->idx, base_errno_text(code));
    char name[16];
    (void)snprintf(name, sizeof name, "reprise-%u", w->idx % 1000);
    (void)pthread_setname_np(w->thread, name);
    return RP_OK;
}

/* Signals belong to the program's own threads, but for faults, which belong to who makes them. */
static rp_status start_threads(cpu_pool *p, rp_error *err) {
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t all, old;
    rp_status st = RP_OK;
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) (void)sigdelset(&all, faults[i]);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    for (uint32_t t = 1; t < p->n && st == RP_OK; t++) {
        st = start_thread(&p->w[t], err);
        if (st == RP_OK) p->n_started++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return st;
}

rp_status cpu_pool_new(uint32_t n_threads, cpu_pool **out, rp_error *err) {
    rp_status st = RP_OK;
    cpu_pool *p = base_alloc_aligned(sizeof *p, 64);
    if (!p) return rp_fail(err, RP_NOMEM, "no memory for the cpu pool");
    bool crowded = cpu_pool_crowded || n_threads > cpu_cores_granted();
    p->n = n_threads;
    p->between = crowded ? &job_patience_crowded : &job_patience;
    p->within = crowded ? &meet_patience_crowded : &meet_patience;
    while ((1u << p->n_rounds) < n_threads) p->n_rounds++;
    size_t size;
    if (p->n_rounds <= MAX_ROUNDS && base_mul_size(n_threads, sizeof *p->w, &size))
        p->w = base_alloc_aligned(size, 64);
    if (!p->w) {
        st = rp_fail(err, RP_NOMEM, "no memory for %u threads", n_threads);
        goto out;
    }
    for (uint32_t t = 0; t < n_threads; t++) {
        p->w[t].idx = t;
        p->w[t].pool = p;
    }
    RP_TRY_OUT(start_threads(p, err));
    *out = p;
    p = NULL;
out:
    cpu_pool_free(p);
    return st;
}

void cpu_pool_free(cpu_pool *p) {
    if (!p) return;
    if (p->w && p->n_started) {
        p->fn = NULL;
        cpu_cell_set(&p->job, p->w[0].done.value + 1);
        for (uint32_t t = 1; t <= p->n_started; t++) (void)pthread_join(p->w[t].thread, NULL);
    }
    base_free(p->w);
    base_free(p);
}
