/* Rounding of doubles to the element types: the rounding points of the interpreter and the folder. */
#include <math.h>
#include <string.h>

#include "ir/eval.h"

/* 2^e, for e in [-1022, 1023]. */
static double power_of_two(int e) {
    const uint64_t bits = (uint64_t)(e + 1023) << 52;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* To nearest even with `bits` bits after the leading one, smallest exponent emin; |result| beyond max
 * becomes infinity. Exact in double, whose range is far wider. */
static double round_float(double v, int bits, int emin, double max) {
    uint64_t of_v;
    if (v == 0 || !isfinite(v)) return v;
    memcpy(&of_v, &v, sizeof of_v);
    int e = (int)(of_v >> 52 & 0x7ff) - 1023; /* |v| in [2^e, 2^(e+1)), or less than emin has */
    if (e < emin) e = emin;
    double r = rint(v * power_of_two(bits - e)) * power_of_two(e - bits);
    if (fabs(r) > max) return v < 0 ? -(double)INFINITY : (double)INFINITY;
    return r == 0 ? copysign(0.0, v) : r;
}

static double saturate(double v, double lo, double hi) {
    if (v != v) return 0;
    v = trunc(v);
    return v < lo ? lo : v > hi ? hi : v == 0 ? 0.0 : v;
}

/* A double that rounds to any type of less than 52 bits as v does: exact, or of the neighbours the odd one. */
static double to_odd(int64_t v) {
    double d = (double)v;
    int64_t back = ir_to_i64(d);
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    if (back == v || (bits & 1)) return d;
    bits += (back < v) == (v > 0) ? 1 : UINT64_MAX;
    memcpy(&d, &bits, sizeof d);
    return d;
}

double ir_from_i64(rp_dtype t, int64_t v) {
    switch (t) {
    case RP_DTYPE_F32: return (double)(float)v;
    case RP_DTYPE_F16:
    case RP_DTYPE_BF16:
    case RP_DTYPE_F8E4M3FN:
    case RP_DTYPE_F8E5M2: return ir_round(t, to_odd(v));
    case RP_DTYPE_I32:
    case RP_DTYPE_I16:
    case RP_DTYPE_I8:
    case RP_DTYPE_U8: return (double)ir_wrap(t, v);
    default: return ir_round(t, (double)v);
    }
}

int64_t ir_to_i64(double v) {
    if (v != v) return 0;
    return v >= 0x1p+63 ? INT64_MAX : v < -0x1p+63 ? INT64_MIN : (int64_t)v;
}

/* Without infinities: saturates. */
static double round_e4m3fn(double v) {
    double r = round_float(v, 3, -6, 448.0);
    return isinf(r) ? copysign(448.0, r) : r;
}

int64_t ir_wrap(rp_dtype t, int64_t v) {
    switch (t) {
    case RP_DTYPE_I32: return (int32_t)(uint32_t)(uint64_t)v;
    case RP_DTYPE_I16: return (int16_t)(uint16_t)(uint64_t)v;
    case RP_DTYPE_I8: return (int8_t)(uint8_t)(uint64_t)v;
    case RP_DTYPE_U8: return (uint8_t)(uint64_t)v;
    default: return v;
    }
}

double ir_round(rp_dtype t, double v) {
    switch (t) {
    case RP_DTYPE_F32: return v != v ? v : (double)(float)v; /* whose bits bitcast tells */
    case RP_DTYPE_F16: return round_float(v, 10, -14, 65504.0);
    case RP_DTYPE_BF16: return round_float(v, 7, -126, 0x1.fep+127);
    case RP_DTYPE_F64: return v;
    case RP_DTYPE_F8E4M3FN: return round_e4m3fn(v);
    case RP_DTYPE_F8E5M2: return round_float(v, 2, -14, 57344.0);
    case RP_DTYPE_I32: return saturate(v, -2147483648.0, 2147483647.0);
    case RP_DTYPE_I64: /* the last double below 2^63 */
        return saturate(v, -0x1p+63, 0x1.fffffffffffffp+62);
    case RP_DTYPE_I16: return saturate(v, -32768, 32767);
    case RP_DTYPE_I8: return saturate(v, -128, 127);
    case RP_DTYPE_U8: return saturate(v, 0, 255);
    case RP_DTYPE_BOOL: return v != 0;
    case RP_DTYPE_Q4_0:
    case RP_DTYPE_Q4_1:
    case RP_DTYPE_Q8_0:
    case RP_DTYPE_I16B32:
    case RP_DTYPE_COUNT_: break;
    }
    return v;
}
