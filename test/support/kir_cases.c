/* The functions of kir_cases.h: one for each feature that lowering uses. */
#include "support/kir_cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A kernel with the symbol T in [1, 64]. */
static kir_func *new_kernel(const char *name, ir_dim *t) {
    base_arena *arena = base_arena_new();
    ir_dims *dims = ir_dims_new(arena);
    kir_func *f;

    (void)ir_dim_symbol(dims, "T", 1, 64, 1);
    f = kir_new(name, KIR_KERNEL, dims);
    base_arena_free(arena);
    *t = ir_dim_symbol(f->dims, "T", 1, 64, 1);
    return f;
}

static uint32_t arg(kir_func *f, const char *name, rp_dtype t, uint32_t slot) {
    return kir_add_buf(f, name, KIR_ARG, t, slot, 0, 0);
}

static kir_ref at(kir_func *f, kir_ref row, int64_t stride, kir_ref col) {
    return kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, row, kir_const_i(f, stride)), col);
}

static kir_ref par_t(kir_func *f, ir_dim t, int64_t times) {
    ir_dim n = ir_dim_mul_const(f->dims, t, times);
    return kir_begin(f, KIR_PAR, kir_dim(f, f->dims, n));
}

static kir_ref loop(kir_func *f, int64_t n) {
    return kir_begin(f, KIR_LOOP, kir_const_i(f, n));
}
static kir_ref alu1(kir_func *f, ir_op op, kir_ref a) {
    return kir_alu(f, op, a, KIR_NONE, KIR_NONE);
}
static kir_ref alu2(kir_func *f, ir_op op, kir_ref a, kir_ref b) {
    return kir_alu(f, op, a, b, KIR_NONE);
}

static kir_func *make_pointwise(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), w = arg(f, "w", RP_DTYPE_F32, 1),
             y = arg(f, "y", RP_DTYPE_F32, 2);
    kir_ref i = par_t(f, t, 64), v = kir_load(f, x, i);

    kir_store(f, y, i,
              alu2(f, IR_mul, alu2(f, IR_mul, v, alu1(f, IR_sigmoid, v)), kir_load(f, w, i)));
    kir_end(f);
    return f;
}

static kir_func *make_broadcast(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), b = arg(f, "b", RP_DTYPE_F32, 1),
             y = arg(f, "y", RP_DTYPE_F32, 2);
    kir_ref i = par_t(f, t, 96);
    kir_ref row = kir_bin(f, KIR_IDIV, i, kir_const_i(f, 96)),
            col = kir_bin(f, KIR_IMOD, i, kir_const_i(f, 96));

    kir_store(f, y, i, alu2(f, IR_add, kir_load(f, x, at(f, row, 96, col)), kir_load(f, b, col)));
    kir_end(f);
    return f;
}

/* y = x * rsqrt(mean(x*x) + eps) * w over rows of n elements (a dim form when n is 0). */
static kir_func *make_norm_n(const char *name, int64_t n) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), w = arg(f, "w", RP_DTYPE_F32, 1),
             y = arg(f, "y", RP_DTYPE_F32, 2);
    ir_dim odd = ir_dim_add(f->dims, ir_dim_mul_const(f->dims, t, 4), ir_dim_const(f->dims, 9));
    kir_ref extent = n ? kir_const_i(f, n) : kir_dim(f, f->dims, odd);
    kir_ref row = par_t(f, t, 1), base, i, v, sum, scale;

    base = kir_bin(f, KIR_IMUL, row, extent);
    i = kir_begin_reduce(f, KIR_SUM, extent);
    v = kir_load(f, x, kir_bin(f, KIR_IADD, base, i));
    sum = kir_yield(f, alu2(f, IR_mul, v, v));
    scale = alu2(f, IR_div, sum, kir_from_index(f, KIR_F32, extent));
    scale = alu1(f, IR_rsqrt, alu2(f, IR_add, scale, kir_const_f(f, 1e-5)));
    i = kir_begin(f, KIR_LOOP, extent);
    v = alu2(f, IR_mul, kir_load(f, x, kir_bin(f, KIR_IADD, base, i)), scale);
    kir_store(f, y, kir_bin(f, KIR_IADD, base, i), alu2(f, IR_mul, v, kir_load(f, w, i)));
    kir_end(f);
    kir_end(f);
    return f;
}

static kir_func *make_norm(const char *name) {
    return make_norm_n(name, 576);
}
static kir_func *make_norm_tail(const char *name) {
    return make_norm_n(name, 103);
}
static kir_func *make_norm_short(const char *name) {
    return make_norm_n(name, 5);
}
static kir_func *make_norm_dim(const char *name) {
    return make_norm_n(name, 0);
}

/* Softmax of rows of 80 through scratch. */
static kir_func *make_softmax(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 1);
    uint32_t s = kir_add_buf(f, "e", KIR_SCRATCH, RP_DTYPE_F32, 0, 0, 80);
    kir_ref row = par_t(f, t, 1), n = kir_const_i(f, 80), i, top, sum, e;

    i = kir_begin_reduce(f, KIR_MAX, n);
    top = kir_yield(f, kir_load(f, x, at(f, row, 80, i)));
    i = kir_begin_reduce(f, KIR_SUM, n);
    e = alu1(f, IR_exp, alu2(f, IR_sub, kir_load(f, x, at(f, row, 80, i)), top));
    kir_store(f, s, i, e);
    sum = kir_yield(f, e);
    i = loop(f, 80);
    kir_store(f, y, at(f, row, 80, i), alu2(f, IR_div, kir_load(f, s, i), sum));
    kir_end(f);
    kir_end(f);
    return f;
}

