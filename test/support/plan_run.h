/* Runs a graph through a compile backend, a plan and a device, and compares what comes out. */
#ifndef SUPPORT_PLAN_RUN_H
#define SUPPORT_PLAN_RUN_H

#include "compile/compile.h"
#include "hal/hal.h"
#include "support/random_graph.h"

/* Packed outputs of one run, and states and inputs as they were left. */
typedef struct plan_run {
    void **out, **state, **input;
    size_t *out_size, *state_size, *input_size;
    uint32_t n_out, n_state, n_input;
    uint32_t n_kernels; /* that were generated */
} plan_run;

typedef struct plan_run_options {
    const rp_compiler *backend;
    gen_isa isa;
    const compile_toolchain *toolchain;
    cache_store *store;
    uint32_t threads;
    const char *const *splitting_ops;
    uint32_t n_splitting_ops;
    bool passes;
    const char *device;         /* NULL: cpu */
    hal_device *open;           /* (optional) a device in the place of that one; borrowed */
    const compile_nvrtc *nvrtc; /* for compile_cuda */
    bool exact, built_in;
    compile_tuner *tuner; /* (optional) */
    bool as_graph;        /* a replay of a device graph */
    bool
        watch; /* launches one by one: RP_INTERNAL where one changes an argument that it says it reads */
} plan_run_options;

/* leaves are not changed. Inputs, params, states and outputs lie beside pages without access (support/guarded.h): a read or a write
 * beyond them ends the program. Free with plan_run_done. */
rp_status plan_run_graph(const ir_graph *g, const random_leaves *leaves,
                         const plan_run_options *opt, plan_run *out, rp_error *err) RP_MUST_USE;
void plan_run_done(plan_run *r);

/* The first difference as text (equal NaNs are equal), or NULL. Static. */
const char *plan_run_differs(const ir_graph *g, const plan_run *a, const plan_run *b);
/* Against interpreted outputs, states and (where given) inputs that the graph mutates: |x - want| <= bound * max(1, |want|),
 * and the same NaNs. */
const char *plan_run_is_off(const ir_graph *g, const plan_run *r, const ir_value *out,
                            const ir_value *states, const ir_value *inputs, double bound);
/* What r left in outputs, states and inputs, in this order, as out->data, which has room for them. */
void plan_run_values(const ir_graph *g, const plan_run *r, ir_value *out);

#endif
