/* What kernels rendered from kernel IR need beside prelude.h: the helper names of ops.def that
 * are not there, saturation, and floor division. */
#ifndef RP_KERNEL_H
#define RP_KERNEL_H

/* What a schedule asks of the host's compiler: iterations of the next loop side by side, and the width of a function's vectors. */
#define RP_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define RP_UNROLL(n) RP_PRAGMA(clang loop unroll_count(n))
#define RP_VECTOR(bits)
#else
#define RP_UNROLL(n) RP_PRAGMA(GCC unroll n)
#define RP_VECTOR(bits) __attribute__((target("prefer-vector-width=" #bits)))
#endif

/* Hides the value of an integer. gcc before 12.4 and 13.2 makes a load under a mask that it knows, with AVX-512, a load of all
 * lanes and a blend, which faults where another lane's memory is not there (its PR 110309). */
#if !defined(__CUDACC__) && !defined(__clang__) && RP_ISA >= 2
#define RP_HIDE(x) __asm__("" : "+r"(x))
#else
#define RP_HIDE(x) (void)(x)
#endif

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

/* r less the nearest whole multiple of b, of which there are fewer than 2^51: the multiple in two parts, whose products are exact. */
RP_INLINE double rp_fmod_step(double r, double b)
{
    double q = (r / b + 6755399441055744.0) - 6755399441055744.0;
    double high = (q + 0x1.8p78) - 0x1.8p78;
    return (r - high * b) - (q - high) * b;
}

