/* Elementwise ops over double, compiled from the same tokens as every kernel (ops.def). */
#include "base/philox.h"
#include "ir/doubles.h"
#include "ir/eval.h"
#include "ir/kinds.h"

#define FN(name, expr)                                      \
    static double fn_##name(double a, double b, double c) { \
        (void)a, (void)b, (void)c;                          \
        return expr;                                        \
    }
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_FLOATS(kind, FN(name, expr))                  \
    IR_OF_REDUCTIONS(kind, FN(name, expr)) IR_OF_SCATTERS(kind, FN(name, expr))
#include "ir/ops.def"
#undef OP

#define ROW(name) [IR_##name] = fn_##name,
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_FLOATS(kind, ROW(name)) IR_OF_REDUCTIONS(kind, ROW(name)) IR_OF_SCATTERS(kind, ROW(name))
static double (*const table[IR_OP_COUNT_])(double, double, double) = {
#include "ir/ops.def"
};
#undef OP

#define rp_philox(counter, key) base_philox_bits(key, counter)

/* Integers, of 64 and of 32 bits; smaller ones are what is left of 32. */
#define CASE(name, ints) \
    case IR_##name:      \
        return ints;
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_INTS(kind, CASE(name, ints))                  \
    IR_OF_REDUCTIONS(kind, CASE(name, ints)) IR_OF_SCATTERS(kind, CASE(name, ints))

/* How many numbers an op reads; what joins many takes two at a time. */
static int arity_of(const ir_op_info *info) {
    bool joins = info->kind == IR_KIND_REDUCE || info->kind == IR_KIND_SCATTER;
    return joins ? 2 : info->arity;
}

#define S int64_t
#define U uint64_t
int64_t ir_apply_i64(ir_op op, const int64_t *x) {
    int n = arity_of(ir_op_table(op));
    int64_t a = x[0], b = n > 1 ? x[1] : 0, c = n > 2 ? x[2] : 0;
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}
#undef S
#undef U

#define S int32_t
#define U uint32_t
static int32_t apply_i32(ir_op op, int32_t a, int32_t b, int32_t c) {
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}
#undef S
#undef U
#undef OP

static double apply_int(ir_op op, rp_dtype in, const double *x) {
    int64_t v[3];
    for (int i = 0; i < 3; i++) v[i] = ir_to_i64(x[i]);
    if (in == RP_DTYPE_I64) return (double)ir_apply_i64(op, v);
    return (double)apply_i32(op, (int32_t)v[0], (int32_t)v[1], (int32_t)v[2]);
}

double ir_apply(ir_op op, rp_dtype in, rp_dtype out, const double *x) {
    const ir_op_info *info = ir_op_table(op);
    int arity = arity_of(info);
    const double v[3] = {x[0], arity > 1 ? x[1] : 0, arity > 2 ? x[2] : 0};
    if (ir_dtype_is_integer(in) && *info->ints) {
        const double y = apply_int(op, in, v);
        return ir_dtype_is_integer(out) ? (double)ir_wrap(out, ir_to_i64(y)) : ir_round(out, y);
    }
    if ((unsigned)op >= IR_OP_COUNT_ || !table[op]) return 0;
    return ir_round(out, table[op](v[0], v[1], v[2]));
}
