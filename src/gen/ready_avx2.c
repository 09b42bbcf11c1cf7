/* Kernels compiled ahead, for processors with AVX2, FMA and F16C; called only where gen_isa_granted says so. */
#if defined(__x86_64__)
#define RP_ISA 1
#define READY_TABLE gen_ready_avx2
#define READY_TEMPLATES gen_templates_avx2
/* Headers stay outside: nothing but the kernels may need the instructions. */
#include "gen/ready.h"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif
#include "gen/ready_kernel.c.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int gen_ready_avx2_is_elsewhere;
#endif
