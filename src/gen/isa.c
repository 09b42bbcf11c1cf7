/* Detection of the granted instruction sets, and compiler options for each.
 *
 * A feature counts only where the processor has it and the operating system saves its
 * registers (xgetbv); AMX needs a permission per process on top (arch_prctl). Says nothing
 * about which is faster. */
#include "gen/isa.h"

#include "base/str.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const char *const isa_names[GEN_ISA_COUNT_] = {
#define ISA_NAME(id, name, help) name,
    GEN_ISA_LIST(ISA_NAME)
#undef ISA_NAME
};

static const char *const isa_helps[GEN_ISA_COUNT_] = {
#define ISA_HELP(id, name, help) help,
    GEN_ISA_LIST(ISA_HELP)
#undef ISA_HELP
};

static pthread_once_t isa_once = PTHREAD_ONCE_INIT;
static uint32_t isa_bits;
static char isa_features[256];

#if defined(__x86_64__)
/* leaf 1 ecx, leaf 7.0 ebx/ecx/edx, leaf 7.1 eax */
typedef struct isa_cpu {
    unsigned c1, b7, c7, d7, a71;
    uint64_t xcr0;
} isa_cpu;

#define ISA_ARCH_REQ_XCOMP_PERM 0x1023
#define ISA_XCR0_AVX UINT64_C(0x6)
#define ISA_XCR0_AVX512 UINT64_C(0xe6)
#define ISA_XCR0_AMX UINT64_C(0x60000)

static void isa_read_cpu(isa_cpu *cpu) {
    unsigned a, b, c, d;
    memset(cpu, 0, sizeof *cpu);
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    cpu->c1 = c;
    if (c & (1u << 27)) {
        uint32_t lo, hi;
        __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
        cpu->xcr0 = (uint64_t)hi << 32 | lo;
    }
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    cpu->b7 = b;
    cpu->c7 = c;
    cpu->d7 = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu->a71 = a;
}

static bool isa_has_xcr0(const isa_cpu *cpu, uint64_t mask) {
    return (cpu->xcr0 & mask) == mask;
}

static void isa_note(bool has, const char *name) {
    size_t at = strlen(isa_features), n = strlen(name);
    if (!has || at + n + 2 > sizeof isa_features) return;
    if (at) isa_features[at++] = ' ';
    memcpy(isa_features + at, name, n + 1);
}

static void isa_detect(void) {
    isa_cpu cpu;
    isa_read_cpu(&cpu);
    bool avx = isa_has_xcr0(&cpu, ISA_XCR0_AVX) && (cpu.c1 & (1u << 28));
    bool zmm = avx && isa_has_xcr0(&cpu, ISA_XCR0_AVX512);
    bool f16c = avx && (cpu.c1 & (1u << 29)), fma = avx && (cpu.c1 & (1u << 12));
    bool avx2 = avx && (cpu.b7 & (1u << 5));
    bool f = zmm && (cpu.b7 & (1u << 16)), bw = zmm && (cpu.b7 & (1u << 30));
    bool vl = zmm && (cpu.b7 & (1u << 31)), vnni = zmm && (cpu.c7 & (1u << 11));
    bool amx_int8 = cpu.d7 & (1u << 25), tile = cpu.d7 & (1u << 24);
    bool amx = amx_int8 && tile && isa_has_xcr0(&cpu, ISA_XCR0_AMX) &&
               syscall(SYS_arch_prctl, ISA_ARCH_REQ_XCOMP_PERM, 18) == 0;

    isa_bits = GEN_ISA_BIT(GEN_ISA_PORTABLE);
    if (avx2 && fma && f16c) isa_bits |= GEN_ISA_BIT(GEN_ISA_AVX2);
    if (avx2 && fma && f16c && f && bw && vl && vnni) isa_bits |= GEN_ISA_BIT(GEN_ISA_AVX512);
    if ((isa_bits & GEN_ISA_BIT(GEN_ISA_AVX512)) && amx) isa_bits |= GEN_ISA_BIT(GEN_ISA_AMX);

    isa_note(avx, "avx");
    isa_note(f16c, "f16c");
    isa_note(fma, "fma");
    isa_note(avx2, "avx2");
    isa_note(avx && (cpu.a71 & (1u << 4)), "avx_vnni");
    isa_note(f, "avx512f");
    isa_note(bw, "avx512bw");
    isa_note(vl, "avx512vl");
    isa_note(vnni, "avx512_vnni");
    isa_note(zmm && (cpu.a71 & (1u << 5)), "avx512_bf16");
    isa_note(zmm && (cpu.d7 & (1u << 23)), "avx512_fp16");
    isa_note(amx, "amx_int8");
    isa_note(amx && (cpu.d7 & (1u << 22)), "amx_bf16");
    isa_note(amx_int8 && !amx, "amx_refused");
}
#else
static void isa_detect(void) {
    isa_bits = GEN_ISA_BIT(GEN_ISA_PORTABLE);
}
#endif

