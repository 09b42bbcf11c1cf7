/* See callers.h. */
#include "support/callers.h"

#include "support/check.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/hash.h"

enum { MOST_CALLS = 1 << 16, SLOTS = 1 << 17, MOST_DEEP = 16, OWN = 2 };

/* A chain, by its hash, and its calls. */
typedef struct chain {
    uint64_t hash, n, last;
} chain;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static chain chains[SLOTS];
static bool chosen[MOST_CALLS + 1];
static uint64_t n_calls;
static int deep;

static void seen(void) {
    void *frame[OWN + MOST_DEEP];
    const int n = backtrace(frame, OWN + deep);
    const uint64_t hash = n > OWN ? base_hash64(frame + OWN, (size_t)(n - OWN) * sizeof *frame) : 1;
    (void)pthread_mutex_lock(&lock);
    uint64_t at = hash % SLOTS;
    while (chains[at].n && chains[at].hash != hash) at = (at + 1) % SLOTS;
    if (n_calls < MOST_CALLS) {
        n_calls++;
        chains[at].hash = hash;
        chains[at].last = n_calls;
        if (chains[at].n++ < 2) chosen[n_calls] = true;
    }
    (void)pthread_mutex_unlock(&lock);
}

void callers_watch(void (*watch)(void (*)(void)), int n_functions) {
    assert_true(n_functions > 0 && n_functions <= MOST_DEEP);
    deep = n_functions;
    memset(chains, 0, sizeof chains);
    memset(chosen, 0, sizeof chosen);
    n_calls = 0;
    watch(seen);
}

callers callers_seen(void (*watch)(void (*)(void))) {
    callers c = {0};
    watch(NULL);
    assert_true(n_calls > 0 && n_calls < MOST_CALLS);
    for (size_t i = 0; i < SLOTS; i++)
        if (chains[i].n) chosen[chains[i].last] = true;
    c.all = n_calls;
    c.nth = malloc(n_calls * sizeof *c.nth);
    assert_non_null(c.nth);
    for (uint64_t i = 1; i <= n_calls; i++)
        if (chosen[i]) c.nth[c.n++] = i;
    return c;
}

void callers_done(const callers *c) {
    free(c->nth);
}
