/* The two plans of a model, from the cache or made now, and those of step sizes that have code of their own. */
#ifndef ENGINE_PLANS_H
#define ENGINE_PLANS_H

#include "compile/compile.h"
#include "config/config.h"
#include "cache/key.h"
#include "hal/hal.h"
#include "model/llama.h"

typedef struct engine_plans {
    plan *model, *head;
    int64_t first, last; /* sizes of a step that it is for, without a head; 0, 0: all */
    bool is_range;       /* of compile_ranges_endpoints; else of compile_sizes */
    bool decode;         /* of decode steps alone (decode.h) */
    struct engine_plans
        *sized; /* sizes, decode steps, then ranges, ascending each (engine_plans_load_sizes) */
    uint32_t n_sized;
    char no_decode
        [480]; /* of those of all sizes: why decode steps are wanted in a plan of their own and have none, or empty */
    pass_counts passes;  /* of both, also of cached ones */
    compile_stats stats; /* of the model graph; compiles and kernels with the head's */
    bool from_cache;
    uint32_t loaded; /* code objects that came from the cache */
    double trace_ms, compile_ms;
    uint64_t traces, graph_breaks; /* finished and refused */
    uint64_t recompiles;           /* 1: made although the cache has a plan of the same model */
    uint32_t undecided;            /* kernels that the autotuner leaves to the next start */
    bool no_compiler;              /* also after a failure: why loading failed */
    char missing[400];             /* with no_compiler: why there is none, and what to do */
    const char *cure;
} engine_plans;

typedef struct engine_plans_options {
    const model_source *source;
    rp_compilation_config *config; /* resolved; downgrades are noted in it */
    cache_store *store;
    hal_device *device; /* (optional) that the autotuner measures */
    gen_isa isa;
    const char *arch; /* of a GPU (hal_device_info.arch); "" or NULL: this host is compiled for */
    uint32_t threads;
    int64_t first, last; /* engine_plans.first, last */
    const struct engine_plans
        *decode_of; /* (optional) those of all sizes, whose decode steps are wanted */
    void (*progress)(void *user, uint32_t done, uint32_t total);
    bool (*wanted)(void *user); /* (optional) false stops compiling; asked from several threads */
    void *user;
} engine_plans_options;

/* A warm cache gives both plans without tracing, and without looking for a compiler. RP_UNSUPPORTED with no_compiler set
 * when one is needed and there is none: level 0 still works. */
rp_status engine_plans_load(const engine_plans_options *o, engine_plans *out,
                            rp_error *err) RP_MUST_USE;
/* A plan of decode steps where the kernels for them take the model, one for each of compile_sizes and one for each range between compile_ranges_endpoints into p, which is loaded (sized.c); one whose
 * weights would be packed otherwise, or that would be compiled and cannot be, is left out, with a note. */
rp_status engine_plans_load_sizes(const engine_plans_options *o, engine_plans *p,
                                  rp_error *err) RP_MUST_USE;
void engine_plans_done(engine_plans *p);
/* The factors that find a plan. Owned by the caller (cache_key_free). */
rp_status engine_plans_key(const engine_plans_options *o, cache_key **out,
                           rp_error *err) RP_MUST_USE;

/* Of the graphs of a model. */
rp_numerics engine_plans_numerics(const rp_compilation_config *c);

#endif
