/* Elements put at indices along an axis, in ascending order of their own: a line of memory is one work item's alone. */
#include <string.h>

#include "gen/axis.h"
#include "gen/embed/prelude.h"
#include "ir/kinds.h"

#define BLOCK 16 /* columns of an item: gen_cumsum_items */

#define CASE(name, value) \
    case IR_##name:       \
        return value;

#define OP(name, kind, arity, attrs, expr, ints) IR_OF_SCATTERS(kind, CASE(name, expr))
static float join_f32(uint32_t op, float a, float b) {
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}

static double join_f64(uint32_t op, double a, double b) {
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}
#undef OP

#define OP(name, kind, arity, attrs, expr, ints) IR_OF_SCATTERS(kind, CASE(name, ints))
#define S int32_t
#define U uint32_t
static int32_t join_i32(uint32_t op, int32_t a, int32_t b) {
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}
#undef S
#undef U

#define S int64_t
#define U uint64_t
static int64_t join_i64(uint32_t op, int64_t a, int64_t b) {
    switch (op) {
#include "ir/ops.def"
    default: return a;
    }
}
#undef S
#undef U
#undef OP

/* *to is joined with *from. */
static void join(uint32_t op, rp_dtype t, const char *from, char *to) {
#define JOIN(type, fn)              \
    {                               \
        type a, b;                  \
        memcpy(&a, to, sizeof a);   \
        memcpy(&b, from, sizeof b); \
        a = fn(op, a, b);           \
        memcpy(to, &a, sizeof a);   \
        break;                      \
    }
    switch (t) {
    case RP_DTYPE_F32: JOIN(float, join_f32)
    case RP_DTYPE_F64: JOIN(double, join_f64)
    case RP_DTYPE_I32: JOIN(int32_t, join_i32)
    default: JOIN(int64_t, join_i64)
    }
}

static int64_t index_at(const gen_scatter_record *r, const void *index, int64_t at, int64_t n) {
    int64_t i = r->index_dtype == RP_DTYPE_I64 ? ((const int64_t *)index)[at]
                                               : ((const int32_t *)index)[at];
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

void gen_scatter(void *const *arg, const long long *dim, long long begin, long long end,
                 void *scratch) {
    const gen_scatter_record *r = arg[4];
    int64_t n = ir_dim_code_eval_ll(&r->n, dim), k = ir_dim_code_eval_ll(&r->k, dim);
    int64_t inner =
        RP_MAX(ir_dim_code_eval_ll(&r->inner, dim), 1); /* of nothing there are no items */
    int64_t blocks = (inner + BLOCK - 1) / BLOCK;
    rp_dtype t = (rp_dtype)r->dtype;
    size_t size = rp_dtype_block_bytes(t);
    (void)scratch;
    for (int64_t item = begin; item < end; item++) {
        int64_t o = item / blocks, column = item % blocks * BLOCK;
        int64_t width = RP_MIN(inner - column, BLOCK), first = o * n * inner + column;
        const char *x = (const char *)arg[0] + (size_t)first * size;
        const char *src = (const char *)arg[2] + (size_t)(o * k * inner + column) * size;
        char *y = (char *)arg[3] + (size_t)first * size;
        for (int64_t i = 0; i < n; i++)
            memcpy(y + (size_t)(i * inner) * size, x + (size_t)(i * inner) * size,
                   (size_t)width * size);
        for (int64_t i = 0; n > 0 && i < k * width; i++) {
            int64_t row = i / width, j = i % width, at = (r->own_outer ? o * k : 0) + row;
            if (r->own_inner) at = at * inner + column + j;
            int64_t to = index_at(r, arg[1], at, n);
            const char *from = src + (size_t)(row * inner + j) * size;
            char *there = y + (size_t)(to * inner + j) * size;
            if (r->op == IR_scatter)
                memcpy(there, from, size);
            else
                join(r->op, t, from, there);
        }
    }
}
