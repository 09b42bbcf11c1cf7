/* Passes that users register, and running one over a piece. */
#ifndef REWRITE_REGISTRY_H
#define REWRITE_REGISTRY_H

#include "ir/graph.h"
#include "reprise/pass.h"

enum { REWRITE_MOST = 64, REWRITE_MOST_NAME = 64, REWRITE_MOST_TYPE = 64 };

/* Never changes once it can be found. */
typedef struct rewrite_pass {
    rp_pass_desc desc; /* names and types are those here */
    char name[REWRITE_MOST_NAME];
    char uuid[33]; /* hash of what the keys know it by */
    char type[RP_MAX_PATTERN_INPUTS][REWRITE_MOST_TYPE];
    const char *types[RP_MAX_PATTERN_INPUTS];
} rewrite_pass;

/* NULL behind the last. Thread-safe, as the next. */
const rewrite_pass *rewrite_at(uint32_t i);
/* All names, for messages: an array that may grow behind *n. */
const char *const *rewrite_names(uint32_t *n);

/* The pass `self` (a rewrite_pass) over in, as pass_extra.run. Errors do not name the pass. */
rp_status rewrite_run(const void *self, const ir_graph *in, ir_graph **out, uint32_t *n_matches,
                      rp_error *err) RP_MUST_USE;

#endif
