/* Partition of a graph at splitting ops, and the canonical form of each piece.
 *
 * Rules (vLLM's split_graph): nodes in order carry a running piece id; a splitting node closes
 * the current piece and takes an id of its own; consecutive splitting nodes share one; a piece that
 * holds only one empty allocation joins the non-splitting piece before it. Constants, views and dequants of
 * values of an earlier piece are repeated in the piece that uses them, so only stored values cross.
 *
 * A piece's graph is canonical: leaves are renamed in0.., p0.., s0.. in order of first use, so equal
 * layers give equal text, and the hash of that text names the distinct piece. */
#ifndef SPLIT_SPLIT_H
#define SPLIT_SPLIT_H

#include "base/hash.h"
#include "ir/graph.h"

typedef struct split_piece {
    uint32_t submod;      /* position among all pieces: submod_N */
    uint32_t graph_index; /* position among the compiled ones; UINT32_MAX for a splitting piece */
    bool splitting;
    uint32_t distinct; /* index of the first piece with the same canonical text */
    ir_graph *graph;
    /* What each leaf and output of `graph` is in the whole graph. Inputs may be values of earlier pieces. */
    ir_ref *inputs, *params, *states, *outputs;
    base_hash128 hash;
} split_piece;

typedef struct split_result {
    split_piece *pieces;
    uint32_t n_pieces;
    uint32_t n_compiled; /* non-splitting */
    uint32_t n_distinct; /* among the compiled ones */
} split_result;

/* ops: names of splitting ops (n_ops 0: one piece). g is borrowed and may be freed afterwards; the refs in the
 * result speak of g. Free with split_done. */
rp_status split_graph(const ir_graph *g, const char *const *ops, uint32_t n_ops, split_result *out,
                      rp_error *err) RP_MUST_USE;
/* The same for pieces that are called by themselves: one that depends on a size which nothing that it reads tells has an input of g more that does. */
rp_status split_apart(const ir_graph *g, const char *const *ops, uint32_t n_ops, split_result *out,
                      rp_error *err) RP_MUST_USE;
void split_done(split_result *r);

#endif
