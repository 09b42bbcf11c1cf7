/* Readings are kept by racer and round; see tune_race.h for what is made of them. */
#include "compile/tune_race.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A racer whose best reading is so much above the median of the first is out; one that took so much less time has won. */
static bool is_behind(int64_t least, int64_t leader) {
    return least > leader + leader / 8;
}
static bool is_ahead(int64_t median, int64_t first) {
    return median < first - first / 50;
}

typedef struct course {
    const compile_race *r;
    uint32_t n, rounds;
    int64_t *ns; /* [n][COMPILE_RACE_ROUNDS]; 0: did not run */
    bool *out;
} course;

static int64_t *readings(const course *c, uint32_t i) {
    return c->ns + (size_t)i * COMPILE_RACE_ROUNDS;
}

static int by_size(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static compile_racer result(const course *c, uint32_t i) {
    int64_t sorted[COMPILE_RACE_ROUNDS];
    compile_racer out = {0};
    for (uint32_t k = 0; k < c->rounds; k++)
        if (readings(c, i)[k]) sorted[out.rounds++] = readings(c, i)[k];
    if (out.rounds == 0) return out;
    qsort(sorted, out.rounds, sizeof *sorted, by_size);
    out.median = sorted[out.rounds / 2];
    return out;
}

static int64_t least(const course *c, uint32_t i) {
    int64_t m = INT64_MAX;
    for (uint32_t k = 0; k < c->rounds; k++)
        if (readings(c, i)[k] && readings(c, i)[k] < m) m = readings(c, i)[k];
    return m;
}

/* False when there is no time left; what was run of the round counts. */
static rp_status run_round(course *c, bool *more, rp_error *err) {
    const uint32_t round = c->rounds++;
    for (uint32_t k = 0; k < c->n; k++) {
        const uint32_t i = (k + round) % c->n;
        int64_t ns = 0;
        if (c->out[i]) continue;
        *more = c->r->now(c->r->user) < c->r->deadline;
        if (!*more) return RP_OK;
        RP_TRY(c->r->run(c->r->user, i, &ns, err));
        readings(c, i)[round] = ns > 0 ? ns : 1;
    }
    return RP_OK;
}

/* True when nobody is left who could still win. */
static bool drop_slow(course *c) {
    int64_t leader = INT64_MAX;
    uint32_t left = 0;
    if (c->rounds < COMPILE_RACE_LEAST) return false;
    for (uint32_t i = 0; i < c->n; i++) {
        const int64_t m = result(c, i).median;
        if (!c->out[i] && m < leader) leader = m;
    }
    for (uint32_t i = 1; i < c->n; i++) {
        c->out[i] = c->out[i] || is_behind(least(c, i), leader);
        left += !c->out[i];
    }
    return left == 0;
}

/* Faster than the first in three of four rounds that both ran, and by more than a hair. */
static bool beats_first(const course *c, uint32_t i) {
    const compile_racer own = result(c, i), first = result(c, 0);
    uint32_t both = 0, faster = 0;
    for (uint32_t k = 0; k < c->rounds; k++) {
        if (!readings(c, i)[k] || !readings(c, 0)[k]) continue;
        both++;
        faster += readings(c, i)[k] < readings(c, 0)[k];
    }
    return both >= COMPILE_RACE_LEAST && faster * 4 >= both * 3 &&
           is_ahead(own.median, first.median);
}

static uint32_t winner(const course *c) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < c->n; i++)
        if (beats_first(c, i) && result(c, i).median < result(c, best).median) best = i;
    return best;
}

rp_status compile_race_run(const compile_race *r, uint32_t n, compile_racer *out, uint32_t *best,
                           rp_error *err) {
    rp_status st = RP_OK;
    bool more = true;
    course c = {.r = r, .n = n};
    c.ns = base_alloc_array((size_t)n * COMPILE_RACE_ROUNDS, sizeof *c.ns);
    c.out = base_alloc_array(n, sizeof *c.out);
    if (!c.ns || !c.out) {
        st = rp_fail(err, RP_NOMEM, "readings of %u choices", n);
        goto out;
    }
    while (more && c.rounds < COMPILE_RACE_ROUNDS) {
        RP_TRY_OUT(run_round(&c, &more, err));
        if (drop_slow(&c)) break;
    }
    for (uint32_t i = 0; i < n; i++) out[i] = result(&c, i);
    *best = winner(&c);
out:
    base_free(c.ns);
    base_free(c.out);
    return st;
}
