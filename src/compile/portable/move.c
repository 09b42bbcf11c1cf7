/* Data movement: copies of views, gather, numbers of four bits, iota. Bytes move as they are, in units of the record, unless
 * the source is a block format that is read as f32; of a bool 0 or 1 is stored. */
#include <string.h>

#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

/* A run of units or elements of one operand. */
typedef struct place {
    const box_operand *o;
    int64_t at, step;
} place;

static void move_bools(place from, place to, int64_t n) {
    const uint8_t *a = (const uint8_t *)from.o->base + from.at;
    uint8_t *b = (uint8_t *)to.o->base + to.at;
    for (int64_t i = 0; i < n; i++) b[i * to.step] = a[i * from.step] != 0;
}

static void move(const eager_record *r, place from, place to, int64_t n) {
    float x[BOX_RUN];
    size_t unit = r->unit;
    char *a = from.o->base + (size_t)from.at * unit, *b = to.o->base + (size_t)to.at * unit;
    if (unit && to.o->dtype == RP_DTYPE_BOOL) {
        move_bools(from, to, n);
    } else if (unit && from.step == 1 && to.step == 1) {
        memcpy(b, a, (size_t)n * unit);
    } else if (unit) {
        for (int64_t i = 0; i < n;
             i++, a += from.step * (int64_t)unit, b += to.step * (int64_t)unit)
            memcpy(b, a, unit);
    } else {
        for (int64_t i = 0; i < n; i += BOX_RUN) {
            int64_t k = RP_MIN(n - i, BOX_RUN);
            portable_load_f32(from.o, from.at + i * from.step, from.step, k, x);
            portable_store_f32(to.o, to.at + i * to.step, to.step, k, x);
        }
    }
}

/* Operand k from position `at` on, along the last dim. */
static place along(const box *b, uint32_t k, int64_t at) {
    return (place){&b->op[k], at, b->op[k].stride[b->rank - 1]};
}

static void copy_run(const box *b, const int64_t *at, void *user) {
    move(user, along(b, 0, at[0]), along(b, 1, at[1]), b->dim[b->rank - 1]);
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
    int32_t narrow;
    int64_t i;
    if (index->dtype == RP_DTYPE_I64) {
        portable_load_i64(index, at, 1, 1, &i);
    } else {
        portable_load_i32(index, at, 1, 1, &narrow);
        i = narrow;
    }
    return RP_MAX(RP_MIN(i, q->rows - 1), 0) * q->step;
}

static void gather_run(const box *b, const int64_t *at, void *user) {
    const gather *q = user;
    const box_operand *index = &b->op[1];
    place from = along(b, 0, at[0]), to = along(b, 2, at[2]);
    int64_t n = b->dim[b->rank - 1], step = index->stride[b->rank - 1];
    if (step == 0) {
        from.at += row_at(q, index, at[1]);
        move(q->r, from, to, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        place one = {from.o, from.at + i * from.step + row_at(q, index, at[1] + i * step), 1};
        move(q->r, one, (place){to.o, to.at + i * to.step, 1}, 1);
    }
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

/* --- numbers of four bits: a byte an element of the space ---------------------------------------------- */

/* Operand 0: the first of each two; own form: how far the second is from it. */
static void pack_i4_run(const box *b, const int64_t *at, void *user) {
    const int64_t n = b->dim[b->rank - 1], apart = *(const int64_t *)user;
    const place from = along(b, 0, at[0]), to = along(b, 1, at[1]);
    int32_t lo[BOX_RUN], hi[BOX_RUN];
    for (int64_t i = 0; i < n; i += BOX_RUN) {
        const int64_t k = RP_MIN(n - i, BOX_RUN), spot = from.at + i * from.step;
        portable_load_i32(from.o, spot, from.step, k, lo);
        portable_load_i32(from.o, spot + apart, from.step, k, hi);
        for (int64_t j = 0; j < k; j++) lo[j] = (lo[j] & 15) | ((hi[j] & 15) << 4);
        portable_store_i32(to.o, to.at + i * to.step, to.step, k, lo);
    }
}

void portable_pack_i4(void *const *arg, const long long *dim, long long begin, long long end,
                      void *scratch) {
    const eager_record *r = arg[2];
    int64_t apart = eager_record_own(r, 0, dim);
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, pack_i4_run, &apart);
}

/* Operand 1: the first of each two, dense. */
static void unpack_i4_run(const box *b, const int64_t *at, void *user) {
    const int64_t n = b->dim[b->rank - 1];
    const place from = along(b, 0, at[0]), to = along(b, 1, at[1]);
    const int32_t sign = to.o->dtype == RP_DTYPE_I8 ? 8 : 0;
    int32_t x[BOX_RUN], y[BOX_RUN];
    (void)user;
    for (int64_t i = 0; i < n; i += BOX_RUN) {
        const int64_t k = RP_MIN(n - i, BOX_RUN);
        portable_load_i32(from.o, from.at + i * from.step, from.step, k, x);
        for (int half = 0; half < 2; half++) {
            for (int64_t j = 0; j < k; j++) y[j] = (((x[j] >> (4 * half)) & 15) ^ sign) - sign;
            portable_store_i32(to.o, to.at + i * to.step + half, to.step, k, y);
        }
    }
}

void portable_unpack_i4(void *const *arg, const long long *dim, long long begin, long long end,
                        void *scratch) {
    const eager_record *r = arg[2];
    box b;
    (void)scratch;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, unpack_i4_run, NULL);
}

/* --- iota: operand 0 is no memory, its position is the value -------------------------------------------- */

static void iota_run(const box *b, const int64_t *at, void *user) {
    uint32_t last = b->rank - 1;
    const box_operand *to = &b->op[1];
    (void)user;
    for (int64_t i = 0; i < b->dim[last]; i++) {
        int64_t v = at[0] + i * b->op[0].stride[last], spot = at[1] + i * to->stride[last];
        int32_t narrow = rk_sat(v);
        float f = (float)v;
        double wide = (double)v;
        switch (box_class_of(to->dtype)) {
        case BOX_F32: portable_store_f32(to, spot, 1, 1, &f); break;
        case BOX_I32: portable_store_i32(to, spot, 1, 1, &narrow); break;
        case BOX_I64: portable_store_i64(to, spot, 1, 1, &v); break;
        case BOX_F64: portable_store_f64(to, spot, 1, 1, &wide); break;
        }
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