/* Exact. By b times 2^250 and so on, as a / b is below 2^277: what is left has no more digits than a or b, less than the double has. */
RP_INLINE float rp_fmodf(float a, float b)
{
    double r = (double)rp_fabsf(a), d = (double)rp_fabsf(b);
    r = rp_fmod_step(r, d * 0x1p250);
    r = rp_fmod_step(r, d * 0x1p200);
    r = rp_fmod_step(r, d * 0x1p150);
    r = rp_fmod_step(r, d * 0x1p100);
    r = rp_fmod_step(r, d * 0x1p50);
    r = rp_fmod_step(r, d);
    r = r < 0.0 ? r + d : r;
    float y = rp_copysignf((float)r, a);
    y = rp_fabsf(a) < rp_fabsf(b) ? a : y; /* b may be infinite */
    return y;
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

/* 2^n for a whole n of at most 1023, n + 1.5 * 2^52 given as bits. */
RP_INLINE double rk_power64(rp_u64 n) { return rp_from_bits64((n - 0x4338000000000000ull + 1023u) << 52); }

RP_INLINE double rk_over64(double x) { return 1.0 / x; }

/* <= 1 ulp; overflow gives inf, underflow goes through subnormals to 0. The Taylor polynomial is exact to 2^-57 of exp for
 * |r| <= log(2) / 2. */
RP_INLINE double rk_exp64(double x)
{
    double z = x * 1.4426950408889634 + 6755399441055744.0, n = z - 6755399441055744.0;
    double half = n * 0.5 + 6755399441055744.0; /* 2^n in two factors, for subnormal results and 2^1024 */
    double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.6059043836821613e-10;
    p = p * r + 2.0876756987868100e-09;
    p = p * r + 2.5052108385441720e-08;
    p = p * r + 2.7557319223985893e-07;
    p = p * r + 2.7557319223985888e-06;
    p = p * r + 2.4801587301587302e-05;
    p = p * r + 1.9841269841269841e-04;
    p = p * r + 1.3888888888888889e-03;
    p = p * r + 8.3333333333333332e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = (p * (r * r) + r) + 1.0;
    double rest = (n - (half - 6755399441055744.0)) + 6755399441055744.0;
    double y = (p * rk_power64(rp_bits64(half))) * rk_power64(rp_bits64(rest));
    y = x > 709.8 ? (double)RP_INF : y; /* whatever came of one beyond these */
    return x < -745.2 ? 0.0 : y;
}

/* <= 1 ulp: x = 2^n * m with m in [sqrt(1/2), sqrt(2)), then the series of log((1 + s) / (1 - s)) (FreeBSD's e_log.c). */
RP_INLINE double rk_log64(double x)
{
    rp_u64 tiny = x < 0x1p-1022;
    rp_u64 u = rp_bits64(tiny ? x * 0x1p54 : x), e = (u - 0x3fe6a09e667f3bcdull) & 0xfff0000000000000ull;
    rp_u64 b = ((e >> 52) + 0x800u) & 0xfffu; /* a 12-bit two's complement number, made a double without a conversion */
    double n = rp_from_bits64(b | 0x4330000000000000ull) - (4503599627370496.0 + 2048.0);
    n = tiny ? n - 54.0 : n;
    double f = rp_from_bits64(u - e) - 1.0, s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    double p = 1.479819860511658591e-01;
    p = p * z + 1.531383769920937332e-01;
    p = p * z + 1.818357216161805012e-01;
    p = p * z + 2.222219843214978396e-01;
    p = p * z + 2.857142874366239149e-01;
    p = p * z + 3.999999999940941908e-01;
    p = p * z + 6.666666666666735130e-01;
    double y = n * 6.93147180369123816490e-01 -
               ((h - (s * (h + p * z) + n * 1.90821492927058770002e-10)) - f);
    y = x < (double)RP_INF ? y : x; /* inf and NaN stay */
    y = x == 0.0 ? -(double)RP_INF : y;
    return x < 0.0 ? (double)__builtin_nanf("") : y;
}

/* <= 1.4 ulp: rational in x^2 up to 0.625 (Cephes' tanh.c), by exp beyond. */
RP_INLINE double rk_tanh64(double x)
{
    double a = rk_abs64(x), z = a * a;
    double p = (-9.64399179425052238628e-01 * z - 9.92877231001918586564e+01) * z - 1.61468768441708447952e+03;
    double q = ((z + 1.12811678491632931402e+02) * z + 2.23548839060100448583e+03) * z + 4.84406305325125486048e+03;
    double far = 1.0 - 2.0 / (rk_exp64(a + a) + 1.0);
    return rk_copysign64(a < 0.625 ? a + a * (z * (p / q)) : far, x);
}

/* <= 3.1 ulp: rational in x^2 up to 1, beyond it 1 - exp(-x^2) times one in x (Cephes' ndtr.c), which is nothing from 6 on. */
RP_INLINE double rk_erf64(double x)
{
    double a = rk_abs64(x), z = a * a, c = a > 6.0 ? 6.0 : a;
    double t = 9.60497373987051638749e+00, u = z + 3.35617141647503099647e+01;
    t = t * z + 9.00260197203842689217e+01;
    t = t * z + 2.23200534594684319226e+03;
    t = t * z + 7.00332514112805075473e+03;
    t = t * z + 5.55923013010394962768e+04;
    u = u * z + 5.21357949780152679795e+02;
    u = u * z + 4.59432382970980127987e+03;
    u = u * z + 2.26290000613890934246e+04;
    u = u * z + 4.92673942608635921086e+04;
    double p = 2.46196981473530512524e-10, q = c + 1.32281951154744992508e+01;
    p = p * c + 5.64189564831068821977e-01;
    p = p * c + 7.46321056442269912687e+00;
    p = p * c + 4.86371970985681366614e+01;
    p = p * c + 1.96520832956077098242e+02;
    p = p * c + 5.26445194995477358631e+02;
    p = p * c + 9.34528527171957607540e+02;
    p = p * c + 1.02755188689515710272e+03;
    p = p * c + 5.57535335369399327526e+02;
    q = q * c + 8.67072140885989742329e+01;
    q = q * c + 3.54937778887819891062e+02;
    q = q * c + 9.75708501743205489753e+02;
    q = q * c + 1.82390916687909736289e+03;
    q = q * c + 2.24633760818710981792e+03;
    q = q * c + 1.65666309194161350182e+03;
    q = q * c + 5.57535340817727675546e+02;
    return rk_copysign64(a < 1.0 ? a * (t / u) : 1.0 - rk_exp64(-(c * c)) * (p / q), x);
}

/* The upper half of a product. */
RP_INLINE rp_u64 rk_mul_high(rp_u64 a, rp_u64 b)
{
    rp_u64 al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    rp_u64 mid = ah * bl + (al * bl >> 32), other = al * bh + (mid & 0xffffffffu);
    return ah * bh + (mid >> 32) + (other >> 32);
}

/* What is left of a, from 2^19 on, by quarters of a turn: *y + *tail in [-pi/4, pi/4], and the quarters modulo 4. The mantissa times
 * those 192 bits of 2/pi that count modulo 4 (Payne and Hanek, 1983); behind 61 zeros, which no double exceeds, 70 bits are right. */
RP_INLINE rp_u64 rk_far_quarter64(double a, double *y, double *tail)
{
    /* 2/pi behind 64 zeros */
    static const rp_u64 bits[21] = {
        0x0000000000000000ull, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull,
        0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull,
        0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull,
        0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
        0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull,
        0xf0cfbc209af4361dull,
    };
    rp_u64 u = rp_bits64(a), m = (u & 0x000fffffffffffffull) | 0x0010000000000000ull;
    rp_u64 at = (u >> 52) - 1075u + 62u, s = at & 63u;
    const rp_u64 *w = bits + (at >> 6 < 18u ? at >> 6 : 17u);
    rp_u64 w0 = w[0] << s | w[1] >> 1 >> (63u - s), w1 = w[1] << s | w[2] >> 1 >> (63u - s),
           w2 = w[2] << s | w[3] >> 1 >> (63u - s);
    rp_u64 p2 = m * w2, h2 = rk_mul_high(m, w2), l1 = m * w1, p1 = l1 + h2;
    rp_u64 p0 = m * w0 + rk_mul_high(m, w1) + (p1 < l1);
    rp_u64 f0 = p0 << 2 | p1 >> 62, f1 = p1 << 2 | p2 >> 62, minus = 0u - (f0 >> 63);
    rp_u64 a1 = (f1 ^ minus) - minus, a0 = (f0 ^ minus) + (minus & (a1 == 0));
    /* |fraction| * 2^128 in parts of 42, 43 and 43 bits, each exact, then as a sum of two */
    double d0 = (double)(rp_i64)(a0 >> 22) * 0x1p-42, d1 = (double)(rp_i64)((a0 & 0x3fffffu) << 21 | a1 >> 43) * 0x1p-85;
    double d2 = (double)(rp_i64)(a1 & 0x7ffffffffffull) * 0x1p-128, lo = d1 + d2, hi = d0 + lo;
    lo = (d0 - hi) + lo;
    /* times pi/2 = c0 + c1 + c2, of which c0 and c1 have 26 bits, as h0 and h1 = hi - h0 have */
    const double c0 = 0x1.921fb5p+0, c1 = 0x1.110b46p-26, c2 = 0x1.1a62633145c07p-54;
    double h0 = rp_from_bits64(rp_bits64(hi) & 0xfffffffff8000000ull), h1 = hi - h0;
    double t0 = h0 * c0, t1 = h0 * c1 + h1 * c0, t2 = (h1 * c1 + hi * c2) + lo * 1.5707963267948966;
    double s1 = t1 + t2, r = t0 + s1;
    *tail = minus ? -((t0 - r) + s1) : (t0 - r) + s1;
    *y = minus ? -r : r;
    return (p0 >> 62) + (p0 >> 61 & 1u);
}

/* <= 1 ulp: sin(x + shift * pi/2). Less the nearest multiple of pi/2, in three parts of 33 bits and a fourth where that is exact, then a
 * polynomial of sin or cos (FreeBSD's k_sin.c and k_cos.c). */
RP_INLINE double rk_sincos64(double x, rp_u64 shift)
{
    double a = rk_abs64(x), y, tail;
    rp_u64 k;
    if (a < 0x1p19) {
        double z = a * 0.63661977236758134308 + 6755399441055744.0, n = z - 6755399441055744.0;
        double r = a - n * 1.57079632673412561417e+00, w = n * 6.07710050630396597660e-11, s = r - w;
        double e = (r - s) - w, v = n * 2.02226624871116645580e-21, t = s - v;
        e = e + ((s - t) - v) - n * 8.47842766036889956997e-32;
        y = t + e;
        tail = (t - y) + e;
        k = rp_bits64(z);
    } else {
        k = rk_far_quarter64(a, &y, &tail);
    }
    double z = y * y, v = z * y, w = z * z;
    double p = 1.58969099521155010221e-10;
    p = p * z - 2.50507602534068634195e-08;
    p = p * z + 2.75573137070700676789e-06;
    p = p * z - 1.98412698298579493134e-04;
    p = p * z + 8.33333333332248946124e-03;
    double sine = y - ((z * (0.5 * tail - v * p) - tail) - v * -1.66666666666666324348e-01);
    double q = z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05)) +
               w * w * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
    double h = 0.5 * z, one = 1.0 - h, cosine = one + (((1.0 - one) - h) + (z * q - y * tail));
    rp_u64 minus = shift ? 0u : rp_bits64(x) >> 63; /* sin is odd, cos is even */
    k = k + shift;
    double r = (k & 1u) ? cosine : sine;
    r = rp_from_bits64(rp_bits64(r) ^ ((k >> 1 & 1u) ^ minus) << 63);
    r = a < 0x1p-27 ? (shift ? 1.0 : x) : r;
    return a < (double)RP_INF ? r : x - x;
}

