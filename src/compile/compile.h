/* The pipeline from a traced graph to a plan: split, optimise, lower, compile, assemble.
 *
 * Each distinct piece is lowered once and each distinct kernel compiled once; compiles run in parallel. The result is
 * deterministic. */
#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H

#include "compile/compiler.h"
#include "pass/pipeline.h"
#include "plan/plan.h"
#include "rewrite/ops.h"
#include "split/split.h"

typedef struct compile_tuner compile_tuner;

typedef struct compile_options {
    const rp_compiler *backend;
    gen_isa isa;
    const char *const *splitting_ops; /* n 0: the whole graph is one piece */
    uint32_t n_splitting_ops;
    const compile_toolchain *toolchain;
    const compile_nvrtc *nvrtc; /* (optional) for the cuda compiler */
    cache_store *store;
    bool exact;                     /* lower_options.exact */
    bool built_in;                  /* lower_options.built_in */
    int64_t first, last;            /* sizes of a model's steps that it is for; 0, 0: all */
    const char *key_fields;         /* configuration text that reaches a piece (config room) */
    uint32_t threads;               /* compiler runs at a time */
    uint32_t launch_threads;        /* lower_options.threads */
    bool passes;                    /* run the pass pipeline */
    const char *const *skip_passes; /* passes and fusions to leave out (pass/pipeline.h) */
    uint32_t n_skip_passes;
    const pass_extra *extra_passes; /* those of users */
    uint32_t n_extra_passes;
    /* (optional) Which registered ops are not lowered (rewrite/ops.h). NULL: all that have a lowering are left as they are. */
    rewrite_keeps_fn keeps_op;
    const void *keeps_user;
    bool keep_going;          /* pass_options.keep_going */
    pass_counts *pass_counts; /* (optional) of pieces that are lowered, equal ones once */
    compile_tuner
        *tuner;        /* (optional) measures what else than the rules' choices there is (tune.h) */
    bool trial;        /* it is the tuner who compiles: channels are not told */
    bool keep_sources; /* the generated text of each piece beside its code */
    void (*progress)(void *user, uint32_t done, uint32_t total);
    void *user;
    /* (optional) Called once before the first run of the toolchain, and not where all code is stored. */
    rp_status (*room)(void *user, rp_error *err);
    void *room_user;
} compile_options;

/* Under this name pass_counts has how many registered ops were lowered. */
#define COMPILE_LOWERED_OPS "custom_ops"

typedef struct compile_stats {
    uint32_t pieces, compiled, distinct;
    uint32_t compiles;   /* compiler runs */
    uint32_t cache_hits; /* units whose code was in the cache */
    uint32_t kernels;    /* functions, equal ones once */
    double lower_ms, compile_ms;
} compile_stats;

/* A graph of several that are compiled together; splitting_ops of its own. */
typedef struct compile_task {
    const ir_graph *g;
    const char *const *splitting_ops;
    uint32_t n_splitting_ops;
    plan *out;           /* sealed; free with plan_free */
    compile_stats stats; /* what an earlier task shares with this one counts there */
} compile_task;

/* One list of jobs for all graphs (splitting_ops of opt are not read). On failure no task has a plan. */
rp_status compile_graphs(compile_task *tasks, uint32_t n, const compile_options *opt,
                         rp_error *err) RP_MUST_USE;
/* *out is sealed; free with plan_free. */
rp_status compile_graph(const ir_graph *g, const compile_options *opt, plan **out,
                        compile_stats *stats, rp_error *err) RP_MUST_USE;

/* Hash, taken at build time, of the sources that decide what is generated. */
const char *compile_source_hash(void);

#endif