/* Blocks of 32 as two int8 planes and a scale, 68 bytes a block of one argument. */
static kir_func *make_quantise(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0);
    uint32_t d = kir_add_buf(f, "d", KIR_ARG, RP_DTYPE_F32, 1, 0, 0);
    uint32_t hi = kir_add_buf(f, "hi", KIR_ARG, RP_DTYPE_I8, 1, 4, 0);
    uint32_t lo = kir_add_buf(f, "lo", KIR_ARG, RP_DTYPE_U8, 1, 36, 0);
    kir_ref b = par_t(f, t, 3), n = kir_const_i(f, 32), i, top, by, zero = kir_const_f(f, 0.0), q,
            h;

    i = kir_begin_reduce(f, KIR_MAX, n);
    top = kir_yield(f, alu1(f, IR_abs, kir_load(f, x, at(f, b, 32, i))));
    top = alu2(f, IR_div, top, kir_const_f(f, 32767.0));
    by = kir_alu(f, IR_where, alu2(f, IR_eq, top, zero), kir_const_f(f, 1.0), top);
    kir_store(f, d, kir_bin(f, KIR_IMUL, b, kir_const_i(f, 17)), top);
    i = kir_begin(f, KIR_LOOP, n);
    q = alu1(f, IR_round, alu2(f, IR_div, kir_load(f, x, at(f, b, 32, i)), by));
    q = kir_cvt(f, KIR_I32, kir_round_to(f, RP_DTYPE_I16, q));
    h = kir_shr(f, q, 8);
    kir_store(f, hi, at(f, b, 68, i), h);
    kir_store(f, lo, at(f, b, 68, i), kir_band(f, q, 255));
    kir_end(f);
    kir_end(f);
    return f;
}

/* Rows of 24 to kv[slot] as f16; negative slots are skipped. */
static kir_func *make_scatter(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), s = arg(f, "slots", RP_DTYPE_I32, 1),
             kv = arg(f, "kv", RP_DTYPE_F16, 2);
    kir_ref row = par_t(f, t, 1), to = kir_to_index(f, kir_load(f, s, row)), i;

    kir_begin_if(f, kir_bin(f, KIR_ILT, kir_const_i(f, -1), to));
    i = loop(f, 24);
    kir_store(f, kv, at(f, to, 24, i), kir_load(f, x, at(f, row, 24, i)));
    kir_end(f);
    kir_end(f);
    kir_end(f);
    return f;
}

static kir_func *make_gather(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t table = arg(f, "table", RP_DTYPE_BF16, 0), ids = arg(f, "ids", RP_DTYPE_I32, 1),
             y = arg(f, "y", RP_DTYPE_F32, 2);
    kir_ref row = par_t(f, t, 1), from = kir_to_index(f, kir_load(f, ids, row)), i;

    from = kir_bin(f, KIR_IMAX, kir_bin(f, KIR_IMIN, from, kir_const_i(f, 9)), kir_const_i(f, 0));
    i = loop(f, 40);
    kir_store(f, y, at(f, row, 40, i), kir_load(f, table, at(f, from, 40, i)));
    kir_end(f);
    kir_end(f);
    return f;
}

/* The halves of a row swapped with a sign, as rope does, then one more column. */
static kir_func *make_concat(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), z = arg(f, "z", RP_DTYPE_F32, 1),
             y = arg(f, "y", RP_DTYPE_F32, 2);
    kir_ref row = par_t(f, t, 1), i = loop(f, 65), lower, inside, from, v;

    lower = kir_bin(f, KIR_ILT, i, kir_const_i(f, 32));
    inside = kir_bin(f, KIR_ILT, i, kir_const_i(f, 64));
    from = kir_bin(f, KIR_IMOD, kir_bin(f, KIR_IADD, i, kir_const_i(f, 32)), kir_const_i(f, 64));
    v = kir_load(f, x, at(f, row, 64, from));
    v = kir_select(f, lower, alu1(f, IR_neg, v), v);
    v = kir_select(f, inside, v, kir_load(f, z, row));
    kir_store(f, y, at(f, row, 65, i), v);
    kir_end(f);
    kir_end(f);
    return f;
}

/* Three parts of one row, reads clamped into the part that does not hold the column. */
static kir_func *make_clamped(const char *name) {
    static const int64_t size[] = {20, 12, 33};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x[3] = {arg(f, "x0", RP_DTYPE_F32, 0), arg(f, "x1", RP_DTYPE_F32, 1),
                     arg(f, "x2", RP_DTYPE_F32, 2)};
    uint32_t y = arg(f, "y", RP_DTYPE_F32, 3);
    kir_ref row = par_t(f, t, 1), i = loop(f, 65), v = KIR_NONE, end = kir_const_i(f, 0);

    for (int k = 0; k < 3; k++) {
        kir_ref last = kir_const_i(f, size[k] - 1), j = kir_bin(f, KIR_ISUB, i, end), part;
        j = kir_bin(f, KIR_IMAX, kir_bin(f, KIR_IMIN, j, last), kir_const_i(f, 0));
        part = kir_load(f, x[k], at(f, row, size[k], j));
        v = k ? kir_select(f, kir_bin(f, KIR_ILT, i, end), v, part) : part;
        end = kir_bin(f, KIR_IADD, end, kir_const_i(f, size[k]));
    }
    kir_store(f, y, at(f, row, 65, i), v);
    kir_end(f);
    kir_end(f);
    return f;
}

static kir_func *make_half(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F16, 0), y = arg(f, "y", RP_DTYPE_BF16, 1),
             z = arg(f, "z", RP_DTYPE_F16, 2);
    kir_ref i = par_t(f, t, 32), v = kir_load(f, x, i);

    v = kir_round_to(f, RP_DTYPE_F16, alu2(f, IR_mul, v, kir_const_f(f, 1.1)));
    kir_store(f, z, i, alu2(f, IR_add, v, kir_const_f(f, 0.3)));
    kir_store(f, y, i, kir_round_to(f, RP_DTYPE_BF16, alu2(f, IR_sub, v, kir_const_f(f, 0x1p-20))));
    kir_end(f);
    return f;
}

/* Every code, and roundings of floats from everywhere. */
static kir_func *make_float8(const char *name) {
    static const rp_dtype types[] = {RP_DTYPE_F8E4M3FN, RP_DTYPE_F8E5M2};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), codes[2], y[2];
    for (int k = 0; k < 2; k++) {
        codes[k] = kir_add_buf(f, k ? "q" : "p", KIR_ARG, types[k], 1, 0, 0);
        y[k] = kir_add_buf(f, k ? "r" : "s", KIR_ARG, types[k], 2, 64 * (1 + 2 * k), 0);
    }
    uint32_t low = kir_add_buf(f, "low", KIR_ARG, RP_DTYPE_F8E4M3FN, 2, 0, 0),
             z = arg(f, "z", RP_DTYPE_F32, 3);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 64)), v = kir_load(f, x, i);

    kir_store(f, low, i, alu2(f, IR_mul, v, kir_const_f(f, 0.01)));
    for (int k = 0; k < 2; k++) {
        kir_ref at = kir_bin(f, KIR_IADD, kir_const_i(f, 64 * k), i);
        kir_store(f, y[k], i, kir_round_to(f, types[k], v));
        kir_store(f, z, at, kir_load(f, codes[k], i));
        at = kir_bin(f, KIR_IADD, kir_const_i(f, 64 * (k + 2)), i);
        kir_store(f, z, at, kir_round_to(f, types[k], alu2(f, IR_mul, v, kir_const_f(f, 40))));
    }
    kir_end(f);
    return f;
}

