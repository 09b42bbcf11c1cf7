/* Private to the room: rows that products make themselves (GEN_CUDA). */
#ifndef LOWER_PROLOGUE_H
#define LOWER_PROLOGUE_H

#include "lower/matmul.h"

typedef struct lower_rows lower_rows;

#define LOWER_OWN_ROWS 1 /* rows of a step up to which products make them */

/* Whether the kernel of a loop group, L->k with its arguments, can be left out for up to LOWER_OWN_ROWS rows; L->k is taken
 * then. `rows`: its items. */
rp_status lower_rows_offer(lowerer *L, const pass_group *gr, ir_dim rows, bool *taken);
/* What makes rows `made`, or NULL. Then, in the kernel of a product whose argument 0 they are: its function, with
 * arguments added to L->args; and the statement that calls it for the first row, which goes `to`. */
const lower_rows *lower_rows_of(const lowerer *L, ir_ref made);
rp_status lower_rows_function(lowerer *L, const lower_rows *r, const char *name);
void lower_rows_call(lowerer *L, const lower_rows *r, const char *name, const char *to);
void lower_rows_done(lowerer *L);

#endif
