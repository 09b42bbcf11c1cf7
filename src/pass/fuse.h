/* Fusion: which nodes of a piece become one kernel.
 *
 * Three kinds of group. MATMUL: a product, or several that share their left operand and have packed weights
 * (product.h), each with an epilogue of elementwise nodes of the same shape; members of several products with equal columns join into one segment (gate and
 * up). LOOP: nodes that can be cut into the same rows (pass/rows.h) and that read each other row by row only; what is not
 * the same for all of them is iterated within a row. EXTERN:
 * attention or a custom op. Views, dequants, constants and leaves belong to no group: they are index
 * maps of their readers. After Inductor's scheduler (reference: legality, reasons), with rows as the common loop.
 *
 * Where several groups can take a node, it goes where it saves most bytes: of values that it reads and that the
 * group computes or reads too, at 256 for each unknown size; a product's epilogue comes before any loop, and the latest
 * group wins a tie. Of the groups that touch one of its values only the latest are looked at, those first that could still take a
 * node; the rest have a count in place of a reason. Whether joining would close a cycle is
 * searched for in their neighbourhood, so that the work grows in proportion to the graph. */
#ifndef PASS_FUSE_H
#define PASS_FUSE_H

#include "pass/pipeline.h"
#include "pass/rows.h"

typedef enum pass_group_kind { PASS_LOOP, PASS_MATMUL, PASS_EXTERN } pass_group_kind;

typedef struct pass_segment {
    ir_ref *mats; /* products, equal [M, N] */
    uint32_t n_mats;
    ir_ref *nodes; /* epilogue members in order */
    uint32_t n_nodes;
    bool dead; /* merged into another */
} pass_segment;

typedef struct pass_group {
    pass_group_kind kind;
    ir_dim rows;   /* LOOP, MATMUL; the most that the members of a loop agree on */
    pass_rows by;  /* LOOP: all that they agree on */
    ir_ref *nodes; /* all members, ascending */
    uint32_t n_nodes;
    pass_segment *segs; /* MATMUL */
    uint32_t n_segs;
    ir_ref lhs; /* MATMUL: left operand */
} pass_group;

/* A node and a group that share data and were not fused. */
typedef struct pass_refusal {
    ir_ref node;
    uint32_t group;
    const char *reason; /* static */
    bool moved;         /* it was fused with the group, before it went to where it is */
} pass_refusal;

/* A node, and groups that share a value with it and that were not looked at for it: so many touched the value later. */
typedef struct pass_far {
    ir_ref node, value;
    uint32_t n_groups;
} pass_far;

typedef struct pass_fusion {
    pass_group *groups; /* in execution order */
    uint32_t n_groups;
    uint32_t *group_of; /* by ref; UINT32_MAX = none */
    bool *stored;       /* by ref: used outside its group or returned */
    bool *split;        /* by ref: a reduction in runs (runs.h) */
    pass_refusal *refusals;
    uint32_t n_refusals;
    pass_far *far; /* a node and a value at most once */
    uint32_t n_far;
    uint64_t steps; /* of work, for tests: they grow with the graph */
    base_arena *arena;
} pass_fusion;

#define PASS_MAX_FUSION 64
/* Products of one segment. */
#define PASS_MAX_MATS 4

/* opt (may be NULL) can leave out kinds of fusion. A summary goes to the fusion channel, with "+fusion" every refusal. g is
 * borrowed and must outlive *out. */
rp_status pass_fuse(const ir_graph *g, const pass_options *opt, pass_fusion *out,
                    rp_error *err) RP_MUST_USE;
void pass_fusion_done(pass_fusion *f);
/* Groups with their members (! stored, (runs) made in runs), then refusals, with the numbers of ir_print. */
void pass_fusion_print(const ir_graph *g, const pass_fusion *f, base_buf *out);

/* Elements of four bytes that lowering keeps of a row, in the scratch of one item: what fits beside a CUDA block's own needs, and in L1. */
#define PASS_MAX_ROW 8192

/* A concat of so many parts that each has a loop of its own, rather than each element a choice of all. */
bool pass_has_many_parts(const ir_graph *g, const ir_node *n);
/* Whether all of n, a concat, lies along its axis: no other size is more than 1. */
bool pass_is_only_axis(const ir_graph *g, const ir_node *n);
/* No kernel of its own: leaves, constants, views, dequant, empty. */
bool pass_is_transparent(const ir_node *n);

#endif
