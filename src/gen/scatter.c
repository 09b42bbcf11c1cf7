/* Elements put at indices along an axis, in ascending order of their own: a line of memory is one work item's alone. */
#include <string.h>

#include "gen/axis.h"
#include "gen/embed/prelude.h"
#include "ir/kinds.h"

enum {
    BLOCK = 16, /* columns of an item: gen_cumsum_items */
    NARROW =
        128, /* columns of which items are no good share: these have rows of the result instead */
    GROUPS = 16, /* of such rows */
    AT_ONCE = 8, /* neighbours that the compiler makes vectors of */
    PLACES = 256 /* found before what is there is joined */
};

/* Bytes from the first of y, and of src. */
typedef struct place {
    size_t to, from;
} place;

/* At n places, width neighbours of what comes, b, are joined with what is there, a. */
typedef void row_fn(char *y, const char *src, const place *at, int64_t n, int64_t width);

#define EACH_OF(T, count, value)            \
    for (int64_t l = 0; l < (count); l++) { \
        const T a = y[l], b = x[l];         \
        (void)a;                            \
        y[l] = (T)(value);                  \
    }
#define ROW(T, fn, value)                                                                         \
    static inline void fn##_row(T *restrict y, const T *restrict x, int64_t n) {                  \
        for (; n >= AT_ONCE; n -= AT_ONCE, y += AT_ONCE, x += AT_ONCE) EACH_OF(T, AT_ONCE, value) \
        EACH_OF(T, n, value)                                                                      \
    }                                                                                             \
    static void fn(char *y, const char *src, const place *at, int64_t n, int64_t width) {         \
        for (int64_t i = 0; i < n; i++)                                                           \
            fn##_row((void *)(y + at[i].to), (const void *)(src + at[i].from), width);            \
    }

