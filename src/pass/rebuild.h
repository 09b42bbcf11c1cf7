/* Rebuilding a graph node by node, the frame of every pass. */
#ifndef PASS_REBUILD_H
#define PASS_REBUILD_H

#include "ir/graph.h"

typedef struct pass_rebuild {
    const ir_graph *in;
    ir_graph *out;
    ir_ref *map; /* ref of in -> ref of out */
    bool *live;  /* by ref of in: pass_mark_live */
    void *user;
    const bool *copied; /* outputs that become copies; NULL: none */
    ir_ref next;        /* of in: all before it are done */
    rp_error *err;
} pass_rebuild;

/* Gives *out for node r of in, whose operands are in map; or leaves IR_NONE to have it copied. */
typedef rp_status (*pass_node_fn)(pass_rebuild *b, ir_ref r, ir_ref *out);

/* Sets live[r] of each node that outputs and effects need, and of each that the host may run, whose call is seen there. */
void pass_mark_live(const ir_graph *g, bool *live);
/* Leaves are kept, all of them; dead nodes are dropped; fn NULL copies. */
rp_status pass_rebuild_graph(const ir_graph *in, pass_node_fn fn, void *user, ir_graph **out,
                             rp_error *err) RP_MUST_USE;
/* The same in steps, for who replaces nodes on a way of his own. b has in, and what is optional; done also after a failure. */
rp_status pass_rebuild_begin(pass_rebuild *b) RP_MUST_USE;
/* All live nodes before `end` that are not in map yet: fn's, or copies. */
rp_status pass_rebuild_until(pass_rebuild *b, ir_ref end, pass_node_fn fn) RP_MUST_USE;
/* `made` stands for r from now on, and it and nodes of out from `first` on came from where r did. */
rp_status pass_rebuild_replace(pass_rebuild *b, ir_ref r, ir_ref first, ir_ref made) RP_MUST_USE;
/* What is left, and the outputs. */
rp_status pass_rebuild_finish(pass_rebuild *b, pass_node_fn fn, ir_graph **out) RP_MUST_USE;
void pass_rebuild_done(pass_rebuild *b);
/* The same graph, where output i is a copy if copied[i], another one than the outputs before it. */
rp_status pass_copy_outputs(const ir_graph *in, const bool *copied, ir_graph **out,
                            rp_error *err) RP_MUST_USE;

#endif
