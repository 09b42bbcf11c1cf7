/* Kernels compiled ahead, for processors with AVX-512 with VNNI; called only where gen_isa_granted says so. */
#if defined(__x86_64__)
#define RP_ISA 2
#define READY_TABLE gen_ready_avx512
#define READY_TEMPLATES gen_templates_avx512
/* Headers stay outside: nothing but the kernels may need the instructions. */
#include "gen/ready.h"
#if defined(__clang__)
#pragma clang attribute push(                                                  \
    __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni,prefer-vector-width=512")
#endif
#include "gen/ready_kernel.c.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int gen_ready_avx512_is_elsewhere;
#endif
