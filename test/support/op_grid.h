/* Op x dtype x layout: graphs of every op, and how far an implementation may be from the interpreter.
 *
 * All ops of one dtype and layout are one graph, so that a few compiler runs cover the grid. */
#ifndef SUPPORT_OP_GRID_H
#define SUPPORT_OP_GRID_H

#include "base/str.h"
#include "support/random_graph.h"

#define OP_GRID_OUTPUTS 96

/* A graph's text, and the bound of each output. */
typedef struct op_grid {
    base_buf text;
    char out[OP_GRID_OUTPUTS][40];
    double ulps[OP_GRID_OUTPUTS];  /* of the result */
    double slack[OP_GRID_OUTPUTS]; /* absolute */
    uint32_t n;
    bool special; /* inputs are those of op_grid_special */
} op_grid;

/* Called with each graph of a part of the grid. */
typedef void op_grid_fn(const op_grid *q, void *user);
void op_grid_elementwise(op_grid_fn *fn, void *user);
void op_grid_reductions(op_grid_fn *fn, void *user);
void op_grid_products(op_grid_fn *fn, void *user);
void op_grid_scans(op_grid_fn *fn, void *user);
void op_grid_scatters(op_grid_fn *fn, void *user);
void op_grid_fours(op_grid_fn *fn, void *user);

/* Every pair of special values meets in inputs 0 and 1 of equal shape. */
void op_grid_special(const ir_graph *g, random_leaves *l);

#endif
