/* Ranges: what is known of an index or integer value from loop extents, dims and dtypes.
 *
 * A range is always right and often wide; arithmetic that overflows gives the whole line. Floats have a
 * range only where an op bounds them (round_to an integer type). */
#include "kir/inst.h"

#include <math.h>

int64_t kir_floordiv(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

int64_t kir_mod(int64_t a, int64_t b) {
    int64_t m = a % b;
    return m < 0 ? m + b : m;
}

kir_range kir_dtype_range(rp_dtype t) {
    switch (t) {
    case RP_DTYPE_I32: return (kir_range){INT32_MIN, INT32_MAX};
    case RP_DTYPE_I16: return (kir_range){INT16_MIN, INT16_MAX};
    case RP_DTYPE_I8: return (kir_range){INT8_MIN, INT8_MAX};
    case RP_DTYPE_U8: return (kir_range){0, UINT8_MAX};
    case RP_DTYPE_BOOL: return (kir_range){0, 1};
    default: return KIR_RANGE_ALL;
    }
}

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static kir_range clamp_range(kir_range r, kir_range to) {
    r.lo = min64(max64(r.lo, to.lo), to.hi);
    r.hi = min64(max64(r.hi, to.lo), to.hi);
    return r;
}

/* What may leave the class may come back anywhere; of i64, arithmetic gave the whole line then. */
static kir_range wrap_range(kir_class c, kir_range r) {
    kir_range i32 = kir_dtype_range(RP_DTYPE_I32);
    if (c == KIR_I64) return r;
    return r.lo < i32.lo || r.hi > i32.hi ? i32 : r;
}

static kir_range add_range(kir_range a, kir_range b) {
    kir_range r;
    if (__builtin_add_overflow(a.lo, b.lo, &r.lo) || __builtin_add_overflow(a.hi, b.hi, &r.hi)) {
        return KIR_RANGE_ALL;
    }
    return r;
}

static kir_range sub_range(kir_range a, kir_range b) {
    kir_range r;
    if (__builtin_sub_overflow(a.lo, b.hi, &r.lo) || __builtin_sub_overflow(a.hi, b.lo, &r.hi)) {
        return KIR_RANGE_ALL;
    }
    return r;
}

static kir_range mul_range(kir_range a, kir_range b) {
    int64_t p[4];
    kir_range r;

    if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3])) {
        return KIR_RANGE_ALL;
    }
    r = (kir_range){p[0], p[0]};
    for (int i = 1; i < 4; i++) {
        r.lo = min64(r.lo, p[i]);
        r.hi = max64(r.hi, p[i]);
    }
    return r;
}

static kir_range div_range(kir_range a, kir_range b) {
    kir_range r;
    if (b.lo < 1) return KIR_RANGE_ALL;
    r.lo = min64(kir_floordiv(a.lo, b.lo), kir_floordiv(a.lo, b.hi));
    r.hi = max64(kir_floordiv(a.hi, b.lo), kir_floordiv(a.hi, b.hi));
    return r;
}

static kir_range mod_range(kir_range a, kir_range b) {
    if (b.lo < 1) return KIR_RANGE_ALL;
    if (b.lo == b.hi && kir_floordiv(a.lo, b.lo) == kir_floordiv(a.hi, b.lo)) {
        return (kir_range){kir_mod(a.lo, b.lo), kir_mod(a.hi, b.lo)};
    }
    return (kir_range){0, a.lo >= 0 ? min64(a.hi, b.hi - 1) : b.hi - 1};
}

static kir_range join_range(kir_range a, kir_range b) {
    return (kir_range){min64(a.lo, b.lo), max64(a.hi, b.hi)};
}

static kir_range lt_range(kir_range a, kir_range b) {
    return (kir_range){a.hi < b.lo, a.lo < b.hi};
}

