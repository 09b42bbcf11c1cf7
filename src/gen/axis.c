/* Kernels along one axis: cumulative sums and the k largest, for dense memory [outer, n, inner].
 *
 * A cumulative sum of floats is defined by position alone, so that it is equal on every machine: in each chunk of
 * 4096, blocks of 16 are scanned by steps of 1, 2, 4 and 8 (Hillis and Steele, 1986) and added to the sum of the
 * blocks before; that is added to the sum of the chunks before. */
#include "gen/axis.h"

#include <string.h>

#include "base/status.h"
#include "gen/best.h"
#include "gen/embed/prelude.h"
#include "gen/isa.h"
#include "ir/kinds.h"

#define CHUNK 4096
#define BLOCK 16 /* lanes of a scan; columns taken at once */

rp_status gen_axis_check(rp_dtype t, const char *op, rp_error *err) {
    if (ir_dtype_is_integer(t) || t == RP_DTYPE_F64 || rp_dtype_is_float(t)) return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED, "%s of %s has no lowering; use f32 or i32", op,
                   rp_dtype_name(t));
}

const char *gen_axis_name(ir_op op) {
    switch (op) {
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_SCANS(kind, case IR_##name : return "@" #name;)
#include "ir/ops.def"
#undef OP
    default: return NULL;
    }
}

ir_dim gen_cumsum_items(ir_dims *t, ir_dim outer, ir_dim inner) {
    ir_dim padded = ir_dim_add(t, inner, ir_dim_const(t, BLOCK - 1));
    return ir_dim_mul(t, outer, ir_dim_floordiv(t, padded, BLOCK));
}

int64_t gen_topk_scratch(const gen_axis_record *r) {
    return (int64_t)r->k * (int64_t)sizeof(int64_t);
}

/* --- memory ---------------------------------------------------------------------- */

static void load(rp_dtype t, const char *p, int64_t n, float *out) {
    uint16_t h;
    if (t == RP_DTYPE_F32) {
        memcpy(out, p, (size_t)n * sizeof *out);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(&h, p + 2 * i, sizeof h);
        out[i] = t == RP_DTYPE_F16 ? rp_f16_to_f32(h) : rp_bf16_to_f32(h);
    }
}

static void store(rp_dtype t, char *p, int64_t n, const float *x) {
    if (t == RP_DTYPE_F32) {
        memcpy(p, x, (size_t)n * sizeof *x);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = t == RP_DTYPE_F16 ? rp_f32_to_f16(x[i]) : rp_f32_to_bf16(x[i]);
        memcpy(p + 2 * i, &h, sizeof h);
    }
}

/* What a launch works on: element (o, i, j) is at ((o * n) + i) * inner + j. */
typedef struct axis {
    int64_t n, inner;
    rp_dtype dtype;
    size_t size; /* bytes of an element */
} axis;

static axis axis_of(const gen_axis_record *r, const long long *dim) {
    rp_dtype t = (rp_dtype)r->dtype;
    return (axis){ir_dim_code_eval_ll(&r->n, dim), ir_dim_code_eval_ll(&r->inner, dim), t,
                  rp_dtype_block_bytes(t)};
}

/* --- cumulative sums ---------------------------------------------------------------- */

/* A vector is 16 floats of one row of memory. -0 is what changes no sum. */
typedef float vec __attribute__((vector_size(BLOCK * sizeof(float)), aligned(4)));
#define VEC(x) ((vec){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x})

/* Four floats of a row of memory, and those that lie one or two in front of each. */
typedef float quad __attribute__((vector_size(4 * sizeof(float)), aligned(4)));
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
#define ONE_BEFORE(a, b) __builtin_shufflevector(a, b, 3, 4, 5, 6)
#define TWO_BEFORE(a, b) __builtin_shufflevector(a, b, 2, 3, 4, 5)
#else
typedef int32_t quad_of_places __attribute__((vector_size(4 * sizeof(int32_t))));
#define ONE_BEFORE(a, b) __builtin_shuffle(a, b, (quad_of_places){3, 4, 5, 6})
#define TWO_BEFORE(a, b) __builtin_shuffle(a, b, (quad_of_places){2, 3, 4, 5})
#endif
#define INLINE static inline __attribute__((always_inline))

/* The sums of what is before, in chunks and in blocks of the last one. */
typedef struct sums {
    float chunks, blocks;
} sums;

/* Whole blocks from element `from` of a row on. */
INLINE void scan_blocks(const float *x, float *y, int64_t from, int64_t n, sums *before) {
    const quad z = {-0.0f, -0.0f, -0.0f, -0.0f};
    sums s = *before;
    for (int64_t i = 0; i < n; i += BLOCK) {
        quad q[4];
        if ((from + i) % CHUNK == 0) s = (sums){s.chunks + s.blocks, -0.0f};
        memcpy(q, x + i, sizeof q);
        for (int k = 3; k > 0; k--) q[k] += ONE_BEFORE(q[k - 1], q[k]);
        q[0] += ONE_BEFORE(z, q[0]);
        for (int k = 3; k > 0; k--) q[k] += TWO_BEFORE(q[k - 1], q[k]);
        q[0] += TWO_BEFORE(z, q[0]);
        for (int k = 3; k > 0; k--) q[k] += q[k - 1];
        for (int k = 3; k > 1; k--) q[k] += q[k - 2];
        const quad chunks = {s.chunks, s.chunks, s.chunks, s.chunks};
        const quad blocks = {s.blocks, s.blocks, s.blocks, s.blocks};
        s.blocks += q[3][3];
        for (int k = 0; k < 4; k++) q[k] = chunks + (blocks + q[k]);
        memcpy(y + i, q, sizeof q);
    }
    *before = s;
}

/* With shuffles that need no copies where the processor has them. */
typedef void (*scan_fn)(const float *x, float *y, int64_t from, int64_t n, sums *before);

static void scan_plain(const float *x, float *y, int64_t from, int64_t n, sums *before) {
    scan_blocks(x, y, from, n, before);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void scan_avx2(const float *x, float *y, int64_t from,
                                                      int64_t n, sums *before) {
    scan_blocks(x, y, from, n, before);
}
#else
#define scan_avx2 scan_plain
#endif

/* Along memory. */
static void cumsum_row(const axis *a, const char *x, char *y) {
    scan_fn scan = gen_isa_granted() & GEN_ISA_BIT(GEN_ISA_AVX2) ? scan_avx2 : scan_plain;
    const int64_t whole = a->dtype == RP_DTYPE_F32 ? a->n / BLOCK * BLOCK : 0;
    sums before = {-0.0f, -0.0f};
    scan((const float *)(const void *)x, (float *)(void *)y, 0, whole, &before);
    for (int64_t i = whole; i < a->n; i += BLOCK) {
        const int64_t n = RP_MIN(a->n - i, BLOCK);
        float t[BLOCK];
        for (int l = 0; l < BLOCK; l++) t[l] = -0.0f;
        load(a->dtype, x + (size_t)i * a->size, n, t);
        scan(t, t, i, BLOCK, &before);
        store(a->dtype, y + (size_t)i * a->size, n, t);
    }
}

/* Up to 16 columns side by side, each scanned downwards. */
static void cumsum_columns(const axis *a, const char *x, char *y, int64_t width) {
    vec chunks = VEC(-0.0f), blocks = chunks, t[BLOCK];
    size_t row = (size_t)a->inner * a->size;
    for (int64_t i = 0; i < a->n; i += BLOCK) {
        int n = (int)RP_MIN(a->n - i, BLOCK);
        if (i % CHUNK == 0) {
            chunks += blocks;
            blocks = VEC(-0.0f);
        }
        for (int l = 0; l < BLOCK; l++) {
            t[l] = VEC(-0.0f);
            if (l < n) load(a->dtype, x + (size_t)(i + l) * row, width, (float *)&t[l]);
        }
        for (int d = 1; d < BLOCK; d *= 2)
            for (int l = BLOCK - 1; l >= d; l--) t[l] = t[l] + t[l - d];
        for (int l = 0; l < n; l++) {
            vec out = chunks + (blocks + t[l]);
            store(a->dtype, y + (size_t)(i + l) * row, width, (float *)&out);
        }
        blocks += t[BLOCK - 1];
    }
}

/* As cumsum_columns, in double precision, one after the other. */
static void cumsum_doubles(const axis *a, const char *x, char *y, int64_t width) {
    for (int64_t j = 0; j < width; j++) {
        double chunks = -0.0, blocks = -0.0, t[BLOCK];
        for (int64_t i = 0; i < a->n; i += BLOCK) {
            const int n = (int)RP_MIN(a->n - i, BLOCK);
            if (i % CHUNK == 0) {
                chunks += blocks;
                blocks = -0.0;
            }
            for (int l = 0; l < BLOCK; l++) {
                t[l] = -0.0;
                if (l < n) memcpy(&t[l], x + (size_t)((i + l) * a->inner + j) * a->size, sizeof *t);
            }
            for (int d = 1; d < BLOCK; d *= 2)
                for (int l = BLOCK - 1; l >= d; l--) t[l] = t[l] + t[l - d];
            for (int l = 0; l < n; l++) {
                const double out = chunks + (blocks + t[l]);
                memcpy(y + (size_t)((i + l) * a->inner + j) * a->size, &out, sizeof out);
            }
            blocks += t[BLOCK - 1];
        }
    }
}

static uint64_t load_bits(size_t size, const char *p) {
    uint64_t wide;
    uint32_t word;
    uint16_t half;
    uint8_t byte;
    switch (size) {
    case 8: memcpy(&wide, p, sizeof wide); return wide;
    case 4: memcpy(&word, p, sizeof word); return word;
    case 2: memcpy(&half, p, sizeof half); return half;
    default: memcpy(&byte, p, sizeof byte); return byte;
    }
}

static void store_bits(size_t size, char *p, uint64_t v) {
    const uint32_t word = (uint32_t)v;
    const uint16_t half = (uint16_t)v;
    const uint8_t byte = (uint8_t)v;
    switch (size) {
    case 8: memcpy(p, &v, sizeof v); break;
    case 4: memcpy(p, &word, sizeof word); break;
    case 2: memcpy(p, &half, sizeof half); break;
    default: memcpy(p, &byte, sizeof byte); break;
    }
}

/* Integers wrap around: 64 bits do, and what is left of the sum in fewer is the one that wraps there. */
static void cumsum_ints(const axis *a, const char *x, char *y, int64_t width) {
    uint64_t sum[BLOCK] = {0};
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = 0; j < width; j++) {
            size_t at = (size_t)(i * a->inner + j) * a->size;
            sum[j] += load_bits(a->size, x + at);
            store_bits(a->size, y + at, sum[j]);
        }
}

void gen_cumsum(void *const *arg, const long long *dim, long long begin, long long end,
                void *scratch) {
    const axis a = axis_of(arg[2], dim);
    int64_t blocks = (a.inner + BLOCK - 1) / BLOCK;
    (void)scratch;
    for (int64_t item = begin; item < end; item++) {
        int64_t column = item % blocks * BLOCK, width = RP_MIN(a.inner - column, BLOCK);
        size_t at = (size_t)(item / blocks * a.n * a.inner + column) * a.size;
        const char *x = (const char *)arg[0] + at;
        char *y = (char *)arg[1] + at;
        if (ir_dtype_is_integer(a.dtype))
            cumsum_ints(&a, x, y, width);
        else if (a.dtype == RP_DTYPE_F64)
            cumsum_doubles(&a, x, y, width);
        else if (a.inner == 1)
            cumsum_row(&a, x, y);
        else
            cumsum_columns(&a, x, y, width);
    }
}

/* --- the k largest ------------------------------------------------------------------- */

/* A value and its place as one number: larger is better, of equals the first. NaN is largest; -0 equals 0. */
static int64_t rank_of(int32_t key, int64_t at) {
    return (int64_t)((uint64_t)(uint32_t)key << 32) | (int64_t)(UINT32_MAX - (uint32_t)at);
}

static int32_t float_key(float x) {
    int32_t b = (int32_t)rp_bits(x + 0.0f);
    int32_t key = b ^ (int32_t)((uint32_t)(b >> 31) >> 1);
    return x == x ? key : INT32_MAX;
}

static int32_t small_key(rp_dtype t, const char *p) {
    int16_t half;
    if (t == RP_DTYPE_U8) return *(const uint8_t *)p;
    if (t == RP_DTYPE_I8) return (*(const uint8_t *)p ^ 128) - 128; /* extends the sign */
    memcpy(&half, p, sizeof half);
    return half;
}

/* Integers with the order of 16 elements of a row from `from` on. */
static void keys_of(const axis *a, const char *row, int64_t from, int64_t n, int32_t *key) {
    float x[BLOCK];
    if (a->dtype == RP_DTYPE_I32) {
        memcpy(key, row + (size_t)from * sizeof *key, (size_t)n * sizeof *key);
        return;
    }
    if (ir_dtype_is_small(a->dtype)) {
        for (int64_t i = 0; i < n; i++)
            key[i] = small_key(a->dtype, row + (size_t)(from + i) * a->size);
        return;
    }
    load(a->dtype, row + (size_t)from * a->size, n, x);
    for (int64_t i = 0; i < n; i++) key[i] = float_key(x[i]);
}

/* Whether none of 16 floats comes before the value of a key: most blocks of a long row. */
static bool none_above(const char *x, int32_t key) {
    float least = rp_from_bits((uint32_t)(key ^ (int32_t)((uint32_t)(key >> 31) >> 1)));
    vec t;
    uint64_t at_most[BLOCK / 2], all = UINT64_MAX;
    memcpy(&t, x, sizeof t);
    __typeof__(t <= t) m = t <= VEC(least);
    memcpy(at_most, &m, sizeof at_most);
    for (int i = 0; i < BLOCK / 2; i++) all &= at_most[i];
    return all == UINT64_MAX;
}

/* heap[0] is the worst of n. */
static void sift(int64_t *heap, int64_t n, int64_t value) {
    int64_t i = 0;
    for (int64_t c = 1; c < n; c = 2 * i + 1) {
        if (c + 1 < n && heap[c + 1] < heap[c]) c++;
        if (heap[c] >= value) break;
        heap[i] = heap[c];
        i = c;
    }
    heap[i] = value;
}

/* The best alone. */
static bool best_of_floats(const axis *a, const char *row, int64_t k, int32_t *out) {
    if (k != 1 || a->dtype != RP_DTYPE_F32) return false;
    *out = (int32_t)gen_best((const float *)(const void *)row, a->n);
    return true;
}

/* The k best of a row, best first. One that equals the worst so far comes behind it. */
static void best_of_row(const axis *a, const char *row, int64_t k, int64_t *heap) {
    int32_t key[BLOCK];
    for (int64_t i = 0; i < k; i++) heap[i] = INT64_MIN;
    for (int64_t from = 0; from < a->n; from += BLOCK) {
        int64_t n = RP_MIN(a->n - from, BLOCK);
        if (from >= k && n == BLOCK && a->dtype == RP_DTYPE_F32 &&
            none_above(row + (size_t)from * sizeof(float), (int32_t)(heap[0] >> 32)))
            continue;
        keys_of(a, row, from, n, key);
        for (int64_t i = 0; i < n; i++) {
            int64_t rank = rank_of(key[i], from + i);
            if (rank > heap[0]) sift(heap, k, rank);
        }
    }
    for (int64_t n = k; n-- > 1;) {
        int64_t worst = heap[0], last = heap[n];
        sift(heap, n, last);
        heap[n] = worst;
    }
}

void gen_topk(void *const *arg, const long long *dim, long long begin, long long end,
              void *scratch) {
    const gen_axis_record *r = arg[3];
    const axis a = axis_of(r, dim);
    int64_t k = r->k, *heap = scratch;
    for (int64_t item = begin; item < end; item++) {
        const char *row = (const char *)arg[0] + (size_t)(item * a.n) * a.size;
        char *values = (char *)arg[1] + (size_t)(item * k) * a.size;
        int32_t *indices = (int32_t *)arg[2] + item * k;
        if (best_of_floats(&a, row, k, indices)) {
            memcpy(values, row + (size_t)*indices * a.size, a.size);
            continue;
        }
        best_of_row(&a, row, k, heap);
        for (int64_t i = 0; i < k; i++) {
            int64_t at = (int64_t)(UINT32_MAX - (uint32_t)heap[i]);
            indices[i] = (int32_t)at;
            memcpy(values + (size_t)i * a.size, row + (size_t)at * a.size, a.size);
        }
    }
}
