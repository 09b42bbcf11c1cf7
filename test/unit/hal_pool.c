/* The cpu pool: barriers hold, an idle pool sleeps, more threads than cores make progress, signals stay
 * with the program's own threads. */
#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "hal/cpu/pool.h"
#include "support/thorough.h"

enum { MAX = 33 };

static int rounds(void) {
    return THOROUGH() ? 300 : 100;
}

typedef struct meeting {
    cpu_pool *pool;
    uint32_t n;
    int value[MAX][16]; /* plain memory: only the barrier orders it (and ThreadSanitizer watches) */
    atomic_int wrong;
} meeting;

/* Everybody writes its slot, meets, reads all others, meets again. */
static void meet(void *user, uint32_t t) {
    meeting *m = user;
    for (int round = 1, last = rounds(); round <= last; round++) {
        m->value[t][0] = round;
        cpu_pool_barrier(m->pool, t);
        for (uint32_t i = 0; i < m->n; i++)
            if (m->value[i][0] != round) atomic_fetch_add(&m->wrong, 1);
        cpu_pool_barrier(m->pool, t);
    }
}

static cpu_pool *new_pool(uint32_t n) {
    cpu_pool *p = NULL;
    rp_error err = {0};
    CHECK_OK(cpu_pool_new(n, &p, &err), &err);
    assert_int_equal(cpu_pool_size(p), n);
    return p;
}

static void barriers_hold_for_any_count(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 4, 5, 7, 8, 13, MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        static meeting m;
        memset(&m, 0, sizeof m);
        m.n = counts[i];
        m.pool = new_pool(m.n);
        int64_t t0 = base_now_ns();
        for (int run = 0; run < 3; run++) cpu_pool_run(m.pool, meet, &m);
        int64_t ns = base_now_ns() - t0;
        assert_int_equal(atomic_load(&m.wrong), 0);
        /* Far more threads than cores: slow is fine; a hang ends in the runner's time-out. */
        printf("%u threads: %.1f us a barrier\n", m.n, (double)ns / 1e3 / (6 * rounds()));
        cpu_pool_free(m.pool);
    }
}

static void count_thread(void *user, uint32_t t) {
    atomic_int *seen = user;
    atomic_fetch_add(&seen[t], 1);
}

static void every_thread_runs_once_a_run(void **state) {
    (void)state;
    atomic_int seen[5];
    for (int i = 0; i < 5; i++) atomic_init(&seen[i], 0);
    cpu_pool *p = new_pool(5);
    for (int run = 1; run <= 200; run++) {
        cpu_pool_run(p, count_thread, seen);
        for (int i = 0; i < 5; i++) assert_int_equal(atomic_load(&seen[i]), run);
        if (run % 50 == 0) (void)usleep(3000); /* wake from parked, too */
    }
    cpu_pool_free(p);
}

static void an_idle_pool_sleeps(void **state) {
    (void)state;
    atomic_int seen[3];
    for (int i = 0; i < 3; i++) atomic_init(&seen[i], 0);
    cpu_pool *p = new_pool(3);
    cpu_pool_run(p, count_thread, seen);
    (void)usleep(20000);
    clock_t before = clock();
    (void)usleep(200000);
    double used = (double)(clock() - before) / CLOCKS_PER_SEC;
    printf("cpu time of an idle pool in 0.2 s: %.4f s\n", used);
    assert_true(used < 0.05);
    cpu_pool_run(p, count_thread, seen);
    assert_int_equal(atomic_load(&seen[2]), 2);
    cpu_pool_free(p);
}

static void check_mask(void *user, uint32_t t) {
    sigset_t set;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (t != 0 && !sigismember(&set, SIGINT)) atomic_fetch_add((atomic_int *)user, 1);
    if (t == 0 && sigismember(&set, SIGINT)) atomic_fetch_add((atomic_int *)user, 1);
}

static void signals_stay_with_the_caller(void **state) {
    (void)state;
    atomic_int wrong;
    atomic_init(&wrong, 0);
    cpu_pool *p = new_pool(3);
    cpu_pool_run(p, check_mask, &wrong);
    cpu_pool_free(p);
    assert_int_equal(atomic_load(&wrong), 0);
}

/* Thread 0 of one run may be another thread than of the next. */
static void *run_elsewhere(void *user) {
    meeting *m = user;
    cpu_pool_run(m->pool, meet, m);
    return NULL;
}

static void the_caller_may_change(void **state) {
    (void)state;
    static meeting m;
    pthread_t other;
    memset(&m, 0, sizeof m);
    m.n = 2;
    m.pool = new_pool(2);
    for (int i = 0; i < 5; i++) {
        cpu_pool_run(m.pool, meet, &m);
        assert_int_equal(pthread_create(&other, NULL, run_elsewhere, &m), 0);
        assert_int_equal(pthread_join(other, NULL), 0);
    }
    assert_int_equal(atomic_load(&m.wrong), 0);
    cpu_pool_free(m.pool);
    cpu_pool_free(NULL);
}

static void look_at_mask(void *user, uint32_t t) {
    bool *blocked = user;
    sigset_t mask;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
    blocked[2 * t] = sigismember(&mask, SIGBUS);
    blocked[2 * t + 1] = sigismember(&mask, SIGINT);
}

/* Who reads a file that became shorter must be able to take the fault. */
static void faults_belong_to_the_thread_that_makes_them(void **state) {
    bool blocked[4] = {true, true, true, false};
    (void)state;
    cpu_pool *p = new_pool(2);
    cpu_pool_run(p, look_at_mask, blocked);
    cpu_pool_free(p);
    assert_false(blocked[2]);
    assert_true(blocked[3]);
}

static int spins(void **state) {
    (void)state;
    cpu_pool_crowded = false;
    return 0;
}
static int gives_way(void **state) {
    (void)state;
    cpu_pool_crowded = true;
    return 0;
}

#define BOTH_WAYS(test)                                                           \
    cmocka_unit_test_setup(test, spins), {                                        \
        .name = #test "_in_a_crowd", .test_func = (test), .setup_func = gives_way \
    }

int main(void) {
    size_t live = base_live();
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(barriers_hold_for_any_count),
        BOTH_WAYS(every_thread_runs_once_a_run),
        BOTH_WAYS(an_idle_pool_sleeps),
        cmocka_unit_test(signals_stay_with_the_caller),
        cmocka_unit_test(faults_belong_to_the_thread_that_makes_them),
        BOTH_WAYS(the_caller_may_change),
    };
    int failed = cmocka_run_group_tests_name("hal_pool", tests, NULL, NULL);
    return failed ? failed : base_live() != live;
}