RP_INLINE double rk_sin64(double x) { return rk_sincos64(x, 0); }
RP_INLINE double rk_cos64(double x) { return rk_sincos64(x, 1); }

/* x = *m * 2^e: the mantissa with its leading bit and a zero behind it. Of an x that is neither 0 nor inf nor NaN. */
RP_INLINE rp_i64 rk_split64(double x, rp_u64 *m)
{
    rp_u64 u = rp_bits64(x), small = (u >> 52 & 0x7ffu) == 0;
    u = small ? rp_bits64(x * 0x1p54) : u;
    *m = ((u & 0x000fffffffffffffull) | 0x0010000000000000ull) << 1;
    return (rp_i64)(u >> 52 & 0x7ffu) - 1076 - (small ? 54 : 0);
}

/* m * 2^e rounded once, m in [2^62, 2^63) with a last bit that stands for all behind it. */
RP_INLINE double rk_join64(rp_u64 m, rp_i64 e, rp_u64 sign)
{
    rp_u64 s = (rp_u64)(-1074 - e), drop = s < 63 ? s : 63;
    if (e < -1084) { /* subnormal: whole multiples of 2^-1074 */
        rp_u64 q = m >> drop, rest = m << 1 << (63 - drop), even = 0x8000000000000000ull;
        q = s > 63 ? 0 : q + (rest > even || (rest == even && (q & 1u)));
        return rp_from_bits64(q | sign);
    }
    double r = (double)(rp_i64)m * 0x1p-62;
    r = e > 961 ? (double)RP_INF : r * rp_from_bits64((rp_u64)(e + 62 + 1023) << 52);
    return rp_from_bits64(rp_bits64(r) | sign);
}

