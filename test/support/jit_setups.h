/* Ways to set up a function that must all give what level 0 gives: every level, captured or not, cut or whole. */
#ifndef SUPPORT_JIT_SETUPS_H
#define SUPPORT_JIT_SETUPS_H

#include "support/jits.h"

typedef struct jit_setup {
    const char *settings;
    const char *mode; /* (optional) of the options */
} jit_setup;

#define JIT_SPLIT "level=3 splitting_ops=[\"reprise::sum\",\"reprise::neg\"] "

/* No compiler runs for these: portable kernels. The first one is for a GPU, too. */
static const jit_setup jit_setups[] = {
    {"level=1", NULL},
    {"level=2 backend=aot_eager", NULL},
    {JIT_SPLIT "backend=eager", NULL},
    {"level=1 cudagraph_mode=FULL", NULL},
    {JIT_SPLIT "backend=aot_eager cudagraph_mode=PIECEWISE", NULL},
    {"level=2 backend=cudagraphs", NULL},
    {JIT_SPLIT "backend=eager cudagraph_mode=FULL_AND_PIECEWISE", NULL},
    {JIT_SPLIT "backend=aot_eager cudagraph_mode=FULL_DECODE_ONLY", NULL},
    {JIT_SPLIT "backend=cudagraphs", NULL},
    {"level=0", NULL},
};
/* Generated code. */
static const jit_setup jit_setups_compiled[] = {
    {"level=2 threads=1", NULL},
    {JIT_SPLIT "threads=1", NULL},
    {"threads=1", "reduce-overhead"},
    {JIT_SPLIT "threads=1 cudagraph_mode=PIECEWISE", NULL},
    {JIT_SPLIT "threads=1", "reduce-overhead"},
    {"level=3 threads=1 cudagraph_mode=FULL", NULL},
    {JIT_SPLIT "threads=1 cudagraph_mode=FULL_AND_PIECEWISE", NULL},
};
enum {
    JIT_SETUPS = sizeof jit_setups / sizeof *jit_setups,
    JIT_SETUPS_COMPILED = sizeof jit_setups_compiled / sizeof *jit_setups_compiled,
    JIT_SETUPS_ELSEWHERE = JIT_SETUPS_COMPILED - 2 /* those behind read inputs where they lie */
};

/* Each second form of arguments is of uniform batches. */
static inline bool jit_uniform(void *user, const rp_value *args) {
    (void)user;
    return args->n && args->item[0].kind == RP_VALUE_TENSOR && args->item[0].tensor.dim[0] % 2;
}

static inline rp_jit *jit_set_up(rp_jit_options o, const jit_setup *s) {
    o.mode = s->mode;
    o.uniform = jit_uniform;
    return jit_by(o, s->settings);
}

#endif
