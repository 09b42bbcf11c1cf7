/* The autotuner: of each kernel of a piece, which of a few ways that give the same bits is the fastest on this machine.
 *
 * Candidates are choices in place of the rules' (lower_choices); all of a piece are compiled together and run on memory of the sizes
 * that the piece has (nominal ones of its symbols), launch by launch, in turns (tune_race.h). What was found is a tuning record in the
 * cache, by machine, compiler, kernel and sizes: it is read instead of measuring, so with it the same graph gives the same bytes.
 * The channel `autotuning` has torch's table. */
#ifndef COMPILE_TUNE_H
#define COMPILE_TUNE_H

#include "compile/compile.h"
#include "config/config.h"
#include "hal/hal.h"

/* A launch that is measured, as often as wanted in a list. */
typedef struct compile_trial {
    hal_device *device; /* the queue that they are for */
    const char *label;
    const lower_choice *choice;
    const hal_launch *launches; /* n equal ones */
    uint32_t n;
    size_t scratch;
} compile_trial;

/* One a compile: what is left of its time is in it. */
struct compile_tuner {
    hal_device *device; /* what is measured; borrowed */
    bool list;          /* max_autotune: all of lower_choices */
    bool
        descend; /* coordinate_descent_tuning: on from the best by one step of one knob, as long as that helps */
    int64_t budget; /* nanoseconds that measuring may take in all; what is left of it */
    /* For tests; NULL: the clock of the device and the host's. */
    int64_t (*now)(void *user);
    rp_status (*time)(void *user, const compile_trial *t, int64_t *ns, rp_error *err);
    void *user;
};

/* What a configuration asks for, with $REPRISE_AUTOTUNE_BUDGET; *on false: nothing. RP_UNSUPPORTED for a device that has nothing to
 * choose, or runs nothing. */
rp_status compile_tuner_of(const rp_compilation_config *cfg, hal_device *d, compile_tuner *out,
                           bool *on, rp_error *err) RP_MUST_USE;

/* The choices of sp by group of fusion, owned by the caller (base_free); NULL and 0: the rules'. Reads records, and measures kernels
 * that have none. What cannot be measured keeps the rules' choice, with the reason on the channel. */
rp_status compile_tune_piece(const compile_options *opt, const compile_host *h,
                             const split_piece *sp, lower_choice **out, uint32_t *n,
                             rp_error *err) RP_MUST_USE;

/* Readings that were taken since the process started. */
uint64_t compile_tune_readings(void);

#endif