static kir_func *make_argmax(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_I32, 1),
             k = arg(f, "k", RP_DTYPE_I32, 2);
    kir_ref row = par_t(f, t, 1), n = kir_const_i(f, 37), i, best, whole;

    i = kir_begin_reduce(f, KIR_ARGMAX, n);
    best = kir_yield(f, kir_load(f, x, at(f, row, 37, i)));
    kir_store(f, y, kir_bin(f, KIR_IMUL, row, kir_const_i(f, 2)), best);
    i = kir_begin_reduce(f, KIR_ARGMAX, n);
    whole = kir_yield(f, kir_load(f, k, at(f, row, 37, i)));
    kir_store(f, y, at(f, row, 2, kir_const_i(f, 1)), whole);
    kir_end(f);
    return f;
}

/* Every reduction of floats (special values too) and of integers. */
/* Rows of more than 64: of a whole number of 64, with a rest of 16 and more, and of fewer. */
static kir_func *make_extremes(const char *name) {
    static const int64_t n[] = {128, 203, 261};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 1);
    kir_ref row = par_t(f, t, 1);

    for (int r = 0; r < 6; r++) {
        kir_ref i = kir_begin_reduce(f, r % 2 ? KIR_MIN : KIR_MAX, kir_const_i(f, n[r / 2]));
        kir_ref v = kir_yield(f, kir_load(f, x, at(f, row, 261, i)));
        kir_store(f, y, at(f, row, 6, kir_const_i(f, r)), v);
    }
    kir_end(f);
    return f;
}

static kir_func *make_reductions(const char *name) {
    static const kir_reduce all[] = {KIR_SUM, KIR_PROD, KIR_MAX, KIR_MIN};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), k = arg(f, "k", RP_DTYPE_I32, 1);
    uint32_t y = arg(f, "y", RP_DTYPE_F32, 2), z = arg(f, "z", RP_DTYPE_I32, 3);
    kir_ref row = par_t(f, t, 1);

    for (int r = 0; r < 4; r++) {
        kir_ref i = kir_begin_reduce(f, all[r], kir_const_i(f, 45));
        kir_ref v = kir_yield(f, kir_load(f, x, at(f, row, 45, i)));
        kir_store(f, y, at(f, row, 4, kir_const_i(f, r)), v);
        i = kir_begin_reduce(f, all[r], kir_const_i(f, 45));
        v = kir_yield(f, kir_load(f, k, at(f, row, 45, i)));
        kir_store(f, z, at(f, row, 4, kir_const_i(f, r)), v);
    }
    kir_end(f);
    return f;
}

/* Each elementwise op on ordinary and special values: y[op * 64 + i]. */
static kir_func *make_ops(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), w = arg(f, "w", RP_DTYPE_F32, 1),
             y = arg(f, "y", RP_DTYPE_F32, 2);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 64)), a = kir_load(f, x, i),
            b = kir_load(f, w, i);
    int64_t row = 0;

    for (int op = 0; op < IR_OP_COUNT_; op++) {
        const ir_op_info *info = ir_op_table((ir_op)op);
        if (!ir_op_on_floats((ir_op)op) || op == IR_cast || op == IR_bitcast) continue;
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
                  kir_alu(f, (ir_op)op, a, info->arity > 1 ? b : KIR_NONE,
                          info->arity > 2 ? alu2(f, IR_add, a, b) : KIR_NONE));
    }
    kir_end(f);
    return f;
}

/* Every op on integers of type t, into y; gives the rows of 64 that were written. */
static int64_t int_ops(kir_func *f, rp_dtype t, uint32_t y, kir_ref i, kir_ref *first) {
    uint32_t x = arg(f, "x", t, 0), w = arg(f, "w", t, 1);
    kir_ref a = kir_load(f, x, i), b = kir_load(f, w, i);
    /* Also where ranges leave nothing to guard against. */
    kir_ref eight = kir_from_index(f, t == RP_DTYPE_I64 ? KIR_I64 : KIR_I32, kir_const_i(f, 8));
    kir_ref mask = kir_from_index(f, f->insts[eight].cls, kir_const_i(f, 31));
    kir_ref low = kir_alu(f, IR_and, a, mask, KIR_NONE),
            few = kir_alu(f, IR_and, b, mask, KIR_NONE);
    static const ir_op guarded[] = {IR_floor_divide, IR_remainder, IR_shift_left, IR_shift_right};
    static const rp_dtype cut[] = {RP_DTYPE_I32, RP_DTYPE_I16, RP_DTYPE_I8, RP_DTYPE_U8};
    int64_t row = 0;

    for (int op = 0; op < IR_OP_COUNT_; op++) {
        int arity = ir_op_table((ir_op)op)->arity;
        if (!ir_op_on_integers((ir_op)op) || op == IR_cast || op == IR_bitcast) continue;
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
                  kir_alu(f, (ir_op)op, a, arity > 1 ? b : KIR_NONE, arity > 2 ? a : KIR_NONE));
    }
    for (int o = 0; o < 4; o++) {
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
                  kir_alu(f, guarded[o], o < 2 ? low : a, o < 2 ? eight : few, KIR_NONE));
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
                  kir_alu(f, guarded[o], a, eight, KIR_NONE));
    }
    /* By as many bits as there are. */
    kir_ref all =
        kir_from_index(f, f->insts[eight].cls, kir_const_i(f, t == RP_DTYPE_I64 ? 64 : 32));
    for (int o = 2; o < 4; o++)
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
                  kir_alu(f, guarded[o], a, all, KIR_NONE));
    for (int k = 0; k < 4; k++)
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
                  kir_wrap_to(f, cut[k], a));
    *first = a;
    return row;
}

static kir_func *make_int_ops(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t y = arg(f, "y", RP_DTYPE_I32, 2);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 64)), a;
    int64_t row = int_ops(f, RP_DTYPE_I32, y, i, &a);

    kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i), kir_shr(f, a, 3));
    kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i), kir_band(f, a, 0x3f0));
    kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
              kir_cvt(f, KIR_I32, kir_cvt(f, KIR_F32, a)));
    kir_end(f);
    return f;
}

