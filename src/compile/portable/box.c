/* Spaces and element access of the portable kernels. The values of block formats are those of
 * generated code: ggml's formulas, one rounding an operation. */
#include "compile/portable/box.h"

#include <string.h>

static void open_operand(const eager_record *r, uint32_t k, const long long *dim, box_operand *o) {
    const ir_dim_code *f = &r->form[eager_record_operand(r, k)];
    o->dtype = (rp_dtype)r->mem[k].dtype;
    o->row = r->mem[k].row;
    o->at = ir_dim_code_eval_ll(f, dim);
    for (uint32_t i = 0; i < r->rank; i++) o->stride[i] = ir_dim_code_eval_ll(&f[1 + i], dim);
}

void portable_open(const eager_record *r, void *const *arg, const long long *dim, int64_t begin,
                   int64_t end, box *b) {
    b->rank = r->rank ? r->rank : 1;
    b->n = r->n_operands;
    b->dim[0] = end - begin;
    for (uint32_t i = 1; i < r->rank; i++) b->dim[i] = ir_dim_code_eval_ll(&r->form[i], dim);
    for (uint32_t k = 0; k < b->n; k++) {
        box_operand *o = &b->op[k];
        o->stride[0] = 0;
        open_operand(r, k, dim, o);
        o->base = arg[k];
        o->at += begin * o->stride[0];
    }
}

static bool joins(const box *b, uint32_t i) {
    for (uint32_t k = 0; k < b->n; k++)
        if (b->op[k].stride[i] != b->op[k].stride[i + 1] * b->dim[i + 1]) return false;
    return true;
}

void portable_join(box *b) {
    for (uint32_t i = b->rank - 1; i-- > 0;) {
        if (!joins(b, i)) continue;
        b->dim[i] *= b->dim[i + 1];
        for (uint32_t k = 0; k < b->n; k++) b->op[k].stride[i] = b->op[k].stride[i + 1];
        for (uint32_t j = i + 1; j + 1 < b->rank; j++) {
            b->dim[j] = b->dim[j + 1];
            for (uint32_t k = 0; k < b->n; k++) b->op[k].stride[j] = b->op[k].stride[j + 1];
        }
        b->rank--;
    }
}

void portable_walk(const box *b, box_fn fn, void *user) {
    int64_t idx[IR_MAX_RANK] = {0}, at[EAGER_MAX_OPERANDS];
    for (uint32_t i = 0; i < b->rank; i++)
        if (b->dim[i] <= 0) return;
    for (uint32_t k = 0; k < b->n; k++) at[k] = b->op[k].at;
    for (;;) {
        fn(b, at, user);
        uint32_t i = b->rank - 1;
        for (; i > 0; i--) {
            for (uint32_t k = 0; k < b->n; k++) at[k] += b->op[k].stride[i - 1];
            if (++idx[i - 1] < b->dim[i - 1]) break;
            for (uint32_t k = 0; k < b->n; k++) at[k] -= b->op[k].stride[i - 1] * b->dim[i - 1];
            idx[i - 1] = 0;
        }
        if (i == 0) return;
    }
}

/* --- loads ------------------------------------------------------------------ */

static uint16_t half_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

/* Element of a file-layout block format: q4_0 d*(q-8), q4_1 d*q+m, q8_0 d*q. */
static float block_element(rp_dtype t, const char *base, int64_t at) {
    const uint8_t *p = (const uint8_t *)base + at / 32 * (int64_t)rp_dtype_block_bytes(t);
    int64_t j = at % 32;
    float d = rp_f16_to_f32(half_at(p));
    if (t == RP_DTYPE_Q8_0) return d * (float)(int8_t)p[2 + j];
    uint8_t byte = p[(t == RP_DTYPE_Q4_1 ? 4 : 2) + j % 16];
    float q = (float)(j / 16 ? byte >> 4 : byte & 15);
    if (t == RP_DTYPE_Q4_0) return d * (q - 8.0f);
    return d * q + rp_f16_to_f32(half_at(p + 2));
}

/* Element of packed activation rows: q * d. */
static float packed_element(const box_operand *o, int64_t at) {
    const char *row = o->base + at / o->row * (int64_t)RP_QROW_SIZE(o->row);
    int64_t j = at % o->row;
    int16_t q;
    memcpy(&q, row + j * 2, sizeof q);
    return (float)q * RP_QROW_D(row, o->row)[j / 32];
}

void portable_load_f32(const box_operand *o, int64_t at, int64_t step, int64_t n, float *out) {
    const float *f = (const float *)(const void *)o->base + at;
    const uint16_t *h = (const uint16_t *)(const void *)o->base + at;
    const uint8_t *u = (const uint8_t *)o->base + at;
    switch (o->dtype) {
    case RP_DTYPE_F32:
        if (step == 1)
            memcpy(out, f, (size_t)n * sizeof *out);
        else
            for (int64_t i = 0; i < n; i++) out[i] = f[i * step];
        break;
    case RP_DTYPE_F16:
        for (int64_t i = 0; i < n; i++) out[i] = rp_f16_to_f32(h[i * step]);
        break;
    case RP_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++) out[i] = rp_bf16_to_f32(h[i * step]);
        break;
    case RP_DTYPE_F8E4M3FN:
        for (int64_t i = 0; i < n; i++) out[i] = rp_e4m3fn_to_f32(u[i * step]);
        break;
    case RP_DTYPE_F8E5M2:
        for (int64_t i = 0; i < n; i++) out[i] = rp_e5m2_to_f32(u[i * step]);
        break;
    case RP_DTYPE_BOOL:
        for (int64_t i = 0; i < n; i++) out[i] = u[i * step] ? 1.0f : 0.0f;
        break;
    case RP_DTYPE_I16B32:
        for (int64_t i = 0; i < n; i++) out[i] = packed_element(o, at + i * step);
        break;
    default:
        for (int64_t i = 0; i < n; i++) out[i] = block_element(o->dtype, o->base, at + i * step);
        break;
    }
}

