/* Arguments whose first dim counts rows: how many a graph for them has, and what stands in those that the caller does not give. */
#ifndef AUTOGRAPH_ROWS_H
#define AUTOGRAPH_ROWS_H

#include "hal/hal.h"
#include "reprise/value.h"

/* Rows of a call. */
typedef struct autograph_rows {
    bool rounded; /* up, for a graph */
    bool known;   /* from an argument */
    int64_t n, padded;
} autograph_rows;

/* The least of 1, 2, 4, 8, 16, .. 256, 272, .. 512, 544, .. that is not less than n: the sizes that vLLM captures, continued with at most
 * a sixteenth of padding. Sizes of no memory stay. */
int64_t autograph_rows_up(int64_t n);
/* Takes v's rows into r where it is marked; RP_INVALID where an argument before it had another number. */
rp_status autograph_rows_meet(autograph_rows *r, const rp_value *v, rp_error *err) RP_MUST_USE;
/* v's sizes in the graph. */
rp_buffer autograph_rows_form(const autograph_rows *r, const rp_value *v);
/* Zeros behind what v has, in memory of autograph_rows_form; queue NULL: of the host. */
rp_status autograph_rows_clear(const autograph_rows *r, hal_device *queue, void *memory,
                               const rp_value *v, rp_error *err) RP_MUST_USE;
/* Cuts what the graph has more off a tensor of its result; RP_INVALID where that has other sizes. */
rp_status autograph_rows_cut(const autograph_rows *r, rp_value *v, rp_error *err) RP_MUST_USE;

#endif
