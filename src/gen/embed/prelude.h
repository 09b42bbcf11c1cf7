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
#ifndef rp_f32_to_bf16 /* a GPU has an instruction */
RP_INLINE rp_u16 rp_f32_to_bf16(float x)
{
    rp_u32 u = rp_bits(x);
    rp_u32 r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (rp_u16)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 | 0x40u) : r);
}
#endif

/* Four bits of exponent and three of fraction, no infinities: the last code is NaN, the largest value 448. */
RP_INLINE float rp_e4m3fn_to_f32(rp_u8 h)
{
    rp_u32 em = (rp_u32)h & 0x7fu, m = em << 20;
    rp_u32 sub = rp_bits(rp_from_bits(m + 0x3c800000u) - 0x1p-6f);
    rp_u32 r = em < 8u ? sub : m + 0x3c000000u;
    r = em == 0x7fu ? 0x7fc00000u : r;
    return rp_from_bits(r | ((rp_u32)h & 0x80u) << 24);
}

/* Nearest even; saturates. */
RP_INLINE rp_u8 rp_f32_to_e4m3fn(float x)
{
    rp_u32 u = rp_bits(x), a = u & 0x7fffffffu;
    rp_u32 sub = rp_bits(rp_from_bits(a) + 16384.0f) - 0x46800000u; /* a whole number of 2^-9 */
    rp_u32 r = (a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u)) >> 20;
    r = a < 0x3c800000u ? sub : r;
    r = r > 0x7eu ? 0x7eu : r;
    r = a > 0x7f800000u ? 0x7fu : r;
    return (rp_u8)(r | (u >> 24 & 0x80u));
}

/* Five bits of exponent and two of fraction: the upper byte of an f16. */
RP_INLINE float rp_e5m2_to_f32(rp_u8 h)
{
    return rp_f16_to_f32((rp_u16)((rp_u32)h << 8));
}

/* Nearest even, beyond 57344 infinite. */
RP_INLINE rp_u8 rp_f32_to_e5m2(float x)
{
    rp_u32 u = rp_bits(x), a = u & 0x7fffffffu;
    rp_u32 sub = rp_bits(rp_from_bits(a) + 128.0f) - 0x43000000u; /* a whole number of 2^-16 */
    rp_u32 r = (a - 0x38000000u + 0xfffffu + ((a >> 21) & 1u)) >> 21;
    r = a < 0x38800000u ? sub : r;
    r = a >= 0x47800000u ? 0x7cu : r;
    r = a > 0x7f800000u ? 0x7fu : r;
    return (rp_u8)(r | (u >> 24 & 0x80u));
}

/* Rounds to a narrower format and back: the value of a cast node. */
RP_INLINE float rp_round_e4m3fn(float x) { return rp_e4m3fn_to_f32(rp_f32_to_e4m3fn(x)); }
RP_INLINE float rp_round_e5m2(float x) { return rp_e5m2_to_f32(rp_f32_to_e5m2(x)); }
RP_INLINE float rp_round_f16(float x) { return rp_f16_to_f32(rp_f32_to_f16(x)); }
RP_INLINE float rp_round_bf16(float x) { return rp_bf16_to_f32(rp_f32_to_bf16(x)); }

/* --- scalar mathematics -------------------------------------------------
 * Branch-free, so that loops over them vectorise, and of single multiplications and additions in this order,
 * so that every instruction set gives equal bits. docs/ir.md has the bounds of their errors. */

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

#ifndef rp_over /* of 1 or more: a GPU needs no branch for it */
RP_INLINE float rp_over(float x) { return 1.0f / x; }
#endif

#ifndef rp_two_over /* the same, below 2^126 */
RP_INLINE float rp_two_over(float x) { return 2.0f / x; }
#endif

#ifndef rp_at_most /* NaN stays */
RP_INLINE float rp_at_most(float x, float c) { return c < x ? c : x; }
#endif

