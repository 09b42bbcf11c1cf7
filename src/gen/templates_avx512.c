/* Products for processors with AVX-512 with VNNI; called only where gen_isa_granted says so. */
#if defined(__x86_64__)
#define RP_ISA 2
#define TEMPLATES gen_templates_avx512
/* Headers stay outside: nothing but the kernels may need the instructions. */
#include "gen/templates.h"
#if defined(__clang__)
#pragma clang attribute push(                                                  \
    __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")
#endif
#include "gen/templates_kernel.c.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int gen_templates_avx512_is_elsewhere;
#endif
