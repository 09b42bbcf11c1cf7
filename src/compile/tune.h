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

/* One a compile: what is left of its time is in it, and what it found. */
struct compile_tuner {
    hal_device *device; /* what is measured; borrowed */
    bool list;          /* max_autotune: all of lower_choices */
    bool
        descend; /* coordinate_descent_tuning: on from the best by one step of one knob, as long as that helps */
    int64_t budget; /* nanoseconds that measuring may take in all; what is left of it */
    uint32_t
        undecided; /* kernels that another process may decide otherwise: time was up, others held the cores, a failure */
    struct compile_tuned *tuned; /* by piece */
    /* For tests; NULL: the clock of the device and the host's. */
    int64_t (*now)(void *user);
    rp_status (*time)(void *user, const compile_trial *t, int64_t *ns, rp_error *err);
    void *user;
};

/* What a configuration asks for, with $REPRISE_AUTOTUNE_BUDGET; *on false: nothing. RP_UNSUPPORTED for a device that has nothing to
 * choose, or runs nothing. */
rp_status compile_tuner_of(const rp_compilation_config *cfg, hal_device *d, compile_tuner *out,
                           bool *on, rp_error *err) RP_MUST_USE;
void compile_tuner_done(compile_tuner *t); /* what it found; NULL is fine */
/* Adds what a tuner's choices hang on to the key of what is made by them; nothing where cfg asks for none. */
rp_status compile_tuner_key(const rp_compilation_config *cfg, hal_device *d, cache_key *k,
                            rp_error *err) RP_MUST_USE;
/* Whether products and common functions may run in kernels of the library: built_in_products, but not where a tuner chooses, which
 * those give no choice. */
rp_status compile_built_in(const rp_compilation_config *cfg, bool *out, rp_error *err) RP_MUST_USE;
/* What was found of a piece before: false where nothing was looked for. Keep takes `of` over, on failure too. */
bool compile_tuner_find(const compile_tuner *t, base_hash128 piece, const lower_choice **of,
                        uint32_t *n);
rp_status compile_tuner_keep(compile_tuner *t, base_hash128 piece, lower_choice *of, uint32_t n,
                             rp_error *err) RP_MUST_USE;

/* The choices of sp by group of fusion, the same for whoever asks in one compile, and the tuner's; NULL and 0: the rules', as without
 * a tuner. Reads records, and measures kernels that have none. What cannot be measured keeps the rules' choice, with the reason on
 * the channel. */
rp_status compile_tune_piece(const compile_options *opt, const split_piece *sp,
                             const lower_choice **out, uint32_t *n, rp_error *err) RP_MUST_USE;

/* Readings that were taken since the process started. */
uint64_t compile_tune_readings(void);

#endif
