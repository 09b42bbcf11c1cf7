/* Prelude of every C translation unit that reprise generates, and of the portable
 * kernels inside the library: types, number formats, scalar mathematics, reductions
 * and activation quantisation.
 *
 * Freestanding on purpose (no header, no library call), so that a unit compiles in
 * milliseconds. Everything rounds as written: compile with -ffp-contract=off and
 * without fast-math. Under that rule all results are equal, bit for bit, for every
 * RP_ISA (0 portable, 1 AVX2 + F16C, 2 AVX-512 F/BW/VL/VNNI), compiler and vector width. */
#ifndef RP_PRELUDE_H
#define RP_PRELUDE_H

#ifndef RP_ISA
#define RP_ISA 0
#endif

#ifndef __CUDACC__ /* prelude_cuda.h has its own */

typedef __INT8_TYPE__ rp_i8;
typedef __UINT8_TYPE__ rp_u8;
typedef __INT16_TYPE__ rp_i16;
typedef __UINT16_TYPE__ rp_u16;
typedef __INT32_TYPE__ rp_i32;
typedef __UINT32_TYPE__ rp_u32;
typedef __INT64_TYPE__ rp_i64;
typedef __UINT64_TYPE__ rp_u64;
typedef __SIZE_TYPE__ rp_size;

#define RP_FN static inline __attribute__((unused))
#define RP_INLINE static inline __attribute__((unused, always_inline))
#if defined(__clang__)
#define RP_NOINLINE static __attribute__((unused, noinline))
#else
#define RP_NOINLINE static __attribute__((unused, noinline, noclone))
#pragma GCC diagnostic ignored "-Wpsabi"
#endif
#define RP_LIKELY(x) __builtin_expect(!!(x), 1)

#define RP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define RP_MAX(a, b) ((a) > (b) ? (a) : (b))
#define RP_INF __builtin_inff()

/* --- bits and number formats ------------------------------------------- */

RP_INLINE rp_u32 rp_bits(float x)
{
    rp_u32 u;
    __builtin_memcpy(&u, &x, 4);
    return u;
}

RP_INLINE float rp_from_bits(rp_u32 u)
{
    float x;
    __builtin_memcpy(&x, &u, 4);
    return x;
}

RP_INLINE rp_u64 rp_bits64(double x)
{
    rp_u64 u;
    __builtin_memcpy(&u, &x, 8);
    return u;
}

RP_INLINE double rp_from_bits64(rp_u64 u)
{
    double x;
    __builtin_memcpy(&x, &u, 8);
    return x;
}

#endif /* __CUDACC__ */

/* Half to single; what vcvtph2ps gives, quieted NaNs included. No subnormal single
 * appears on the way, so no microcode assist either. */
RP_INLINE float rp_f16_to_f32(rp_u16 h)
{
    rp_u32 em = (rp_u32)h & 0x7fffu, m = em << 13;
    rp_u32 sub = rp_bits(rp_from_bits(m + 0x38800000u) - 0x1p-14f);
    rp_u32 nan = em > 0x7c00u ? 0x400000u : 0u;
    rp_u32 r = em >= 0x7c00u ? (m | 0x7f800000u | nan) : m + 0x38000000u;
    r = em < 0x0400u ? sub : r;
    return rp_from_bits(r | ((rp_u32)h & 0x8000u) << 16);
}

/* Single to half, nearest even; what vcvtps2ph gives. */
RP_INLINE rp_u16 rp_f32_to_f16(float x)
{
    rp_u32 u = rp_bits(x), a = u & 0x7fffffffu;
    rp_u32 norm = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    rp_u32 sub = rp_bits(rp_from_bits(a < 0x38800000u ? a : 0u) + 0.5f) - 0x3f000000u;
    rp_u32 r = a < 0x38800000u ? sub : norm;
    r = a >= 0x477ff000u ? 0x7c00u : r;
    r = a > 0x7f800000u ? (0x7e00u | ((a >> 13) & 0x3ffu)) : r;
    return (rp_u16)(r | (u >> 16 & 0x8000u));
}

RP_INLINE float rp_bf16_to_f32(rp_u16 h)
{
    return rp_from_bits((rp_u32)h << 16);
}

/* Nearest even; a NaN stays one (quiet). */
RP_INLINE rp_u16 rp_f32_to_bf16(float x)
{
    rp_u32 u = rp_bits(x);
    rp_u32 r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (rp_u16)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 | 0x40u) : r);
}