#ifndef rp_minus_exact /* x - a * b, where the product has no more bits than a float */
RP_INLINE float rp_minus_exact(float x, float a, float b) { return x - a * b; }
#endif

/* exp of |r| <= log(2) / 2. */
RP_INLINE float rp_exp_poly(float r)
{
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return (p * (r * r) + r) + 1.0f;
}

/* <= 1 ulp; overflow gives inf, underflow goes through subnormals to 0. */
RP_INLINE float rp_expf(float x)
{
    x = rp_at_most(x, 89.0f); /* of which the result is infinity */
    float z = x * 1.44269504f + 12582912.0f;
    float n = z - 12582912.0f;
    float r = rp_minus_exact(x, n, 0.693359375f) - n * -2.12194440e-4f;
    float p = rp_exp_poly(r);
    /* 2^k in two factors: k reaches 128 and, for subnormal results, -150. The bits of z are k and a constant that shifts push out. */
    rp_u32 k1 = rp_bits(z) >> 1, k2 = rp_bits(z) - k1;
    float s1 = rp_from_bits((k1 << 23) + 0x3f800000u);
    float s2 = rp_from_bits((k2 << 23) + 0x3f800000u);
    /* Not by a limit: hosts take long for a product that underflows, which masked scores would be. */
    return x < -104.0f ? 0.0f : (p * s1) * s2;
}

/* exp in double for |x| < 700, relative error below 2^-47; log below. Of pow alone, which rounds once. */
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

