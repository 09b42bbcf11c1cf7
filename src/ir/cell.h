/* Inside of the graph: how it is kept (graph.c), for what adds to it (build.c). */
#ifndef IR_CELL_H
#define IR_CELL_H

#include <stdatomic.h>

#include "ir/node.h"

typedef struct ir_cell {
    ir_node node;
    uint32_t hash;
    ir_ref writer; /* effect that overwrites this version */
    ir_site_link *sites;
} ir_cell;

typedef struct ir_leaf_list {
    ir_ref *ref;
    uint32_t n, cap;
} ir_leaf_list;

/* A graph that is an attribute of a node. */
typedef struct ir_inner {
    ir_graph *g;
    struct ir_inner *next;
} ir_inner;

/* Nodes that are done in the run that asks for them, in the order in which runs asked for them first: those that are not merged, and calls that the host runs. */
typedef struct ir_runs {
    ir_ref *ref;
    uint64_t *run; /* the last one that asked for it */
    ir_effects
        effects; /* of this run, and calls that the host runs, which may do what the graph does not tell */
    uint32_t n, cap;
    uint64_t now;
} ir_runs;

struct ir_graph {
    base_arena *arena;
    ir_runs *runs; /* NULL: one trace */
    atomic_uint shares;
    _Atomic(char *) text; /* of a finished graph, once somebody has asked */
    ir_inner *inner;
    uint32_t n_inside, depth; /* nodes of inner graphs; 1 without any */
    const char *name;
    ir_dims *dims;
    ir_cell **chunk;
    uint32_t n_chunk, cap_chunk;
    uint32_t n;
    ir_ref *slot; /* open addressing over mergeable nodes; IR_NONE = free */
    uint32_t n_slot, n_used;
    ir_leaf_list leaf[3];
    ir_ref *out;
    uint32_t n_out;
    bool finished;
    struct ir_site_table *sites; /* NULL: no node has one */
};

uint32_t ir_node_hash(const ir_node *n);
/* The node that is equal to n, of that hash; IR_NONE: there is none. */
ir_ref ir_cell_find(const ir_graph *g, const ir_node *n, uint32_t hash);
/* r overwrites the versions that it writes; and does not any more. */
void ir_cell_write(ir_graph *g, ir_ref r);
void ir_cell_forget_writes(ir_graph *g, ir_ref r);
/* Nodes of equal op, operands and attributes. */
bool ir_node_equal(const ir_node *a, const ir_node *b);
/* The node of an earlier run that n, which is not merged, is in this one; IR_NONE: none, a new one is noted. run.c */
ir_ref ir_run_find(ir_graph *g, const ir_node *n);
rp_status ir_run_reserve(ir_graph *g, rp_error *err) RP_MUST_USE;
void ir_run_note(ir_graph *g, ir_ref r);
/* This run asks for r, which is merged and which runs note. */
rp_status ir_run_ask(ir_graph *g, ir_ref r, rp_error *err) RP_MUST_USE;
/* Whether runs note node n. */
bool ir_run_notes(const ir_node *n);
/* Room for one more node and its table slot. */
rp_status ir_cell_reserve(ir_graph *g, rp_error *err) RP_MUST_USE;
/* Appends a complete node whose parts live in the arena. */
ir_ref ir_cell_append(ir_graph *g, const ir_node *n, uint32_t hash);

#endif
