/* What the portable kernels share: an iteration space over strided operands, walked in runs of its last dim,
 * and loads and stores between memory and arrays of f32, f64, i32 or i64. */
#ifndef COMPILE_PORTABLE_BOX_H
#define COMPILE_PORTABLE_BOX_H

#include "compile/portable/record.h"

#include "gen/embed/prelude.h"

#include "gen/embed/kernel.h"

#define BOX_RUN 256 /* elements taken at once: whole groups of 16 lanes */

typedef struct box_operand {
    char *base;
    rp_dtype dtype;
    int64_t row, at, stride[IR_MAX_RANK];
} box_operand;

typedef struct box {
    uint32_t rank, n;
    int64_t dim[IR_MAX_RANK];
    box_operand op[EAGER_MAX_OPERANDS];
} box;

/* The space of a record, rows [begin, end) of dim 0. */
void portable_open(const eager_record *r, void *const *arg, const long long *dim, int64_t begin,
                   int64_t end, box *b);
/* Joins neighbouring dims that every operand walks as one. */
void portable_join(box *b);
/* Walks all but the last dim: fn gets the position of each operand. The last dim is b->dim[b->rank - 1]. */
typedef void (*box_fn)(const box *b, const int64_t *at, void *user);
void portable_walk(const box *b, box_fn fn, void *user);

/* n elements from position at, step apart. Integers widen, f16, bf16 and blocks become f32. */
void portable_load_f32(const box_operand *o, int64_t at, int64_t step, int64_t n, float *out);
void portable_load_i32(const box_operand *o, int64_t at, int64_t step, int64_t n, int32_t *out);
void portable_load_f64(const box_operand *o, int64_t at, int64_t step, int64_t n, double *out);
void portable_load_i64(const box_operand *o, int64_t at, int64_t step, int64_t n, int64_t *out);
/* Floats round to nearest even, integers wrap around: of a float that was cast, portable_saturate first. */
void portable_store_f32(const box_operand *o, int64_t at, int64_t step, int64_t n, const float *x);
void portable_store_i32(const box_operand *o, int64_t at, int64_t step, int64_t n,
                        const int32_t *x);
void portable_store_f64(const box_operand *o, int64_t at, int64_t step, int64_t n, const double *x);
void portable_store_i64(const box_operand *o, int64_t at, int64_t step, int64_t n,
                        const int64_t *x);
/* i32 that a cast made of floats: into the range of t. */
void portable_saturate(rp_dtype t, int64_t n, int32_t *x);
/* As what values of a type are computed: f32 (floats, booleans, blocks), i64, f64, or i32 (other integers). */
typedef enum box_class { BOX_F32, BOX_I32, BOX_I64, BOX_F64 } box_class;
static inline box_class box_class_of(rp_dtype t) {
    if (t == RP_DTYPE_I64) return BOX_I64;
    if (t == RP_DTYPE_F64) return BOX_F64;
    return t == RP_DTYPE_BOOL || ir_dtype_is_real(t) || rp_dtype_is_quant(t) ? BOX_F32 : BOX_I32;
}

/* The end of a chunk of a sum: its lanes are added to the chunks before, and are empty again. Gives the sum so far. */
static inline float box_end_chunk(float l[16], double *chunks) {
    *chunks += (double)rk_sum16(l);
    for (int i = 0; i < 16; i++) l[i] = 0.0f;
    return (float)*chunks;
}

/* A kernel of the table. */
typedef void box_kernel(void *const *arg, const long long *dim, long long begin, long long end,
                        void *scratch);

#endif
