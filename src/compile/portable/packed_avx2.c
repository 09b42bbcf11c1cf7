/* Products for processors with AVX2, FMA and F16C; called only where gen_isa_granted says so. */
#if defined(__x86_64__)
#define RP_ISA 1
#define PACKED(name) portable_##name##_avx2
#define TEMPLATES gen_templates_avx2
#include "compile/portable/packed_kernel.c.inc"
#else
typedef int portable_packed_avx2_is_elsewhere;
#endif
