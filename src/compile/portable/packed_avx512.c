/* Products for processors with AVX-512 with VNNI; called only where gen_isa_granted says so. */
#if defined(__x86_64__)
#define RP_ISA 2
#define PACKED(name) portable_##name##_avx512
#define TEMPLATES gen_templates_avx512
#include "compile/portable/packed_kernel.c.inc"
#else
typedef int portable_packed_avx512_is_elsewhere;
#endif
