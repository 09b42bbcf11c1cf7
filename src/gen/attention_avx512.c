/* Attention for processors with AVX-512; called only where gen_isa_granted says so. */
#if defined(__x86_64__)
#define RP_ISA 2
#define ATTENTION_KERNEL gen_attention_avx512
/* Headers of the system stay outside: nothing but the kernel may need the instructions. */
#include "gen/builtin.h"
#if defined(__clang__)
#pragma clang attribute push(                                                  \
    __attribute__((target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")
#endif
#include "gen/attention_kernel.c.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int gen_attention_avx512_is_elsewhere;
#endif
