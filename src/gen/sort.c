/* Sorting along an axis: keys in the order of unsigned integers, and a merge sort of places, which is stable. */
#include <string.h>

#include "gen/axis.h"
#include "gen/embed/prelude.h"

static uint64_t ordered32(uint32_t u) {
    return u >> 31 ? ~u : u | 0x80000000u;
}

static uint64_t ordered64(uint64_t u) {
    return u >> 63 ? ~u : u | UINT64_C(1) << 63;
}

/* -0 equals 0; a NaN is largest. */
static uint64_t float_key(float x) {
    return x == x ? ordered32(rp_bits(x + 0.0f)) : UINT64_MAX;
}

static uint64_t double_key(double x) {
    uint64_t u;
    x += 0.0;
    memcpy(&u, &x, sizeof u);
    return x == x ? ordered64(u) : UINT64_MAX;
}

static uint64_t key_of(rp_dtype t, const char *p) {
    uint64_t wide = 0;
    uint32_t word;
    uint16_t half;
    float f;
    double d;
    switch (t) {
    case RP_DTYPE_F32: memcpy(&f, p, sizeof f); return float_key(f);
    case RP_DTYPE_F64: memcpy(&d, p, sizeof d); return double_key(d);
    case RP_DTYPE_F16: memcpy(&half, p, sizeof half); return float_key(rp_f16_to_f32(half));
    case RP_DTYPE_BF16: memcpy(&half, p, sizeof half); return float_key(rp_bf16_to_f32(half));
    case RP_DTYPE_U8: return *(const uint8_t *)p;
    case RP_DTYPE_I8: return *(const uint8_t *)p ^ 0x80u;
    case RP_DTYPE_I16: memcpy(&half, p, sizeof half); return half ^ 0x8000u;
    case RP_DTYPE_I64: memcpy(&wide, p, sizeof wide); return wide ^ UINT64_C(1) << 63;
    default: memcpy(&word, p, sizeof word); return word ^ 0x80000000u;
    }
}

static void merge(const uint64_t *key, const uint32_t *from, uint32_t *to, int64_t mid,
                  int64_t end) {
    int64_t a = 0, b = mid;
    for (int64_t i = 0; i < end; i++) {
        bool second = a == mid || (b < end && key[from[b]] < key[from[a]]);
        to[i] = second ? from[b++] : from[a++];
    }
}

/* Places 0 to n - 1 by their keys, in a or b, which have room for n. */
static const uint32_t *sorted(const uint64_t *key, uint32_t *a, uint32_t *b, int64_t n) {
    for (int64_t i = 0; i < n; i++) a[i] = (uint32_t)i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width)
            merge(key, a + at, b + at, RP_MIN(width, n - at), RP_MIN(2 * width, n - at));
        uint32_t *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

void gen_sort(void *const *arg, const long long *dim, long long begin, long long end,
              void *scratch) {
    const gen_axis_record *r = arg[4];
    int64_t n = ir_dim_code_eval_ll(&r->n, dim);
    int64_t inner =
        RP_MAX(ir_dim_code_eval_ll(&r->inner, dim), 1); /* of nothing there are no items */
    rp_dtype t = (rp_dtype)r->dtype;
    size_t size = rp_dtype_block_bytes(t), step = (size_t)inner * size;
    (void)scratch;
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item / inner * n * inner + item % inner;
        const char *x = (const char *)arg[0] + (size_t)first * size;
        char *values = (char *)arg[1] + (size_t)first * size;
        int32_t *indices = (int32_t *)arg[2] + first;
        uint64_t *key = (uint64_t *)arg[3] + item * n * (GEN_SORT_WORK / 8);
        uint32_t *place = (uint32_t *)(key + n);
        for (int64_t i = 0; i < n; i++)
            key[i] = key_of(t, x + (size_t)i * step) ^ (r->k ? UINT64_MAX : 0);
        const uint32_t *at = sorted(key, place, place + n, n);
        for (int64_t i = 0; i < n; i++) {
            memcpy(values + (size_t)i * step, x + at[i] * step, size);
            indices[i * inner] = (int32_t)at[i];
        }
    }
}
