/* Scalar semantics of the kernel IR, from the same prelude and the same expressions of ops.def that
 * generated code is made of, so that the interpreter and the machine code agree bit for bit. */
#include "kir/scalar.h"

#include "gen/embed/prelude.h"

#include "gen/embed/kernel.h"

#include <string.h>

#include "ir/kinds.h"

_Static_assert(KIR_CHUNK == RK_CHUNK, "one definition of a sum");

#define CASE(name, value) \
    case IR_##name: return value;

float kir_alu_f32(ir_op op, float a, float b, float c) {
    switch (op) {
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_FLOATS(kind, CASE(name, expr))
#include "ir/ops.def"
#undef OP
    default: return a;
    }
}

#include "ir/doubles.h"

double kir_alu_f64(ir_op op, double a, double b, double c) {
    switch (op) {
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_FLOATS(kind, CASE(name, expr))
#include "ir/ops.def"
#undef OP
    default: return a;
    }
}

int32_t kir_f64_to_i32(double x) {
    return rk_f64_to_i32(x);
}

int64_t kir_f64_to_i64(double x) {
    return rk_f64_to_i64(x);
}

float kir_f64_to_odd(double v) {
    return rk_f64_to_odd(v);
}

int32_t kir_saturate(int64_t v, kir_range to) {
    return (int32_t)(v < to.lo ? to.lo : v > to.hi ? to.hi : v);
}

#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_INTS(kind, CASE(name, ints))

#define S rp_i32
#define U rp_u32
int32_t kir_alu_i32(ir_op op, int32_t a, int32_t b, int32_t c) {
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}
#undef S
#undef U

#define S rp_i64
#define U rp_u64
int64_t kir_alu_i64(ir_op op, int64_t a, int64_t b, int64_t c) {
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}
#undef S
#undef U
#undef OP

int64_t kir_f32_to_i64(float x) {
    return rk_to_i64(x);
}

float kir_i64_to_odd(int64_t v) {
    return rk_to_odd(v);
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
    case RP_DTYPE_BF16: return rp_round_bf16(x);
    case RP_DTYPE_F8E4M3FN: return rp_round_e4m3fn(x);
    case RP_DTYPE_F8E5M2: return rp_round_e5m2(x);
    case RP_DTYPE_BOOL: return x != 0.0f ? 1.0f : 0.0f;
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
    if (ir_dtype_is_f8(t)) {
        uint8_t b = *(const uint8_t *)element(t, base, i);
        return t == RP_DTYPE_F8E4M3FN ? rp_e4m3fn_to_f32(b) : rp_e5m2_to_f32(b);
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
    case RP_DTYPE_BOOL: return *(const uint8_t *)p != 0;
    default: return *(const uint8_t *)p;
    }
}

int64_t kir_load_i64(const void *base, int64_t i) {
    int64_t v;
    memcpy(&v, element(RP_DTYPE_I64, base, i), sizeof v);
    return v;
}

void kir_store_i64(void *base, int64_t i, int64_t v) {
    memcpy((char *)base + i * (int64_t)sizeof v, &v, sizeof v);
}

void kir_store_f32(rp_dtype t, void *base, int64_t i, float v) {
    char *p = (char *)base + i * (int64_t)rp_dtype_block_bytes(t);
    uint16_t h;

    if (t == RP_DTYPE_F32) {
        memcpy(p, &v, sizeof v);
        return;
    }
    if (ir_dtype_is_f8(t)) {
        *(uint8_t *)p = t == RP_DTYPE_F8E4M3FN ? rp_f32_to_e4m3fn(v) : rp_f32_to_e5m2(v);
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
    case RP_DTYPE_I16:
        s = (int16_t)v;
        memcpy(p, &s, sizeof s);
        break;
    case RP_DTYPE_I8: *(int8_t *)p = (int8_t)v; break;
    default: *(uint8_t *)p = (uint8_t)v; break;
    }
}
