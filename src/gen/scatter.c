/* Elements put at indices along an axis, in ascending order of their own: a line of memory is one work item's alone. */
#include <string.h>

#include "gen/axis.h"
#include "gen/embed/prelude.h"
#include "ir/kinds.h"

enum {
    BLOCK = 16, /* columns of an item: gen_cumsum_items */
    AT_ONCE = 8 /* neighbours that the compiler makes vectors of */
};

/* n neighbours of what comes, b, are joined with what is there, a. */
typedef void row_fn(void *there, const void *from, int64_t n);

#define EACH_OF(T, count, value)            \
    for (int64_t l = 0; l < (count); l++) { \
        const T a = y[l], b = x[l];         \
        (void)a;                            \
        y[l] = value;                       \
    }
#define ROW(T, fn, value)                                                                         \
    static void fn(void *restrict there, const void *restrict from, int64_t n) {                  \
        T *restrict y = there;                                                                    \
        const T *restrict x = from;                                                               \
        for (; n >= AT_ONCE; n -= AT_ONCE, y += AT_ONCE, x += AT_ONCE) EACH_OF(T, AT_ONCE, value) \
        EACH_OF(T, n, value)                                                                      \
    }

#define OP(name, kind, arity, attrs, expr, ints) \
    IR_OF_SCATTERS(kind, ROW(float, name##_f32, expr) ROW(double, name##_f64, expr))
#include "ir/ops.def"
#undef OP
#define OP(name, kind, arity, attrs, expr, ints) IR_OF_SCATTERS(kind, ROW(S, name##_i32, ints))
#define S int32_t
#define U uint32_t
#include "ir/ops.def"
#undef S
#undef U
#undef OP
#define OP(name, kind, arity, attrs, expr, ints) IR_OF_SCATTERS(kind, ROW(S, name##_i64, ints))
#define S int64_t
#define U uint64_t
#include "ir/ops.def"
#undef S
#undef U
#undef OP
ROW(uint8_t, put_8, b)
ROW(uint16_t, put_16, b)

enum { F32, F64, I32, I64, TYPES };

static row_fn *row_of(uint32_t op, rp_dtype t) {
#define OP(name, kind, arity, attrs, expr, ints) \
    IR_OF_SCATTERS(kind, [IR_##name] = {name##_f32, name##_f64, name##_i32, name##_i64}, )
    static row_fn *const rows[][TYPES] = {
#include "ir/ops.def"
    };
#undef OP
    if (op == IR_scatter) { /* bits, whatever they mean */
        const size_t size = rp_dtype_block_bytes(t);
        return size == 1 ? put_8 : size == 2 ? put_16 : rows[op][size == 4 ? I32 : I64];
    }
    return rows[op][t == RP_DTYPE_F32   ? F32
                    : t == RP_DTYPE_F64 ? F64
                    : t == RP_DTYPE_I32 ? I32
                                        : I64];
}

/* What an item has: columns of one outer part, all rows of the axis. */
typedef struct part {
    int64_t n, k, inner, width;
    size_t size;           /* of an element */
    const void *index;     /* of the part's first row */
    int64_t index_columns; /* entries of it in a row: 0 for one of the whole row */
    bool index_wide;       /* i64 */
    const char *src;
    char *y;
} part;

static inline int64_t index_at(const part *p, int64_t at) {
    int64_t i = p->index_wide ? ((const int64_t *)p->index)[at]
                              : (int64_t)((const int32_t *)p->index)[at];
    return i < 0 ? 0 : i >= p->n ? p->n - 1 : i;
}

static void join(const part *p, row_fn *row_join) {
    const size_t line = (size_t)p->inner * p->size;
    for (int64_t row = 0; row < p->k; row++) {
        const char *from = p->src + (size_t)row * line;
        if (p->index_columns == 0) row_join(p->y + (size_t)index_at(p, row) * line, from, p->width);
        for (int64_t j = 0; j < p->width && p->index_columns > 0; j++) {
            const size_t column = (size_t)j * p->size;
            const int64_t to = index_at(p, row * p->index_columns + j);
            row_join(p->y + (size_t)to * line + column, from + column, 1);
        }
    }
}

/* x as it is; where a part has whole rows, at once. */
static void copy(const part *p, const char *x) {
    const bool whole = p->width == p->inner;
    const size_t line = (size_t)p->inner * p->size;
    const size_t length = whole ? (size_t)p->n * line : (size_t)p->width * p->size;
    for (int64_t i = 0; i < (whole ? p->n > 0 : p->n); i++)
        memcpy(p->y + (size_t)i * line, x + (size_t)i * line, length);
}

void gen_scatter(void *const *arg, const long long *dim, long long begin, long long end,
                 void *scratch) {
    const gen_scatter_record *r = arg[4];
    int64_t n = ir_dim_code_eval_ll(&r->n, dim), k = ir_dim_code_eval_ll(&r->k, dim);
    int64_t inner =
        RP_MAX(ir_dim_code_eval_ll(&r->inner, dim), 1); /* of nothing there are no items */
    int64_t blocks = (inner + BLOCK - 1) / BLOCK;
    const size_t size = rp_dtype_block_bytes((rp_dtype)r->dtype);
    const size_t index_size = rp_dtype_block_bytes((rp_dtype)r->index_dtype);
    row_fn *const row_join = row_of(r->op, (rp_dtype)r->dtype);
    (void)scratch;
    for (int64_t item = begin, taken; item < end; item += taken) {
        int64_t o = item / blocks, first = item % blocks, column = first * BLOCK;
        taken = RP_MIN(end - item, blocks - first); /* neighbours as one */
        int64_t columns = r->own_inner ? inner : 0, rows = r->own_outer ? o * k : 0;
        int64_t at = columns > 0 ? rows * columns + column : rows;
        const part p = {.n = n,
                        .k = n > 0 ? k : 0,
                        .inner = inner,
                        .width = RP_MIN(inner - column, taken * BLOCK),
                        .size = size,
                        .index = (const char *)arg[1] + (size_t)at * index_size,
                        .index_columns = columns,
                        .index_wide = r->index_dtype == RP_DTYPE_I64,
                        .src = (const char *)arg[2] + (size_t)(o * k * inner + column) * size,
                        .y = (char *)arg[3] + (size_t)(o * n * inner + column) * size};
        copy(&p, (const char *)arg[0] + (size_t)(o * n * inner + column) * size);
        join(&p, row_join);
    }
}