/* Also conversions: to and from the other classes, and rounded to odd. */
static kir_func *make_wide_ops(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t y = arg(f, "y", RP_DTYPE_I64, 2), z = arg(f, "z", RP_DTYPE_F32, 3);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 64)), a;
    int64_t row = int_ops(f, RP_DTYPE_I64, y, i, &a);
    kir_ref narrow = kir_cvt(f, KIR_I32, a), single = kir_cvt(f, KIR_F32, a);

    kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
              kir_cvt(f, KIR_I64, narrow));
    kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
              kir_cvt(f, KIR_I64, single));
    kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
              kir_round_to(f, RP_DTYPE_I16, a));
    kir_store(f, z, i, single);
    kir_store(f, z, kir_bin(f, KIR_IADD, kir_const_i(f, 64), i), kir_cvt_odd(f, a));
    kir_store(f, z, kir_bin(f, KIR_IADD, kir_const_i(f, 128), i), kir_cvt_odd(f, narrow));
    kir_end(f);
    return f;
}

/* Every op of f64, and conversions from and to the other classes. */
static kir_func *make_double_ops(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F64, 0), y = arg(f, "y", RP_DTYPE_F64, 2),
             z = arg(f, "z", RP_DTYPE_I64, 3);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 64)), a = kir_load(f, x, i);
    kir_ref b = kir_load(f, x, kir_bin(f, KIR_IADD, kir_const_i(f, 64), i));
    kir_ref single = kir_cvt(f, KIR_F32, a),
            half = kir_round_to(f, RP_DTYPE_F16, kir_cvt_odd(f, a));
    kir_ref narrow = kir_cvt(f, KIR_I32, a), wide = kir_cvt(f, KIR_I64, a);
    const kir_ref ints[] = {wide, kir_cvt(f, KIR_I64, narrow)};
    const kir_ref also[] = {kir_cvt(f, KIR_F64, single),
                            kir_cvt(f, KIR_F64, half),
                            kir_cvt(f, KIR_F64, narrow),
                            kir_cvt(f, KIR_F64, wide),
                            alu2(f, IR_mul, a, kir_const_f64(f, 0.1)),
                            kir_from_index(f, KIR_F64, i)};
    int64_t row = 0;

    for (int op = 0; op < IR_OP_COUNT_; op++) {
        int arity = ir_op_table((ir_op)op)->arity;
        if (!ir_op_on_floats((ir_op)op) || op == IR_cast || op == IR_bitcast) continue;
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i),
                  kir_alu(f, (ir_op)op, a, arity > 1 ? b : KIR_NONE, arity > 2 ? a : KIR_NONE));
    }
    for (size_t k = 0; k < sizeof also / sizeof *also; k++)
        kir_store(f, y, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * row++), i), also[k]);
    for (int k = 0; k < 2; k++)
        kir_store(f, z, kir_bin(f, KIR_IADD, kir_const_i(f, 64 * k), i), ints[k]);
    kir_end(f);
    return f;
}

/* Reductions of f64: chunks of a long sum, too, and a maximum that is long enough to be unrolled. */
static kir_func *make_double_reductions(const char *name) {
    static const kir_reduce how[] = {KIR_SUM, KIR_PROD, KIR_MAX, KIR_MIN, KIR_SUM};
    static const int64_t extent[] = {37, 37, 150, 37, 5000};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F64, 0), y = arg(f, "y", RP_DTYPE_F64, 1),
             z = arg(f, "z", RP_DTYPE_I32, 2);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 4)), j, v;
    kir_ref from = kir_bin(f, KIR_IMUL, i, kir_const_i(f, 37)),
            to = kir_bin(f, KIR_IMUL, i, kir_const_i(f, 5));

    for (int k = 0; k < 5; k++) {
        j = kir_begin_reduce(f, how[k], kir_const_i(f, extent[k]));
        v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, j)));
        kir_store(f, y, kir_bin(f, KIR_IADD, to, kir_const_i(f, k)), v);
    }
    j = kir_begin_reduce(f, KIR_ARGMAX, kir_const_i(f, 37));
    v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, j)));
    kir_store(f, z, i, v);
    kir_end(f);
    return f;
}

/* Reductions of 64 bits: four sums and the like, and where the largest is. */
static kir_func *make_wide_reductions(const char *name) {
    static const kir_reduce how[] = {KIR_SUM, KIR_PROD, KIR_MAX, KIR_MIN};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_I64, 0), y = arg(f, "y", RP_DTYPE_I64, 1);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 4)), n = kir_const_i(f, 37);
    kir_ref from = kir_bin(f, KIR_IMUL, i, n), to = kir_bin(f, KIR_IMUL, i, kir_const_i(f, 5));
    kir_ref j, v;

    for (int k = 0; k < 5; k++) {
        j = kir_begin_reduce(f, k < 4 ? how[k] : KIR_ARGMAX, n);
        v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, j)));
        kir_store(f, y, kir_bin(f, KIR_IADD, to, kir_const_i(f, k)), v);
    }
    kir_end(f);
    return f;
}

/* Sums of chunks, few and many, of floats and doubles, and of what a loop makes. */
static kir_func *make_chains(const char *name) {
    static const int64_t extent[] = {5, 40, 1500, 70};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), d = arg(f, "d", RP_DTYPE_F64, 1),
             y = arg(f, "y", RP_DTYPE_F32, 2), z = arg(f, "z", RP_DTYPE_F64, 3);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 4)), j, k, v;
    kir_ref from = kir_bin(f, KIR_IMUL, i, kir_const_i(f, 1500)),
            to = kir_bin(f, KIR_IMUL, i, kir_const_i(f, 5));

    for (int c = 0; c < 4; c++) {
        j = kir_begin_reduce(f, KIR_CHAIN, kir_const_i(f, extent[c]));
        v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, j)));
        kir_store(f, y, kir_bin(f, KIR_IADD, to, kir_const_i(f, c)), v);
    }
    j = kir_begin_reduce(f, KIR_CHAIN, kir_const_i(f, 70));
    k = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, 2));
    v = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, j, kir_const_i(f, 2)), k);
    v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, v)));
    v = kir_yield(f, v);
    kir_store(f, y, kir_bin(f, KIR_IADD, to, kir_const_i(f, 4)), v);
    j = kir_begin_reduce(f, KIR_CHAIN, kir_const_i(f, 130));
    v = kir_yield(f, kir_load(f, d, kir_bin(f, KIR_IADD, i, j)));
    kir_store(f, z, i, v);
    kir_end(f);
    return f;
}

