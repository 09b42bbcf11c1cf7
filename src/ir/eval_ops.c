/* Elementwise ops over double, compiled from the same tokens as every kernel (ops.def). */
#include <math.h>

#include "ir/eval.h"

#define rp_absf fabs
#define rp_sqrtf sqrt
#define rp_expf exp
#define rp_logf log
#define rp_sinf sin
#define rp_cosf cos
#define rp_tanhf tanh
#define rp_erff erf
#define rp_floorf floor
#define rp_roundf rint
#define rp_powf pow
#define rp_fmaf fma

#define FN_LEAF(name, expr)
#define FN_VIEW(name, expr)
#define FN_SCAN(name, expr)
#define FN_MOVE(name, expr)
#define FN_CONTRACT(name, expr)
#define FN_QUANT(name, expr)
#define FN_EFFECT(name, expr)
#define FN_REDUCE(name, expr) FN_ELEMENTWISE(name, expr)
#define FN_ELEMENTWISE(name, expr)                          \
    static double fn_##name(double a, double b, double c) { \
        (void)a, (void)b, (void)c;                          \
        return expr;                                        \
    }
#define OP(name, kind, arity, attrs, expr) FN_##kind(name, expr)
#include "ir/ops.def"
#undef OP

#define ROW_LEAF(name)
#define ROW_VIEW(name)
#define ROW_SCAN(name)
#define ROW_MOVE(name)
#define ROW_CONTRACT(name)
#define ROW_QUANT(name)
#define ROW_EFFECT(name)
#define ROW_REDUCE(name) ROW_ELEMENTWISE(name)
#define ROW_ELEMENTWISE(name) [IR_##name] = fn_##name,
#define OP(name, kind, arity, attrs, expr) ROW_##kind(name)
static double (*const table[IR_OP_COUNT_])(double, double, double) = {
#include "ir/ops.def"
};
#undef OP

/* Two's complement of the width of t, for results that wrap around. */
static double wrap(rp_dtype t, uint64_t v) {
    return t == RP_DTYPE_I32 ? (double)(int32_t)(uint32_t)v : ir_round(t, (double)(int64_t)v);
}

static uint64_t bits(double v) {
    return (uint64_t)(int64_t)v;
}

int64_t ir_apply_i64(ir_op op, const int64_t *x) {
    int64_t a = x[0], b = x[1];
    uint64_t u = (uint64_t)a, v = (uint64_t)b;
    switch (op) {
    case IR_neg: return (int64_t)(0 - u);
    case IR_abs: return (int64_t)(a < 0 ? 0 - u : u);
    case IR_add:
    case IR_sum: return (int64_t)(u + v);
    case IR_sub: return (int64_t)(u - v);
    case IR_mul:
    case IR_prod: return (int64_t)(u * v);
    case IR_max:
    case IR_amax: return a > b ? a : b;
    case IR_min:
    case IR_amin: return a < b ? a : b;
    case IR_eq: return a == b;
    case IR_ne: return a != b;
    case IR_lt: return a < b;
    case IR_le: return a <= b;
    case IR_gt: return a > b;
    case IR_ge: return a >= b;
    case IR_argmax: return b > a;
    default: return a;
    }
}

double ir_apply(ir_op op, rp_dtype in, rp_dtype out, const double *x) {
    int arity = ir_op_table(op)->kind == IR_KIND_REDUCE ? 2 : ir_op_table(op)->arity;
    if ((unsigned)op >= IR_OP_COUNT_ || !table[op]) return 0;
    if (in == RP_DTYPE_I32 || in == RP_DTYPE_I64) {
        switch (op) {
        case IR_neg: return wrap(in, 0 - bits(x[0]));
        case IR_abs: return wrap(in, x[0] < 0 ? 0 - bits(x[0]) : bits(x[0]));
        case IR_add:
        case IR_sum: return wrap(in, bits(x[0]) + bits(x[1]));
        case IR_sub: return wrap(in, bits(x[0]) - bits(x[1]));
        case IR_mul:
        case IR_prod: return wrap(in, bits(x[0]) * bits(x[1]));
        default: break;
        }
    }
    return ir_round(out, table[op](x[0], arity > 1 ? x[1] : 0, arity > 2 ? x[2] : 0));
}
