/* Functions of one element that are made of other ops. Those that no op rounds well are computed in double precision, also of f32, f16 and
 * bf16, and rounded to their type once: the error of the double is then far below the last place. */
#include <math.h>

#include "trace/record.h"

static rp_tensor scalar(rp_tensor like, double v) {
    return rp_const(like.graph, rp_tensor_dtype(like), v);
}

/* Of floats; others stay, for an op behind to refuse them. */
static rp_tensor wide(rp_tensor x) {
    return rp_dtype_is_float(rp_tensor_dtype(x)) ? rp_cast(x, RP_DTYPE_F64) : x;
}

static bool is_double(rp_tensor x) {
    return rp_tensor_dtype(x) == RP_DTYPE_F64;
}

/* Coefficients with that of the highest power in front. */
static rp_tensor poly(rp_tensor x, const double *c, int n) {
    rp_tensor y = scalar(x, c[0]);
    for (int i = 1; i < n; i++) y = rp_add_scalar(i == 1 && c[0] == 1 ? x : rp_mul(y, x), c[i]);
    return y;
}

/* Whether x is below zero or -0; no NaN is, as its sign says nothing. */
static rp_tensor is_negative(rp_tensor x) {
    rp_tensor zero = scalar(x, 0);
    return rp_or(rp_lt(x, zero), rp_lt(rp_recip(x), zero));
}

static rp_tensor negate_where(rp_tensor mask, rp_tensor y) {
    return rp_where(mask, rp_neg(y), y);
}

/* --- exact ---------------------------------------------------------------------------- */

rp_tensor rp_isfinite(rp_tensor a) {
    if (!ir_dtype_is_real(rp_tensor_dtype(a))) return rp_eq(a, a);
    return rp_lt(rp_abs(a), scalar(a, HUGE_VAL));
}

rp_tensor rp_sign(rp_tensor a) {
    rp_tensor zero = scalar(a, 0), above = rp_gt(a, zero), below = zero;
    if (trace_ready(a.graph) && rp_tensor_dtype(a) != RP_DTYPE_U8)
        below = rp_where(rp_lt(a, zero), scalar(a, -1), zero);
    return rp_where(above, scalar(a, 1), below);
}

rp_tensor rp_trunc(rp_tensor a) {
    if (!ir_dtype_is_real(rp_tensor_dtype(a))) return a;
    return rp_where(rp_lt(a, scalar(a, 0)), rp_ceil(a), rp_floor(a));
}

rp_tensor rp_copysign(rp_tensor a, rp_tensor b) {
    return negate_where(is_negative(b), rp_abs(a));
}

rp_tensor rp_clamp_tensor(rp_tensor a, rp_tensor lo, rp_tensor hi) {
    if (trace_given(lo)) a = rp_max(a, lo);
    return trace_given(hi) ? rp_min(a, hi) : a;
}

rp_tensor rp_lerp(rp_tensor a, rp_tensor b, rp_tensor weight) {
    if (!trace_wants_real("lerp", a)) return trace_bad(a.graph);
    rp_tensor from = trace_core(a), to = trace_core(b), w = trace_core(weight);
    rp_tensor d = rp_sub(to, from), rest = rp_sub(scalar(w, 1), w);
    rp_tensor near = rp_lt(rp_abs(w), scalar(w, 0.5));
    return trace_like(rp_where(near, rp_add(from, rp_mul(w, d)), rp_sub(to, rp_mul(d, rest))), a);
}

/* Whether fmod of a and b has not the sign of b that a remainder has. */
static rp_tensor is_across(rp_tensor mod, rp_tensor b) {
    rp_tensor zero = scalar(b, 0);
    return rp_and(rp_ne(mod, zero), rp_xor(rp_lt(b, zero), rp_lt(mod, zero)));
}

rp_tensor rp_remainder(rp_tensor a, rp_tensor b) {
    if (!ir_dtype_is_real(rp_tensor_dtype(a))) return trace_remainder(a, b);
    rp_tensor d = trace_core(b), mod = rp_fmod(trace_core(a), d);
    return trace_like(rp_where(is_across(mod, d), rp_add(mod, d), mod), a);
}

/* The quotient of what the divisor goes into, which is a whole number but for rounding (torch's div_floor_floating). */
rp_tensor rp_floor_divide(rp_tensor a, rp_tensor b) {
    if (!ir_dtype_is_real(rp_tensor_dtype(a))) return trace_floor_divide(a, b);
    rp_tensor x = trace_core(a), d = trace_core(b), mod = rp_fmod(x, d), q = rp_div(x, d);
    rp_tensor zero = scalar(d, 0), n = rp_div(rp_sub(x, mod), d);
    n = rp_where(is_across(mod, d), rp_add_scalar(n, -1), n);
    rp_tensor floor = rp_floor(n), above = rp_gt(rp_sub(n, floor), scalar(n, 0.5));
    rp_tensor y = rp_where(above, rp_add_scalar(floor, 1), floor);
    y = rp_where(rp_eq(n, zero), rp_copysign(zero, q), y);
    return trace_like(rp_where(rp_eq(d, zero), q, y), a);
}

