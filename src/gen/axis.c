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

#define CHUNK 4096
#define BLOCK 16 /* lanes of a scan; columns taken at once */

rp_status gen_axis_check(rp_dtype t, const char *op, rp_error *err) {
    if (t == RP_DTYPE_I32 || t == RP_DTYPE_I64 || t == RP_DTYPE_F64 || rp_dtype_is_float(t))
        return RP_OK;
    return rp_fail(err, RP_UNSUPPORTED, "%s of %s has no lowering; use f32 or i32", op,
                   rp_dtype_name(t));
}

const char *gen_axis_name(ir_op op) {
    return op == IR_cumsum ? "@cumsum" : op == IR_topk ? "@topk" : "@sort";
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

#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
/* In place: how vectors of 64 bytes are passed by value is not the same in all compilers. */
static inline void scan(vec *v) {
    const vec z = VEC(-0.0f);
    vec t = *v;
    t += __builtin_shufflevector(z, t, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
                                 30);
    t +=
        __builtin_shufflevector(z, t, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29);
    t += __builtin_shufflevector(z, t, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27);
    t += __builtin_shufflevector(z, t, 0, 0, 0, 0, 0, 0, 0, 0, 16, 17, 18, 19, 20, 21, 22, 23);
    *v = t;
}
#else
static inline void scan(vec *v) {
    for (int d = 1; d < BLOCK; d *= 2)
        for (int l = BLOCK - 1; l >= d; l--) (*v)[l] = (*v)[l] + (*v)[l - d];
}
#endif

/* Along memory. */
static void cumsum_row(const axis *a, const char *x, char *y) {
    float chunks = -0.0f, blocks = -0.0f;
    for (int64_t i = 0; i < a->n; i += BLOCK) {
        int64_t n = RP_MIN(a->n - i, BLOCK);
        vec t = VEC(-0.0f);
        if (i % CHUNK == 0) {
            chunks += blocks;
            blocks = -0.0f;
        }
        if (n == BLOCK && a->dtype == RP_DTYPE_F32)
            memcpy(&t, x + (size_t)i * sizeof(float), sizeof t);
        else
            load(a->dtype, x + (size_t)i * a->size, n, (float *)&t);
        scan(&t);
        vec out = VEC(chunks) + (VEC(blocks) + t);
        blocks += t[BLOCK - 1];
        if (n == BLOCK && a->dtype == RP_DTYPE_F32)
            memcpy(y + (size_t)i * sizeof(float), &out, sizeof out);
        else
            store(a->dtype, y + (size_t)i * a->size, n, (float *)&out);
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

/* Integers wrap around: 64 bits do, and what is left of the sum in 32 is the one that wraps there. */
static void cumsum_ints(const axis *a, const char *x, char *y, int64_t width) {
    uint64_t sum[BLOCK] = {0};
    for (int64_t i = 0; i < a->n; i++)
        for (int64_t j = 0; j < width; j++) {
            size_t at = (size_t)(i * a->inner + j) * a->size;
            uint32_t narrow;
            uint64_t v;
            if (a->dtype == RP_DTYPE_I64) {
                memcpy(&v, x + at, sizeof v);
                sum[j] += v;
                memcpy(y + at, &sum[j], sizeof v);
            } else {
                memcpy(&narrow, x + at, sizeof narrow);
                sum[j] += narrow;
                narrow = (uint32_t)sum[j];
                memcpy(y + at, &narrow, sizeof narrow);
            }
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
        if (a.dtype == RP_DTYPE_I32 || a.dtype == RP_DTYPE_I64)
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

/* Integers with the order of 16 elements of a row from `from` on. */
static void keys_of(const axis *a, const char *row, int64_t from, int64_t n, int32_t *key) {
    float x[BLOCK];
    if (a->dtype == RP_DTYPE_I32) {
        memcpy(key, row + (size_t)from * sizeof *key, (size_t)n * sizeof *key);
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