/* What is left of 9001 elements for each run of 4096. */
static kir_func *make_runs(const char *name) {
    static const kir_reduce how[] = {KIR_SUM, KIR_MAX, KIR_MIN, KIR_ARGMAX};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 1),
             z = arg(f, "z", RP_DTYPE_I32, 2);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 3)), j, v;
    kir_ref from = kir_bin(f, KIR_IMUL, i, kir_const_i(f, KIR_CHUNK)),
            to = kir_bin(f, KIR_IMUL, i, kir_const_i(f, 3));
    kir_ref n = kir_bin(f, KIR_IMIN, kir_const_i(f, KIR_CHUNK),
                        kir_bin(f, KIR_ISUB, kir_const_i(f, 9001), from));

    for (int c = 0; c < 4; c++) {
        j = kir_begin_reduce(f, how[c], n);
        v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, j)));
        if (c < 3)
            kir_store(f, y, kir_bin(f, KIR_IADD, to, kir_const_i(f, c)), v);
        else
            kir_store(f, z, i, v);
    }
    kir_end(f);
    return f;
}

/* Sums of more than one chunk: plain, of a length that is no multiple of 16, and with a loop inside. */
static kir_func *make_long_sums(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 1);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 2)), n = kir_const_i(f, 9001);
    kir_ref from = kir_bin(f, KIR_IMUL, i, n), to = kir_bin(f, KIR_IMUL, i, kir_const_i(f, 3));
    static const int64_t lengths[] = {9001, 8192};
    kir_ref j, k, v;

    for (int c = 0; c < 2; c++) {
        j = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, lengths[c]));
        v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, j)));
        kir_store(f, y, kir_bin(f, KIR_IADD, to, kir_const_i(f, c)), v);
    }
    j = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, 4500));
    k = kir_begin_reduce(f, KIR_MAX, kir_const_i(f, 2));
    v = kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMUL, j, kir_const_i(f, 2)), k);
    v = kir_yield(f, kir_load(f, x, kir_bin(f, KIR_IADD, from, v)));
    v = kir_yield(f, v);
    kir_store(f, y, kir_bin(f, KIR_IADD, to, kir_const_i(f, 2)), v);
    kir_end(f);
    return f;
}

/* f32 to every integer type, and small integers back: bytes of slot 1. */
static kir_func *make_casts(const char *name) {
    static const rp_dtype to[] = {RP_DTYPE_I32, RP_DTYPE_I16, RP_DTYPE_I8, RP_DTYPE_U8,
                                  RP_DTYPE_BOOL};
    static const char *const names[] = {"i32", "i16", "i8", "u8", "bool_"};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 2), out[5];
    int64_t offset = 0;
    kir_ref i, v, small;

    for (int k = 0; k < 5; k++) {
        out[k] = kir_add_buf(f, names[k], KIR_ARG, to[k], 1, offset, 0);
        offset += 64 * (int64_t)rp_dtype_block_bytes(to[k]);
    }
    small = arg(f, "small", RP_DTYPE_I8, 3);
    i = kir_begin(f, KIR_PAR, kir_const_i(f, 64));
    v = alu2(f, IR_mul, kir_load(f, x, i), kir_const_f(f, 300.0));
    for (int k = 0; k < 5; k++) {
        kir_store(f, out[k], i, v);
        kir_store(f, y, kir_bin(f, KIR_IADD, i, kir_const_i(f, 64 * k)), kir_round_to(f, to[k], v));
    }
    kir_store(f, y, kir_bin(f, KIR_IADD, i, kir_const_i(f, 320)), kir_load(f, small, i));
    kir_end(f);
    return f;
}

/* Bits of floats of every type, of narrow ones but for NaN, which a GPU has one of; and the floats that integers are. */
static kir_func *make_bits(const char *name) {
    static const rp_dtype narrow[] = {RP_DTYPE_F16, RP_DTYPE_BF16, RP_DTYPE_F8E4M3FN,
                                      RP_DTYPE_F8E5M2};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), w = arg(f, "w", RP_DTYPE_F64, 1),
             y = arg(f, "y", RP_DTYPE_I32, 2), z = arg(f, "z", RP_DTYPE_F32, 3);
    kir_ref i = kir_begin(f, KIR_PAR, kir_const_i(f, 64)), a = kir_load(f, x, i), b, v;
    kir_ref all = kir_bits_of(f, RP_DTYPE_F32, a);
    kir_ref number = kir_alu(f, IR_where, alu2(f, IR_eq, a, a), a, kir_const_f(f, 0.0));
    int64_t row = 0;

    for (int k = 0; k < 4; k++) {
        kir_ref at_row = kir_bin(f, KIR_IADD, i, kir_const_i(f, 64 * row++));
        kir_store(f, y, at_row, kir_bits_of(f, narrow[k], number));
        kir_store(f, z, at_row, kir_of_bits(f, narrow[k], kir_shr(f, all, 7)));
    }
    v = kir_bits_of(f, RP_DTYPE_F64, kir_load(f, w, i));
    b = kir_from_index(f, KIR_I64, kir_const_i(f, 32));
    b = kir_wrap_to(f, RP_DTYPE_I32, alu2(f, IR_shift_right, v, b));
    kir_store(f, y, kir_bin(f, KIR_IADD, i, kir_const_i(f, 64 * row)), b);
    v = alu2(f, IR_xor, v, kir_from_index(f, KIR_I64, kir_const_i(f, (int64_t)1 << 52)));
    v = kir_cvt(f, KIR_F32, kir_of_bits(f, RP_DTYPE_F64, v));
    kir_store(f, z, kir_bin(f, KIR_IADD, i, kir_const_i(f, 64 * row++)), v);
    v = kir_of_bits(f, RP_DTYPE_F32, kir_alu(f, IR_not, all, KIR_NONE, KIR_NONE));
    kir_store(f, y, kir_bin(f, KIR_IADD, i, kir_const_i(f, 64 * row)), all);
    kir_store(f, z, kir_bin(f, KIR_IADD, i, kir_const_i(f, 64 * row)), v);
    kir_end(f);
    return f;
}

