/* Elementwise ops: one loop an op and class, from the same tokens as generated code (ops.def).
 *
 * Operands are loaded a run at a time, whole groups of 16 are computed (the rest of the last group is
 * unused), and the result is rounded by its store. Comparisons of integers give booleans as f32. */
#include "compile/portable/box.h"
#include "compile/portable/kernels.h"

#define LANES 16

typedef union lane {
    float f[BOX_RUN];
    int32_t i[BOX_RUN];
    int64_t l[BOX_RUN];
    double d[BOX_RUN];
} lane;

/* --- f32 -------------------------------------------------------------------- */

typedef void (*float_fn)(const float *pa, const float *pb, const float *pc, float *out, int64_t n);

#define EACH(expr)                                 \
    for (int64_t g = 0; g < n; g += LANES)         \
        for (int64_t i = g; i < g + LANES; i++) {  \
            float a = pa[i], b = pb[i], c = pc[i]; \
            (void)a, (void)b, (void)c;             \
            out[i] = expr;                         \
        }
#define FLOATS(name, expr)                                                               \
    static void float_##name(const float *restrict pa, const float *restrict pb,         \
                             const float *restrict pc, float *restrict out, int64_t n) { \
        EACH(expr)                                                                       \
    }
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_FLOATS(kind, FLOATS(name, expr))
#include "ir/ops.def"
#undef OP

#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_FLOATS(kind, [IR_##name] = float_##name, )
static const float_fn on_floats[IR_OP_COUNT_] = {
#include "ir/ops.def"
};
#undef OP

/* --- f64 -------------------------------------------------------------------- */

#include "ir/doubles.h"

#define DOUBLES(name, expr)                         \
    case IR_##name:                                 \
        for (int64_t i = 0; i < n; i++) {           \
            double a = pa[i], b = pb[i], c = pc[i]; \
            (void)a, (void)b, (void)c;              \
            out[i] = expr;                          \
        }                                           \
        break;
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_FLOATS(kind, DOUBLES(name, expr))
/* NOLINTNEXTLINE(readability-function-size): a loop an op */
static void on_f64(ir_op op, const double *restrict pa, const double *restrict pb,
                   const double *restrict pc, double *restrict out, int64_t n) {
    switch (op) {
#include "ir/ops.def"
    default: break;
    }
}
#undef OP

/* --- integers --------------------------------------------------------------------- */

#define INTS(name, ints)                       \
    case IR_##name:                            \
        for (int64_t i = 0; i < n; i++) {      \
            S a = pa[i], b = pb[i], c = pc[i]; \
            (void)a, (void)b, (void)c;         \
            out[i] = ints;                     \
        }                                      \
        break;
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_INTS(kind, INTS(name, ints))

#define S rp_i32
#define U rp_u32
/* NOLINTNEXTLINE(readability-function-size): a loop an op */
static void on_i32(ir_op op, const S *restrict pa, const S *restrict pb, const S *restrict pc,
                   S *restrict out, int64_t n) {
    switch (op) {
#include "ir/ops.def"
    default: break;
    }
}
#undef S
#undef U

#define S rp_i64
#define U rp_u64
/* NOLINTNEXTLINE(readability-function-size): a loop an op */
static void on_i64(ir_op op, const S *restrict pa, const S *restrict pb, const S *restrict pc,
                   S *restrict out, int64_t n) {
    switch (op) {
#include "ir/ops.def"
    default: break;
    }
}
#undef S
#undef U
#undef OP

/* --- runs ------------------------------------------------------------------------ */

/* The lanes behind the last element are computed, too: they hold zeros. */
static void load(const box_operand *o, int64_t at, int64_t step, int64_t n, lane *out) {
    switch (box_class_of(o->dtype)) {
    case BOX_F32: portable_load_f32(o, at, step, n, out->f); break;
    case BOX_I32: portable_load_i32(o, at, step, n, out->i); break;
    case BOX_I64: portable_load_i64(o, at, step, n, out->l); return;
    case BOX_F64: portable_load_f64(o, at, step, n, out->d); return;
    }
    for (int64_t i = n; i % LANES; i++) out->i[i] = 0;
}

/* The elements are written by functions that the analyzer does not see through. */
/* NOLINTBEGIN(clang-analyzer-core.uninitialized.Assign) */
/* Elements of one class as another, in place: from the end where they grow. odd: as floats that will be rounded again. */
static void convert(lane *x, box_class from, box_class to, bool odd, int64_t n) {
    bool grows = to == BOX_I64 || to == BOX_F64;
    if (from == to) return;
    for (int64_t k = 0; k < n; k++) {
        int64_t i = grows ? n - 1 - k : k;
        if (from == BOX_F32) {
            float v = x->f[i];
            if (to == BOX_F64)
                x->d[i] = (double)v;
            else if (to == BOX_I64)
                x->l[i] = rk_to_i64(v);
            else
                x->i[i] = rk_to_i32(v);
        } else if (from == BOX_F64) {
            double v = x->d[i];
            if (to == BOX_F32)
                x->f[i] = odd ? rk_f64_to_odd(v) : (float)v;
            else if (to == BOX_I64)
                x->l[i] = rk_f64_to_i64(v);
            else
                x->i[i] = rk_f64_to_i32(v);
        } else {
            int64_t v = from == BOX_I64 ? x->l[i] : x->i[i];
            if (to == BOX_F32)
                x->f[i] = odd ? rk_to_odd(v) : (float)v;
            else if (to == BOX_F64)
                x->d[i] = (double)v;
            else if (to == BOX_I64)
                x->l[i] = v;
            else
                x->i[i] = (int32_t)(uint32_t)(uint64_t)v; /* wraps around */
        }
    }
}

