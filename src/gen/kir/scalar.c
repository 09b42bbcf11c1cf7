/* Scalar semantics of the kernel IR, from the same prelude that generated code is compiled with, so
 * that the interpreter and the machine code agree bit for bit.
 *
 * The expressions of ops.def are text; this is their twin in C, and test/unit/gen_c.c compares the two. */
#include "kir/scalar.h"

#include "gen/embed/prelude.h"

#include "gen/embed/kernel.h"

#include <string.h>

static float truth(int x) { return x ? 1.0f : 0.0f; }

static float unary_f32(ir_op op, float a) {
    switch (op) {
    case IR_neg: return -a;
    case IR_abs: return rp_absf(a);
    case IR_sqrt: return rp_sqrtf(a);
    case IR_rsqrt: return 1.0f / rp_sqrtf(a);
    case IR_recip: return 1.0f / a;
    case IR_exp: return rp_expf(a);
    case IR_log: return rp_logf(a);
    case IR_sin: return rp_sinf(a);
    case IR_cos: return rp_cosf(a);
    case IR_tanh: return rp_tanhf(a);
    case IR_erf: return rp_erff(a);
    case IR_sigmoid: return 1.0f / (1.0f + rp_expf(-a));
    case IR_floor: return rp_floorf(a);
    case IR_ceil: return -rp_floorf(-a);
    case IR_round: return rp_roundf(a);
    case IR_not: return truth(a == 0.0f);
    default: return a; /* cast */
    }
}

float kir_alu_f32(ir_op op, float a, float b, float c) {
    switch (op) {
    case IR_add: return a + b;
    case IR_sub: return a - b;
    case IR_mul: return a * b;
    case IR_div: return a / b;
    case IR_max: return a > b || a != a ? a : b;
    case IR_min: return a < b || a != a ? a : b;
    case IR_pow: return rp_powf(a, b);
    case IR_eq: return truth(a == b);
    case IR_ne: return truth(a != b);
    case IR_lt: return truth(a < b);
    case IR_le: return truth(a <= b);
    case IR_gt: return truth(a > b);
    case IR_ge: return truth(a >= b);
    case IR_and: return truth(a != 0.0f && b != 0.0f);
    case IR_or: return truth(a != 0.0f || b != 0.0f);
    case IR_where: return a != 0.0f ? b : c;
    case IR_fma: return rp_fmaf(a, b, c);
    default: return unary_f32(op, a);
    }
}

int32_t kir_saturate(int64_t v, kir_range to) {
    return (int32_t)(v < to.lo ? to.lo : v > to.hi ? to.hi : v);
}

int32_t kir_alu_i32(ir_op op, int32_t a, int32_t b, int32_t c) {
    kir_range i32 = kir_dtype_range(RP_DTYPE_I32);

    switch (op) {
    case IR_add: return kir_saturate((int64_t)a + b, i32);
    case IR_sub: return kir_saturate((int64_t)a - b, i32);
    case IR_mul: return kir_saturate((int64_t)a * b, i32);
    case IR_neg: return kir_saturate(-(int64_t)a, i32);
    case IR_abs: return kir_saturate(a < 0 ? -(int64_t)a : a, i32);
    case IR_max: return a > b ? a : b;
    case IR_min: return a < b ? a : b;
    case IR_eq: return a == b;
    case IR_ne: return a != b;
    case IR_lt: return a < b;
    case IR_le: return a <= b;
    case IR_gt: return a > b;
    case IR_ge: return a >= b;
    case IR_and: return a && b;
    case IR_or: return a || b;
    case IR_not: return !a;
    case IR_where: return a ? b : c;
    default: return a;
    }
}

int32_t kir_f32_to_i32(float x) {
    if (x != x) return 0;
    if (x >= 2147483648.0f) return INT32_MAX;
    if (x <= -2147483648.0f) return INT32_MIN;
    return (int32_t)x;
}

float kir_round_f32(rp_dtype t, float x) {
    switch (t) {
    case RP_DTYPE_F32: return x;
    case RP_DTYPE_F16: return rp_f16_to_f32(rp_f32_to_f16(x));
    case RP_DTYPE_BF16: return rp_bf16_to_f32(rp_f32_to_bf16(x));
    case RP_DTYPE_BOOL: return truth(x != 0.0f);
    default: return (float)kir_saturate(kir_f32_to_i32(x), kir_dtype_range(t));
    }
}

static const char *element(rp_dtype t, const void *base, int64_t i) {
    return (const char *)base + i * (int64_t)rp_dtype_block_bytes(t);
}

float kir_load_f32(rp_dtype t, const void *base, int64_t i) {
    float f;
    uint16_t h;

    if (t == RP_DTYPE_F32) {
        memcpy(&f, element(t, base, i), sizeof f);
        return f;
    }
    memcpy(&h, element(t, base, i), sizeof h);
    return t == RP_DTYPE_F16 ? rp_f16_to_f32(h) : rp_bf16_to_f32(h);
}

int32_t kir_load_i32(rp_dtype t, const void *base, int64_t i) {
    const char *p = element(t, base, i);
    int32_t v;
    int16_t s;

    switch (t) {
    case RP_DTYPE_I32: memcpy(&v, p, sizeof v); return v;
    case RP_DTYPE_I16: memcpy(&s, p, sizeof s); return s;
    case RP_DTYPE_I8: return *(const int8_t *)p;
    default: return *(const uint8_t *)p;
    }
}

void kir_store_f32(rp_dtype t, void *base, int64_t i, float v) {
    char *p = (char *)base + i * (int64_t)rp_dtype_block_bytes(t);
    uint16_t h;

    if (t == RP_DTYPE_F32) {
        memcpy(p, &v, sizeof v);
        return;
    }
    h = t == RP_DTYPE_F16 ? rp_f32_to_f16(v) : rp_f32_to_bf16(v);
    memcpy(p, &h, sizeof h);
}

void kir_store_i32(rp_dtype t, void *base, int64_t i, int32_t v) {
    char *p = (char *)base + i * (int64_t)rp_dtype_block_bytes(t);
    int16_t s;

    v = kir_saturate(v, kir_dtype_range(t));
    switch (t) {
    case RP_DTYPE_I32: memcpy(p, &v, sizeof v); break;
    case RP_DTYPE_I16: s = (int16_t)v; memcpy(p, &s, sizeof s); break;
    case RP_DTYPE_I8: *(int8_t *)p = (int8_t)v; break;
    default: *(uint8_t *)p = (uint8_t)v; break;
    }
}
