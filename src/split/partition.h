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
bool split_is_argument(const ir_node *n);
/* What r shows, through nodes that are repeated. */
ir_ref split_root_of(const ir_graph *g, ir_ref r);

#endif
