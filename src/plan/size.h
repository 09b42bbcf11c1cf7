/* A size over the symbols of a plan. */
#ifndef PLAN_SIZE_H
#define PLAN_SIZE_H

#include "ir/dim_code.h"

/* Symbol k counts the plan's symbols here. */
typedef ir_dim_code plan_size;

static inline int64_t plan_size_eval(const plan_size *s, const int64_t *symbols) {
    return ir_dim_code_eval(s, symbols);
}

#endif
