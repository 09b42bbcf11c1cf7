/* CUDA C of whole graphs: what lowering renders for the pieces of models and for random graphs. */
#ifndef SUPPORT_CUDA_GRAPHS_H
#define SUPPORT_CUDA_GRAPHS_H

#include "base/map.h"
#include "base/str.h"

/* Kernels of many pieces, without the prelude. Each distinct one is there once, in a namespace of its own and without
 * C linkage, so that names may repeat. */
typedef struct cuda_graphs {
    base_buf text;
    base_map *seen; /* hashes of kernels */
    uint32_t n_kernels;
    uint32_t n_refused; /* random graphs with more scratch than a block has shared memory */
} cuda_graphs;

void cuda_graphs_init(cuda_graphs *c);
void cuda_graphs_done(cuda_graphs *c);
/* Llamas, synthetic:tiny and the second architecture, with each numerics. Fails the test where one is refused. */
void cuda_graphs_add_models(cuda_graphs *c);
void cuda_graphs_add_random(cuda_graphs *c, uint64_t first_seed, uint32_t n);

#endif
