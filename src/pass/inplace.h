/* Reads of memory that is overwritten, for those who order launches.
 *
 * In the graph every version of memory is a value of its own. In memory there is one: a node that reads version n, also
 * through views, must run before the effect that makes version n+1. */
#ifndef PASS_INPLACE_H
#define PASS_INPLACE_H

#include "ir/graph.h"

typedef struct pass_read {
    ir_ref reader;  /* a node that is computed; ir_graph_count(g) for an output */
    uint32_t index; /* of the operand or output */
    ir_ref version; /* what it reads, through views */
    uint32_t next;  /* read of a version that the same effect overwrites; UINT32_MAX: none */
} pass_read;

typedef struct pass_reads {
    pass_read *read; /* in order of readers */
    uint32_t n;
    uint32_t *first; /* by effect: a read that must come before it, or UINT32_MAX */
} pass_reads;

/* All reads of versions that something overwrites. In the arena. */
rp_status pass_reads_find(const ir_graph *g, base_arena *arena, pass_reads *out,
                          rp_error *err) RP_MUST_USE;
/* Whether each read is before the write. */
bool pass_reads_before(const ir_graph *g, const pass_reads *p);
/* Whether nodes may run in their order with one memory for all versions: every read is before the write. */
rp_status pass_check_inplace(const ir_graph *g, bool *out, rp_error *err) RP_MUST_USE;
/* g, or where that is not so a graph in which it is, owned by the caller in *made (else NULL): reads move before the write
 * or, where they depend on it or are outputs, read a copy made before it. */
rp_status pass_make_inplace(const ir_graph *g, const ir_graph **out, ir_graph **made,
                            rp_error *err) RP_MUST_USE;
/* Appends why node r, a copy, is there: "%4=kv_store overwrites %0 before its last read"; nothing where it was in the graph
 * for another reason. */
void pass_copy_reason(const ir_graph *g, ir_ref r, base_buf *out);

/* g, made from `before` by passes: *made is NULL, or the graph in which outputs are copies that `before` computed and that g only reads
 * from memory. The rest of a piece's graph may overwrite that memory while the output is still read. */
rp_status pass_own_outputs(const ir_graph *before, const ir_graph *g, ir_graph **made,
                           rp_error *err) RP_MUST_USE;
/* *made is NULL, or g with outputs that are leaves, versions of memory or returned before as copies, so that each has a kernel that
 * writes it. Block formats stay as they are. */
rp_status pass_separate_outputs(const ir_graph *g, ir_graph **made, rp_error *err) RP_MUST_USE;

#endif
