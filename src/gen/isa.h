/* Instruction sets that code is generated for, and those this machine really grants. */
#ifndef GEN_ISA_H
#define GEN_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ascending: each runs everything before it. The number is RP_ISA in generated code. */
#define GEN_ISA_LIST(X)                                       \
    X(PORTABLE, "portable", "plain C with vector extensions") \
    X(AVX2, "avx2", "AVX2, FMA and F16C")                     \
    X(AVX512, "avx512", "AVX-512 F, BW, VL and VNNI")         \
    X(AMX, "amx", "AMX-INT8 beside AVX-512: reported, not generated for")

/* What generated text is written in: C for the host's instruction set, or CUDA C. */
typedef enum gen_target { GEN_HOST, GEN_CUDA } gen_target;

typedef enum gen_isa {
#define GEN_ISA_ENUM(id, name, help) GEN_ISA_##id,
    GEN_ISA_LIST(GEN_ISA_ENUM)
#undef GEN_ISA_ENUM
        GEN_ISA_COUNT_
} gen_isa;

typedef enum gen_cc_family { GEN_CC_GCC, GEN_CC_CLANG } gen_cc_family;

#define GEN_ISA_BIT(isa) (UINT32_C(1) << (isa))

/* "avx2"; "?" outside the enum. */
const char *gen_isa_name(gen_isa isa);
const char *gen_isa_help(gen_isa isa);
/* Any case; false when text names no instruction set. */
bool gen_isa_parse(const char *text, gen_isa *out);

/* GEN_ISA_BIT set of what processor and operating system grant; PORTABLE always. AMX is asked for with
 * arch_prctl, which may be refused. Computed once, thread-safe. */
uint32_t gen_isa_granted(void);
/* Templates exist for it. */
bool gen_isa_has_templates(gen_isa isa);
/* The largest one that is granted and has templates. */
gen_isa gen_isa_best(void);
/* Space-separated processor features found ("avx2 f16c fma avx512f ..."), for reports. Static. */
const char *gen_isa_features(void);

/* Compiler options that generated code for isa needs, NULL-terminated, static; *n gets their number
 * if n is not NULL. Without -shared, -fPIC and file names. They keep rounding as written. */
const char *const *gen_isa_flags(gen_isa isa, gen_cc_family family, size_t *n);

#endif