const char *gen_isa_name(gen_isa isa) {
    return (unsigned)isa < GEN_ISA_COUNT_ ? isa_names[isa] : "?";
}

const char *gen_isa_help(gen_isa isa) {
    return (unsigned)isa < GEN_ISA_COUNT_ ? isa_helps[isa] : "?";
}

bool gen_isa_parse(const char *text, gen_isa *out) {
    for (unsigned i = 0; i < GEN_ISA_COUNT_; i++) {
        if (!base_same_word(text, isa_names[i])) continue;
        *out = (gen_isa)i;
        return true;
    }
    return false;
}

uint32_t gen_isa_granted(void) {
    (void)pthread_once(&isa_once, isa_detect);
    return isa_bits;
}

const char *gen_isa_features(void) {
    (void)pthread_once(&isa_once, isa_detect);
    return isa_features;
}

bool gen_isa_has_templates(gen_isa isa) {
    return isa == GEN_ISA_PORTABLE || isa == GEN_ISA_AVX2 || isa == GEN_ISA_AVX512;
}

gen_isa gen_isa_best(void) {
    uint32_t bits = gen_isa_granted();
    gen_isa best = GEN_ISA_PORTABLE;
    for (unsigned i = 0; i < GEN_ISA_COUNT_; i++)
        if ((bits & GEN_ISA_BIT(i)) && gen_isa_has_templates((gen_isa)i)) best = (gen_isa)i;
    return best;
}

/* -fno-math-errno and -fno-trapping-math change no value: they let gcc use sqrt
 * instructions and turn selects into blends. */
#define ISA_COMMON "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"
/* What -O2 has beside these takes a fifth of the time and changes nothing in loops like ours. Jumps stay, and partial
 * redundancies, which -O2 removes: without them two selects in a row (exp(x) and then max(., c), say) become branches, and
 * a loop with branches does not vectorise. Without -ftree-ccp, which follows constants bit by bit, a sixth of gcc's instructions
 * is gone: constants of our text are folded before it is written. Vectors are of loops alone: gcc 12 makes f64 -> f32 -> f64 a
 * copy where it joins two neighbours that no loop is over. Names without __builtin_ are not built in, as our text has none: gcc
 * declares half as many functions before it reads. Tables for unwinding would be written, assembled and then left out
 * (compile/link.c). */
#define ISA_GCC                                                                                  \
    "-O1", "-ftree-loop-vectorize", "-fvect-cost-model=dynamic", "-fno-thread-jumps",            \
        "-fno-tree-ccp", "-fstrict-aliasing", "-fno-builtin", "-fno-asynchronous-unwind-tables", \
        ISA_COMMON
#define ISA_CLANG "-O2", ISA_COMMON
/* Without -mfma: gcc turns -fma(a, b, c) into an instruction that gives +0 for -0. Templates write the instruction out. */
#define ISA_AVX2_FLAGS "-DRP_ISA=1", "-mavx2", "-mf16c"
#define ISA_AVX512_FLAGS                                                                       \
    "-DRP_ISA=2", "-mavx2", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", \
        "-mprefer-vector-width=512"

const char *const *gen_isa_flags(gen_isa isa, gen_cc_family family, size_t *n) {
    static const char *const gcc_portable[] = {ISA_GCC, "-DRP_ISA=0", NULL};
    static const char *const gcc_avx2[] = {ISA_GCC, ISA_AVX2_FLAGS, NULL};
    static const char *const gcc_avx512[] = {ISA_GCC, ISA_AVX512_FLAGS, NULL};
    static const char *const clang_portable[] = {ISA_CLANG, "-DRP_ISA=0", NULL};
    static const char *const clang_avx2[] = {ISA_CLANG, ISA_AVX2_FLAGS, NULL};
    static const char *const clang_avx512[] = {ISA_CLANG, ISA_AVX512_FLAGS, NULL};
    const char *const *flags;
    if (isa >= GEN_ISA_AVX512)
        flags = family == GEN_CC_CLANG ? clang_avx512 : gcc_avx512;
    else if (isa == GEN_ISA_AVX2)
        flags = family == GEN_CC_CLANG ? clang_avx2 : gcc_avx2;
    else
        flags = family == GEN_CC_CLANG ? clang_portable : gcc_portable;
    if (n) {
        *n = 0;
        while (flags[*n]) ++*n;
    }
    return flags;
}
