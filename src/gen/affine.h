/* A size as a built-in kernel reads it from its record: constant + sum of coefficient * symbol. */
#ifndef GEN_AFFINE_H
#define GEN_AFFINE_H

#include "ir/dim.h"

#define GEN_AFFINE_TERMS 3

typedef struct gen_affine {
    int64_t constant;
    int64_t coef[GEN_AFFINE_TERMS];
    uint32_t symbol[GEN_AFFINE_TERMS];
    uint32_t n_terms;
} gen_affine;

/* d over the symbols of t. RP_UNSUPPORTED for divisions, remainders and more symbols than terms. */
rp_status gen_affine_of(const ir_dims *t, ir_dim d, gen_affine *out, rp_error *err) RP_MUST_USE;

static inline int64_t gen_affine_eval(const gen_affine *a, const long long *dim) {
    int64_t v = a->constant;
    for (uint32_t i = 0; i < a->n_terms; i++) v += a->coef[i] * dim[a->symbol[i]];
    return v;
}

#endif