/* Rounds to a narrower format and back: the value of a cast node. */
RP_INLINE float rp_round_f16(float x) { return rp_f16_to_f32(rp_f32_to_f16(x)); }
RP_INLINE float rp_round_bf16(float x) { return rp_bf16_to_f32(rp_f32_to_bf16(x)); }

/* --- scalar mathematics -------------------------------------------------
 * Branch-free, so that loops over them vectorise. exp works in single; the others
 * work in double and round once, which costs half the lanes and gives < 1 ulp. */

RP_INLINE float rp_fabsf(float x) { return rp_from_bits(rp_bits(x) & 0x7fffffffu); }

RP_INLINE float rp_copysignf(float x, float s)
{
    return rp_from_bits((rp_bits(x) & 0x7fffffffu) | (rp_bits(s) & 0x80000000u));
}

/* Nearest integer, ties to even; keeps the sign of zero, inf and NaN. */
RP_INLINE float rp_round_even(float x)
{
    float a = rp_fabsf(x), r = (a + 8388608.0f) - 8388608.0f;
    return a < 8388608.0f ? rp_copysignf(r, x) : x;
}

RP_INLINE float rp_sqrtf(float x) { return __builtin_sqrtf(x); }
RP_INLINE float rp_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

/* <= 1 ulp; overflow gives inf, underflow goes through subnormals to 0. */
RP_INLINE float rp_expf(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -104.0f ? -104.0f : c;
    float z = c * 1.44269504f + 12582912.0f;
    float n = z - 12582912.0f;
    rp_i32 k = (rp_i32)(rp_bits(z) - 0x4b400000u);
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * (r * r) + r) + 1.0f;
    /* 2^k in two factors: k reaches 128 and, for subnormal results, -150. */
    rp_i32 k1 = k >> 1, k2 = k - k1;
    float s1 = rp_from_bits((rp_u32)(k1 + 127) << 23);
    float s2 = rp_from_bits((rp_u32)(k2 + 127) << 23);
    return (p * s1) * s2;
}

/* exp in double for |x| < 700, relative error below 2^-47. */
RP_INLINE double rp_exp_core(double x)
{
    double z = x * 1.4426950408889634 + 6755399441055744.0;
    double n = z - 6755399441055744.0;
    double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
    double p = 2.08767569878681e-9;
    p = p * r + 2.50521083854417e-8;
    p = p * r + 2.75573192239859e-7;
    p = p * r + 2.75573192239859e-6;
    p = p * r + 2.48015873015873e-5;
    p = p * r + 1.98412698412698e-4;
    p = p * r + 1.38888888888889e-3;
    p = p * r + 8.33333333333333e-3;
    p = p * r + 4.16666666666667e-2;
    p = p * r + 1.66666666666667e-1;
    p = p * r + 0.5;
    p = p * (r * r) + r + 1.0;
    rp_u64 k = rp_bits64(z) - 0x4338000000000000ull;
    return p * rp_from_bits64((k + 1023u) << 52);
}

/* log in double of a positive finite normal double, absolute error below 2^-45. */
RP_INLINE double rp_log_core(double x)
{
    rp_u64 u = rp_bits64(x) - 0x3fe6a09e667f3bcdull; /* mantissa into [sqrt(1/2), sqrt(2)) */
    rp_u64 e = u & 0xfff0000000000000ull;
    double m = rp_from_bits64(rp_bits64(x) - e);
    /* e >> 52 is a 12-bit two's complement number; made a double without a conversion. */
    rp_u64 b = ((e >> 52) + 0x800u) & 0xfffu;
    double n = rp_from_bits64(b | 0x4330000000000000ull) - (4503599627370496.0 + 2048.0);
    double s = (m - 1.0) / (m + 1.0), t = s * s;
    double p = 1.0 / 19;
    p = p * t + 1.0 / 17;
    p = p * t + 1.0 / 15;
    p = p * t + 1.0 / 13;
    p = p * t + 1.0 / 11;
    p = p * t + 1.0 / 9;
    p = p * t + 1.0 / 7;
    p = p * t + 1.0 / 5;
    p = p * t + 1.0 / 3;
    return n * 0.69314718055994530942 + (2.0 * s + 2.0 * s * (t * p));
}

RP_INLINE float rp_logf(float x)
{
    double r = rp_log_core((double)x);
    float y = x < RP_INF ? (float)r : x; /* inf and NaN stay */
    y = x == 0.0f ? -RP_INF : y;
    return x < 0.0f ? __builtin_nanf("") : y;
}

