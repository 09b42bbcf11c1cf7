/* Which piece each node belongs to. */
#ifndef SPLIT_PARTITION_H
#define SPLIT_PARTITION_H

#include "ir/graph.h"

#define SPLIT_NO_PIECE UINT32_MAX

/* Fills piece[ir_graph_count(g)]; leaves and repeated nodes get SPLIT_NO_PIECE. splitting[id] has room for one
 * flag a node. Gives the number of pieces. */
uint32_t split_partition(const ir_graph *g, const char *const *ops, uint32_t n_ops, uint32_t *piece,
                         bool *splitting);
/* Constants, views and dequants: repeated in each piece that uses them. */
bool split_repeats(const ir_node *n);

#endif
