/* Fusion: which nodes of a piece become one kernel.
 *
 * Three kinds of group. MATMUL: products that share their left operand, each with an epilogue of elementwise
 * nodes of the same [rows, columns]; members of several products with equal columns join into one segment (gate and
 * up). LOOP: nodes whose iteration has the same rows (size of dim 0) and that read each other row by row only. EXTERN:
 * attention or a custom op. Views, dequants, constants and leaves belong to no group: they are index
 * maps of their readers. After Inductor's scheduler (reference: legality, reasons), with rows as the common loop. */
#ifndef PASS_FUSE_H
#define PASS_FUSE_H

#include "ir/graph.h"

typedef enum pass_group_kind { PASS_LOOP, PASS_MATMUL, PASS_EXTERN } pass_group_kind;

typedef struct pass_segment {
    ir_ref *mats;  /* products, equal [M, N] */
    uint32_t n_mats;
    ir_ref *nodes; /* epilogue members in order */
    uint32_t n_nodes;
    bool dead;     /* merged into another */
} pass_segment;

typedef struct pass_group {
    pass_group_kind kind;
    ir_dim rows;        /* LOOP, MATMUL */
    ir_ref *nodes;      /* all members, ascending */
    uint32_t n_nodes;
    pass_segment *segs; /* MATMUL */
    uint32_t n_segs;
    ir_ref lhs;         /* MATMUL: left operand */
} pass_group;

typedef struct pass_fusion {
    pass_group *groups; /* in execution order */
    uint32_t n_groups;
    uint32_t *group_of; /* by ref; UINT32_MAX = none */
    bool *stored;       /* by ref: used outside its group or returned */
    base_arena *arena;
} pass_fusion;

#define PASS_MAX_FUSION 64

/* Every refusal is logged on the fusion channel with its reason. g is borrowed and must outlive *out. */
rp_status pass_fuse(const ir_graph *g, pass_fusion *out, rp_error *err) RP_MUST_USE;
void pass_fusion_done(pass_fusion *f);

/* Whether a product runs as a template: [M,K] x packed weights (a param, or dequant of one, transposed). */
bool pass_is_template_matmul(const ir_graph *g, ir_ref r);
/* Whether such a product takes packed i16b32 rows as they are: exact integer dots against block-quantised weights.
 * All other left operands are float rows. */
bool pass_is_packed_matmul(const ir_graph *g, ir_ref r);
/* No kernel of its own: leaves, constants, views, dequant, empty. */
bool pass_is_transparent(const ir_node *n);

#endif