RP_INLINE float rp_tanhf(float x)
{
    float a = rp_fabsf(x);
    double d = a < 10.0f ? (double)a : 10.0, d2 = d * d;
    double e = rp_exp_core(2.0 * d);
    double big = 1.0 - 2.0 / (e + 1.0);
    /* Below 1/32 the difference cancels: odd series instead. */
    double p = d + d * d2 * (-1.0 / 3 + d2 * (2.0 / 15 + d2 * (-17.0 / 315)));
    float y = rp_copysignf((float)(d < 0.03125 ? p : big), x);
    return x == x ? y : x;
}

/* erf by its Maclaurin-Kummer series below 2.5 (all terms positive, no cancelling) and
 * 1 - exp(-x^2) * continued fraction above. */
RP_INLINE float rp_erff(float x)
{
    float a = rp_fabsf(x);
    double d = a < 4.0f ? (double)a : 4.0, d2 = d * d, e = rp_exp_core(-d2);
    double s = 0.0;
    double t = d < 2.5 ? d2 : 6.25;
    for (int n = 34; n >= 0; n--) s = 1.0 + s * (2.0 * t / (2.0 * n + 3.0));
    double lo = 1.1283791670955126 * d * e * s;
    double f = d < 2.5 ? 2.5 : d, c = f;
    for (int n = 20; n >= 1; n--) c = f + 0.5 * n / c;
    double hi = 1.0 - e * 0.56418958354775629 / c;
    float y = rp_copysignf((float)(d < 2.5 ? lo : hi), x);
    return x == x ? y : x;
}

/* sin(x + shift * pi/2). Cody-Waite in double: exact to single precision for
 * |x| < 2^30, bounded above, NaN for inf. */