/* Of operands that are not negative: an or has no bit above theirs. */
static kir_range bits_range(ir_op op, kir_range full, kir_range a, kir_range b) {
    int64_t bits = 1;
    if (op == IR_and && a.lo >= 0) return (kir_range){0, b.lo >= 0 ? min64(a.hi, b.hi) : a.hi};
    if (op == IR_and && b.lo >= 0) return (kir_range){0, b.hi};
    if (a.lo < 0 || b.lo < 0) return full;
    while (bits - 1 < max64(a.hi, b.hi) && bits <= INT64_MAX / 2) bits *= 2;
    return (kir_range){0, bits - 1 < max64(a.hi, b.hi) ? full.hi : bits - 1};
}

/* By a number of bits that is known, or the other way by less than none. */
static kir_range right_range(kir_range full, kir_range a, kir_range b) {
    if (b.lo == b.hi && b.lo >= 0 && b.lo < 64) return (kir_range){a.lo >> b.lo, a.hi >> b.lo};
    return a.lo >= 0 ? (kir_range){0, a.hi} : full;
}

/* Integer arithmetic wraps around; on floats only the order-preserving ops keep a range. */
static kir_range alu_range(const kir_inst *in, kir_range a, kir_range b, kir_range third) {
    kir_range full = in->cls == KIR_I32 ? kir_dtype_range(RP_DTYPE_I32) : KIR_RANGE_ALL;
    bool exact = kir_is_int(in->cls);
    kir_class c = in->cls;
    int64_t least = c == KIR_I32 ? INT32_MIN : INT64_MIN;

    if (ir_op_compares(in->u.alu)) return (kir_range){0, 1};
    switch (in->u.alu) {
    case IR_add: return exact ? wrap_range(c, add_range(a, b)) : full;
    case IR_sub: return exact ? wrap_range(c, sub_range(a, b)) : full;
    case IR_mul: return exact ? wrap_range(c, mul_range(a, b)) : full;
    case IR_neg: return exact ? wrap_range(c, sub_range((kir_range){0, 0}, a)) : full;
    case IR_abs: return exact && a.lo > least ? (kir_range){0, max64(-a.lo, a.hi)} : full;
    case IR_max: return exact ? (kir_range){max64(a.lo, b.lo), max64(a.hi, b.hi)} : full;
    case IR_min: return exact ? (kir_range){min64(a.lo, b.lo), min64(a.hi, b.hi)} : full;
    case IR_and:
    case IR_or:
    case IR_xor: return exact ? bits_range(in->u.alu, full, a, b) : (kir_range){0, 1};
    case IR_not: return exact ? (kir_range){~a.hi, ~a.lo} : (kir_range){0, 1};
    case IR_floor_divide: return b.lo >= 1 ? div_range(a, b) : full;
    case IR_remainder: return b.lo >= 1 ? mod_range(a, b) : full;
    case IR_shift_right: return right_range(full, a, b);
    case IR_where: return join_range(b, third);
    case IR_cast:
    case IR_bitcast:
    case IR_round:
    case IR_floor:
    case IR_ceil: return a;
    default: return full;
    }
}

