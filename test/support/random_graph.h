/* Seeded random graphs for tests that compare two ways of running a graph.
 *
 * The same seed and options give the same graph (node order may differ between compilers). Values stay tame (about 1e3 at
 * most, no division by nearly 0), and ops that jump (comparisons, floor, casts to 16 bits, argmax) only
 * see exact values, so a correct float32 implementation stays near the interpreter. */
#ifndef SUPPORT_RANDOM_GRAPH_H
#define SUPPORT_RANDOM_GRAPH_H

#include "ir/eval.h"

typedef struct random_graph_options {
    uint32_t n_steps; /* random actions; each adds 1 to about 12 nodes */
    bool symbolic;    /* rows are a symbol T in [1,64], else a small constant */
    bool quant;       /* weights of block formats, activations of i16b32 */
    bool half;        /* f16 and bf16 values */
    bool ints;        /* i32 arithmetic */
    /* Not among all, whose seeds others know: */
    bool control;    /* call, cond, while and scan */
    bool composites; /* of random_composites.h */
} random_graph_options;
#define RANDOM_GRAPH_ALL \
    { .n_steps = 12, .symbolic = true, .quant = true, .half = true, .ints = true }

rp_status random_graph_new(uint64_t seed, const random_graph_options *opt, ir_graph **out,
                           rp_error *err) RP_MUST_USE;

/* Values for every leaf of any graph, from a seed. Symbols take small values in their ranges; i32
 * leaves hold 0..63. */
typedef struct random_leaves {
    int64_t *symbols;
    ir_value *leaf[3]; /* by ir_leaf */
    uint32_t n[3];
} random_leaves;
rp_status random_leaves_new(const ir_graph *g, uint64_t seed, random_leaves *out,
                            rp_error *err) RP_MUST_USE;
void random_leaves_done(random_leaves *v);

/* Largest difference of got (n = want->n doubles) from want, over the largest |want| or 1. NaN and
 * infinities must agree. float32 implementations with errors of 2 ulp an op stay below 1e-3 on
 * graphs of random_graph_new (seen over 2000 seeds: 3e-4, nearly all below 1e-5). */
double random_graph_error(const ir_value *want, const double *got);

#endif
