/* A graph between two compilers: what one of them takes, and the rest.
 *
 * Pieces run one after the other, and each is all of one side that can run at its turn, so it need not hang together. A piece that
 * gives something and later reads what was made of it elsewhere cannot come about: a node's piece is never before those that it
 * reads, nor before a reader of memory that it writes. So the number of pieces is that of changes of side along a path, not that of
 * the nodes that are refused. */
#ifndef SPLIT_SIDES_H
#define SPLIT_SIDES_H

#include "split/split.h"

typedef struct split_sides {
    uint32_t *piece;     /* by node, as split_partition has it */
    bool *taken;         /* by piece; room for one more */
    uint32_t n, n_taken; /* pieces; those that the one takes */
} split_sides;

/* takes[r]: it takes node r, of repeated nodes (split_repeats) that it may repeat it; of what is in memory, and of nodes that read a constant
 * which is not taken, it takes none. What is not worth a call of its own stays with the rest: a piece of one node that is no
 * product, and of more than `most` taken pieces the smallest. Nothing is left out where the whole graph is one piece. */
rp_status split_in_sides(const ir_graph *g, const bool *takes, uint32_t most, split_sides *out,
                         rp_error *err) RP_MUST_USE;
void split_sides_done(split_sides *s);

/* As split_apart, for these pieces. Those that are taken are its splitting ones, and their params inputs. */
rp_status split_by_sides(const ir_graph *g, const split_sides *s, split_result *out,
                         rp_error *err) RP_MUST_USE;

#endif
