/* quantize: f32 rows to packed i16b32 rows (gen/embed/prelude.h). The space is that of the rows; positions of the
 * result count rows. Own forms: elements of a row, their stride. */
#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

typedef struct rows {
    int64_t k, step;
} rows;

static void quantize_row(const rows *q, const box_operand *x, int64_t at, char *row) {
    float block[32];
    for (int64_t i = 0; i < q->k / 32; i++) {
        portable_load_f32(x, at + i * 32 * q->step, q->step, 32, block);
        rp_quant_block(block, (rp_i16 *)(void *)row + i * 32, (float *)(void *)(row + q->k * 2) + i,
                       (rp_i32 *)(void *)(row + q->k * 2 + q->k / 8) + i);
    }
}

static void quantize_run(const box *b, const int64_t *at, void *user) {
    const rows *q = user;
    uint32_t last = b->rank - 1;
    for (int64_t i = 0; i < b->dim[last]; i++)
        quantize_row(q, &b->op[0], at[0] + i * b->op[0].stride[last],
                     b->op[1].base +
                         (at[1] + i * b->op[1].stride[last]) * (int64_t)RP_QROW_SIZE(q->k));
}

void portable_quantize(void *const *arg, const long long *dim, long long begin, long long end,
                       void *scratch) {
    const eager_record *r = arg[2];
    rows q = {eager_record_own(r, 0, dim), eager_record_own(r, 1, dim)};
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, quantize_run, &q);
}
