/* Kernels inside the library that work along one axis of dense memory: cumulative sums, the k largest, sorting, scatters. */
#ifndef GEN_AXIS_H
#define GEN_AXIS_H

#include "gen/gen.h"
#include "ir/dim_code.h"
#include "ir/graph.h"

/* Last argument of such a launch. Memory is [outer, n, inner], the axis in the middle. */
typedef struct gen_axis_record {
    ir_dim_code n, inner;
    uint32_t dtype; /* f32, f16, bf16, i32, i16, i8 or u8; of cumsum and sort also i64 and f64 */
    uint32_t k;     /* top-k: how many; sort: 1 = descending */
} gen_axis_record;
_Static_assert(sizeof(gen_axis_record) == 2 * sizeof(ir_dim_code) + 8,
               "stored as bytes: no padding");

/* arg: x, y, record. Items: gen_cumsum_items. */
void gen_cumsum(void *const *arg, const long long *dim, long long begin, long long end,
                void *scratch);
/* Over the last axis, best first; of equals the first, NaN is largest. arg: x, values, indices (i32), record. Items: outer. */
void gen_topk(void *const *arg, const long long *dim, long long begin, long long end,
              void *scratch);

/* Stable, a NaN as largest. arg: x, values, indices (i32), work, record. Items: outer * inner. */
void gen_sort(void *const *arg, const long long *dim, long long begin, long long end,
              void *scratch);
#define GEN_SORT_WORK 16 /* bytes of work an element */

/* Last argument of a scatter. x and y are [outer, n, inner], src [outer, k, inner]; the index has one entry for all of outer
 * where own_outer is 0, and for all of inner where own_inner is. groups: gen_scatter_groups. */
typedef struct gen_scatter_record {
    ir_dim_code n, k, inner;
    uint32_t op, dtype, index_dtype;
    uint32_t own_outer, own_inner, groups;
} gen_scatter_record;
_Static_assert(sizeof(gen_scatter_record) == 3 * sizeof(ir_dim_code) + 24,
               "stored as bytes: no padding");
/* arg: x, index, src, y, record. Items: gen_scatter_items. */
void gen_scatter(void *const *arg, const long long *dim, long long begin, long long end,
                 void *scratch);

/* The kernel of a SCAN op: "@cumsum" is gen_cumsum; static. NULL for other ops. */
const char *gen_axis_name(ir_op op);
/* RP_UNSUPPORTED for types that have no kernel. */
rp_status gen_axis_check(rp_dtype t, const char *op, rp_error *err) RP_MUST_USE;
ir_dim gen_cumsum_items(ir_dims *t, ir_dim outer, ir_dim inner);
/* Shares of the rows of n that an item may have of a scatter whose lines are narrow; 0: items are columns, as those of a scan. */
uint32_t gen_scatter_groups(const ir_dims *t, ir_dim inner);
ir_dim gen_scatter_items(ir_dims *t, ir_dim outer, ir_dim inner);
/* Bytes of thread-local scratch. */
int64_t gen_topk_scratch(const gen_axis_record *r);

#endif