/* One rounding: without the instruction the product in 128 bits, the sum in as many, of which a bit stands for all that are
 * shifted out (as musl's fma.c). */
RP_FN double rk_fma64(double x, double y, double z)
{
#if defined(__CUDACC__)
    return __fma_rn(x, y, z);
#elif defined(__FMA__)
    return __builtin_fma(x, y, z);
#else
    rp_u64 mx, my, mz, top = 0x7ff0000000000000ull;
    if (x == 0.0 || y == 0.0 || (rp_bits64(x) & top) == top || (rp_bits64(y) & top) == top) return x * y + z;
    if (z == 0.0) return x * y; /* whose sign is that of a product too small to see */
    if ((rp_bits64(z) & top) == top) return z;
    rp_i64 e = rk_split64(x, &mx) + rk_split64(y, &my), d = rk_split64(z, &mz) - e;
    rp_u64 hi = rk_mul_high(mx, my), lo = mx * my, zhi = 0, zlo = mz;
    if (d > 64) { /* z as the upper half, the product shifted */
        e += d - 64;
        d -= 64;
        rp_u64 kept = d < 64 ? lo >> d | hi << 1 << (63 - d) : 0, lost = d < 64 ? lo << 1 << (63 - d) : hi | lo;
        lo = kept | (lost != 0);
        hi = d < 64 ? hi >> d : 0;
        zhi = mz;
        zlo = 0;
    } else if (d > 0) {
        zhi = d < 64 ? mz >> (64 - d) : mz;
        zlo = d < 64 ? mz << d : 0;
    } else if (d < 0) {
        zlo = d > -64 ? mz >> -d | (mz << (64 + d) != 0) : 1;
    }
    rp_u64 sign = (rp_bits64(x) ^ rp_bits64(y)) >> 63, minus = sign ^ rp_bits64(z) >> 63;
    zlo = minus ? 0u - zlo : zlo;
    zhi = minus ? ~zhi + (zlo == 0) : zhi;
    lo += zlo;
    hi += zhi + (lo < zlo);
    if (hi >> 63) {
        lo = 0u - lo;
        hi = ~hi + (lo == 0);
        sign ^= 1u;
    }
    if ((hi | lo) == 0) return 0.0;
    rp_i64 n = hi ? 64 : 0;
    hi = hi ? hi : lo;
    lo = n ? lo : 0;
    rp_i64 s = (rp_i64)__builtin_clzll(hi) - 1;
    if (s < 0) return rk_join64(hi >> 1 | (hi & 1u), e + n + 1, sign << 63);
    hi = s ? hi << s | lo >> (64 - s) : hi;
    return rk_join64(hi | (lo << s != 0), e + n - s, sign << 63);
#endif
}

