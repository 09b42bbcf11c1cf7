/* Names that the expressions of ops.def call in single precision, as functions of double. Include it behind what needs them as
 * they are, in front of a table over doubles. Behind gen/embed/kernel.h they give the bits of generated code, alone (the
 * oracle) those of the C library. */
#ifndef IR_DOUBLES_H
#define IR_DOUBLES_H

#include <math.h>

#define rp_absf fabs
#define rp_sqrtf sqrt
#ifdef RP_KERNEL_H
#define rp_expf rk_exp64
#define rp_logf rk_log64
#define rp_tanhf rk_tanh64
#define rp_erff rk_erf64
#define rp_sinf rk_sin64
#define rp_cosf rk_cos64
#define rp_over rk_over64
#define rp_powf rk_pow64
#define rp_fmaf rk_fma64
#define rp_fmodf rk_fmod64
#else
#define rp_expf exp
#define rp_over(x) (1.0 / (x))
#define rp_logf log
#define rp_tanhf tanh
#define rp_erff erf
#define rp_sinf sin
#define rp_cosf cos
#define rp_powf pow
#define rp_fmaf fma
#define rp_fmodf fmod
#endif
#define rp_floorf floor
#define rp_roundf rint

#endif