/* y[t, n] = sum over k of x[t, k] * w[n, k], n in a loop; and a reduction inside a reduction. */
static kir_func *make_nested(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), w = arg(f, "w", RP_DTYPE_F32, 1);
    uint32_t y = arg(f, "y", RP_DTYPE_F32, 2), z = arg(f, "z", RP_DTYPE_F32, 3);
    kir_ref row = par_t(f, t, 1), n = loop(f, 12), k, v, outer;

    k = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, 40));
    v = kir_yield(
        f, alu2(f, IR_mul, kir_load(f, x, at(f, row, 40, k)), kir_load(f, w, at(f, n, 40, k))));
    kir_store(f, y, at(f, row, 12, n), v);
    kir_end(f);
    outer = kir_begin_reduce(f, KIR_SUM, kir_const_i(f, 12));
    k = kir_begin_reduce(f, KIR_MAX, kir_const_i(f, 40));
    v = kir_yield(
        f, alu2(f, IR_mul, kir_load(f, x, at(f, row, 40, k)), kir_load(f, w, at(f, outer, 40, k))));
    kir_store(f, z, row, kir_yield(f, v));
    kir_end(f);
    return f;
}

/* Reductions with another inside, of more than 16 and of a length that is known when it runs. */
static kir_func *make_nested_all(const char *name) {
    static const kir_reduce how[] = {KIR_SUM, KIR_MAX, KIR_MIN, KIR_SUM};
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 1);
    ir_dim odd = ir_dim_add(f->dims, ir_dim_mul_const(f->dims, t, 4), ir_dim_const(f->dims, 9));
    kir_ref row = par_t(f, t, 1);

    for (int r = 0; r < 4; r++) {
        kir_ref n = r < 3 ? kir_const_i(f, 37) : kir_dim(f, f->dims, odd);
        kir_ref i = kir_begin_reduce(f, how[r], n);
        kir_ref k = kir_begin_reduce(f, r ? KIR_SUM : KIR_MAX, kir_const_i(f, 3));
        kir_ref v = kir_yield(f, kir_load(f, x, at(f, row, 111, at(f, i, 3, k))));
        kir_store(f, y, at(f, row, 4, kir_const_i(f, r)), kir_yield(f, v));
    }
    kir_end(f);
    return f;
}

/* Transposes [T, 3, 8] to [3, T, 8] by division of the item. */
static kir_func *make_permute(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 1);
    kir_ref i = par_t(f, t, 24), eight = kir_const_i(f, 8), tt = kir_dim(f, f->dims, t);
    kir_ref inner = kir_bin(f, KIR_IMOD, i, eight), rest = kir_bin(f, KIR_IDIV, i, eight);
    kir_ref row = kir_bin(f, KIR_IMOD, rest, tt), head = kir_bin(f, KIR_IDIV, rest, tt);

    kir_store(f, y, i, kir_load(f, x, at(f, row, 24, at(f, head, 8, inner))));
    kir_end(f);
    return f;
}

/* Rotary embedding of 3 heads of 32 in one flat row, cos and sin by position, halves swapped by conditions:
 * what lowering makes of concat, slice and reshape. Loop splitting takes it apart. */
static kir_func *make_rope(const char *name) {
    ir_dim t;
    kir_func *f = new_kernel(name, &t);
    uint32_t x = arg(f, "x", RP_DTYPE_F32, 0), cs = arg(f, "cs", RP_DTYPE_F32, 1),
             y = arg(f, "y", RP_DTYPE_F16, 2);
    kir_ref row = par_t(f, t, 1), j = loop(f, 96), d, head, lower, from, part, v,
            half = kir_const_i(f, 16);

    d = kir_bin(f, KIR_IMOD, j, kir_const_i(f, 32));
    head = kir_bin(f, KIR_IDIV, j, kir_const_i(f, 32));
    lower = kir_bin(f, KIR_ILT, d, half);
    from = kir_iselect(f, lower, kir_bin(f, KIR_IADD, d, half), kir_bin(f, KIR_ISUB, d, half));
    part = kir_load(f, x, at(f, row, 96, at(f, head, 32, from)));
    part = kir_select(f, lower, alu1(f, IR_neg, part), part);
    v = alu2(f, IR_mul, kir_load(f, x, at(f, row, 96, j)),
             kir_load(f, cs, at(f, row, 32, kir_bin(f, KIR_IMOD, d, half))));
    part = alu2(
        f, IR_mul, part,
        kir_load(f, cs, at(f, row, 32, kir_bin(f, KIR_IADD, kir_bin(f, KIR_IMOD, d, half), half))));
    kir_store(f, y, at(f, row, 96, j), alu2(f, IR_add, v, part));
    kir_end(f);
    kir_end(f);
    return f;
}

kir_func *kir_case_fragment(void) {
    kir_func *f = kir_new("epilogue", KIR_FRAGMENT, NULL);
    uint32_t bias = arg(f, "bias", RP_DTYPE_F32, 0), y = arg(f, "y", RP_DTYPE_F32, 1);
    uint32_t acc = kir_add_buf(f, "acc", KIR_SCRATCH, RP_DTYPE_F32, 0, 0, 24);
    kir_ref row = kir_param(f, 0), j = kir_begin(f, KIR_LOOP, kir_const_i(f, 24));
    kir_ref v = alu2(f, IR_add, kir_load(f, acc, j), kir_load(f, bias, j));

    kir_store(f, y, at(f, row, 24, j), alu2(f, IR_max, v, kir_const_f(f, 0.0)));
    kir_end(f);
    return f;
}

#define T KIR_CASE_T
#define F32(n) \
    { RP_DTYPE_F32, n, KIR_FILL_RANDOM, 0 }
