/* Reductions of one axis. Order of additions as gen/embed/prelude.h defines it: element i in lane i % 16,
 * ascending, then the tree; chunk by chunk where there are many; products ascend; integers wrap; argmax takes the first of equals.
 *
 * The record's space is that of the result; own form 0 is the length of the axis, 1 its stride. */
#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

typedef struct reduce {
    ir_op op;
    int64_t n, step;
} reduce;

static float lane_start(ir_op op) {
    return op == IR_sum ? 0.0f : op == IR_amax ? -RP_INF : RP_INF;
}

static void into_lanes(ir_op op, const float *x, int64_t n, float *l) {
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], a = l[i % 16];
        l[i % 16] = op == IR_sum    ? a + v
                    : op == IR_amax ? ((a > v || a != a) ? a : v)
                                    : ((a < v || a != a) ? a : v);
    }
}

static float float_lanes(const reduce *q, const box_operand *o, int64_t at) {
    float x[BOX_RUN], l[16];
    double chunks = 0.0;
    for (int i = 0; i < 16; i++) l[i] = lane_start(q->op);
    for (int64_t i = 0; i < q->n; i += BOX_RUN) {
        int64_t n = RP_MIN(q->n - i, BOX_RUN);
        if (q->op == IR_sum && i && i % RK_CHUNK == 0) box_end_chunk(l, &chunks);
        portable_load_f32(o, at + i * q->step, q->step, n, x);
        if (q->op == IR_sum) {
            int64_t whole = n / 16 * 16;
            for (int64_t g = 0; g < whole; g += 16)
                for (int j = 0; j < 16; j++) l[j] = l[j] + x[g + j];
            into_lanes(IR_sum, x + whole, n - whole, l);
        } else {
            into_lanes(q->op, x, n, l);
        }
    }
    if (q->op == IR_sum) return box_end_chunk(l, &chunks);
    return q->op == IR_amax ? rk_max16(l) : rk_min16(l);
}

static float float_product(const reduce *q, const box_operand *o, int64_t at) {
    float x[BOX_RUN], a = 1.0f;
    for (int64_t i = 0; i < q->n; i += BOX_RUN) {
        int64_t n = RP_MIN(q->n - i, BOX_RUN);
        portable_load_f32(o, at + i * q->step, q->step, n, x);
        for (int64_t j = 0; j < n; j++) a = a * x[j];
    }
    return a;
}

/* The same in double precision. */
static double double_lanes(const reduce *q, const box_operand *o, int64_t at) {
    double x[BOX_RUN], l[16], chunks = 0.0;
    for (int i = 0; i < 16; i++) l[i] = (double)lane_start(q->op);
    for (int64_t i = 0; i < q->n; i += BOX_RUN) {
        int64_t n = RP_MIN(q->n - i, BOX_RUN);
        if (q->op == IR_sum && i && i % RK_CHUNK == 0) {
            chunks += rk_sum16_f64(l);
            for (int k = 0; k < 16; k++) l[k] = 0.0;
        }
        portable_load_f64(o, at + i * q->step, q->step, n, x);
        for (int64_t j = 0; j < n; j++) {
            double v = x[j], a = l[j % 16];
            l[j % 16] = q->op == IR_sum    ? a + v
                        : q->op == IR_amax ? ((a > v || a != a) ? a : v)
                                           : ((a < v || a != a) ? a : v);
        }
    }
    if (q->op == IR_sum) return chunks + rk_sum16_f64(l);
    return q->op == IR_amax ? rk_max16_f64(l) : rk_min16_f64(l);
}

static double double_product(const reduce *q, const box_operand *o, int64_t at) {
    double x[BOX_RUN], a = 1.0;
    for (int64_t i = 0; i < q->n; i += BOX_RUN) {
        int64_t n = RP_MIN(q->n - i, BOX_RUN);
        portable_load_f64(o, at + i * q->step, q->step, n, x);
        for (int64_t j = 0; j < n; j++) a = a * x[j];
    }
    return a;
}

/* Sums and products wrap as 64 bits: what is left of that in 32 is what wraps there. */
static int64_t join_ints(ir_op op, int64_t a, int64_t b) {
    switch (op) {
    case IR_sum: return (int64_t)((uint64_t)a + (uint64_t)b);
    case IR_prod: return (int64_t)((uint64_t)a * (uint64_t)b);
    case IR_amax: return b > a ? b : a;
    default: return b < a ? b : a;
    }
}

