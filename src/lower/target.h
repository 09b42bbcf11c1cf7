/* What a target does of lowering: which code multiplies, attends, scans and scatters there, and what of loops it takes away.
 *
 * Lowering itself knows no language: it says what is computed from which memory. A target (src/target/) picks templates, prints
 * them with fragments in their slots, and names how packed weights lie. */
#ifndef LOWER_TARGET_H
#define LOWER_TARGET_H

#include "lower/matmul.h"

struct lower_target {
    gen_target id;      /* its schedules and its printer */
    bool in_place;      /* a product of few rows may read a parameter where it lies, not packed */
    bool strided_rows;  /* products with packed weights read rows through views */
    bool copies_leaves; /* an output that is a leaf is copied by a kernel: the plan cannot */
    pass_splits splits; /* which reductions are made in runs */
    bool split_for_threads; /* those with fewer results than threads, in the place of splits.most */
    bool calls_host;        /* custom ops may be calls of the host */
    /* Whether packed weights of the product are to be swizzled (gen_pack_swizzle). */
    bool (*swizzles)(const lowerer *L, const lower_matmul *m);
    /* The launches of a matmul group, and the text of their kernels. */
    rp_status (*matmul)(lowerer *L, const lower_matmul *m);
    /* The functions, items and last arguments of paged attention n; its operands, and where the result goes, are L->args. */
    rp_status (*attention)(lowerer *L, const ir_node *n, const gen_attention_record *r,
                           lower_launch *l);
    /* (optional) Scans and scatters; NULL: kernels of the library run them. */
    rp_status (*scan)(lowerer *L, ir_ref r);
    rp_status (*scatter)(lowerer *L, ir_ref r);
    /* Whether d has text, or PTX, for this target; and the launch of that, over L->args. */
    bool (*has_source)(const rp_op_desc *d);
    rp_status (*source)(lowerer *L, const ir_node *n, ir_ref r, const rp_op_desc *d);
    /* (optional) *symbol is the kernel of the library that does what the text behind `begin` does, which is taken away then; NULL where
     * there is none. Its record is one argument more. */
    rp_status (*ready)(lowerer *L, const char *name, size_t begin, const char **symbol);
    /* (optional) *out: rows up to which products make the kernel of a loop group superfluous; 0: it must stay. They are those of L->k with its arguments; L->k is taken
     * where there are any. `rows`: its items, IR_DIM_BAD where they are no rows. */
    rp_status (*offer)(lowerer *L, const pass_group *gr, ir_dim rows, int64_t *out);
    /* (optional) Frees what it keeps in L. */
    void (*done)(lowerer *L);
};

/* *out is which reductions are made in runs where `threads` share the items of a launch (0: nobody says how many), and the result; NULL: none. */
const pass_splits *lower_splits(const lower_target *t, uint32_t threads, pass_splits *out);

#endif
