/* Private to the room: rotary embeddings and stores to the cache in the epilogue of a product on tensor cores. */
#ifndef TARGET_ROTARY_H
#define TARGET_ROTARY_H

#include "lower/emit.h"

/* What follows product `mat`, whose neighbouring columns 2 i and 2 i + 1 are turned together where it is turned at all. */
typedef struct target_rotary {
    ir_ref mat;
    ir_ref cos, sin;           /* [rows, half], inputs or gathered; IR_NONE: not turned */
    bool keeps_cos, keeps_sin; /* which are gathered and stored, by this product's elements */
    int64_t half;              /* pairs of a head */
    ir_ref to;                 /* the turned value that is stored; IR_NONE */
    ir_ref store;              /* kv_store; IR_NONE */
} target_rotary;

#define TARGET_ROTARY_ASKED 3 /* floats that an element asks for */

/* Finds, for each segment of matmul group gr that lives, what the group behind it does with its product, where that group does nothing else. *out: as many as
 * gr has segments, in the arena, or NULL. That group is then left out (L->absorbed). */
rp_status target_rotary_find(lowerer *L, const pass_group *gr, target_rotary **out);
/* FRAG_ask, FRAG_put and FRAG_put_pair as gen/embed/tensor_results.cu wants them of P::PAIRS; `columns`: of the product. L->args get what they read and write. */
rp_status target_rotary_text(lowerer *L, const target_rotary *r, const char *frag, int64_t columns);
/* Columns after which what is asked for repeats itself. */
int64_t target_rotary_period(const target_rotary *r);

#endif
