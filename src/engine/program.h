/* One compiled graph of a model as the engine runs it: its plan, its executor, and what lies where. One thread at a time. */
#ifndef ENGINE_PROGRAM_H
#define ENGINE_PROGRAM_H

#include "engine/weights.h"
#include "plan/exec.h"

typedef struct engine_program {
    const plan *p;
    plan_exec *x;
    uint32_t symbol[16]; /* plan symbol -> which of the sizes */
} engine_program;

/* Values of symbols. */
typedef struct engine_sizes {
    int64_t tokens, rows, seqs;
    int64_t blocks;              /* of one sequence */
    int64_t n_blocks, positions; /* of the cache, of the rope tables */
} engine_sizes;

/* p and what o names are borrowed; plan_exec_free(g->x) ends it. */
rp_status engine_program_open(engine_program *g, const plan *p, const plan_exec_options *o,
                              rp_error *err) RP_MUST_USE;
void engine_program_sizes(const engine_program *g, const engine_sizes *sizes, int64_t symbols[16]);

/* RP_INTERNAL where the plan has no such input. */
rp_status engine_program_input(engine_program *g, const char *name, void *data,
                               rp_error *err) RP_MUST_USE;
/* All n of them. */
rp_status engine_program_outputs(engine_program *g, void *const *data, uint32_t n,
                                 rp_error *err) RP_MUST_USE;
/* Parameters where w has them. What the device reads in a file's mapping is registered as a range of it. */
rp_status engine_program_params(engine_program *g, const engine_weights *w, model_source *source,
                                hal_device *device, rp_error *err) RP_MUST_USE;

#endif
