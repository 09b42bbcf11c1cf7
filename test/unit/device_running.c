/* Whether other threads run something: by as many threads as there are, also those that have no counters of their own. */
#include "support/check.h"

#include <pthread.h>
#include <semaphore.h>

#include "device/running.h"

/* As many have counters of their own; of the others, those so far apart share some. */
enum { OWN = 64, THREADS = 4 * OWN };

/* A thread, which does what it is told; NULL: it ends. */
typedef struct worker {
    pthread_t thread;
    void (*act)(void);
    sem_t go, done;
} worker;

static void *work(void *user) {
    worker *w = user;
    for (;;) {
        while (sem_wait(&w->go) != 0) {
        }
        if (!w->act) return NULL;
        w->act();
        (void)sem_post(&w->done);
    }
}

static void make(worker *w, void (*act)(void)) {
    w->act = act;
    (void)sem_post(&w->go);
    while (act && sem_wait(&w->done) != 0) {
    }
}

static void others_are_seen_from_begin_to_end(void **state) {
    static worker w[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(sem_init(&w[i].go, 0, 0), 0);
        assert_int_equal(sem_init(&w[i].done, 0, 0), 0);
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    device_run_begin(); /* its own does not count */
    for (int i = 0; i < THREADS; i++) {
        device_moment then = device_now();
        assert_true(then.alone);
        make(&w[i], device_run_begin);
        assert_false(device_alone_since(then));
        assert_false(device_now().alone);
        if (i >= OWN) { /* two at once */
            make(&w[i - OWN], device_run_begin);
            make(&w[i], device_run_end);
            assert_false(device_now().alone);
            make(&w[i - OWN], device_run_end);
        } else {
            make(&w[i], device_run_end);
        }
        assert_true(device_now().alone);
        assert_false(device_alone_since(then));
    }
    device_run_end();
    assert_true(device_now().alone);
    for (int i = 0; i < THREADS; i++) {
        make(&w[i], NULL);
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        (void)sem_destroy(&w[i].go);
        (void)sem_destroy(&w[i].done);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(others_are_seen_from_begin_to_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