#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_SCATTERS(kind, ROW(float, name##_f32, expr) ROW(double, name##_f64, expr))
#include "ir/ops.def"
#undef OP
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_SCATTERS(kind, ROW(S, name##_i32, ints))
#define S int32_t
#define U uint32_t
#include "ir/ops.def"
#undef S
#undef U
#undef OP
#define OP(name, kind, arity, attrs, facts, expr, ints) \
    IR_OF_SCATTERS(kind, ROW(S, name##_i64, ints))
#define S int64_t
#define U uint64_t
#include "ir/ops.def"
#undef S
#undef U
#undef OP
#define SMALL(name, ints) \
    ROW(int8_t, name##_i8, ints) ROW(uint8_t, name##_u8, ints) ROW(int16_t, name##_i16, ints)
#define OP(name, kind, arity, attrs, facts, expr, ints) IR_OF_SCATTERS(kind, SMALL(name, ints))
#define S int32_t /* the element keeps what is left of it */
#define U uint32_t
#include "ir/ops.def"
#undef S
#undef U
#undef OP
ROW(uint8_t, put_8, b)
ROW(uint16_t, put_16, b)
ROW(uint8_t, put_bool, b != 0)

enum { F32, F64, I32, I64, I16, I8, U8, TYPES };

static row_fn *row_of(uint32_t op, rp_dtype t) {
#define OP(name, kind, arity, attrs, facts, expr, ints)                                       \
    IR_OF_SCATTERS(kind,                                                                      \
                   [IR_##name] = {name##_f32, name##_f64, name##_i32, name##_i64, name##_i16, \
                                  name##_i8, name##_u8}, )
    static row_fn *const rows[][TYPES] = {
#include "ir/ops.def"
    };
#undef OP
    if (op == IR_scatter && t == RP_DTYPE_BOOL) return put_bool;
    if (op == IR_scatter) { /* bits, whatever they mean */
        const size_t size = rp_dtype_block_bytes(t);
        return size == 1 ? put_8 : size == 2 ? put_16 : rows[op][size == 4 ? I32 : I64];
    }
    switch (t) {
    case RP_DTYPE_F32: return rows[op][F32];
    case RP_DTYPE_F64: return rows[op][F64];
    case RP_DTYPE_I32: return rows[op][I32];
    case RP_DTYPE_I16: return rows[op][I16];
    case RP_DTYPE_I8: return rows[op][I8];
    case RP_DTYPE_U8: return rows[op][U8];
    default: return rows[op][I64];
    }
}

/* What items that follow each other have: columns of one outer part, and rows [begin, end) of its n. */
typedef struct part {
    int64_t n, k, inner, width, begin, end;
    size_t size;           /* of an element */
    const void *index;     /* of the part's first row */
    int64_t index_columns; /* entries of it in a row: 0 for one of the whole row */
    bool index_wide;       /* i64 */
    bool bools;            /* of which 0 or 1 is stored */
    const char *src;
    char *y;
} part;

static inline int64_t index_at(const part *p, int64_t at) {
    int64_t i = p->index_wide ? ((const int64_t *)p->index)[at]
                              : (int64_t)((const int32_t *)p->index)[at];
    return i < 0 ? 0 : i >= p->n ? p->n - 1 : i;
}

/* One more place, where the part has row to: without a branch, nobody knows which. */
static inline int64_t found(const part *p, int64_t to, int64_t row, int64_t j, place *at) {
    const size_t line = (size_t)p->inner * p->size, column = (size_t)j * p->size;
    *at = (place){(size_t)to * line + column, (size_t)row * line + column};
    return (to >= p->begin) & (to < p->end);
}

static void join_rows(const part *p, row_fn *row_join) {
    place at[PLACES];
    for (int64_t row = 0; row < p->k;) {
        const int64_t last = RP_MIN(row + PLACES, p->k);
        int64_t n = 0;
        for (; row < last; row++) n += found(p, index_at(p, row), row, 0, &at[n]);
        row_join(p->y, p->src, at, n, p->width);
    }
}

/* Where each element has an index of its own. */
static void join_elements(const part *p, row_fn *row_join) {
    place at[PLACES];
    int64_t n = 0;
    for (int64_t row = 0; row < p->k; row++)
        for (int64_t j = 0, last; j < p->width; j = last) {
            last = RP_MIN(j + PLACES, p->width);
            if (n + last - j > PLACES) {
                row_join(p->y, p->src, at, n, 1);
                n = 0;
            }
            for (int64_t i = j; i < last; i++)
                n += found(p, index_at(p, row * p->index_columns + i), row, i, &at[n]);
        }
    row_join(p->y, p->src, at, n, 1);
}

static void copy_row(const part *p, char *restrict y, const char *restrict x, size_t length) {
    if (!p->bools)
        memcpy(y, x, length);
    else
        for (size_t i = 0; i < length; i++) y[i] = x[i] != 0;
}

/* x as it is; where a part has whole rows, at once. */
static void copy(const part *p, const char *x) {
    const bool whole = p->width == p->inner;
    const size_t line = (size_t)p->inner * p->size;
    const int64_t rows = whole ? p->end > p->begin : p->end - p->begin;
    const size_t length = whole ? (size_t)(p->end - p->begin) * line : (size_t)p->width * p->size;
    for (int64_t i = p->begin; i < p->begin + rows; i++)
        copy_row(p, p->y + (size_t)i * line, x + (size_t)i * line, length);
}

uint32_t gen_scatter_groups(const ir_dims *t, ir_dim inner) {
    int64_t n;
    return ir_dim_is_const(t, inner, &n) && n > 0 && n < NARROW ? GROUPS : 0;
}

ir_dim gen_scatter_items(ir_dims *t, ir_dim outer, ir_dim inner) {
    const uint32_t groups = gen_scatter_groups(t, inner);
    return groups > 0 ? ir_dim_mul_const(t, outer, groups) : gen_cumsum_items(t, outer, inner);
}

void gen_scatter(void *const *arg, const long long *dim, long long begin, long long end,
                 void *scratch) {
    const gen_scatter_record *r = arg[4];
    const int64_t n = ir_dim_code_eval_ll(&r->n, dim), k = ir_dim_code_eval_ll(&r->k, dim);
    const int64_t inner =
        RP_MAX(ir_dim_code_eval_ll(&r->inner, dim), 1); /* of nothing there are no items */
    const int64_t groups = r->groups, each = groups > 0 ? groups : (inner + BLOCK - 1) / BLOCK;
    const size_t size = rp_dtype_block_bytes((rp_dtype)r->dtype);
    const size_t index_size = rp_dtype_block_bytes((rp_dtype)r->index_dtype);
    row_fn *const row_join = row_of(r->op, (rp_dtype)r->dtype);
    (void)scratch;
    for (int64_t item = begin, taken; item < end; item += taken) {
        const int64_t o = item / each, first = item % each, column = groups > 0 ? 0 : first * BLOCK;
        taken = RP_MIN(end - item, each - first); /* neighbours as one */
        const int64_t columns = r->own_inner ? inner : 0, rows = r->own_outer ? o * k : 0;
        const int64_t at = columns > 0 ? rows * columns + column : rows;
        const part p = {.n = n,
                        .k = n > 0 ? k : 0,
                        .inner = inner,
                        .width = groups > 0 ? inner : RP_MIN(inner - column, taken * BLOCK),
                        .begin = groups > 0 ? n * first / groups : 0,
                        .end = groups > 0 ? n * (first + taken) / groups : n,
                        .size = size,
                        .index = (const char *)arg[1] + (size_t)at * index_size,
                        .index_columns = columns,
                        .index_wide = r->index_dtype == RP_DTYPE_I64,
                        .bools = r->dtype == RP_DTYPE_BOOL,
                        .src = (const char *)arg[2] + (size_t)(o * k * inner + column) * size,
                        .y = (char *)arg[3] + (size_t)(o * n * inner + column) * size};
        copy(&p, (const char *)arg[0] + (size_t)(o * n * inner + column) * size);
        (columns > 0 ? join_elements : join_rows)(&p, row_join);
    }
}
