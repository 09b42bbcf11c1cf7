/* Rotary embeddings of heads that a norm has made: q and k of Qwen3 and its kind, in the forms in which they are written. */
#ifndef PASS_TURNED_H
#define PASS_TURNED_H

#include "ir/graph.h"

/* By ref; IR_NONE for all others. */
typedef struct pass_turned {
    ir_ref *reads; /* of a node that turns the head: the head */
    ir_ref *ends;  /* of the node whose value is the turned one: the head */
} pass_turned;

/* Fills both, of ir_graph_count entries, which are IR_NONE so far. */
void pass_turned_find(const ir_graph *g, pass_turned *out);

#endif