void portable_load_i32(const box_operand *o, int64_t at, int64_t step, int64_t n, int32_t *out) {
    const void *base = o->base;
    switch (o->dtype) {
    case RP_DTYPE_I32:
        for (int64_t i = 0; i < n; i++) out[i] = ((const int32_t *)base)[at + i * step];
        break;
    case RP_DTYPE_I16:
        for (int64_t i = 0; i < n; i++) out[i] = ((const int16_t *)base)[at + i * step];
        break;
    case RP_DTYPE_I8: /* sign-extended by hand: lint takes an int8_t for a character */
        for (int64_t i = 0; i < n; i++) {
            int32_t v = ((const uint8_t *)base)[at + i * step];
            out[i] = (v ^ 128) - 128;
        }
        break;
    case RP_DTYPE_BOOL:
        for (int64_t i = 0; i < n; i++) out[i] = ((const uint8_t *)base)[at + i * step] != 0;
        break;
    default:
        for (int64_t i = 0; i < n; i++) out[i] = ((const uint8_t *)base)[at + i * step];
        break;
    }
}

void portable_load_i64(const box_operand *o, int64_t at, int64_t step, int64_t n, int64_t *out) {
    const int64_t *x = (const int64_t *)(const void *)o->base + at;
    for (int64_t i = 0; i < n; i++) out[i] = x[i * step];
}

void portable_load_f64(const box_operand *o, int64_t at, int64_t step, int64_t n, double *out) {
    const double *x = (const double *)(const void *)o->base + at;
    for (int64_t i = 0; i < n; i++) out[i] = x[i * step];
}

/* --- stores ----------------------------------------------------------------- */

void portable_store_f32(const box_operand *o, int64_t at, int64_t step, int64_t n, const float *x) {
    float *f = (float *)(void *)o->base + at;
    uint16_t *h = (uint16_t *)(void *)o->base + at;
    uint8_t *u = (uint8_t *)o->base + at;
    switch (o->dtype) {
    case RP_DTYPE_F32:
        if (step == 1)
            memcpy(f, x, (size_t)n * sizeof *x);
        else
            for (int64_t i = 0; i < n; i++) f[i * step] = x[i];
        break;
    case RP_DTYPE_F16:
        for (int64_t i = 0; i < n; i++) h[i * step] = rp_f32_to_f16(x[i]);
        break;
    case RP_DTYPE_BF16:
        for (int64_t i = 0; i < n; i++) h[i * step] = rp_f32_to_bf16(x[i]);
        break;
    case RP_DTYPE_F8E4M3FN:
        for (int64_t i = 0; i < n; i++) u[i * step] = rp_f32_to_e4m3fn(x[i]);
        break;
    case RP_DTYPE_F8E5M2:
        for (int64_t i = 0; i < n; i++) u[i * step] = rp_f32_to_e5m2(x[i]);
        break;
    default: /* bool */
        for (int64_t i = 0; i < n; i++) u[i * step] = x[i] != 0.0f;
        break;
    }
}

void portable_store_i32(const box_operand *o, int64_t at, int64_t step, int64_t n,
                        const int32_t *x) {
    void *base = o->base;
    switch (o->dtype) {
    case RP_DTYPE_I32:
        for (int64_t i = 0; i < n; i++) ((int32_t *)base)[at + i * step] = x[i];
        break;
    case RP_DTYPE_I16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)base)[at + i * step] = (uint16_t)x[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++) ((uint8_t *)base)[at + i * step] = (uint8_t)x[i];
        break;
    }
}

void portable_saturate(rp_dtype t, int64_t n, int32_t *x) {
    const int32_t lo = t == RP_DTYPE_U8 ? 0 : t == RP_DTYPE_I8 ? INT8_MIN : INT16_MIN;
    const int32_t hi = t == RP_DTYPE_U8 ? UINT8_MAX : t == RP_DTYPE_I8 ? INT8_MAX : INT16_MAX;
    for (int64_t i = 0; ir_dtype_is_small(t) && i < n; i++) x[i] = rk_clamp(x[i], lo, hi);
}

void portable_store_i64(const box_operand *o, int64_t at, int64_t step, int64_t n,
                        const int64_t *x) {
    int64_t *to = (int64_t *)(void *)o->base + at;
    for (int64_t i = 0; i < n; i++) to[i * step] = x[i];
}

void portable_store_f64(const box_operand *o, int64_t at, int64_t step, int64_t n,
                        const double *x) {
    double *to = (double *)(void *)o->base + at;
    for (int64_t i = 0; i < n; i++) to[i * step] = x[i];
}
