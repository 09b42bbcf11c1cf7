/* A Llama of a few layers in the tensor API, small enough to interpret: the graph that split, passes, fusion and plans are
 * tested on. */
#ifndef SUPPORT_SMALL_LLAMA_H
#define SUPPORT_SMALL_LLAMA_H

#include "support/random_graph.h"
#include "trace/trace.h"

typedef struct small_llama_options {
    uint32_t layers;
    rp_dtype weights; /* of the projections */
    rp_numerics numerics;
} small_llama_options;

/* Free with rp_graph_free; trace_graph_ir gives the graph. Symbol T is in [1,64]. */
rp_status small_llama_new(const small_llama_options *opt, rp_graph **out,
                          rp_error *err) RP_MUST_USE;

/* Makes the step's integers of random leaves name requests, positions, slots and blocks that exist. */
void small_llama_tame(const ir_graph *g, random_leaves *v);

#endif
