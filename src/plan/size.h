/* A size: constant + sum of coefficient * symbol of the plan. */
#ifndef PLAN_SIZE_H
#define PLAN_SIZE_H

#include "gen/affine.h"

/* symbol[] counts the plan's symbols here. */
typedef gen_affine plan_size;

static inline int64_t plan_size_eval(const plan_size *s, const int64_t *symbols) {
    int64_t v = s->constant;
    for (uint32_t i = 0; i < s->n_terms; i++) v += s->coef[i] * symbols[s->symbol[i]];
    return v;
}

#endif
