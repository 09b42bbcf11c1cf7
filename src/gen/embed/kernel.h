/* What kernels rendered from kernel IR need beside prelude.h: the helper names of ops.def that
 * are not there, saturation, and floor division. */
#ifndef RP_KERNEL_H
#define RP_KERNEL_H

RP_INLINE float rp_absf(float x) { return rp_fabsf(x); }

/* Half to even. */
RP_INLINE float rp_roundf(float x) { return rp_round_even(x); }

/* Keeps the sign of zero, inf and NaN. */
RP_INLINE float rp_floorf(float x)
{
    float a = rp_fabsf(x);
    float s = a < 8388608.0f ? x : 0.0f; /* above, every float is whole */
    float t = (float)(rp_i32)s;
    t = t > s ? t - 1.0f : t;
    return a < 8388608.0f ? rp_copysignf(t, x) : x;
}

/* One rounding. Without the instruction: the product is exact in double, the sum is rounded to odd there,
 * so rounding it to single again cannot go wrong. */
RP_INLINE float rp_fmaf(float a, float b, float c)
{
#if defined(__CUDACC__)
    return __fmaf_rn(a, b, c);
#elif defined(__FMA__)
    return __builtin_fmaf(a, b, c);
#else
    double p = (double)a * (double)b, d = (double)c, s = p + d;
    double t = s - p, e = (p - (s - t)) + (d - t);
    rp_u64 u = rp_bits64(s), away = 0u - ((u ^ rp_bits64(e)) >> 63);
    /* Of an even sum that is not exact the last bit: one more where the error has its sign, else one less. */
    rp_u64 step = e != 0.0 ? ~u & 1u : 0u;
    step = s - s == 0.0 ? step : 0u; /* inf and NaN stay */
    return (float)rp_from_bits64(u + ((step ^ away) - away));
#endif
}

/* The same in double precision. */
RP_INLINE double rk_abs64(double x) { return rp_from_bits64(rp_bits64(x) & 0x7fffffffffffffffull); }
RP_INLINE double rk_sqrt64(double x) { return __builtin_sqrt(x); }
RP_INLINE double rk_copysign64(double x, double s)
{
    return rp_from_bits64((rp_bits64(x) & 0x7fffffffffffffffull) | (rp_bits64(s) & 0x8000000000000000ull));
}
RP_INLINE double rk_round64(double x)
{
    double a = rk_abs64(x), r = (a + 4503599627370496.0) - 4503599627370496.0;
    return a < 4503599627370496.0 ? rk_copysign64(r, x) : x;
}
RP_INLINE double rk_floor64(double x)
{
    double a = rk_abs64(x);
    double s = a < 4503599627370496.0 ? x : 0.0;
    double t = (double)(rp_i64)s;
    t = t > s ? t - 1.0 : t;
    return a < 4503599627370496.0 ? rk_copysign64(t, x) : x;
}

/* Floats are summed in chunks of so many, whose sums are added in order in double precision (src/kir/kir.h). */
#define RK_CHUNK 4096

#ifndef __CUDACC__
/* The fixed tree over 16 lanes; NaN wins in the last two. As vectors: a compiler takes longer to find them than for all
 * the rest of a small kernel. */
typedef float rk_f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float rk_f4 __attribute__((vector_size(16)));
typedef rp_i32 rk_i8 __attribute__((vector_size(32)));
typedef rp_i32 rk_i4 __attribute__((vector_size(16)));
typedef struct rk_halves {
    rk_f4 lo, hi;
} rk_halves;
#if defined(__clang__)
#define RK_DOWN(v, i, j) __builtin_shufflevector(v, v, i, j, i, j)
#else
#define RK_DOWN(v, i, j) __builtin_shuffle(v, (rk_i4){i, j, i, j})
#endif
#define RK_ADD(n, a, b) ((a) + (b))
#define RK_PICK(n, take, a, b) (rk_f##n)(((rk_i##n)(a) & (take)) | ((rk_i##n)(b) & ~(take)))
#define RK_MAX(n, a, b) RK_PICK(n, ((a) > (b)) | ((a) != (a)), a, b)
#define RK_MIN(n, a, b) RK_PICK(n, ((a) < (b)) | ((a) != (a)), a, b)
#define RK_FOLD(op)                                                      \
    rk_f8 a = *(const rk_f8 *)l, b = *(const rk_f8 *)(l + 8), c = op(8, a, b); \
    rk_halves h;                                                         \
    __builtin_memcpy(&h, &c, sizeof h);                                  \
    rk_f4 d = op(4, h.lo, h.hi), e = RK_DOWN(d, 2, 3);                   \
    rk_f4 f = op(4, d, e), g = RK_DOWN(f, 1, 1);                         \
    return (op(4, f, g))[0];
RP_INLINE float rk_sum16(float *l) { RK_FOLD(RK_ADD) }
RP_INLINE float rk_max16(float *l) { RK_FOLD(RK_MAX) }
RP_INLINE float rk_min16(float *l) { RK_FOLD(RK_MIN) }
#define RK_FOLD64(take)                       \
    for (int s = 8; s > 0; s /= 2)            \
        for (int i = 0; i < s; i++) {         \
            double a = l[i], b = l[i + s];    \
            l[i] = take;                      \
        }                                     \
    return l[0];