/* --- powers and logarithms of 2 ----------------------------------------------------------- */

rp_tensor rp_exp2(rp_tensor a) {
    if (!trace_wants_real("exp2", a)) return trace_bad(a.graph);
    return rp_pow(scalar(a, 2), a);
}

/* A double that is a power of two has a whole logarithm; of other types rounding gives it. */
rp_tensor rp_log2(rp_tensor a) {
    rp_tensor x = wide(a), y = rp_mul_scalar(rp_log(x), 1.44269504088896340736);
    if (!is_double(a)) return trace_like(y, a);
    rp_tensor n = rp_round(y);
    return rp_where(rp_eq(rp_exp2(n), x), n, y);
}

/* --- trigonometry --------------------------------------------------------------------------- */

/* -0 stays, of which no sum of products does. */
rp_tensor rp_tan(rp_tensor a) {
    rp_tensor x = trace_core(a), y = rp_div(rp_sin(x), rp_cos(x));
    return trace_like(rp_where(rp_eq(x, scalar(x, 0)), x, y), a);
}

/* Of a double that is not below zero: that of x, of (x - 1) / (x + 1) or of -1 / x and a part of pi (Cephes, atan.c). */
static rp_tensor atan_positive(rp_tensor x) {
    static const double p[] = {-8.750608600031904122785e-1, -1.615753718733365076637e1,
                               -7.500855792314704667340e1, -1.228866684490136173410e2,
                               -6.485021904942025371773e1};
    static const double q[] = {1,
                               2.485846490142306297962e1,
                               1.650270098316988542046e2,
                               4.328810604912902668951e2,
                               4.853903996359136964868e2,
                               1.945506571482613964425e2};
    rp_tensor zero = scalar(x, 0), one = scalar(x, 1);
    rp_tensor far = rp_gt(x, scalar(x, 2.41421356237309504880)), mid = rp_gt(x, scalar(x, 0.66));
    rp_tensor over = rp_where(far, scalar(x, -1), rp_where(mid, rp_sub(x, one), x));
    rp_tensor r = rp_div(over, rp_where(far, x, rp_where(mid, rp_add(x, one), one)));
    rp_tensor high =
        rp_where(far, scalar(x, 0x1.921fb54442d18p+0), scalar(x, 0x1.921fb54442d18p-1));
    rp_tensor low =
        rp_where(far, scalar(x, 0x1.1a62633145c07p-54), scalar(x, 0x1.1a62633145c07p-55));
    rp_tensor z = rp_mul(r, r), s = rp_div(rp_mul(z, poly(z, p, 5)), poly(z, q, 6));
    rp_tensor y = rp_add(rp_mul(r, s), r);
    return rp_add(rp_where(mid, high, zero), rp_add(y, rp_where(mid, low, zero)));
}

static rp_tensor atan_wide(rp_tensor x) {
    rp_tensor zero = scalar(x, 0), y = atan_positive(rp_abs(x));
    return rp_where(rp_eq(x, zero), x, negate_where(rp_lt(x, zero), y));
}

rp_tensor rp_atan(rp_tensor a) {
    if (!trace_wants_real("atan", a)) return trace_bad(a.graph);
    return trace_like(atan_wide(wide(a)), a);
}

rp_tensor rp_asin(rp_tensor a) {
    if (!trace_wants_real("asin", a)) return trace_bad(a.graph);
    rp_tensor x = wide(a), one = scalar(x, 1);
    rp_tensor rest = rp_sqrt(rp_mul(rp_sub(one, x), rp_add(one, x)));
    return trace_like(atan_wide(rp_div(x, rest)), a);
}

rp_tensor rp_acos(rp_tensor a) {
    if (!trace_wants_real("acos", a)) return trace_bad(a.graph);
    rp_tensor x = wide(a), one = scalar(x, 1);
    rp_tensor half = rp_sqrt(rp_div(rp_sub(one, x), rp_add(one, x)));
    return trace_like(rp_mul_scalar(atan_positive(half), 2), a);
}

