/* Text that C and CUDA C share: sizes, and calls of the fragments that are epilogues of a template. */
#ifndef TARGET_FRAGMENT_H
#define TARGET_FRAGMENT_H

#include "lower/target.h"

/* A dim of the graph as an expression over dim[]; L->err where it overflows. */
void target_put_dim(lowerer *L, ir_dim d);
/* How the fragment that is being built is called. */
typedef struct target_call {
    int64_t columns;
    const char *acc; /* its sums of the first matrix; of the next, `columns` behind */
    const char *space, *name, *end; /* declares temporary i: SPACE type NAMEi END */
    const char *at;                 /* and gives it: NAMEi AT */
} target_call;
/* Declares the temporaries of the fragment of s. */
void target_call_temporaries(lowerer *L, const pass_segment *s, const target_call *c);
/* ", SUMS.., TEMPORARIES..": its arguments behind row and column. */
void target_call_arguments(lowerer *L, const pass_segment *s, const target_call *c);
/* Columns of an item of a segment, and the macro FRAG_EPI with which a template calls the fragment that is being built. */
typedef struct target_slot {
    uint32_t (*columns)(const lowerer *L, const pass_segment *s);
    void (*macro)(lowerer *L, const pass_segment *s, const char *frag);
} target_slot;
/* The epilogues of all segments, which L->args get what they read and write of; the text of their fragments, each with its macro. */
rp_status target_epilogues(lowerer *L, const lower_matmul *m, const target_slot *slot);
/* Which templates the kernels of m instantiate. */
gen_matmul_uses target_matmul_uses(const lowerer *L, const lower_matmul *m);

#endif
