/* Which of a few ways is the fastest, by a stopwatch that is not to be trusted with one reading.
 *
 * Rounds in which each runs once, in turns, so that what else goes on meets all of them; medians; who is clearly behind runs no
 * more. The first one is who is there already: another takes its place only where it was faster in most of the rounds. */
#ifndef COMPILE_TUNE_RACE_H
#define COMPILE_TUNE_RACE_H

#include <stdint.h>

#include "base/status.h"

typedef struct compile_race {
    /* One reading of racer i, in nanoseconds. */
    rp_status (*run)(void *user, uint32_t i, int64_t *ns, rp_error *err);
    int64_t (*now)(void *user);
    void *user;
    int64_t deadline; /* nothing begins at or after it */
} compile_race;

typedef struct compile_racer {
    int64_t median; /* of its readings; 0: it never ran */
    uint32_t rounds;
} compile_racer;

enum { COMPILE_RACE_ROUNDS = 21, COMPILE_RACE_LEAST = 5 };

/* *best is 0 where too few rounds were run to tell. */
rp_status compile_race_run(const compile_race *r, uint32_t n, compile_racer *out, uint32_t *best,
                           rp_error *err) RP_MUST_USE;

#endif
