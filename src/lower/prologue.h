/* Private to the room: rows that products make themselves (GEN_CUDA). */
#ifndef LOWER_PROLOGUE_H
#define LOWER_PROLOGUE_H

#include "lower/matmul.h"
#include "lower/norm.h"

typedef struct lower_rows lower_rows;

/* *out: rows up to which products make the kernel of a loop group superfluous; 0: it must stay. They are those of L->k with its arguments; L->k is taken where there are
 * any. `rows`: its items, IR_DIM_BAD where they are no rows. */
rp_status lower_rows_offer(lowerer *L, const pass_group *gr, ir_dim rows, int64_t *out);
/* Where float32 rows lie that are only rounded to bf16 rows `made`, which products on tensor cores do as they read them; false:
 * these are in memory themselves. */
bool lower_rows_unrounded(const lowerer *L, ir_ref made, lower_ref *out);
/* Rows `made` that a group gathers and rounds, which products of few rows read where they lie: the table of float32, the rows' places, and what else is gathered
 * so, for their epilogues. */
typedef struct lower_gathered {
    ir_ref table, at;
    const ir_ref *more;
    uint32_t n_more;
} lower_gathered;
/* NULL: made is no such. */
const lower_gathered *lower_rows_gathered(const lowerer *L, ir_ref made);
/* What makes rows `made`, or NULL. Then, in the kernel of a product whose argument 0 they are: its function for blocks of `threads`, or a warp (32), with
 * arguments added to L->args; and the statement that calls it for a row (an expression) of those whose first goes `to`. */
const lower_rows *lower_rows_of(const lowerer *L, ir_ref made);
const lower_norm *lower_rows_norm(const lower_rows *r); /* that they are; NULL: something else */
void lower_rows_args(lowerer *L, const lower_rows *r);  /* adds them alone */
rp_status lower_rows_function(lowerer *L, const lower_rows *r, const char *name, uint32_t threads);
void lower_rows_call(lowerer *L, const lower_rows *r, const char *name, const char *to,
                     const char *row);
void lower_rows_done(lowerer *L);

#endif