/* Casts go through the class of the result; to bool means: is not zero. */
static void cast_run(const box_operand *from, const box_operand *to, lane *x, int64_t n) {
    bool odd = ir_dtype_is_real(to->dtype) && to->dtype != RP_DTYPE_F32;
    if (to->dtype == RP_DTYPE_BOOL && from->dtype == RP_DTYPE_F64) /* what is tiny is not 0 */
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): the caller loads n */
        for (int64_t i = 0; i < n; i++) x->d[i] = x->d[i] != 0.0;
    convert(x, box_class_of(from->dtype), box_class_of(to->dtype), odd, n);
    if (!ir_dtype_is_integer(from->dtype)) portable_saturate(to->dtype, n, x->i);
}
/* NOLINTEND(clang-analyzer-core.uninitialized.Assign) */

static void wide_run(ir_op op, const box *b, lane x[3], lane *out, int64_t n) {
    box_class c = box_class_of(b->op[op == IR_where ? 1 : 0].dtype);
    /* The condition of where is a boolean. */
    if (op == IR_where) convert(&x[0], BOX_F32, c, false, n);
    if (c == BOX_I64)
        on_i64(op, x[0].l, x[1].l, x[2].l, out->l, n);
    else if (c == BOX_F64)
        on_f64(op, x[0].d, x[1].d, x[2].d, out->d, n);
    else
        on_i32(op, x[0].i, x[1].i, x[2].i, out->i, n);
    convert(out, c, box_class_of(b->op[b->n - 1].dtype), false, n);
}

static void store(const box_operand *o, int64_t at, int64_t step, int64_t n, const lane *x) {
    switch (box_class_of(o->dtype)) {
    case BOX_F32: portable_store_f32(o, at, step, n, x->f); break;
    case BOX_I32: portable_store_i32(o, at, step, n, x->i); break;
    case BOX_I64: portable_store_i64(o, at, step, n, x->l); break;
    case BOX_F64: portable_store_f64(o, at, step, n, x->d); break;
    }
}

/* Elements that are computed where they are: whole groups of single precision. */
static float *in_place(const box_operand *o, int64_t at, int64_t step, int64_t n) {
    if (o->dtype != RP_DTYPE_F32 || step != 1 || n % LANES) return NULL;
    return (float *)(void *)o->base + at;
}

static void run(const box *b, const int64_t *at, void *user) {
    const eager_record *r = user;
    ir_op op = (ir_op)r->op;
    uint32_t last = b->rank - 1, n_in = b->n - 1;
    const box_operand *to = &b->op[n_in];
    const bool converts = op == IR_cast || op == IR_bitcast;
    bool floats = box_class_of(b->op[op == IR_where ? 1 : 0].dtype) == BOX_F32 && !converts;
    int64_t step = to->stride[last];
    lane x[3], out;
    for (int64_t i = 0; i < b->dim[last]; i += BOX_RUN) {
        int64_t n = RP_MIN(b->dim[last] - i, BOX_RUN);
        const float *in[3] = {x[0].f, x[0].f, x[0].f};
        for (uint32_t k = 0; k < n_in; k++) {
            int64_t s = b->op[k].stride[last], from = at[k] + i * s;
            const float *direct = floats ? in_place(&b->op[k], from, s, n) : NULL;
            in[k] = direct ? direct : x[k].f;
            if (!direct) load(&b->op[k], from, s, n, &x[k]);
        }
        float *result = floats ? in_place(to, at[n_in] + i * step, step, n) : NULL;
        if (floats)
            on_floats[op](in[0], in[1], in[2], result ? result : out.f, n);
        else if (converts)
            cast_run(&b->op[0], to, &x[0], n);
        else
            wide_run(op, b, x, &out, n);
        if (!result) store(to, at[n_in] + i * step, step, n, converts ? &x[0] : &out);
    }
}

/* What is moved keeps every bit, as it would not by a conversion of narrow floats: as integers, and of bitcast both sides. */
static void move_as_integers(ir_op op, box *b) {
    for (uint32_t k = op == IR_where ? 1 : 0; k < b->n; k++) {
        const rp_dtype t = b->op[k].dtype;
        const size_t bytes = rp_dtype_block_bytes(t);
        if (op == IR_where && (!ir_dtype_is_real(t) || bytes > 2)) continue;
        b->op[k].dtype = bytes == 8   ? RP_DTYPE_I64
                         : bytes == 4 ? RP_DTYPE_I32
                         : bytes == 2 ? RP_DTYPE_I16
                                      : RP_DTYPE_U8;
    }
}

static void elementwise(void *const *arg, const long long *dim, long long begin, long long end,
                        uint32_t n_in) {
    const eager_record *r = arg[n_in + 1];
    box b;
    portable_open(r, arg, dim, begin, end, &b);
    portable_join(&b);
    if (r->op == IR_bitcast || r->op == IR_where) move_as_integers((ir_op)r->op, &b);
    portable_walk(&b, run, (void *)(uintptr_t)r);
}

#define KERNEL(name, arity)                                                                      \
    void portable_##name(void *const *arg, const long long *dim, long long begin, long long end, \
                         void *scratch) {                                                        \
        (void)scratch;                                                                           \
        elementwise(arg, dim, begin, end, arity);                                                \
    }
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_ELEMENTWISE(kind, KERNEL(name, arity))
#include "ir/ops.def"
