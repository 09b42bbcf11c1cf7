/* What of a graph a backend says that it takes, node by node. */
#ifndef API_OFFER_H
#define API_OFFER_H

#include "backend/registry.h"
#include "base/alloc.h"
#include "ir/graph.h"

typedef struct api_offer {
    bool *takes; /* by node, as split_in_sides wants it */
    const char **
        why; /* by node that it does not take, with the line that asked for it where that is known; NULL of the others */
    bool *splits; /* by node: it is a splitting op, of which nobody was asked */
    bool all;     /* it takes each node, and inputs are all that there is beside them */
    base_arena *arena;
} api_offer;

/* Asks d; one without `supports` takes all. What is in memory that calls write stays with inductor, whatever d says, and so do ops
 * that are named in `ops` (n_ops, as splitting_ops). */
rp_status api_offer_make(const rp_backend_desc *d, const rp_graph *g, const char *const *ops,
                         uint32_t n_ops, api_offer *out, rp_error *err) RP_MUST_USE;
void api_offer_done(api_offer *o); /* of one that was zeroed, too */

#endif
