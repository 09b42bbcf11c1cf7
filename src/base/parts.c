#include "base/parts.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct job {
    base_part_fn work;
    void *user;
    uint64_t n;
    atomic_uint_fast64_t next;
    atomic_uint threads; /* that have begun */
} job;

static void *take_parts(void *arg) {
    job *j = arg;
    uint32_t me = atomic_fetch_add(&j->threads, 1);
    for (;;) {
        uint64_t part = atomic_fetch_add(&j->next, 1);
        if (part >= j->n) return NULL;
        j->work(j->user, me, part);
    }
}

void base_parts(uint64_t n, uint32_t threads, base_part_fn work, void *user) {
    job j = {.work = work, .user = user, .n = n};
    pthread_t others[BASE_PARTS_THREADS];
    uint32_t started = 0;
    if (threads > BASE_PARTS_THREADS) threads = BASE_PARTS_THREADS;
    if (threads > n) threads = (uint32_t)n;
    while (started + 1 < threads && pthread_create(&others[started], NULL, take_parts, &j) == 0)
        started++;
    (void)take_parts(&j);
    for (uint32_t i = 0; i < started; i++) (void)pthread_join(others[i], NULL);
}
