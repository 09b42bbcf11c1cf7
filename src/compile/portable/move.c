/* Data movement: copies of views, gather, iota. Bytes move as they are, in units of the record, unless
 * the source is a block format that is read as f32. */
#include <string.h>

#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

/* n units or elements, from position `from` of a to position `to` of b. */
static void move(const eager_record *r, const box_operand *a, int64_t from, int64_t a_step,
                 const box_operand *b, int64_t to, int64_t b_step, int64_t n) {
    float x[BOX_RUN];
    size_t unit = r->unit;
    if (unit && a_step == 1 && b_step == 1) {
        memcpy(b->base + (size_t)to * unit, a->base + (size_t)from * unit, (size_t)n * unit);
    } else if (unit) {
        for (int64_t i = 0; i < n; i++)
            memcpy(b->base + (size_t)(to + i * b_step) * unit,
                   a->base + (size_t)(from + i * a_step) * unit, unit);
    } else {
        for (int64_t i = 0; i < n; i += BOX_RUN) {
            int64_t k = RP_MIN(n - i, BOX_RUN);
            portable_load_f32(a, from + i * a_step, a_step, k, x);
            portable_store_f32(b, to + i * b_step, b_step, k, x);
        }
    }
}

static void copy_run(const box *b, const int64_t *at, void *user) {
    uint32_t last = b->rank - 1;
    move(user, &b->op[0], at[0], b->op[0].stride[last], &b->op[1], at[1], b->op[1].stride[last],
         b->dim[last]);
}

void portable_copy(void *const *arg, const long long *dim, long long begin, long long end,
                   void *scratch) {
    const eager_record *r = arg[2];
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_join(&b);
    portable_walk(&b, copy_run, (void *)(uintptr_t)r);
}

/* --- gather: operands table, index, result; own forms: rows of the table, stride of a row ------------ */

typedef struct gather {
    const eager_record *r;
    int64_t rows, step;
} gather;

static int64_t row_at(const gather *q, const box_operand *index, int64_t at) {
    int32_t i;
    portable_load_i32(index, at, 1, 1, &i);
    return RP_MAX(RP_MIN((int64_t)i, q->rows - 1), 0) * q->step;
}

static void gather_run(const box *b, const int64_t *at, void *user) {
    const gather *q = user;
    uint32_t last = b->rank - 1;
    const box_operand *table = &b->op[0], *index = &b->op[1], *to = &b->op[2];
    int64_t n = b->dim[last], t = table->stride[last], s = index->stride[last],
            o = to->stride[last];
    if (s == 0) {
        move(q->r, table, at[0] + row_at(q, index, at[1]), t, to, at[2], o, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        move(q->r, table, at[0] + i * t + row_at(q, index, at[1] + i * s), 1, to, at[2] + i * o, 1,
             1);
}

void portable_gather(void *const *arg, const long long *dim, long long begin, long long end,
                     void *scratch) {
    const eager_record *r = arg[3];
    gather q = {r, eager_record_own(r, 0, dim), eager_record_own(r, 1, dim)};
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_join(&b);
    portable_walk(&b, gather_run, &q);
}

/* --- iota: operand 0 is no memory, its position is the value -------------------------------------------- */

static void iota_run(const box *b, const int64_t *at, void *user) {
    uint32_t last = b->rank - 1;
    const box_operand *to = &b->op[1];
    (void)user;
    for (int64_t i = 0; i < b->dim[last]; i++) {
        int32_t v = rk_sat(at[0] + i * b->op[0].stride[last]);
        float f = (float)v;
        if (box_is_f32(to->dtype))
            portable_store_f32(to, at[1] + i * to->stride[last], 1, 1, &f);
        else
            portable_store_i32(to, at[1] + i * to->stride[last], 1, 1, &v);
    }
}

void portable_iota(void *const *arg, const long long *dim, long long begin, long long end,
                   void *scratch) {
    const eager_record *r = arg[2];
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, iota_run, NULL);
}
