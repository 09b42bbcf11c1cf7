/* Sizes: numbers, and forms over symbols whose values are known when a graph is called.
 *
 * A size is a type of its own, so that `T + 1`, `T > 8` and `if (T)` do not compile; rp_dim_add(T, 1) and rp_dim_gt(T, 8)
 * do. Wherever a call takes a size, an integer may stand: macros of the same names (as of <tgmath.h>) put RP_DIM around
 * it. A form is a sum of products of symbols, floor-divisions and remainders by constants; equal forms are one size. */
#ifndef REPRISE_DIM_H
#define REPRISE_DIM_H

#include "reprise/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One thread at a time until rp_graph_finish; then any number may read it. */
typedef struct rp_graph rp_graph;

/* Bindings fill it in for numbers (graph NULL) and take the rest from calls. */
typedef struct rp_dim {
    rp_graph *graph; /* whose symbols it is made of; NULL: it is the number n */
    int64_t n;       /* the number, or a handle that means something to the graph alone */
} rp_dim;

typedef struct rp_shape {
    uint32_t rank;
    rp_dim dim[RP_MAX_RANK];
} rp_shape;

/* A size unknown until run time, in [min, max]; INT64_MAX: no upper bound. What kernels leave for one another is reserved at
 * the largest sizes, and grows with the calls where max is 2^31 - 1 or more, or a value may be more than 16 GiB.
 * The same name gives the same size; it must come with the same range. */
RP_API rp_dim rp_symbol(rp_graph *g, const char *name, int64_t min, int64_t max);
RP_API rp_dim rp_dim_const(int64_t n);

/* Arithmetic. Values in between may be negative; a shape refuses a size that may be. What cannot be made (an overflow, a
 * form of too many terms, symbols of two graphs) makes the graph fail as a failed op does. */
RP_API rp_dim rp_dim_add(rp_dim a, rp_dim b);
RP_API rp_dim rp_dim_sub(rp_dim a, rp_dim b);
RP_API rp_dim rp_dim_mul(rp_dim a, rp_dim b);
RP_API rp_dim rp_dim_floordiv(rp_dim a, int64_t k); /* k > 0; rounds down */
RP_API rp_dim rp_dim_ceildiv(rp_dim a, int64_t k);  /* k > 0; rounds up */
RP_API rp_dim rp_dim_mod(rp_dim a, int64_t k);      /* k > 0; in [0, k) */

/* What is known of a size: whether it is a number, which is then in *out (may be NULL); and the least and greatest value
 * it can have, as far as intervals tell (INT64_MIN, INT64_MAX: no bound). */
RP_API bool rp_dim_is_const(rp_dim a, int64_t *out);
RP_API void rp_dim_bounds(rp_dim a, int64_t *min, int64_t *max);

typedef enum rp_relation {
    RP_DIM_LT,
    RP_DIM_LE,
    RP_DIM_EQ,
    RP_DIM_NE,
    RP_DIM_GE,
    RP_DIM_GT
} rp_relation;
typedef enum rp_answer { RP_NO, RP_YES, RP_UNKNOWN } rp_answer;

/* Whether a and b are so related for all values of their symbols (RP_YES), for none (RP_NO), or it cannot be told
 * (also where one is invalid, or the graph failed or is finished). */
RP_API rp_answer rp_dim_compare(rp_dim a, rp_relation r, rp_dim b);

/* The same for a branch while tracing: rp_dim_lt(a, b), le, eq, ne, ge, gt. An answer holds for all values of the symbols, so it
 * needs no check at a call; it is told on the log channel `dynamic`. Without an answer the graph fails with the line
 * of the question, and the result is false. */
RP_API bool rp_dim_ask(rp_dim a, rp_relation r, rp_dim b, const char *file, int line);

/* What RP_DIM_AT stands for: gives `made`; where that is no size, the error of its graph begins with the line. */
RP_API rp_dim rp_dim_at(rp_dim made, const char *file, int line);

#ifdef __cplusplus
} /* extern "C" */
static inline rp_dim rp_dim_of(rp_dim d) {
    return d;
}
#define RP_DIM_OVERLOAD_(type)               \
    static inline rp_dim rp_dim_of(type n) { \
        return rp_dim_const((int64_t)n);     \
    }