RP_INLINE double rk_sum16_f64(double *l) { RK_FOLD64(a + b) }
RP_INLINE double rk_max16_f64(double *l) { RK_FOLD64(((a > b) | (a != a)) ? a : b) }
RP_INLINE double rk_min16_f64(double *l) { RK_FOLD64(((a < b) | (a != a)) ? a : b) }
#else
RP_INLINE float rk_sum16(float *l) { return rk_tree<RK_SUM>(l); }
RP_INLINE float rk_max16(float *l) { return rk_tree<RK_MAX>(l); }
RP_INLINE float rk_min16(float *l) { return rk_tree<RK_MIN>(l); }
RP_INLINE double rk_sum16_f64(double *l) { return rk_tree<RK_SUM>(l); }
RP_INLINE double rk_max16_f64(double *l) { return rk_tree<RK_MAX>(l); }
RP_INLINE double rk_min16_f64(double *l) { return rk_tree<RK_MIN>(l); }
#endif

RP_INLINE rp_i32 rk_clamp(rp_i32 v, rp_i32 lo, rp_i32 hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* Truncates, saturates; NaN gives 0. */
RP_INLINE rp_i32 rk_to_i32(float x)
{
    /* One comparison a choice: with two joined the loop around it does not vectorise. */
    float c = x > 2147483520.0f ? 2147483520.0f : x;
    c = c < -2147483648.0f ? -2147483648.0f : c;
    c = c == c ? c : 0.0f;
    rp_i32 r = (rp_i32)c;
    return x >= 2147483648.0f ? 2147483647 : r;
}

/* An integer as a float. With -fno-trapping-math gcc makes one truncation of a conversion to an integer and back, which gives
 * -0 for -0.5, and drops an addition of 0, as no integer is -0: so that -0 is looked for in the bits. */
RP_INLINE float rk_positive_zero(float x)
{
    rp_u32 u = rp_bits(x);
    return rp_from_bits(u == 0x80000000u ? 0u : u);
}
RP_INLINE float rk_from_i32(rp_i32 v) { return rk_positive_zero((float)v); }
RP_INLINE float rk_from_i64(rp_i64 v) { return rk_positive_zero((float)v); }

RP_INLINE rp_i32 rk_sat(long long v)
{
    v = v < -2147483648LL ? -2147483648LL : v;
    return (rp_i32)(v > 2147483647LL ? 2147483647LL : v);
}

/* The first two words of a block of Philox 4x32-10 (Salmon and others, 2011), the first on top. */
RP_INLINE rp_u64 rp_philox(rp_u64 counter, rp_u64 key)
{
    rp_u32 a = (rp_u32)counter, b = (rp_u32)(counter >> 32), c = 0, d = 0;
    rp_u32 k = (rp_u32)key, l = (rp_u32)(key >> 32);
    for (int round = 0; round < 10; round++) {
        rp_u64 p = 0xD2511F53ull * a, q = 0xCD9E8D57ull * c;
        a = (rp_u32)(q >> 32) ^ b ^ k;
        c = (rp_u32)(p >> 32) ^ d ^ l;
        b = (rp_u32)q;
        d = (rp_u32)p;
        k += 0x9E3779B9u;
        l += 0xBB67AE85u;
    }
    return (rp_u64)a << 32 | b;
}

RP_INLINE rp_i64 rk_clamp64(rp_i64 v, rp_i64 lo, rp_i64 hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* Truncates, saturates; NaN gives 0. */
RP_INLINE rp_i64 rk_to_i64(float x)
{
    float c = x < 9223371487098961920.0f ? x : 9223371487098961920.0f;
    c = c > -9223372036854775808.0f ? c : -9223372036854775808.0f;
    rp_i64 r = x >= 9223372036854775808.0f ? 9223372036854775807LL : (rp_i64)c;
    return x == x ? r : 0;
}

/* Exact where it can be, else the neighbour whose last bit is set: rounded again to f16 or bf16, v is rounded once. */
RP_INLINE float rk_to_odd(rp_i64 v)
{
    float f = rk_from_i64(v);
    rp_i64 back = rk_to_i64(f);
    rp_u32 u = rp_bits(f), up = (back < v) == (v > 0) ? 1u : (rp_u32)-1;
    return back != v && !(u & 1u) ? rp_from_bits(u + up) : f;
}

/* Double precision: from integers (as rk_from_i32), to integers (truncates, saturates; NaN gives 0), and rounded to odd. */
RP_INLINE double rk_f64_from_int(rp_i64 v)
{
    rp_u64 u = rp_bits64((double)v);
    return rp_from_bits64(u == 0x8000000000000000ull ? 0u : u);
}

RP_INLINE rp_i32 rk_f64_to_i32(double x)
{
    double c = x > 2147483647.0 ? 2147483647.0 : x;
    c = c < -2147483648.0 ? -2147483648.0 : c;
    c = c == c ? c : 0.0;
    return (rp_i32)c;
}

RP_INLINE rp_i64 rk_f64_to_i64(double x)
{
    double c = x < 9223372036854774784.0 ? x : 9223372036854774784.0;
    c = c > -9223372036854775808.0 ? c : -9223372036854775808.0;
    rp_i64 r = x >= 9223372036854775808.0 ? 9223372036854775807LL : (rp_i64)c;
    return x == x ? r : 0;
}

RP_INLINE float rk_f64_to_odd(double x)
{
    float f = (float)x;
    double back = (double)f;
    rp_u32 u = rp_bits(f), up = (back < x) == (x > 0.0) ? 1u : (rp_u32)-1;
    return back != x && x == x && !(u & 1u) ? rp_from_bits(u + up) : f;
}

RP_INLINE long long rk_floordiv(long long a, long long b)
{
    long long q = a / b;
    return a % b < 0 ? q - 1 : q;
}

RP_INLINE long long rk_mod(long long a, long long b)
{
    long long m = a % b;
    return m < 0 ? m + b : m;
}

#endif
