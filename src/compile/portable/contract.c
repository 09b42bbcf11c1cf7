/* Products. matmul: any two operands, the sum of products in 16 lanes. matmul_FMT and matmul_packed_FMT:
 * packed weights through the portable form of the template, so that results equal those of compiled code.
 *
 * matmul has operands a, b, result over the result's space; own forms: k, and its stride in a and b. The
 * others have operands x, result over rows, then the weights; own forms: k, columns, stride of the columns of x.
 * A work item of those is 32 columns. */
#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

#include "gen/embed/vector.c.inc"

#include "gen/embed/matmul.c.inc"

#define COLUMNS 32

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
        float v = dot(user, b, at[0] + i * b->op[0].stride[last], at[1] + i * b->op[1].stride[last]);
        portable_store_f32(&b->op[2], at[2] + i * b->op[2].stride[last], 1, 1, &v);
    }
}

void portable_matmul(void *const *arg, const long long *dim, long long begin, long long end, void *scratch) {
    const eager_record *r = arg[3];
    product q = {eager_record_own(r, 0, dim), eager_record_own(r, 1, dim), eager_record_own(r, 2, dim)};
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, matmul_run, &q);
}

/* --- packed weights --------------------------------------------------------------- */

RP_MM_QUANT(q4_0)
RP_MM_QUANT(q4_1)
RP_MM_QUANT(q8_0)
RP_MMF_KERNELS
RP_MM_FLOAT(f32)
RP_MM_FLOAT(f16)
RP_MM_FLOAT(bf16)
RP_MM_FLOAT(q4_0)
RP_MM_FLOAT(q4_1)
RP_MM_FLOAT(q8_0)

int64_t portable_matmul_scratch(int64_t k, bool packed_rows) {
    return (int64_t)(packed_rows ? RP_MM_SCRATCH(k) : RP_MMF_SCRATCH(k));
}

typedef struct packed {
    box b;
    const rp_u8 *weights;
    int64_t rows, k, columns, step;
} packed;

static void open_packed(void *const *arg, const long long *dim, packed *q) {
    const eager_record *r = arg[3];
    q->rows = gen_affine_eval(&r->form[0], dim);
    q->k = eager_record_own(r, 0, dim);
    q->columns = eager_record_own(r, 1, dim);
    q->step = eager_record_own(r, 2, dim);
    q->weights = arg[2];
    portable_open(r, arg, dim, 0, q->rows, &q->b);
}

static const char *packed_row(const packed *q, int64_t row) {
    const box_operand *x = &q->b.op[0];
    return x->base + (x->at + row * x->stride[0]) / q->k * (int64_t)RP_QROW_SIZE(q->k);
}

static const float *float_row(const packed *q, int64_t row, float *tmp) {
    const box_operand *x = &q->b.op[0];
    int64_t at = x->at + row * x->stride[0];
    if (x->dtype == RP_DTYPE_F32 && q->step == 1) return (const float *)(const void *)x->base + at;
    portable_load_f32(x, at, q->step, q->k, tmp);
    return tmp;
}

static void put_rows(const packed *q, int64_t row0, int n, int64_t item, const float *acc) {
    const box_operand *to = &q->b.op[1];
    int64_t first = item * COLUMNS, count = RP_MIN(q->columns - first, COLUMNS);
    for (int i = 0; i < n; i++)
        portable_store_f32(to, to->at + (row0 + i) * to->stride[0] + first, 1, count, acc + i * COLUMNS);
}

#define PACKED_ROW(row, tmp) packed_row(&q, row)
#define FLOAT_ROW(row, tmp) float_row(&q, row, tmp)
#define PUT(row0, n, item, acc) put_rows(&q, row0, n, item, acc)
#define KERNEL(name, LOOP, fmt, ROW)                                                                         \
    void portable_##name(void *const *arg, const long long *dim, long long begin, long long end, void *scratch) { \
        packed q;                                                                                            \
        open_packed(arg, dim, &q);                                                                           \
        LOOP(fmt, begin, end, q.rows, q.k, COLUMNS / 16, q.weights, scratch, ROW, PUT);                      \
    }
KERNEL(matmul_packed_q4_0, RP_MM_LOOP, q4_0, PACKED_ROW)
KERNEL(matmul_packed_q4_1, RP_MM_LOOP, q4_1, PACKED_ROW)
KERNEL(matmul_packed_q8_0, RP_MM_LOOP, q8_0, PACKED_ROW)
KERNEL(matmul_f32, RP_MMF_LOOP, f32, FLOAT_ROW)
KERNEL(matmul_f16, RP_MMF_LOOP, f16, FLOAT_ROW)
KERNEL(matmul_bf16, RP_MMF_LOOP, bf16, FLOAT_ROW)
KERNEL(matmul_q4_0, RP_MMF_LOOP, q4_0, FLOAT_ROW)
KERNEL(matmul_q4_1, RP_MMF_LOOP, q4_1, FLOAT_ROW)
KERNEL(matmul_q8_0, RP_MMF_LOOP, q8_0, FLOAT_ROW)