RP_DIM_OVERLOAD_(int)
RP_DIM_OVERLOAD_(unsigned)
RP_DIM_OVERLOAD_(long)
RP_DIM_OVERLOAD_(unsigned long)
RP_DIM_OVERLOAD_(long long)
RP_DIM_OVERLOAD_(unsigned long long)
#undef RP_DIM_OVERLOAD_
#define RP_DIM(x) rp_dim_of(x)
extern "C" {
#else
static inline rp_dim rp_dim_same(rp_dim d) {
    return d;
}
/* An integer or a size as a size; nothing else compiles. */
/* clang-format off */
#define RP_DIM(x)                        \
    _Generic((x),                        \
        rp_dim: rp_dim_same,             \
        char: rp_dim_const,              \
        signed char: rp_dim_const,       \
        unsigned char: rp_dim_const,     \
        short: rp_dim_const,             \
        unsigned short: rp_dim_const,    \
        int: rp_dim_const,               \
        unsigned: rp_dim_const,          \
        long: rp_dim_const,              \
        unsigned long: rp_dim_const,     \
        long long: rp_dim_const,         \
        unsigned long long: rp_dim_const)(x)
/* clang-format on */
#endif

/* RP_SHAPE(T, 8): a shape of up to RP_MAX_RANK sizes and integers. */
static inline rp_shape rp_shape_of(uint32_t rank, rp_dim a, rp_dim b, rp_dim c, rp_dim d, rp_dim e,
                                   rp_dim f) {
    rp_shape s;
    s.rank = rank;
    s.dim[0] = a;
    s.dim[1] = b;
    s.dim[2] = c;
    s.dim[3] = d;
    s.dim[4] = e;
    s.dim[5] = f;
    return s;
}
#define RP_SHAPE(...) \
    RP_SHAPE_PICK_(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)(__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RP_SHAPE_PICK_(a, b, c, d, e, f, n, ...) RP_SHAPE_##n##_
#define RP_SHAPE_1_(...) RP_SHAPE_N_(1, __VA_ARGS__, 0)
#define RP_SHAPE_2_(...) RP_SHAPE_N_(2, __VA_ARGS__, 0)
#define RP_SHAPE_3_(...) RP_SHAPE_N_(3, __VA_ARGS__, 0)
#define RP_SHAPE_4_(...) RP_SHAPE_N_(4, __VA_ARGS__, 0)
#define RP_SHAPE_5_(...) RP_SHAPE_N_(5, __VA_ARGS__, 0)
#define RP_SHAPE_6_(...) RP_SHAPE_N_(6, __VA_ARGS__, 0)
#define RP_SHAPE_N_(n, a, b, c, d, e, f, ...) \
    rp_shape_of(n, RP_DIM(a), RP_DIM(b), RP_DIM(c), RP_DIM(d), RP_DIM(e), RP_DIM(f))

/* Calls of sizes with the line of their caller, which the error of one that cannot be made begins with. */
#ifdef RP_NO_SITES
#define RP_DIM_AT(call) (call)
#else
#define RP_DIM_AT(call) rp_dim_at(call, __FILE__, __LINE__)
#define rp_symbol(g, name, min, max) RP_DIM_AT((rp_symbol)(g, name, min, max))
#endif
#define rp_dim_add(a, b) RP_DIM_AT((rp_dim_add)(RP_DIM(a), RP_DIM(b)))
#define rp_dim_sub(a, b) RP_DIM_AT((rp_dim_sub)(RP_DIM(a), RP_DIM(b)))
#define rp_dim_mul(a, b) RP_DIM_AT((rp_dim_mul)(RP_DIM(a), RP_DIM(b)))
#define rp_dim_floordiv(a, k) RP_DIM_AT((rp_dim_floordiv)(RP_DIM(a), k))
#define rp_dim_ceildiv(a, k) RP_DIM_AT((rp_dim_ceildiv)(RP_DIM(a), k))
#define rp_dim_mod(a, k) RP_DIM_AT((rp_dim_mod)(RP_DIM(a), k))
#define rp_dim_compare(a, r, b) (rp_dim_compare)(RP_DIM(a), r, RP_DIM(b))
#define rp_dim_lt(a, b) rp_dim_ask(RP_DIM(a), RP_DIM_LT, RP_DIM(b), __FILE__, __LINE__)
#define rp_dim_le(a, b) rp_dim_ask(RP_DIM(a), RP_DIM_LE, RP_DIM(b), __FILE__, __LINE__)
#define rp_dim_eq(a, b) rp_dim_ask(RP_DIM(a), RP_DIM_EQ, RP_DIM(b), __FILE__, __LINE__)
#define rp_dim_ne(a, b) rp_dim_ask(RP_DIM(a), RP_DIM_NE, RP_DIM(b), __FILE__, __LINE__)
#define rp_dim_ge(a, b) rp_dim_ask(RP_DIM(a), RP_DIM_GE, RP_DIM(b), __FILE__, __LINE__)
#define rp_dim_gt(a, b) rp_dim_ask(RP_DIM(a), RP_DIM_GT, RP_DIM(b), __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif
#endif