/* The quotient of equal sizes is 1, also of infinities, and that of zeros 0. */
rp_tensor rp_atan2(rp_tensor y, rp_tensor x) {
    rp_tensor v = wide(y), h = wide(x), up = rp_abs(v), along = rp_abs(h);
    rp_tensor zero = scalar(v, 0), same = rp_where(rp_eq(v, zero), zero, scalar(v, 1));
    rp_tensor r = atan_positive(rp_where(rp_eq(up, along), same, rp_div(up, along)));
    rp_tensor back =
        rp_sub(scalar(r, 0x1.921fb54442d18p+1), rp_sub(r, scalar(r, 0x1.1a62633145c07p-53)));
    return trace_like(negate_where(is_negative(v), rp_where(is_negative(h), back, r)), y);
}

/* --- hyperbolic functions --------------------------------------------------------------------- */

/* exp(a) / 2 where that is infinite before half of it is: of doubles alone. */
static rp_tensor with_far(rp_tensor a, rp_tensor y) {
    rp_tensor half = rp_exp(rp_mul_scalar(a, 0.5));
    rp_tensor far = rp_mul(rp_mul_scalar(half, 0.5), half);
    return rp_where(rp_gt(a, scalar(a, 709)), far, y);
}

rp_tensor rp_cosh(rp_tensor a) {
    rp_tensor x = rp_abs(wide(a)), e = rp_exp(x);
    rp_tensor y = rp_mul_scalar(rp_add(e, rp_recip(e)), 0.5);
    return trace_like(is_double(a) ? with_far(x, y) : y, a);
}

/* By Taylor's series up to 1, where the exponentials would cancel. */
rp_tensor rp_sinh(rp_tensor a) {
    static const double series[] = {
        1 / 355687428096000.0, 1 / 1307674368000.0, 1 / 6227020800.0, 1 / 39916800.0,
        1 / 362880.0,          1 / 5040.0,          1 / 120.0,        1 / 6.0};
    rp_tensor x = wide(a), size = rp_abs(x), e = rp_exp(size), z = rp_mul(x, x);
    rp_tensor far = rp_mul_scalar(rp_sub(e, rp_recip(e)), 0.5);
    if (is_double(a)) far = with_far(size, far);
    far = negate_where(rp_lt(x, scalar(x, 0)), far);
    rp_tensor near = rp_add(x, rp_mul(rp_mul(x, z), poly(z, series, 8)));
    return trace_like(rp_where(rp_lt(size, scalar(x, 1)), near, far), a);
}

/* --- the inverse of erf -------------------------------------------------------------------- */

enum { QUANTILE = 8 };
typedef struct quotient {
    double over[QUANTILE], under[QUANTILE];
} quotient;

static rp_tensor quotient_of(rp_tensor x, const quotient *q) {
    return rp_div(poly(x, q->over, QUANTILE), poly(x, q->under, QUANTILE));
}

/* By the quantiles of the normal distribution (Wichura's algorithm AS 241, PPND16): of p = (1 + x) / 2 near 1/2, and of the lesser of p
 * and 1 - p beyond. */
rp_tensor rp_erfinv(rp_tensor a) {
    if (!trace_wants_real("erfinv", a)) return trace_bad(a.graph);
    static const quotient near = {
        {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
         4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
         1.3314166789178437745e+2, 3.3871328727963666080e+0},
        {5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4,
         2.1213794301586595867e+4, 5.3941960214247511077e+3, 6.8718700749205790830e+2,
         4.2313330701600911252e+1, 1},
    };
    static const quotient tail = {
        {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
         1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
         4.63033784615654529590e+0, 1.42343711074968357734e+0},
        {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
         1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0,
         2.05319162663775882187e+0, 1},
    };
    static const quotient end = {
        {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
         2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
         5.46378491116411436990e+0, 6.65790464350110377720e+0},
        {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
         7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
         5.99832206555887937690e-1, 1},
    };
    rp_tensor x = wide(a), size = rp_abs(x), one = scalar(x, 1), q = rp_mul_scalar(x, 0.5);
    rp_tensor mid = rp_mul(q, quotient_of(rp_sub(scalar(x, 0.180625), rp_mul(q, q)), &near));
    rp_tensor r = rp_sqrt(rp_neg(rp_log(rp_mul_scalar(rp_sub(one, size), 0.5))));
    rp_tensor y = quotient_of(rp_add_scalar(r, -1.6), &tail);
    if (is_double(a)) /* others have nothing so near to 1 */
        y = rp_where(rp_gt(r, scalar(r, 5)), quotient_of(rp_add_scalar(r, -5), &end), y);
    y = rp_where(rp_eq(size, one), scalar(x, HUGE_VAL), y);
    y = negate_where(rp_lt(x, scalar(x, 0)), y);
    y = rp_where(rp_le(size, scalar(x, 0.85)), mid, y);
    return trace_like(rp_mul_scalar(y, 0.70710678118654752440), a);
}