/* Exact: the mantissa of a by that of b, 10 bits of the quotient at a time. */
RP_FN double rk_fmod64(double a, double b)
{
    double x = rk_abs64(a), y = rk_abs64(b);
    rp_u64 m, n;
    if (!(x < (double)RP_INF) || !(y > 0.0)) return (double)__builtin_nanf("");
    if (x < y || x == 0.0) return a;
    rp_i64 e = rk_split64(x, &m), to = rk_split64(y, &n), half = to / 2;
    m %= n;
    for (rp_i64 left = e - to; left > 0 && m; left -= 10) m = (m << (left < 10 ? left : 10)) % n;
    double r = (double)(rp_i64)m * rp_from_bits64((rp_u64)(half + 1023) << 52);
    return rk_copysign64(r * rp_from_bits64((rp_u64)(to - half + 1023) << 52), a);
}

RP_INLINE double rk_high64(double x) { return rp_from_bits64(rp_bits64(x) & 0xffffffff00000000ull); }

/* *t + the result = log2(a) of a positive finite a, *t of half a mantissa (FreeBSD's e_pow.c): of (m - c) / (m + c), c = 1 or 1.5 being near
 * the mantissa m, in two parts. */
RP_INLINE double rk_log2_parts64(double a, double *t)
{
    rp_u64 tiny = a < 0x1p-1022, u = rp_bits64(tiny ? a * 0x1p54 : a), high = u >> 32, j = high & 0xfffffu;
    rp_u64 mid = j > 0x3988eu && j < 0xbb67au, up = j >= 0xbb67au, ix = j | (up ? 0x3fe00000u : 0x3ff00000u);
    double n = (double)((rp_i64)(high >> 20) - 1023 + (rp_i64)up - (tiny ? 54 : 0));
    double c = mid ? 1.5 : 1.0, m = rp_from_bits64(ix << 32 | (u & 0xffffffffu));
    double d = m - c, over = 1.0 / (m + c), s = d * over, sh = rk_high64(s);
    double th = rp_from_bits64((((ix >> 1) | 0x20000000u) + 0x00080000u + (mid << 18)) << 32), tl = m - (th - c);
    double sl = over * ((d - sh * th) - sh * tl), z = s * s;
    double p = 2.06975017800338417784e-01;
    p = p * z + 2.30660745775561754067e-01;
    p = p * z + 2.72728123808534006489e-01;
    p = p * z + 3.33333329818377432918e-01;
    p = p * z + 4.28571428578550184252e-01;
    p = p * z + 5.99999999999994648725e-01;
    double r = z * z * p + sl * (sh + s), zh = sh * sh;
    th = rk_high64((3.0 + zh) + r);
    tl = r - ((th - 3.0) - zh);
    double v = sl * th + tl * s, w = sh * th, ph = rk_high64(w + v), pl = v - (ph - w);
    double h = 9.61796700954437255859e-01 * ph;
    double l = -7.02846165095275826516e-09 * ph + pl * 9.61796693925975554329e-01 + (mid ? 1.35003920212974897128e-08 : 0.0);
    double part = mid ? 5.84962487220764160156e-01 : 0.0, all = rk_high64(((h + l) + part) + n);
    *t = all;
    return l - (((all - n) - part) - h);
}

