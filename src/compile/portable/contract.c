/* Products of any two operands: the sum of products in 16 lanes. Operands a, b, result over the result's space;
 * own forms: k, and its stride in a and b. */
#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

typedef struct product {
    int64_t k, a_step, b_step;
} product;

static float dot(const product *q, const box *b, int64_t pa, int64_t pb) {
    float x[BOX_RUN], y[BOX_RUN], l[16] = {0};
    for (int64_t i = 0; i < q->k; i += BOX_RUN) {
        int64_t n = RP_MIN(q->k - i, BOX_RUN), whole = n / 16 * 16;
        portable_load_f32(&b->op[0], pa + i * q->a_step, q->a_step, n, x);
        portable_load_f32(&b->op[1], pb + i * q->b_step, q->b_step, n, y);
        for (int64_t g = 0; g < whole; g += 16)
            for (int j = 0; j < 16; j++) l[j] = l[j] + x[g + j] * y[g + j];
        for (int64_t j = whole; j < n; j++) l[j - whole] = l[j - whole] + x[j] * y[j];
    }
    return rk_sum16(l);
}

static void matmul_run(const box *b, const int64_t *at, void *user) {
    uint32_t last = b->rank - 1;
    for (int64_t i = 0; i < b->dim[last]; i++) {
        float v =
            dot(user, b, at[0] + i * b->op[0].stride[last], at[1] + i * b->op[1].stride[last]);
        portable_store_f32(&b->op[2], at[2] + i * b->op[2].stride[last], 1, 1, &v);
    }
}

void portable_matmul(void *const *arg, const long long *dim, long long begin, long long end,
                     void *scratch) {
    const eager_record *r = arg[3];
    product q = {eager_record_own(r, 0, dim), eager_record_own(r, 1, dim),
                 eager_record_own(r, 2, dim)};
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, matmul_run, &q);
}