/* x = 2^n * m with m in [sqrt(1/2), sqrt(2)); a polynomial of m - 1 (Cephes, logf). */
RP_INLINE float rp_logf(float x)
{
    rp_u32 tiny = x < 0x1p-126f;
    rp_u32 u = rp_bits(tiny ? x * 0x1p25f : x) - 0x3f3504f3u;
    float n = (float)((rp_i32)u >> 23) - (tiny ? 25.0f : 0.0f);
    float m = rp_from_bits((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f, z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    p = p * m * z + n * -2.12194440e-4f;
    float y = (m + (p - 0.5f * z)) + n * 0.693359375f;
    y = x < RP_INF ? y : x; /* inf and NaN stay */
    y = x == 0.0f ? -RP_INF : y;
    return x < 0.0f ? __builtin_nanf("") : y;
}

/* exp of |x| < 87, where nothing overflows or is subnormal; else as rp_expf. */
RP_INLINE float rp_exp_near(float x)
{
    float z = x * 1.44269504f + 12582912.0f;
    float n = z - 12582912.0f;
    float r = rp_minus_exact(x, n, 0.693359375f) - n * -2.12194440e-4f;
    float p = rp_exp_poly(r);
    return p * rp_from_bits((rp_bits(z) - (0x4b400000u - 127u)) << 23);
}

/* An odd polynomial near zero, 1 - 2 / (exp(2x) + 1) beyond. */
RP_INLINE float rp_tanhf(float x)
{
    float a = rp_fabsf(x), s = x * x;
    float p = 1.57394409e-2f;
    p = p * s - 5.23025580e-2f;
    p = p * s + 1.33152470e-1f;
    p = p * s - 3.33327681e-1f;
    float e = rp_exp_near(a < 9.5f ? a + a : 19.0f);
    float big = 1.0f - rp_two_over(e + 1.0f);
    float y = rp_copysignf(a < 0.6f ? x + x * (s * p) : big, x); /* -0 stays */
    return x == x ? y : x;
}

/* An odd polynomial near zero, 1 - exp of a polynomial beyond (after N. Juffa). */
RP_INLINE float rp_erff(float x)
{
    float a = rp_fabsf(x), t = a < 4.0f ? a : 4.0f, s = t * t;
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s - 2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    float q = -1.72853470e-5f * t + 3.83197126e-4f;
    float r = -3.88396438e-3f * t + 2.42546219e-2f;
    q = q * s + r;
    q = q * t - 1.06777877e-1f;
    q = q * t - 6.34846687e-1f;
    q = q * t - 1.28717512e-1f;
    q = q * t - t;
    float y = a < 0.927734375f ? x + x * p : rp_copysignf(1.0f - rp_exp_near(q), x);
    return x == x ? y : x;
}

/* 96 bits of 2/pi from the first that m * 2^e * 2/pi keeps modulo 4 (Payne and Hanek, 1983), e >= -7: the product of
 * the 24-bit m and those bits, its two upper bits the quadrant. */
RP_INLINE rp_u64 rp_turns(rp_u32 m, rp_u32 e)
{
    /* The words of the bits after 8 zeros; first bit of the window. */
    rp_u64 p = e + 6u, s = p & 63u, up = 0u - (p >> 6);
    rp_u64 a = 0x00a2f9836e4e4415u, b = 0x29fc2757d1f534ddu, c = 0xc0db6295993c4390u, d = 0x41fe5163abdebbc5u;
    a ^= (a ^ b) & up, b ^= (b ^ c) & up, c ^= (c ^ d) & up;
    a = a << s | b >> 1 >> (63u - s);
    b = b << s | c >> 1 >> (63u - s);
    rp_u32 w0 = (rp_u32)(a >> 32), w1 = (rp_u32)a, w2 = (rp_u32)(b >> 32);
    return ((rp_u64)(m * w0) << 32) + (rp_u64)m * w1 + ((rp_u64)m * w2 >> 32);
}

/* sin(x + shift * pi/2): less the nearest multiple of pi/2, in double where that is exact enough and by rp_turns beyond,
 * then a polynomial of sin or cos (Cephes, sinf and cosf). */
RP_INLINE float rp_sincos_core(float x, rp_u32 shift)
{
    double d = (double)x;
    double z = d * 0.63661977236758134308 + 6755399441055744.0, n = z - 6755399441055744.0;
    float r = (float)((d - n * 1.5707963267341256) - n * 6.077100506506192e-11);
    rp_u32 k = (rp_u32)rp_bits64(z);

    rp_u32 u = rp_bits(x), far = (u & 0x7fffffffu) >= 0x49000000u, minus = 0u - (u >> 31);
    rp_u64 t = rp_turns((u & 0x7fffffu) | 0x800000u, (u >> 23 & 255u) - 150u);
    rp_u64 f = t << 2; /* from the nearest quadrant, as a signed fraction of 2^64 */
    double hi = rp_from_bits64((f >> 32 ^ 0x80000000u) | 0x4330000000000000u) - 4503601774854144.0;
    double lo = rp_from_bits64((f & 0xffffffffu) | 0x4330000000000000u) - 4503599627370496.0;
    float g = (float)((hi * 4294967296.0 + lo) * 8.5153039502163873e-20);
    rp_u32 q = (rp_u32)((t + 0x2000000000000000u) >> 62);
    g = rp_from_bits(rp_bits(g) ^ (minus & 0x80000000u));
    q = (q ^ minus) - minus;

    r = far ? g : r;
    k = (far ? q : k) + shift;
    float s = r * r;
    float a = -1.9515295891e-4f;
    a = a * s + 8.3321608736e-3f;
    a = a * s - 1.6666654611e-1f;
    a = r + r * (s * a);
    a = rp_from_bits(rp_bits(a) | (rp_bits(r) & 0x80000000u)); /* -0 stays; others have the sign of r */
    float c = 2.443315711809948e-5f;
    c = c * s - 1.388731625493765e-3f;
    c = c * s + 4.166664568298827e-2f;
    c = (c * s * s - 0.5f * s) + 1.0f;
    float y = (k & 1u) ? c : a;
    y = rp_from_bits(rp_bits(y) ^ ((k & 2u) << 30));
    return rp_fabsf(x) < RP_INF ? y : x - x;
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
 * order is the definition of every float32 maximum over an axis, and of every sum of up to RK_CHUNK elements (kernel.h:
 * longer ones are of chunks). A generated loop keeps `float l[16]` and ends with one of these. */

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