/* 2^(h + l), h + l in [-1100, 1100]. */
RP_INLINE double rk_exp2_parts64(double h, double l)
{
    double z = (h + l) + 6755399441055744.0, n = z - 6755399441055744.0, half = n * 0.5 + 6755399441055744.0;
    double k = h - n, t = rk_high64(l + k), u = t * 6.93147182464599609375e-01;
    double v = (l - (t - k)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09;
    double x = u + v, w = v - (x - u), y = x * x;
    double p = 4.13813679705723846039e-08;
    p = p * y - 1.65339022054652515390e-06;
    p = p * y + 6.61375632143793436117e-05;
    p = p * y - 2.77777777770155933842e-03;
    p = p * y + 1.66666666666666019037e-01;
    double q = x - y * p, r = 1.0 - (((x * q) / (q - 2.0) - (w + x * w)) - x);
    double rest = (n - (half - 6755399441055744.0)) + 6755399441055744.0;
    return (r * rk_power64(rp_bits64(half))) * rk_power64(rp_bits64(rest));
}

/* <= 1 ulp. C's pow, special cases included. */
RP_INLINE double rk_pow64(double x, double y)
{
    double a = rk_abs64(x), b = rk_abs64(y), t;
    double e = b > 0x1p66 ? rk_copysign64(0x1p66, y) : y; /* far beyond what an a but 1 needs to get to 0 or inf */
    double tail = rk_log2_parts64(a > 0.0 && a < (double)RP_INF ? a : 1.0, &t), eh = rk_high64(e);
    double l = (e - eh) * t + e * tail, h = eh * t, z = l + h;
    double r = rk_exp2_parts64(z > 1100.0 ? 1100.0 : z < -1100.0 ? -1100.0 : h, z > 1100.0 || z < -1100.0 ? 0.0 : l);
    double big = y > 0.0 ? (double)RP_INF : 0.0, small = y > 0.0 ? 0.0 : (double)RP_INF;
    r = a == (double)RP_INF ? big : r;
    r = a == 0.0 ? small : r;
    r = b == (double)RP_INF ? (a > 1.0 ? big : a < 1.0 ? small : 1.0) : r;
    double half = rk_round64(b * 0.5) * 2.0;
    rp_u64 whole = rk_round64(b) == b, odd = whole && half != b && b < 0x1p53;
    r = rp_from_bits64(rp_bits64(r) | (odd ? rp_bits64(x) & 0x8000000000000000ull : 0u));
    r = x < 0.0 && x > -(double)RP_INF && !whole ? (double)__builtin_nanf("") : r;
    r = x != x || y != y ? x + y : r;
    return x == 1.0 || y == 0.0 ? 1.0 : r;
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
