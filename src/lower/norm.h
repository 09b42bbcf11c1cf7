/* Private to the room: rows that are an RMS norm (GEN_CUDA). */
#ifndef LOWER_NORM_H
#define LOWER_NORM_H

#include "lower/emit.h"

/* x / sqrt(scale * (sum of x squared) + eps) * gain, rounded to bf16, of rows of k. */
typedef struct lower_norm {
    ir_ref x, gain; /* f32 in memory; gain is a parameter [k] */
    double scale, eps;
    int64_t k;
} lower_norm;

/* Whether the group computes that, and nothing else, for `made`, which it stores. */
bool lower_norm_find(const lowerer *L, const pass_group *gr, ir_ref made, lower_norm *out);
/* struct NAME of a product's kernel, as rk_rows_in_memory of gen/embed/tensor.cu, whose rows are made by so many threads. */
void lower_norm_text(lowerer *L, const lower_norm *n, const char *name, uint32_t threads);
/* Bytes of shared memory, at most, that a block takes to make a row, besides the row. */
int64_t lower_norm_bytes(const lower_norm *n);

#endif
