/* A size as code reads it at run time: a short program for a stack of integers, without pointers, so that plans and the
 * records of built-in kernels hold it as bytes. Any dim has one, unless it is longer than IR_DIM_CODE_MAX both as it is and with common
 * factors taken out (dim_factor.c), which is what a long one is stored as.
 *
 * A zeroed program is the size 0. Plain values; the functions are thread-safe. */
#ifndef IR_DIM_CODE_H
#define IR_DIM_CODE_H

#include "ir/dim.h"

#define IR_DIM_CODE_MAX 31
#define IR_DIM_CODE_STACK 8

/* name, values taken from the stack, whether k is read */
#define IR_DIM_CODE_OPS(X)                      \
    X(CONST, 0, 1)  /* k */                     \
    X(SYMBOL, 0, 1) /* the value of symbol k */ \
    X(ADD, 2, 0)                                \
    X(MUL, 2, 0)                                \
    X(ADD_CONST, 1, 1)                          \
    X(MUL_CONST, 1, 1)                          \
    X(FLOORDIV, 1, 1) /* k > 0; rounds down */  \
    X(MOD, 1, 1)      /* k > 0; the remainder of that division */

typedef enum ir_dim_code_op {
#define IR_DIM_CODE_ENUM(name, takes, reads) IR_DIM_CODE_##name,
    IR_DIM_CODE_OPS(IR_DIM_CODE_ENUM)
#undef IR_DIM_CODE_ENUM
        IR_DIM_CODE_OP_COUNT_
} ir_dim_code_op;

typedef struct ir_dim_code {
    uint8_t n;
    uint8_t op[IR_DIM_CODE_MAX]; /* ir_dim_code_op */
    int64_t k[IR_DIM_CODE_MAX];
} ir_dim_code;
_Static_assert(sizeof(ir_dim_code) == 1 + 9 * IR_DIM_CODE_MAX, "stored as bytes: no padding");

/* The program of d over the symbols of t. RP_UNSUPPORTED for one that is too long, RP_INVALID for IR_DIM_BAD. */
rp_status ir_dim_code_of(const ir_dims *t, ir_dim d, ir_dim_code *out, rp_error *err) RP_MUST_USE;

/* What op takes from the stack; it leaves one value. */
uint32_t ir_dim_code_takes(ir_dim_code_op op);
bool ir_dim_code_reads_k(ir_dim_code_op op);

/* Bounds of the size, as if its parts were independent. range gives those of symbol i, or false when there is none. False
 * where the program is not well formed, or a step of it overflows for some of these values: evaluation checks neither. */
bool ir_dim_code_bounds(const ir_dim_code *c,
                        bool (*range)(const void *user, uint32_t i, int64_t *lo, int64_t *hi),
                        const void *user, int64_t *lo, int64_t *hi);

/* Whether the size is *coef * symbol *symbol + *constant, coef not 0. */
bool ir_dim_code_linear(const ir_dim_code *c, uint32_t *symbol, int64_t *coef, int64_t *constant);
bool ir_dim_code_is_const(const ir_dim_code *c, int64_t *out);

/* Text as ir_dim_print gives it, but for factors that were taken out; name says what symbol i is called. */
void ir_dim_code_print(const ir_dim_code *c, const char *(*name)(const void *user, uint32_t i),
                       const void *user, base_buf *out);

/* The value with values[i] for symbol i. Wraps around on overflow. Twice, because kernels
 * count in long long. */
#define IR_DIM_CODE_EVAL(name, type)                                                          \
    static inline int64_t name(const ir_dim_code *c, const type *values) {                    \
        int64_t stack[IR_DIM_CODE_STACK] = {0}, *top = stack;                                 \
        for (uint32_t i = 0; i < c->n; i++) {                                                 \
            int64_t k = c->k[i], q;                                                           \
            switch (c->op[i]) {                                                               \
            case IR_DIM_CODE_CONST: *top++ = k; break;                                        \
            case IR_DIM_CODE_SYMBOL: *top++ = values[k]; break;                               \
            case IR_DIM_CODE_ADD:                                                             \
                top--;                                                                        \
                top[-1] = (int64_t)((uint64_t)top[-1] + (uint64_t)top[0]);                    \
                break;                                                                        \
            case IR_DIM_CODE_MUL:                                                             \
                top--;                                                                        \
                top[-1] = (int64_t)((uint64_t)top[-1] * (uint64_t)top[0]);                    \
                break;                                                                        \
            case IR_DIM_CODE_ADD_CONST: top[-1] = (int64_t)((uint64_t)top[-1] + (uint64_t)k); \
                break;                                                                        \
            case IR_DIM_CODE_MUL_CONST: top[-1] = (int64_t)((uint64_t)top[-1] * (uint64_t)k); \
                break;                                                                        \
            default: /* FLOORDIV, MOD */                                                      \
                q = top[-1] / k - (top[-1] % k < 0);                                          \
                top[-1] = c->op[i] == IR_DIM_CODE_FLOORDIV ? q : top[-1] - q * k;             \
            }                                                                                 \
        }                                                                                     \
        return stack[0];                                                                      \
    }
IR_DIM_CODE_EVAL(ir_dim_code_eval, int64_t)
IR_DIM_CODE_EVAL(ir_dim_code_eval_ll, long long)

#endif