/* n elements of any integer type. */
static void load_ints(const box_operand *o, int64_t at, int64_t step, int64_t n, int64_t *out) {
    int32_t x[BOX_RUN];
    if (o->dtype == RP_DTYPE_I64) {
        portable_load_i64(o, at, step, n, out);
        return;
    }
    portable_load_i32(o, at, step, n, x);
    for (int64_t i = 0; i < n; i++) out[i] = x[i];
}

static int64_t int_reduce(const reduce *q, const box_operand *o, int64_t at) {
    int64_t x[BOX_RUN];
    int64_t a = q->op == IR_sum    ? 0
                : q->op == IR_prod ? 1
                : q->op == IR_amax ? INT64_MIN
                                   : INT64_MAX;
    for (int64_t i = 0; i < q->n; i += BOX_RUN) {
        int64_t n = RP_MIN(q->n - i, BOX_RUN);
        load_ints(o, at + i * q->step, q->step, n, x);
        for (int64_t j = 0; j < n; j++) a = join_ints(q->op, a, x[j]);
    }
    return a;
}

/* n elements of any float. */
static void load_floats(const box_operand *o, int64_t at, int64_t step, int64_t n, double *out) {
    float x[BOX_RUN];
    if (o->dtype == RP_DTYPE_F64) {
        portable_load_f64(o, at, step, n, out);
        return;
    }
    portable_load_f32(o, at, step, n, x);
    for (int64_t i = 0; i < n; i++) out[i] = (double)x[i];
}

static int32_t float_argmax(const reduce *q, const box_operand *o, int64_t at) {
    double x[BOX_RUN], top = 0.0;
    int64_t best = 0;
    for (int64_t i = 0; i < q->n; i += BOX_RUN) {
        int64_t n = RP_MIN(q->n - i, BOX_RUN);
        load_floats(o, at + i * q->step, q->step, n, x);
        for (int64_t j = 0; j < n; j++)
            if (i + j == 0 || x[j] > top || (x[j] != x[j] && top == top)) {
                top = x[j];
                best = i + j;
            }
    }
    return (int32_t)best;
}

static int32_t int_argmax(const reduce *q, const box_operand *o, int64_t at) {
    int64_t x[BOX_RUN], top = 0;
    int64_t best = 0;
    for (int64_t i = 0; i < q->n; i += BOX_RUN) {
        int64_t n = RP_MIN(q->n - i, BOX_RUN);
        load_ints(o, at + i * q->step, q->step, n, x);
        for (int64_t j = 0; j < n; j++)
            if (i + j == 0 || x[j] > top) {
                top = x[j];
                best = i + j;
            }
    }
    return (int32_t)best;
}

static void reduce_run(const box *b, const int64_t *at, void *user) {
    const reduce *q = user;
    const box_operand *x = &b->op[0], *to = &b->op[1];
    uint32_t last = b->rank - 1;
    box_class c = box_class_of(x->dtype);
    bool floats = c == BOX_F32 || c == BOX_F64;
    for (int64_t i = 0; i < b->dim[last]; i++) {
        int64_t from = at[0] + i * x->stride[last], place = at[1] + i * to->stride[last];
        if (q->op == IR_argmax) {
            int32_t v = floats ? float_argmax(q, x, from) : int_argmax(q, x, from);
            portable_store_i32(to, place, 1, 1, &v);
        } else if (c == BOX_F64) {
            double v = q->op == IR_prod ? double_product(q, x, from) : double_lanes(q, x, from);
            portable_store_f64(to, place, 1, 1, &v);
        } else if (floats) {
            float v = q->op == IR_prod ? float_product(q, x, from) : float_lanes(q, x, from);
            portable_store_f32(to, place, 1, 1, &v);
        } else {
            int64_t v = int_reduce(q, x, from);
            int32_t narrow = (int32_t)(uint32_t)v; /* less than i64: what wraps there */
            if (to->dtype == RP_DTYPE_I64)
                portable_store_i64(to, place, 1, 1, &v);
            else
                portable_store_i32(to, place, 1, 1, &narrow);
        }
    }
}

static void reduce_all(ir_op op, void *const *arg, const long long *dim, long long begin,
                       long long end) {
    const eager_record *r = arg[2];
    reduce q = {op, eager_record_own(r, 0, dim), eager_record_own(r, 1, dim)};
    box b;
    portable_open(r, arg, dim, begin, end, &b);
    portable_walk(&b, reduce_run, &q);
}

#define KERNEL(name)                                                                             \
    void portable_##name(void *const *arg, const long long *dim, long long begin, long long end, \
                         void *scratch) {                                                        \
        (void)scratch;                                                                           \
        reduce_all(IR_##name, arg, dim, begin, end);                                             \
    }
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_REDUCTIONS(kind, KERNEL(name))
#include "ir/ops.def"
