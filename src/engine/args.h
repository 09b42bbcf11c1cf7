/* The step inputs that captured launches read, as arguments of their graph wrapper.
 *
 * Values that one piece leaves for another lie in the arena of the plan, which never moves; the arrays of a step are
 * arguments, so that a wrapper can copy them or refuse them at a new address. One thread at a time. */
#ifndef ENGINE_ARGS_H
#define ENGINE_ARGS_H

#include "graph/wrapper.h"
#include "plan/exec.h"

typedef struct engine_arg {
    plan_exec *x;
    uint32_t input; /* of the plan of x */
    char rows;      /* symbol of the first dim: T, S or R; 0: no symbol, one row */
    size_t row_bytes, max_bytes;
} engine_arg;

typedef struct engine_args {
    graph_input *in; /* where the runner keeps them */
    engine_arg *of;
    uint32_t n;
} engine_args;

/* Where inputs come from. Names are borrowed from p, and every input has its address in x. */
typedef struct engine_args_source {
    plan_exec *x;
    const plan *p;
    const int64_t *symbols;    /* the largest value of each symbol of p */
    const char *const *except; /* inputs that are no arguments, NULL behind the last */
} engine_args_source;

/* Appends the inputs that launches of pieces [first, first+n) read. */
rp_status engine_args_add(engine_args *a, const engine_args_source *s, uint32_t first, uint32_t n,
                          rp_error *err) RP_MUST_USE;
void engine_args_done(engine_args *a);
/* What a wrapper is called with in this step: the rows that the step builder wrote. Borrowed. */
const graph_input *engine_args_step(engine_args *a, const rp_dispatch *d);
/* Later binds read the inputs from there; engine_args_unbind goes back to a->in. */
void engine_args_bind(const engine_args *a, const graph_input *in);
void engine_args_unbind(const engine_args *a);
/* The arrays were moved: takes their addresses from the executors. */
void engine_args_refresh(engine_args *a);
/* All of them at their largest. */
size_t engine_args_bytes(const engine_args *a);

#endif
