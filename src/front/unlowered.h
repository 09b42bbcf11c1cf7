/* Which ops of a graph have no form on the device of a function. */
#ifndef FRONT_UNLOWERED_H
#define FRONT_UNLOWERED_H

#include "front/recording.h"

typedef struct front_unlowered {
    char **op, **why; /* n: names as splitting_ops has them, and what was said of them */
    uint32_t n;
} front_unlowered;

/* Tries each op alone, after the graph was refused. */
rp_status front_unlowered_find(const rp_jit *f, const rp_graph *g, front_unlowered *out,
                               rp_error *err) RP_MUST_USE;
void front_unlowered_done(front_unlowered *u);
/* Each is a graph break, with its line; an error under fullgraph. */
rp_status front_unlowered_tell(rp_jit *f, const front_unlowered *u, const rp_graph *g,
                               rp_error *err) RP_MUST_USE;

#endif
