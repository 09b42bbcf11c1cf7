/* Attention in blocks of rows, each without the columns that a mask by position hides from all of its rows: half of the work where
 * it is causal, the width of a window where there is one, and never the scores of all rows in memory at once. */
#ifndef PASS_ATTENTION_H
#define PASS_ATTENTION_H

#include "ir/graph.h"

#define PASS_ATTENTION_BLOCKS 8

/* An attention that a graph writes: products of two computed operands, a softmax in any of its forms over them, and a product. */
typedef struct pass_attention_found {
    ir_ref product;  /* its last node */
    uint32_t blocks; /* that it becomes; 0: it stays, because of: */
    const char *why; /* static */
} pass_attention_found;

rp_status pass_attention(const ir_graph *in, ir_graph **out, rp_error *err) RP_MUST_USE;
/* Counts those that became blocks into *n. */
rp_status pass_attention_counted(const ir_graph *in, ir_graph **out, uint32_t *n,
                                 rp_error *err) RP_MUST_USE;
/* fn is called for each attention of the graph, in order. */
typedef void (*pass_attention_fn)(void *user, const pass_attention_found *f);
rp_status pass_attention_each(const ir_graph *g, pass_attention_fn fn, void *user,
                              rp_error *err) RP_MUST_USE;

#endif