bool kir_alu_exact(const kir_func *f, const kir_inst *in) {
    kir_range a = f->ranges[in->in[0]];
    kir_range b = in->n_in > 1 ? f->ranges[in->in[1]] : (kir_range){0, 0};
    kir_range r;

    if (in->cls == KIR_I64) return false; /* the whole line is no overflow and no proof of none */
    switch (in->u.alu) {
    case IR_add: r = add_range(a, b); break;
    case IR_sub: r = sub_range(a, b); break;
    case IR_mul: r = mul_range(a, b); break;
    case IR_neg:
    case IR_abs: return a.lo > INT32_MIN;
    default: return true;
    }
    return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

static kir_range float_range(double v) {
    if (!(fabs(v) < 9007199254740992.0)) return KIR_RANGE_ALL;
    return (kir_range){(int64_t)floor(v), (int64_t)ceil(v)};
}

static kir_range counter_range(kir_range extent) {
    return (kir_range){0, max64(extent.hi - (extent.hi > INT64_MIN), 0)};
}

/* To an integer type: saturated, but for bool, which is whether it is 0. The largest i32 is no float; the one above it is. */
static kir_range rounded_range(const kir_inst *in, kir_range a) {
    kir_range to = kir_dtype_range(in->u.dtype);
    if (ir_dtype_is_real(in->u.dtype)) return KIR_RANGE_ALL;
    if (in->u.dtype == RP_DTYPE_BOOL) return to;
    if (in->u.dtype == RP_DTYPE_I32 && in->cls == KIR_F32) to.hi++;
    return clamp_range(a, to);
}

/* Of a float as an integer. */
static kir_range bits_of_range(const kir_inst *in) {
    const bool byte = ir_dtype_is_f8(in->u.dtype), half = rp_dtype_block_bytes(in->u.dtype) == 2;
    if (!kir_is_int(in->cls)) return KIR_RANGE_ALL;
    return kir_dtype_range(byte                 ? RP_DTYPE_U8
                           : half               ? RP_DTYPE_I16
                           : in->cls == KIR_I32 ? RP_DTYPE_I32
                                                : RP_DTYPE_I64);
}

static kir_range data_range(const kir_func *f, const kir_inst *in, const kir_range *r) {
    kir_range i32 = kir_dtype_range(RP_DTYPE_I32);

    switch (in->op) {
    case KIR_CONST_F: return float_range(in->u.f);
    case KIR_ALU: return alu_range(in, r[0], r[1], r[2]);
    case KIR_SELECT: return join_range(r[1], r[2]);
    case KIR_CVT:
        if (kir_is_int(in->cls)) return in->cls == KIR_I32 ? clamp_range(r[0], i32) : r[0];
        /* Larger integers round when they become f32. */
        return r[0].lo >= -(1 << 24) && r[0].hi <= 1 << 24 ? r[0] : KIR_RANGE_ALL;
    case KIR_FROM_INDEX:
        if (kir_is_float(in->cls)) return KIR_RANGE_ALL; /* rounding may leave the range */
        if (in->cls == KIR_I64) return r[0];
        return r[0].lo >= i32.lo && r[0].hi <= i32.hi ? r[0] : i32;
    case KIR_ROUND_TO: return rounded_range(in, r[0]);
    case KIR_BITS: return bits_of_range(in);
    case KIR_SHR: return (kir_range){r[0].lo >> (in->u.i & 31), r[0].hi >> (in->u.i & 31)};
    case KIR_BAND: return in->u.i >= 0 ? (kir_range){0, in->u.i} : i32;
    case KIR_LOAD: return in->u.buf < f->n_bufs ? kir_dtype_range(f->bufs[in->u.buf].dtype) : i32;
    default: return in->cls == KIR_I32 ? i32 : KIR_RANGE_ALL;
    }
}

kir_range kir_range_of(const kir_func *f, const kir_inst *in) {
    kir_range r[3] = {KIR_RANGE_ALL, KIR_RANGE_ALL, KIR_RANGE_ALL};
    kir_range out = KIR_RANGE_ALL;

    for (uint32_t i = 0; i < in->n_in && i < 3; i++) {
        if (in->in[i] < f->n_insts) r[i] = f->ranges[in->in[i]];
    }
    switch (in->op) {
    case KIR_CONST_I: return (kir_range){in->u.i, in->u.i};
    case KIR_DIM: ir_dim_bounds(f->dims, in->u.dim, &out.lo, &out.hi); return out;
    case KIR_PAR:
    case KIR_LOOP:
    case KIR_REDUCE: return counter_range(r[0]);
    case KIR_IADD: return add_range(r[0], r[1]);
    case KIR_ISUB: return sub_range(r[0], r[1]);
    case KIR_IMUL: return mul_range(r[0], r[1]);
    case KIR_IDIV: return div_range(r[0], r[1]);
    case KIR_IMOD: return mod_range(r[0], r[1]);
    case KIR_IMIN: return (kir_range){min64(r[0].lo, r[1].lo), min64(r[0].hi, r[1].hi)};
    case KIR_IMAX: return (kir_range){max64(r[0].lo, r[1].lo), max64(r[0].hi, r[1].hi)};
    case KIR_ILT: return lt_range(r[0], r[1]);
    case KIR_IAND: return (kir_range){0, 1};
    case KIR_ISELECT: return join_range(r[1], r[2]);
    case KIR_TO_INDEX: return r[0];
    default: return data_range(f, in, r);
    }
}
