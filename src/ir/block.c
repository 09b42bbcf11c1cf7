/* Bytes of every element type and block format, to doubles and back.
 *
 * q4_0, q4_1 and q8_0 are GGUF's: 32 elements a block, scale (and minimum) as f16, low nibbles the
 * first half. i16b32 is a whole row, as in gen/embed/prelude.h: int16 q[K] | float d[K/32] |
 * int32 sum[K/32]. Packing what unpacking gave returns the same numbers. */
#include <math.h>
#include <assert.h>
#include <string.h>

#include "ir/eval.h"

#define BLOCK 32

/* A NaN of `bits` bits of fraction, which are the upper ones of the double's: no conversion of the machine, which would make it a
 * quiet one. */
static double nan_to_double(bool negative, int bits, uint32_t fraction) {
    uint64_t u = (uint64_t)negative << 63 | UINT64_C(0x7ff) << 52 |
                 (uint64_t)fraction << (52 - bits);
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* And back; one that has nothing there is the quiet one. */
static uint32_t nan_fraction(double v, int bits) {
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    uint32_t fraction = (uint32_t)(u << 12 >> (64 - bits));
    return fraction ? fraction : 1u << (bits - 1);
}

static double half_to_double(uint16_t h) {
    int e = h >> 10 & 31, m = h & 1023;
    if (e == 31 && m) return nan_to_double(h >> 15, 10, (uint32_t)m);
    double v = e == 31 ? (double)INFINITY : e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h >> 15 ? -v : v;
}

static uint16_t double_to_half(double v) {
    double r = ir_round(RP_DTYPE_F16, v), a = fabs(r);
    uint16_t sign = signbit(r) ? 0x8000 : 0;
    int e;
    if (r != r) return (uint16_t)(sign | 0x7c00 | nan_fraction(r, 10));
    if (isinf(r)) return (uint16_t)(sign | 0x7c00);
    if (a < 0x1p-14) return (uint16_t)(sign | (uint16_t)(a * 0x1p24));
    double m = frexp(a, &e); /* a = m * 2^e, m in [0.5, 1) */
    return (uint16_t)(sign | ((e + 14) << 10) | (uint16_t)(m * 2048 - 1024));
}

static double get_half(const uint8_t *p) {
    return half_to_double((uint16_t)(p[0] | p[1] << 8));
}

static void put_half(uint8_t *p, double v) {
    uint16_t h = double_to_half(v);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* A bf16 is the upper half of one. */
static double single_to_double(uint32_t u) {
    float f;
    if ((u & 0x7fffffff) > 0x7f800000) return nan_to_double(u >> 31, 23, u & 0x7fffff);
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t double_to_single(double v, int nan_bits) {
    float f = (float)v;
    uint32_t u;
    if (v != v)
        return (signbit(v) ? 0xff800000 : 0x7f800000) | nan_fraction(v, nan_bits)
                                                            << (23 - nan_bits);
    memcpy(&u, &f, sizeof u);
    return u;
}

static double get_bf16(const uint8_t *p) {
    return single_to_double((uint32_t)p[0] << 16 | (uint32_t)p[1] << 24);
}

static void put_bf16(uint8_t *p, double v) {
    uint32_t u = double_to_single(ir_round(RP_DTYPE_BF16, v), 7);
    p[0] = (uint8_t)(u >> 16);
    p[1] = (uint8_t)(u >> 24);
}

/* e5m2 is the upper byte of a half. */
static double f8_to_double(rp_dtype t, uint8_t b) {
    int e = b >> 3 & 15, m = b & 7;
    if (t == RP_DTYPE_F8E5M2) return half_to_double((uint16_t)(b << 8));
    if ((b & 0x7f) == 0x7f) return nan_to_double(b >> 7, 3, 4);
    double v = e == 0 ? ldexp(m, -9) : ldexp(8 + m, e - 10);
    return b >> 7 ? -v : v;
}

static uint8_t double_to_f8(rp_dtype t, double v) {
    double r = ir_round(t, v), a = fabs(r);
    uint8_t sign = signbit(r) ? 0x80 : 0;
    int e;
    if (t == RP_DTYPE_F8E5M2)
        return r != r ? (uint8_t)(sign | 0x7c | nan_fraction(r, 2))
                      : (uint8_t)(double_to_half(r) >> 8);
    if (r != r) return sign | 0x7f;
    if (a < 0x1p-6) return (uint8_t)(sign | (uint8_t)(a * 0x1p9));
    double m = frexp(a, &e); /* a = m * 2^e, m in [0.5, 1) */
    return (uint8_t)(sign | ((e + 6) << 3) | (uint8_t)(m * 16 - 8));
}

/* d*q+m, or d*(q-8), whose zero has the sign of d. */
static void unpack_q4(const uint8_t *b, bool has_min, double *dst) {
    const double d = get_half(b), m = has_min ? get_half(b + 2) : 0;
    const uint8_t *q = b + (has_min ? 4 : 2);
    for (int i = 0; i < BLOCK; i++) {
        const int k = i < BLOCK / 2 ? q[i] & 15 : q[i - BLOCK / 2] >> 4;
        dst[i] = has_min ? k * d + m : (k - 8) * d;
    }
}

static int clamp_to(double v, int lo, int hi) {
    return v != v ? lo : v < lo ? lo : v > hi ? hi : (int)v;
}

static void pack_q4_0(const double *x, uint8_t *b) {
    double top = 0;
    for (int i = 0; i < BLOCK; i++)
        if (fabs(x[i]) > fabs(top)) top = x[i];
    double d = top / -8, inv = d != 0 ? 1 / d : 0;
    put_half(b, d);
    for (int i = 0; i < 16; i++)
        b[2 + i] = (uint8_t)(clamp_to(x[i] * inv + 8.5, 0, 15) |
                             clamp_to(x[i + 16] * inv + 8.5, 0, 15) << 4);
}

static void pack_q4_1(const double *x, uint8_t *b) {
    double lo = x[0], hi = x[0];
    for (int i = 1; i < BLOCK; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    double d = (hi - lo) / 15, inv = d != 0 ? 1 / d : 0;
    put_half(b, d);
    put_half(b + 2, lo);
    for (int i = 0; i < 16; i++)
        b[4 + i] = (uint8_t)(clamp_to((x[i] - lo) * inv + 0.5, 0, 15) |
                             clamp_to((x[i + 16] - lo) * inv + 0.5, 0, 15) << 4);
}

static void pack_q8_0(const double *x, uint8_t *b) {
    double top = 0;
    for (int i = 0; i < BLOCK; i++) top = fabs(x[i]) > top ? fabs(x[i]) : top;
    double d = top / 127, inv = d != 0 ? 1 / d : 0;
    put_half(b, d);
    for (int i = 0; i < BLOCK; i++)
        b[2 + i] = (uint8_t)(int8_t)clamp_to(round(x[i] * inv), -127, 127);
}

/* Block i of a packed row of n elements: its integers, scale and sum. */
static void pack_i16b32(const double *x, int64_t n, int64_t i, uint8_t *row) {
    double top = 0;
    int32_t sum = 0;
    for (int j = 0; j < BLOCK; j++) {
        double a = fabs(x[i * BLOCK + j]);
        if (a > top || a != a) top = a; /* a NaN stays: nothing is greater */
    }
    /* For single-precision x this is the quotient of the single division; q*d is kept exactly. */
    float d = (float)(top / 32767.0);
    for (int j = 0; j < BLOCK; j++) {
        float v = d == 0.0f ? 0.0f : (float)x[i * BLOCK + j] / d;
        int16_t q = (int16_t)(v != v ? 0 : v > 32767 ? 32767 : v < -32767 ? -32767 : rintf(v));
        memcpy(row + (i * BLOCK + j) * 2, &q, 2);
        sum += q;
    }
    memcpy(row + n * 2 + i * 4, &d, 4);
    memcpy(row + n * 2 + n / 8 + i * 4, &sum, 4);
}

static void unpack_i16b32(const uint8_t *row, int64_t n, int64_t i, double *dst) {
    float d;
    memcpy(&d, row + n * 2 + i * 4, 4);
    for (int j = 0; j < BLOCK; j++) {
        int16_t q;
        memcpy(&q, row + (i * BLOCK + j) * 2, 2);
        dst[i * BLOCK + j] = (double)q * (double)d;
    }
}

static double read_plain(rp_dtype t, const uint8_t *p) {
    double d;
    uint32_t u;
    int32_t i;
    int16_t s;
    switch (t) {
    case RP_DTYPE_F64: memcpy(&d, p, 8); return d;
    case RP_DTYPE_F32: memcpy(&u, p, 4); return single_to_double(u);
    case RP_DTYPE_F16: return get_half(p);
    case RP_DTYPE_BF16: return get_bf16(p);
    case RP_DTYPE_I32: memcpy(&i, p, 4); return i;
    case RP_DTYPE_I16: memcpy(&s, p, 2); return s;
    case RP_DTYPE_I8: return (int8_t)*p;
    case RP_DTYPE_U8: return *p;
    case RP_DTYPE_BOOL: return *p != 0;
    case RP_DTYPE_F8E4M3FN:
    case RP_DTYPE_F8E5M2: return f8_to_double(t, *p);
    default: return 0;
    }
}

static void write_plain(rp_dtype t, double v, uint8_t *p) {
    double r = ir_round(t, v);
    uint32_t u;
    int32_t i;
    int16_t s;
    switch (t) {
    case RP_DTYPE_F64: memcpy(p, &r, 8); break;
    case RP_DTYPE_F32:
        u = double_to_single(r, 23);
        memcpy(p, &u, 4);
        break;
    case RP_DTYPE_F16: put_half(p, r); break;
    case RP_DTYPE_BF16: put_bf16(p, r); break;
    case RP_DTYPE_I32:
        i = (int32_t)r;
        memcpy(p, &i, 4);
        break;
    case RP_DTYPE_I16:
        s = (int16_t)r;
        memcpy(p, &s, 2);
        break;
    case RP_DTYPE_I8: *p = (uint8_t)(int8_t)r; break;
    case RP_DTYPE_U8:
    case RP_DTYPE_BOOL: *p = (uint8_t)r; break;
    case RP_DTYPE_F8E4M3FN:
    case RP_DTYPE_F8E5M2: *p = double_to_f8(t, r); break;
    default: break;
    }
}

void ir_unpack(rp_dtype t, const void *src, int64_t n, double *dst) {
    assert(n >= 0 && n % (int64_t)rp_dtype_block(t) == 0);
    const uint8_t *p = src;
    int64_t size = (int64_t)rp_dtype_block_bytes(t);
    if (t == RP_DTYPE_I64 && n > 0) memcpy(dst, src, (size_t)n * sizeof *dst);
    if (t == RP_DTYPE_I64) return;
    if (!rp_dtype_is_quant(t)) {
        for (int64_t i = 0; i < n; i++) dst[i] = read_plain(t, p + i * size);
        return;
    }
    for (int64_t i = 0; i < n / BLOCK; i++) {
        if (t == RP_DTYPE_I16B32) {
            unpack_i16b32(p, n, i, dst);
        } else if (t == RP_DTYPE_Q8_0) {
            double d = get_half(p + i * size);
            for (int j = 0; j < BLOCK; j++) dst[i * BLOCK + j] = (int8_t)p[i * size + 2 + j] * d;
        } else {
            unpack_q4(p + i * size, t == RP_DTYPE_Q4_1, dst + i * BLOCK);
        }
    }
}

void ir_pack(rp_dtype t, const double *src, int64_t n, void *dst) {
    assert(n >= 0 && n % (int64_t)rp_dtype_block(t) == 0);
    uint8_t *p = dst;
    int64_t size = (int64_t)rp_dtype_block_bytes(t);
    if (t == RP_DTYPE_I64 && n > 0) memcpy(dst, src, (size_t)n * sizeof *src);
    if (t == RP_DTYPE_I64) return;
    if (!rp_dtype_is_quant(t)) {
        for (int64_t i = 0; i < n; i++) write_plain(t, src[i], p + i * size);
        return;
    }
    for (int64_t i = 0; i < n / BLOCK; i++) {
        if (t == RP_DTYPE_I16B32)
            pack_i16b32(src, n, i, p);
        else if (t == RP_DTYPE_Q8_0)
            pack_q8_0(src + i * BLOCK, p + i * size);
        else if (t == RP_DTYPE_Q4_1)
            pack_q4_1(src + i * BLOCK, p + i * size);
        else
            pack_q4_0(src + i * BLOCK, p + i * size);
    }
}

double ir_bitcast(rp_dtype from, rp_dtype to, double v) {
    uint8_t bytes[sizeof(double)] = {0};
    double r = 0;
    ir_pack(from, &v, 1, bytes);
    ir_unpack(to, bytes, 1, &r);
    return r;
}
