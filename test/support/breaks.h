/* What tests of functions with graph breaks share: numbers, and a function whose way depends on data. */
#ifndef SUPPORT_BREAKS_H
#define SUPPORT_BREAKS_H

#include "support/jits.h"

#include <math.h>

enum { MOST = 4096 };
static float x[MOST], w[MOST];

static inline void fill(void) {
    for (int i = 0; i < MOST; i++) {
        x[i] = (float)(i % 17) / 8 - 0.75f;
        w[i] = (float)(i % 13) / 16 - 0.25f;
    }
}

static inline rp_jit *make(rp_jit_fn fn, int level, void *user) {
    return jit_at(fn, level, RP_DYNAMIC_AUTO, user);
}

/* Sum of |x|, above or below the limit in args[1]: two ways on, with y made before the break. */
typedef struct seen {
    int runs, prints;
    double sum;
} seen;

static inline rp_status by_sum(void *user, rp_jit_call *call, const rp_value *args,
                               rp_value *result, rp_error *err) {
    seen *s = user;
    rp_tensor a = rp_jit_tensor(call, &args->item[0]), y = rp_mul_scalar(a, 2);
    (void)err;
    s->runs++;
    s->sum = rp_item(rp_sum(rp_sum(rp_abs(y), -1, false), -1, false));
    y = s->sum > 8 ? rp_add_scalar(y, 1) : rp_neg(y);
    *result = rp_jit_value(call, y);
    return RP_OK;
}

static inline rp_output *run2(rp_jit *f, float *data, int64_t rows, int64_t cols) {
    rp_value v = f32_of(data, 2, rows, cols), args = rp_value_tuple(&v, 1);
    return jit_ok(f, &args);
}

static inline void check_by_sum(const rp_output *o, const float *data, int n) {
    const float *y = jit_result(o)->tensor.data;
    double sum = 0;
    for (int i = 0; i < n; i++) sum += fabs((double)data[i] * 2);
    for (int i = 0; i < n; i++) assert_true(y[i] == (sum > 8 ? data[i] * 2 + 1 : -(data[i] * 2)));
}

#endif
