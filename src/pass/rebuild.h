/* Rebuilding a graph node by node, the frame of every pass. */
#ifndef PASS_REBUILD_H
#define PASS_REBUILD_H

#include "ir/graph.h"

typedef struct pass_rebuild {
    const ir_graph *in;
    ir_graph *out;
    ir_ref *map; /* ref of in -> ref of out */
    bool *live;  /* by ref of in: reachable from outputs and effects */
    void *user;
    const bool *copied; /* outputs that become copies; NULL: none */
    rp_error *err;
} pass_rebuild;

/* Gives *out for node r of in, whose operands are in map; or leaves IR_NONE to have it copied. */
typedef rp_status (*pass_node_fn)(pass_rebuild *b, ir_ref r, ir_ref *out);

/* Leaves are kept, all of them; dead nodes are dropped; fn NULL copies. */
rp_status pass_rebuild_graph(const ir_graph *in, pass_node_fn fn, void *user, ir_graph **out,
                             rp_error *err) RP_MUST_USE;
/* The same graph, where output i is a copy if copied[i], another one than the outputs before it. */
rp_status pass_copy_outputs(const ir_graph *in, const bool *copied, ir_graph **out,
                            rp_error *err) RP_MUST_USE;

#endif
