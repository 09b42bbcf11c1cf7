/* Elementwise ops, one call each: numpy broadcasting, equal types (tensor.h says what they mean).
 *
 * Written from src/ir/ops.def by scripts/ops-header.sh. */
#ifndef REPRISE_ELEMENTWISE_H
#define REPRISE_ELEMENTWISE_H

#include "reprise/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

RP_API rp_tensor rp_neg(rp_tensor a);
RP_API rp_tensor rp_abs(rp_tensor a);
RP_API rp_tensor rp_sqrt(rp_tensor a);
RP_API rp_tensor rp_rsqrt(rp_tensor a);
RP_API rp_tensor rp_recip(rp_tensor a);
RP_API rp_tensor rp_exp(rp_tensor a);
RP_API rp_tensor rp_log(rp_tensor a);
RP_API rp_tensor rp_sin(rp_tensor a);
RP_API rp_tensor rp_cos(rp_tensor a);
RP_API rp_tensor rp_tanh(rp_tensor a);
RP_API rp_tensor rp_erf(rp_tensor a);
RP_API rp_tensor rp_sigmoid(rp_tensor a);
RP_API rp_tensor rp_floor(rp_tensor a);
RP_API rp_tensor rp_ceil(rp_tensor a);
RP_API rp_tensor rp_round(rp_tensor a);
RP_API rp_tensor rp_not(rp_tensor a);
RP_API rp_tensor rp_add(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_sub(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_mul(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_div(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_max(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_min(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_pow(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_eq(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_ne(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_lt(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_le(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_gt(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_ge(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_and(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_or(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_xor(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_floor_divide(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_remainder(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_fmod(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_shift_left(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_shift_right(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_philox(rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_where(rp_tensor a, rp_tensor b, rp_tensor c);
RP_API rp_tensor rp_fma(rp_tensor a, rp_tensor b, rp_tensor c);

/* Their names by the number of operands. */
/* clang-format off */
#define RP_ELEMENTWISE_1(X) \
    X(neg) \
    X(abs) \
    X(sqrt) \
    X(rsqrt) \
    X(recip) \
    X(exp) \
    X(log) \
    X(sin) \
    X(cos) \
    X(tanh) \
    X(erf) \
    X(sigmoid) \
    X(floor) \
    X(ceil) \
    X(round) \
    X(not)
#define RP_ELEMENTWISE_2(X) \
    X(add) \
    X(sub) \
    X(mul) \
    X(div) \
    X(max) \
    X(min) \
    X(pow) \
    X(eq) \
    X(ne) \
    X(lt) \
    X(le) \
    X(gt) \
    X(ge) \
    X(and) \
    X(or) \
    X(xor) \
    X(floor_divide) \
    X(remainder) \
    X(fmod) \
    X(shift_left) \
    X(shift_right) \
    X(philox)
#define RP_ELEMENTWISE_3(X) \
    X(where) \
    X(fma)
/* clang-format on */

#ifndef RP_NO_SITES
#define rp_neg(...) RP_AT("rp_neg", (rp_neg)(__VA_ARGS__))
#define rp_abs(...) RP_AT("rp_abs", (rp_abs)(__VA_ARGS__))
#define rp_sqrt(...) RP_AT("rp_sqrt", (rp_sqrt)(__VA_ARGS__))
#define rp_rsqrt(...) RP_AT("rp_rsqrt", (rp_rsqrt)(__VA_ARGS__))
#define rp_recip(...) RP_AT("rp_recip", (rp_recip)(__VA_ARGS__))
#define rp_exp(...) RP_AT("rp_exp", (rp_exp)(__VA_ARGS__))
#define rp_log(...) RP_AT("rp_log", (rp_log)(__VA_ARGS__))
#define rp_sin(...) RP_AT("rp_sin", (rp_sin)(__VA_ARGS__))
#define rp_cos(...) RP_AT("rp_cos", (rp_cos)(__VA_ARGS__))
#define rp_tanh(...) RP_AT("rp_tanh", (rp_tanh)(__VA_ARGS__))
#define rp_erf(...) RP_AT("rp_erf", (rp_erf)(__VA_ARGS__))
#define rp_sigmoid(...) RP_AT("rp_sigmoid", (rp_sigmoid)(__VA_ARGS__))
#define rp_floor(...) RP_AT("rp_floor", (rp_floor)(__VA_ARGS__))
#define rp_ceil(...) RP_AT("rp_ceil", (rp_ceil)(__VA_ARGS__))
#define rp_round(...) RP_AT("rp_round", (rp_round)(__VA_ARGS__))
#define rp_not(...) RP_AT("rp_not", (rp_not)(__VA_ARGS__))
#define rp_add(...) RP_AT("rp_add", (rp_add)(__VA_ARGS__))
#define rp_sub(...) RP_AT("rp_sub", (rp_sub)(__VA_ARGS__))
#define rp_mul(...) RP_AT("rp_mul", (rp_mul)(__VA_ARGS__))
#define rp_div(...) RP_AT("rp_div", (rp_div)(__VA_ARGS__))
#define rp_max(...) RP_AT("rp_max", (rp_max)(__VA_ARGS__))
#define rp_min(...) RP_AT("rp_min", (rp_min)(__VA_ARGS__))
#define rp_pow(...) RP_AT("rp_pow", (rp_pow)(__VA_ARGS__))
#define rp_eq(...) RP_AT("rp_eq", (rp_eq)(__VA_ARGS__))
#define rp_ne(...) RP_AT("rp_ne", (rp_ne)(__VA_ARGS__))
#define rp_lt(...) RP_AT("rp_lt", (rp_lt)(__VA_ARGS__))
#define rp_le(...) RP_AT("rp_le", (rp_le)(__VA_ARGS__))
#define rp_gt(...) RP_AT("rp_gt", (rp_gt)(__VA_ARGS__))
#define rp_ge(...) RP_AT("rp_ge", (rp_ge)(__VA_ARGS__))
#define rp_and(...) RP_AT("rp_and", (rp_and)(__VA_ARGS__))
#define rp_or(...) RP_AT("rp_or", (rp_or)(__VA_ARGS__))
#define rp_xor(...) RP_AT("rp_xor", (rp_xor)(__VA_ARGS__))
#define rp_floor_divide(...) RP_AT("rp_floor_divide", (rp_floor_divide)(__VA_ARGS__))
#define rp_remainder(...) RP_AT("rp_remainder", (rp_remainder)(__VA_ARGS__))
#define rp_fmod(...) RP_AT("rp_fmod", (rp_fmod)(__VA_ARGS__))
#define rp_shift_left(...) RP_AT("rp_shift_left", (rp_shift_left)(__VA_ARGS__))
#define rp_shift_right(...) RP_AT("rp_shift_right", (rp_shift_right)(__VA_ARGS__))
#define rp_philox(...) RP_AT("rp_philox", (rp_philox)(__VA_ARGS__))
#define rp_where(...) RP_AT("rp_where", (rp_where)(__VA_ARGS__))
#define rp_fma(...) RP_AT("rp_fma", (rp_fma)(__VA_ARGS__))
#endif

#ifdef __cplusplus
}
#endif
#endif
