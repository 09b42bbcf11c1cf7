/* Element types and block formats.
 *
 * A block format stores `block` elements in `bytes` bytes (a scale, perhaps a minimum, the
 * integers); a plain type has a block of 1. */
#ifndef REPRISE_DTYPE_H
#define REPRISE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* id, text, bytes per block, elements per block */
#define RP_DTYPE_LIST(X)          \
    X(F32, "f32", 4, 1)           \
    X(F16, "f16", 2, 1)           \
    X(BF16, "bf16", 2, 1)         \
    X(I32, "i32", 4, 1)           \
    X(I64, "i64", 8, 1)           \
    X(I16, "i16", 2, 1)           \
    X(I8, "i8", 1, 1)             \
    X(U8, "u8", 1, 1)             \
    X(BOOL, "bool", 1, 1)         \
    X(Q4_0, "q4_0", 18, 32)       \
    X(Q4_1, "q4_1", 20, 32)       \
    X(Q8_0, "q8_0", 34, 32)       \
    X(I16B32, "i16b32", 72, 32)   \
    X(F8E4M3FN, "f8e4m3fn", 1, 1) \
    X(F8E5M2, "f8e5m2", 1, 1)     \
    X(F64, "f64", 8, 1)

typedef enum rp_dtype {
#define RP_DTYPE_ENUM(id, text, bytes, block) RP_DTYPE_##id,
    RP_DTYPE_LIST(RP_DTYPE_ENUM)
#undef RP_DTYPE_ENUM
        RP_DTYPE_COUNT_
} rp_dtype;

/* f64 has the arithmetic that IEEE 754 defines, exp, log, pow, sigmoid, sin, cos, tanh, erf, comparisons, reductions, cumsum, sort,
 * moves and products, in double precision throughout. f8e4m3fn and f8e5m2 are torch.float8_e4m3fn and
 * torch.float8_e5m2: they are stored, moved, compared and cast; other ops want them cast first. */

/* "f32"; "?" outside the enum. */
RP_API const char *rp_dtype_name(rp_dtype t);
/* Inverse of rp_dtype_name; false when text names no type. */
RP_API bool rp_dtype_parse(const char *text, rp_dtype *out);
RP_API size_t rp_dtype_block(rp_dtype t);
RP_API size_t rp_dtype_block_bytes(rp_dtype t);
RP_API bool rp_dtype_is_float(rp_dtype t); /* f32, f16, bf16 */
RP_API bool rp_dtype_is_quant(rp_dtype t); /* a block format */

#ifdef __cplusplus
}
#endif
#endif