#define OUT(t, n) \
    { RP_DTYPE_##t, n, KIR_FILL_NONE, 0 }
#define SPECIAL(t, n) \
    { RP_DTYPE_##t, n, KIR_FILL_SPECIAL, 0 }
#define INDEX(n, hi) \
    { RP_DTYPE_I32, n, KIR_FILL_INDEX, hi }
#define FAR(side, t, n) \
    { RP_DTYPE_##t, n, KIR_FILL_##side, 0 }

const kir_case kir_cases[] = {
    {"poi_silu", make_pointwise, T * 64, {F32(T * 64), F32(T * 64), OUT(F32, T * 64)}},
    {"poi_broadcast", make_broadcast, T * 96, {F32(T * 96), F32(96), OUT(F32, T * 96)}},
    {"red_norm", make_norm, T, {F32(T * 576), F32(576), OUT(F32, T * 576)}},
    {"red_norm_tail", make_norm_tail, T, {F32(T * 103), F32(103), OUT(F32, T * 103)}},
    {"red_norm_short", make_norm_short, T, {F32(T * 5), F32(5), OUT(F32, T * 5)}},
    {"red_norm_dim", make_norm_dim, T, {F32(T * 37), F32(37), OUT(F32, T * 37)}},
    {"red_softmax", make_softmax, T, {F32(T * 80), OUT(F32, T * 80)}},
    {"red_quantise", make_quantise, T * 3, {F32(T * 96), OUT(I8, T * 3 * 68)}},
    {"scatter",
     make_scatter,
     T,
     {F32(T * 24), {RP_DTYPE_I32, T, KIR_FILL_SLOTS, 10}, OUT(F16, 10 * 24)}},
    {"gather",
     make_gather,
     T,
     {{RP_DTYPE_BF16, 400, KIR_FILL_RANDOM, 0}, INDEX(T, 30), OUT(F32, T * 40)}},
    {"concat", make_concat, T, {F32(T * 64), F32(T), OUT(F32, T * 65)}},
    {"clamped", make_clamped, T, {F32(T * 20), F32(T * 12), F32(T * 33), OUT(F32, T * 65)}},
    {"half", make_half, T * 32, {SPECIAL(F16, T * 32), OUT(BF16, T * 32), OUT(F16, T * 32)}},
    {"float8",
     make_float8,
     64,
     {SPECIAL(F32, 64), SPECIAL(I8, 64), OUT(I8, 64 * 4), OUT(F32, 64 * 4)}},
    {"bits",
     make_bits,
     64,
     {SPECIAL(F32, 64), SPECIAL(F64, 64), OUT(I32, 64 * 6), OUT(F32, 64 * 6)}},
    {"red_argmax", make_argmax, T, {SPECIAL(F32, T * 37), OUT(I32, T * 2), INDEX(T * 37, 5)}},
    {"red_all",
     make_reductions,
     T,
     {SPECIAL(F32, T * 45), INDEX(T * 45, 9), OUT(F32, T * 4), OUT(I32, T * 4)}},
    {"red_extremes", make_extremes, T, {SPECIAL(F32, T * 261), OUT(F32, T * 6)}},
    /* again where no NaN or infinity hides the rest */
    {"red_chains",
     make_chains,
     4,
     {F32(6000), {RP_DTYPE_F64, 140, KIR_FILL_RANDOM, 0}, OUT(F32, 20), OUT(F64, 4)}},
    {"red_chains_far",
     make_chains,
     4,
     {SPECIAL(F32, 6000), SPECIAL(F64, 140), OUT(F32, 20), OUT(F64, 4)}},
    {"red_runs", make_runs, 3, {F32(9001), OUT(F32, 9), OUT(I32, 3)}},
    {"red_runs_special", make_runs, 3, {SPECIAL(F32, 9001), OUT(F32, 9), OUT(I32, 3)}},
    {"red_argmax_plain", make_argmax, T, {F32(T * 37), OUT(I32, T * 2), INDEX(T * 37, 5)}},
    {"red_all_plain",
     make_reductions,
     T,
     {F32(T * 45), INDEX(T * 45, 9), OUT(F32, T * 4), OUT(I32, T * 4)}},
    {"red_extremes_plain", make_extremes, T, {F32(T * 261), OUT(F32, T * 6)}},
/* and where what a reduction begins with may not be its result */
#define FROM_FAR(side, low)                                                                    \
    {"red_all_" low,                                                                           \
     make_reductions,                                                                          \
     T,                                                                                        \
     {FAR(side, F32, T * 45), FAR(side, I32, T * 45), OUT(F32, T * 4), OUT(I32, T * 4)}},      \
        {"red_argmax_" low,                                                                    \
         make_argmax,                                                                          \
         T,                                                                                    \
         {FAR(side, F32, T * 37), OUT(I32, T * 2), FAR(side, I32, T * 37)}},                   \
        {"red_extremes_" low, make_extremes, T, {FAR(side, F32, T * 261), OUT(F32, T * 6)}}, { \
        "red_wide_" low, make_wide_reductions, 4, {                                            \
            FAR(side, I64, 4 * 37), OUT(I64, 4 * 5)                                            \
        }                                                                                      \
    }
    FROM_FAR(BELOW, "below"),
    FROM_FAR(ABOVE, "above"),
    {"ops", make_ops, 64, {SPECIAL(F32, 64), SPECIAL(F32, 64), OUT(F32, 64 * (IR_OP_COUNT_ + 8))}},
    {"int_ops",
     make_int_ops,
     64,
     {SPECIAL(I32, 64), SPECIAL(I32, 64), OUT(I32, 64 * (IR_OP_COUNT_ + 8))}},
    {"red_long", make_long_sums, 2, {F32(2 * 9001), OUT(F32, 2 * 3)}},
    {"wide_ops",
     make_wide_ops,
     64,
     {SPECIAL(I64, 64), SPECIAL(I64, 64), OUT(I64, 64 * (IR_OP_COUNT_ + 8)), OUT(F32, 64 * 3)}},
    {"double_ops",
     make_double_ops,
     64,
     {SPECIAL(F64, 128), OUT(F32, 1), OUT(F64, 64 * (IR_OP_COUNT_ + 8)), OUT(I64, 64 * 2)}},
    {"red_double",
     make_double_reductions,
     4,
     {{RP_DTYPE_F64, 3 * 37 + 5000, KIR_FILL_RANDOM, 0}, OUT(F64, 4 * 5), OUT(I32, 4)}},
    {"red_double_special",
     make_double_reductions,
     4,
     {SPECIAL(F64, 3 * 37 + 5000), OUT(F64, 4 * 5), OUT(I32, 4)}},
    {"red_wide", make_wide_reductions, 4, {SPECIAL(I64, 4 * 37), OUT(I64, 4 * 5)}},
    {"casts",
     make_casts,
     64,
     {SPECIAL(F32, 64), OUT(I8, 64 * 9), OUT(F32, 64 * 6), SPECIAL(I8, 64)}},
    {"nested", make_nested, T, {F32(T * 40), F32(480), OUT(F32, T * 12), OUT(F32, T)}},
    {"nested_all", make_nested_all, T, {F32(T * 111), OUT(F32, T * 4)}},
    {"rope", make_rope, T, {F32(T * 96), F32(T * 32), OUT(F16, T * 96)}},
    {"permute", make_permute, T * 24, {F32(T * 24), OUT(F32, T * 24)}},
};
const uint32_t kir_n_cases = sizeof kir_cases / sizeof *kir_cases;

static uint32_t next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static float ordinary(uint64_t *seed) {
    return (float)((int32_t)(next(seed) % 200001) - 100000) * 3e-5f;
}

static float special_f32(uint64_t *seed) {
    static const float values[] = {0.0f,  -0.0f,    1.0f,     -1.0f, INFINITY,   -INFINITY, NAN,
                                   0.5f,  1.5f,     2.5f,     -0.5f, 1e-40f,     -3e-39f,   1e30f,
                                   3e38f, 65504.0f, 65520.0f, 7e-6f, 8388609.0f, 88.9f};
    uint32_t k = next(seed) % 40;
    return k < 20 ? values[k] : ordinary(seed) * (k < 30 ? 1.0f : 40.0f);
}

/* What a float does not hold, too. */
static double special_f64(uint64_t *seed) {
    static const double values[] = {
        1e300,   -1e-300, 5e-324,       4503599627370497.5, 9007199254740993.0, 3e9,
        -9.3e18, 0.1,     2049.0000001, 65519.9999999,      (double)NAN};
    uint32_t k = next(seed) % 33;
    return k < 11 ? values[k] : k < 22 ? (double)special_f32(seed) : (double)ordinary(seed) + 1e-12;
}

static void fill(const kir_case_arg *a, void *p, uint64_t *seed) {
    for (int64_t i = 0; i < a->n; i++) {
        uint32_t r = next(seed);
        int64_t far = (a->fill == KIR_FILL_BELOW ? -1 : 1) * (int64_t)(1 + r % 1000);
        if (a->fill == KIR_FILL_BELOW || a->fill == KIR_FILL_ABOVE) {
            if (a->dtype == RP_DTYPE_F32)
                ((float *)p)[i] = (float)far * 0.01f;
            else if (a->dtype == RP_DTYPE_I64)
                ((int64_t *)p)[i] = far * (INT64_C(1) << 40);
            else
                ((int32_t *)p)[i] = (int32_t)far;
        } else if (a->fill == KIR_FILL_INDEX)
            ((int32_t *)p)[i] = (int32_t)(r % (uint32_t)(a->hi + 1)) - 1;
        else if (a->fill == KIR_FILL_SLOTS)
            ((int32_t *)p)[i] = i == 2 ? -1 : (int32_t)(i * 3 % a->hi);
        else if (a->dtype == RP_DTYPE_F32)
            ((float *)p)[i] = a->fill == KIR_FILL_SPECIAL ? special_f32(seed) : ordinary(seed);
        else if (a->dtype == RP_DTYPE_F64)
            ((double *)p)[i] = a->fill == KIR_FILL_SPECIAL ? special_f64(seed)
                                                           : (double)ordinary(seed) + 1e-12;
        else if (a->dtype == RP_DTYPE_F16)
            ((uint16_t *)p)[i] = (uint16_t)r;
        else if (a->dtype == RP_DTYPE_BF16)
            ((uint16_t *)p)[i] = (uint16_t)(0x3f00 + r % 256);
        else if (a->dtype == RP_DTYPE_I8)
            ((int8_t *)p)[i] = (int8_t)r;
        else if (a->dtype == RP_DTYPE_I64)
            ((int64_t *)p)[i] = r % 4 == 0   ? (int64_t)(r % 2001) - 1000
                                : r % 4 == 1 ? INT64_MAX - r % 5
                                : r % 4 == 2 ? INT64_MIN + r % 5
                                             : (int64_t)((uint64_t)next(seed) << (r >> 4) % 33);
        else
            ((int32_t *)p)[i] = r % 3   ? (int32_t)(r % 2001) - 1000
                                : r % 2 ? INT32_MAX - (int32_t)(r % 5)
                                        : INT32_MIN + (int32_t)(r % 5);
    }
}

bool kir_case_data_init(kir_case_data *d, const kir_case *c) {
    uint64_t seed = 12345;

    memset(d, 0, sizeof *d);
    for (int i = 0; i < KIR_CASE_SLOTS; i++) {
        d->size[i] = (size_t)c->arg[i].n * rp_dtype_block_bytes(c->arg[i].dtype);
        d->arg[i] = base_alloc_aligned(d->size[i] + 64, 64);
        if (!d->arg[i]) return false;
        if (c->arg[i].fill == KIR_FILL_NONE)
            memset(d->arg[i], 0x55, d->size[i]);
        else
            fill(&c->arg[i], d->arg[i], &seed);
        memset((char *)d->arg[i] + d->size[i], 0xa5, 64); /* a write beyond the end shows */
    }
    return true;
}

void kir_case_data_done(kir_case_data *d) {
    for (int i = 0; i < KIR_CASE_SLOTS; i++) base_free(d->arg[i]);
}

static bool is_nan(rp_dtype t, const char *p) {
    uint32_t u = 0;
    double d;
    if (t == RP_DTYPE_F32) return memcpy(&u, p, 4), (u & 0x7fffffff) > 0x7f800000;
    if (t == RP_DTYPE_F16) return memcpy(&u, p, 2), (u & 0x7fff) > 0x7c00;
    if (t == RP_DTYPE_F64) return memcpy(&d, p, 8), d != d;
    if (t == RP_DTYPE_BF16) return memcpy(&u, p, 2), (u & 0x7fff) > 0x7f80;
    return false;
}

int kir_case_compare(const kir_case *c, const kir_case_data *want, const kir_case_data *got,
                     const char *what) {
    int bad = 0;

    for (int s = 0; s < KIR_CASE_SLOTS; s++) {
        rp_dtype t = c->arg[s].dtype;
        size_t n = rp_dtype_block_bytes(t);
        const char *w = want->arg[s], *g = got->arg[s];
        for (size_t i = 0; i * n < want->size[s] + 64; i++) {
            if (memcmp(w + i * n, g + i * n, n) == 0) continue;
            if (is_nan(t, w + i * n) && is_nan(t, g + i * n)) continue;
            if (bad++ < 4) {
                uint64_t a = 0, b = 0;
                memcpy(&a, w + i * n, n);
                memcpy(&b, g + i * n, n);
                fprintf(stderr, "%s, %s: slot %d [%zu]: 0x%llx, expected 0x%llx\n", c->name, what,
                        s, i, (unsigned long long)b, (unsigned long long)a);
            }
        }
    }
    return bad;
}