RP_INLINE float rp_sincos_core(float x, rp_u64 shift)
{
    double d = (double)x, q = d * 0.63661977236758134308;
    double z = q + 6755399441055744.0, n = z - 6755399441055744.0;
    double aq = rp_from_bits64(rp_bits64(q) & 0x7fffffffffffffffull);
    double r = (d - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
    double w = (q - n) * 1.57079632679489661923;
    r = aq < 1073741824.0 ? r : w;
    r = aq < 1125899906842624.0 ? r : d * 0.0;
    rp_u64 k = rp_bits64(z) + shift;
    double r2 = r * r;
    double s = -2.50507477628578072866e-8 + r2 * 1.58962301576546568060e-10;
    s = 2.75573136213857245213e-6 + r2 * s;
    s = -1.98412698295895385996e-4 + r2 * s;
    s = 8.33333333332211858878e-3 + r2 * s;
    s = -1.66666666666666307295e-1 + r2 * s;
    s = r * (1.0 + r2 * s);
    double c = 2.08757008419747316778e-9 + r2 * -1.13585365213876817300e-11;
    c = -2.75573141792967388112e-7 + r2 * c;
    c = 2.48015872888517045348e-5 + r2 * c;
    c = -1.38888888888730564116e-3 + r2 * c;
    c = 4.16666666666665929218e-2 + r2 * c;
    c = 1.0 - 0.5 * r2 + r2 * (r2 * c);
    double y = (k & 1u) ? c : s;
    return (float)rp_from_bits64(rp_bits64(y) ^ ((k & 2u) << 62));
}

RP_INLINE float rp_sinf(float x) { return rp_sincos_core(x, 0); }
RP_INLINE float rp_cosf(float x) { return rp_sincos_core(x, 1); }

/* C's pow, special cases included. */
RP_INLINE float rp_powf(float x, float y)
{
    float a = rp_fabsf(x), ay = rp_fabsf(y);
    double t = (double)y * rp_log_core(a > 0.0f && a < RP_INF ? (double)a : 1.0);
    t = t > 600.0 ? 600.0 : t;
    t = t < -600.0 ? -600.0 : t;
    float r = (float)rp_exp_core(t);
    float big = y > 0.0f ? RP_INF : 0.0f, small = y > 0.0f ? 0.0f : RP_INF;
    r = a == RP_INF ? big : r;
    r = a == 0.0f ? small : r;
    r = ay == RP_INF ? (a > 1.0f ? big : a < 1.0f ? small : 1.0f) : r;
    float half = rp_round_even(ay * 0.5f) * 2.0f;
    rp_u32 whole = rp_round_even(ay) == ay, odd = whole && half != ay && ay < 16777216.0f;
    r = rp_from_bits(rp_bits(r) | (odd ? rp_bits(x) & 0x80000000u : 0u));
    r = x < 0.0f && x > -RP_INF && !whole ? __builtin_nanf("") : r;
    r = x != x || y != y ? x + y : r;
    return x == 1.0f || y == 0.0f ? 1.0f : r;
}

#ifndef __CUDACC__

/* --- reductions ----------------------------------------------------------
 * Element i goes to lane i % 16, ascending; then lanes 8, 4, 2, 1 are folded in. That
 * order is the definition of every float32 sum and maximum over an axis. A generated
 * loop keeps `float l[16]` and ends with one of these. */

/* NaN wins. */
RP_INLINE float rp_maxf(float a, float b) { return a > b || a != a ? a : b; }
RP_INLINE float rp_minf(float a, float b) { return a < b || a != a ? a : b; }

RP_INLINE float rp_tree_sum(float *l)
{
    for (int i = 0; i < 8; i++) l[i] = l[i] + l[i + 8];
    for (int i = 0; i < 4; i++) l[i] = l[i] + l[i + 4];
    for (int i = 0; i < 2; i++) l[i] = l[i] + l[i + 2];
    return l[0] + l[1];
}

RP_INLINE float rp_tree_max(float *l)
{
    for (int i = 0; i < 8; i++) l[i] = rp_maxf(l[i], l[i + 8]);
    for (int i = 0; i < 4; i++) l[i] = rp_maxf(l[i], l[i + 4]);
    for (int i = 0; i < 2; i++) l[i] = rp_maxf(l[i], l[i + 2]);
    return rp_maxf(l[0], l[1]);
}

RP_INLINE float rp_tree_min(float *l)
{
    for (int i = 0; i < 8; i++) l[i] = rp_minf(l[i], l[i + 8]);
    for (int i = 0; i < 4; i++) l[i] = rp_minf(l[i], l[i + 4]);
    for (int i = 0; i < 2; i++) l[i] = rp_minf(l[i], l[i + 2]);
    return rp_minf(l[0], l[1]);
}

/* --- activation quantisation, format i16b32 --------------------------------
 * A packed row of K elements (K a multiple of 32) is
 *   int16 q[K] | float d[K/32] | int32 sum[K/32]        (72 bytes a block).
 * Per block: d = max|x| / 32767 (single division), q = x / d (single division) rounded
 * half to even and clamped to +-32767, all zero if d is 0; sum = sum of q. An inf or
 * NaN in x makes d inf or NaN and q 0, so that it reaches the result. */

#define RP_QROW_SIZE(k) ((rp_size)(k) / 32 * 72)
#define RP_QROW_D(row, k) ((const float *)(const void *)((const char *)(row) + (rp_size)(k) * 2))
#define RP_QROW_SUM(row, k)                                                                      \
    ((const rp_i32 *)(const void *)((const char *)(row) + (rp_size)(k) * 2 + (rp_size)(k) / 8))

RP_FN void rp_quant_block(const float *x, rp_i16 *q, float *d_out, rp_i32 *sum_out)
{
    rp_i32 top = 0, sum = 0;
    for (int i = 0; i < 32; i++) {
        rp_i32 a = (rp_i32)(rp_bits(x[i]) & 0x7fffffffu);
        top = a > top ? a : top; /* as integers: a NaN is the largest */
    }
    float d = rp_from_bits((rp_u32)top) / 32767.0f;
    float by = d == 0.0f ? 1.0f : d;
    for (int i = 0; i < 32; i++) {
        float v = d == 0.0f ? 0.0f : x[i] / by;
        v = v > 32767.0f ? 32767.0f : v;
        v = v < -32767.0f ? -32767.0f : v;
        v = v == v ? v : 0.0f;
        rp_i16 r = (rp_i16)rp_bits(v + 12582912.0f);
        q[i] = r;
        sum += r;
    }
    *d_out = d;
    *sum_out = sum;
}

/* Quantises x[0..k) into the packed row. */
RP_NOINLINE void rp_quant_row(const float *x, long long k, void *row)
{
    rp_i16 *q = (rp_i16 *)row;
    float *d = (float *)(void *)((char *)row + k * 2);
    rp_i32 *sum = (rp_i32 *)(void *)((char *)row + k * 2 + k / 8);
    for (long long b = 0; b < k / 32; b++) rp_quant_block(x + b * 32, q + b * 32, d + b, sum + b);
}

#endif /* __CUDACC__ */
#endif
