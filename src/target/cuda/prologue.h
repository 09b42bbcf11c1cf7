/* Private to the room: rows that products make themselves. */
#ifndef TARGET_PROLOGUE_H
#define TARGET_PROLOGUE_H

#include "lower/target.h"
#include "target/cuda/norm.h"

typedef struct target_rows target_rows;

/* As lower_target.offer. */
rp_status target_rows_offer(lowerer *L, const pass_group *gr, ir_dim rows, int64_t *out);
/* Where float32 rows lie that are only rounded to bf16 rows `made`, which products on tensor cores do as they read them; false:
 * these are in memory themselves. */
bool target_rows_unrounded(const lowerer *L, ir_ref made, lower_ref *out);
/* Rows `made` that a group gathers and rounds, which products of few rows read where they lie: the table of float32, the rows' places, and what else is gathered
 * so, for their epilogues. */
typedef struct target_gathered {
    ir_ref table, at;
    const ir_ref *more;
    uint32_t n_more;
} target_gathered;
/* NULL: made is no such. */
const target_gathered *target_rows_gathered(const lowerer *L, ir_ref made);
/* What makes rows `made`, or NULL. Then, in the kernel of a product whose argument 0 they are: its function for blocks of `threads`, or a warp (32), with
 * arguments added to L->args; and the statement that calls it for a row (an expression) of those whose first goes `to`. */
const target_rows *target_rows_of(const lowerer *L, ir_ref made);
const target_norm *target_rows_norm(const target_rows *r); /* that they are; NULL: something else */
void target_rows_args(lowerer *L, const target_rows *r);   /* adds them alone */
rp_status target_rows_function(lowerer *L, const target_rows *r, const char *name,
                               uint32_t threads);
void target_rows_call(lowerer *L, const target_rows *r, const char *name, const char *to,
                      const char *row);
void target_rows_done(lowerer *L);

#endif
