/* Products for processors with AVX2, FMA and F16C; called only where gen_isa_granted says so. */
#if defined(__x86_64__)
#define RP_ISA 1
#define PACKED(name) portable_##name##_avx2
/* Headers stay outside: nothing but the kernels may need the instructions. */
#include "compile/portable/kernels.h"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif
#include "compile/portable/packed_kernel.c.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int portable_packed_avx2_is_elsewhere;
#endif
