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
#define FLOAT_LEAF(name, expr)
#define FLOAT_VIEW(name, expr)
#define FLOAT_REDUCE(name, expr)
#define FLOAT_SCAN(name, expr)
#define FLOAT_MOVE(name, expr)
#define FLOAT_CONTRACT(name, expr)
#define FLOAT_QUANT(name, expr)
#define FLOAT_EFFECT(name, expr)
#define FLOAT_ELEMENTWISE(name, expr)                                                    \
    static void float_##name(const float *restrict pa, const float *restrict pb,         \
                             const float *restrict pc, float *restrict out, int64_t n) { \
        EACH(expr)                                                                       \
    }
#define OP(name, kind, arity, attrs, expr) FLOAT_##kind(name, expr)
#include "ir/ops.def"
#undef OP

#define ROW_LEAF(name)
#define ROW_VIEW(name)
#define ROW_REDUCE(name)
#define ROW_SCAN(name)
#define ROW_MOVE(name)
#define ROW_CONTRACT(name)
#define ROW_QUANT(name)
#define ROW_EFFECT(name)
#define ROW_ELEMENTWISE(name) [IR_##name] = float_##name,
#define OP(name, kind, arity, attrs, expr) ROW_##kind(name)
static const float_fn on_floats[IR_OP_COUNT_] = {
#include "ir/ops.def"
};
#undef OP

/* --- i32: sums, differences and products wrap around --------------------------- */

#define INT_OPS(X)                                       \
    X(add, (rp_i32)((rp_u32)a + (rp_u32)b))              \
    X(sub, (rp_i32)((rp_u32)a - (rp_u32)b))              \
    X(mul, (rp_i32)((rp_u32)a * (rp_u32)b))              \
    X(neg, (rp_i32)(0u - (rp_u32)a))                     \
    X(abs, (rp_i32)(a < 0 ? 0u - (rp_u32)a : (rp_u32)a)) \
    X(max, a > b ? a : b)                                \
    X(min, a < b ? a : b)                                \
    X(eq, a == b)                                        \
    X(ne, a != b)                                        \
    X(lt, a < b)                                         \
    X(le, a <= b)                                        \
    X(gt, a > b)                                         \
    X(ge, a >= b)                                        \
    X(where, a ? b : c)

typedef void (*int_fn)(const int32_t *pa, const int32_t *pb, const int32_t *pc, int32_t *out,
                       int64_t n);

#define INT_FN(name, expr)                                                                 \
    static void int_##name(const int32_t *restrict pa, const int32_t *restrict pb,         \
                           const int32_t *restrict pc, int32_t *restrict out, int64_t n) { \
        for (int64_t i = 0; i < n; i++) {                                                  \
            int32_t a = pa[i], b = pb[i], c = pc[i];                                       \
            (void)a, (void)b, (void)c;                                                     \
            out[i] = expr;                                                                 \
        }                                                                                  \
    }
INT_OPS(INT_FN)
#define INT_ROW(name, expr) [IR_##name] = int_##name,
static const int_fn on_ints[IR_OP_COUNT_] = {INT_OPS(INT_ROW)};

/* --- runs ------------------------------------------------------------------------ */

/* The lanes behind the last element are computed, too: they hold zeros. */
static void load(const box_operand *o, int64_t at, int64_t step, int64_t n, lane *out) {
    if (box_is_f32(o->dtype))
        portable_load_f32(o, at, step, n, out->f);
    else
        portable_load_i32(o, at, step, n, out->i);
    for (int64_t i = n; i % LANES; i++) out->i[i] = 0;
}

/* The elements are written by functions that the analyzer does not see through. */
/* NOLINTBEGIN(clang-analyzer-core.uninitialized.Assign) */
static void to_floats(lane *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int32_t v = x->i[i];
        x->f[i] = (float)v;
    }
}

static void to_ints(lane *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float v = x->f[i];
        x->i[i] = rk_to_i32(v);
    }
}
/* NOLINTEND(clang-analyzer-core.uninitialized.Assign) */

/* Casts go through the class of the result; to bool means: is not zero. */
static void cast_run(const box_operand *from, const box_operand *to, lane *x, int64_t n) {
    bool is_f32 = box_is_f32(from->dtype), want_f32 = box_is_f32(to->dtype);
    if (want_f32 && !is_f32) to_floats(x, n);
    if (!want_f32 && is_f32) to_ints(x, n);
}

static void int_run(ir_op op, const box *b, lane x[3], lane *out, int64_t n) {
    /* The condition of where is a boolean. */
    if (op == IR_where) to_ints(&x[0], n);
    on_ints[op](x[0].i, x[1].i, x[2].i, out->i, n);
    if (box_is_f32(b->op[b->n - 1].dtype)) to_floats(out, n);
}

static void store(const box_operand *o, int64_t at, int64_t step, int64_t n, const lane *x) {
    if (box_is_f32(o->dtype))
        portable_store_f32(o, at, step, n, x->f);
    else
        portable_store_i32(o, at, step, n, x->i);
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
    bool floats = box_is_f32(b->op[op == IR_where ? 1 : 0].dtype) && op != IR_cast;
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
        else if (op == IR_cast)
            cast_run(&b->op[0], to, &x[0], n);
        else
            int_run(op, b, x, &out, n);
        if (!result) store(to, at[n_in] + i * step, step, n, op == IR_cast ? &x[0] : &out);
    }
}

static void elementwise(void *const *arg, const long long *dim, long long begin, long long end,
                        uint32_t n_in) {
    const eager_record *r = arg[n_in + 1];
    box b;
    portable_open(r, arg, dim, begin, end, &b);
    portable_join(&b);
    portable_walk(&b, run, (void *)(uintptr_t)r);
}

#define KERNEL_LEAF(name, arity)
#define KERNEL_VIEW(name, arity)
#define KERNEL_REDUCE(name, arity)
#define KERNEL_SCAN(name, arity)
#define KERNEL_MOVE(name, arity)
#define KERNEL_CONTRACT(name, arity)
#define KERNEL_QUANT(name, arity)
#define KERNEL_EFFECT(name, arity)
#define KERNEL_ELEMENTWISE(name, arity)                                                          \
    void portable_##name(void *const *arg, const long long *dim, long long begin, long long end, \
                         void *scratch) {                                                        \
        (void)scratch;                                                                           \
        elementwise(arg, dim, begin, end, arity);                                                \
    }
#define OP(name, kind, arity, attrs, expr) KERNEL_##kind(name, arity)
#include "ir/ops.def"
