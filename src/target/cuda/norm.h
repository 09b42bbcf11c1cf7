/* Private to the room: rows that are an RMS norm. */
#ifndef TARGET_NORM_H
#define TARGET_NORM_H

#include "lower/emit.h"

/* x / sqrt(scale * (sum of x squared) + eps) * gain, rounded to bf16, of rows of k. */
typedef struct target_norm {
    ir_ref x, gain; /* f32 in memory; gain is a parameter [k] */
    double scale, eps;
    int64_t k;
} target_norm;

/* Whether the group computes that, and nothing else, for `made`, which it stores. */
bool target_norm_find(const lowerer *L, const pass_group *gr, ir_ref made, target_norm *out);
/* struct NAME of a product's kernel, as rk_rows_in_memory of gen/embed/tensor.cu, whose rows are made by so many threads. */
void target_norm_text(lowerer *L, const target_norm *n, const char *name, uint32_t threads);
/* Bytes of shared memory, at most, that a block takes to make a row, besides the row. */
int64_t target_norm_bytes(const target_norm *n);

#endif
