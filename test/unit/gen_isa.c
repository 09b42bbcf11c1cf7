/* Detection of instruction sets: names, what is granted, and that the options for each compile code
 * which says so itself and runs here. */
#include "support/check.h"

#include <dlfcn.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "gen/isa.h"

static void names_round_trip(void **state) {
    (void)state;
    for (unsigned i = 0; i < GEN_ISA_COUNT_; i++) {
        gen_isa back = GEN_ISA_COUNT_;
        assert_true(gen_isa_parse(gen_isa_name((gen_isa)i), &back));
        assert_int_equal(back, i);
    }
    gen_isa isa = GEN_ISA_AVX2;
    assert_true(gen_isa_parse("AVX512", &isa));
    assert_int_equal(isa, GEN_ISA_AVX512);
    assert_false(gen_isa_parse("avx", &isa));
    assert_false(gen_isa_parse("", &isa));
    assert_int_equal(isa, GEN_ISA_AVX512);
    assert_string_equal(gen_isa_name(GEN_ISA_COUNT_), "?");
}

/* Words with one blank between them, each once. */
static void features_are_words(void **state) {
    static const char *const known[] = {"avx",         "f16c",        "fma",         "avx2",
                                        "avx_vnni",    "avx512f",     "avx512bw",    "avx512vl",
                                        "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8",
                                        "amx_bf16",    "amx_refused"};
    const char *p = gen_isa_features();
    size_t next = 0, n_known = sizeof known / sizeof *known;
    (void)state;
    while (*p) {
        size_t n = strcspn(p, " ");
        while (next < n_known && (strlen(known[next]) != n || memcmp(p, known[next], n) != 0))
            next++;
        if (next == n_known) fail_msg("'%s' in '%s'", p, gen_isa_features());
        next++; /* in this order */
        p += n;
        if (*p) assert_true(p[1] != 0 && p[1] != ' ');
        p += *p != 0;
    }
}

/* The kernel lists what it would let a program use, by the same names. */
static bool kernel_lists(const char *flag) {
    static char text[1 << 16];
    size_t n = strlen(flag);
    FILE *f = fopen("/proc/cpuinfo", "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    for (const char *p = text; (p = strstr(p, flag)); p += n)
        if (p > text && p[-1] == ' ' && (p[n] == ' ' || p[n] == '\n')) return true;
    return false;
}

static void what_is_granted_agrees_with_the_kernel(void **state) {
    uint32_t bits = gen_isa_granted();
    bool avx2 = kernel_lists("avx2") && kernel_lists("f16c");
    bool avx512 = kernel_lists("avx512f") && kernel_lists("avx512bw") && kernel_lists("avx512vl") &&
                  kernel_lists("avx512_vnni");
    (void)state;
    assert_true(bits & GEN_ISA_BIT(GEN_ISA_PORTABLE));
    assert_true(bits & GEN_ISA_BIT(gen_isa_best()));
    assert_true(gen_isa_has_templates(gen_isa_best()));
    for (unsigned i = 1; i < GEN_ISA_COUNT_; i++) /* each contains the one before */
        if (bits & GEN_ISA_BIT(i)) assert_true(bits & GEN_ISA_BIT(i - 1));
#if defined(__x86_64__)
    assert_int_equal(!!(bits & GEN_ISA_BIT(GEN_ISA_AVX2)), avx2);
    assert_int_equal(!!(bits & GEN_ISA_BIT(GEN_ISA_AVX512)), avx2 && avx512);
    assert_int_equal(strstr(gen_isa_features(), "avx2") != NULL, kernel_lists("avx2"));
#else
    (void)avx2, (void)avx512;
    assert_int_equal(bits, GEN_ISA_BIT(GEN_ISA_PORTABLE));
#endif
}

static int run_with(const char *cc, gen_cc_family family, gen_isa isa) {
    static const char text[] = "int isa(void) { return RP_ISA; }\n"
                               "float f(float a, float b, float c) { return a * b + c; }\n";
    char c[128], so[128];
    const char *tmp = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    const char *argv[48] = {cc, "-shared", "-fPIC", "-Werror"};
    size_t at = 4, n;
    const char *const *flags = gen_isa_flags(isa, family, &n);
    int code = -1, got = -1;
    snprintf(c, sizeof c, "%s/isa-%d.c", tmp, (int)getpid());
    snprintf(so, sizeof so, "%s/isa-%d.so", tmp, (int)getpid());
    assert_int_equal(base_file_write_atomic(c, text, sizeof text - 1, NULL), RP_OK);
    assert_null(flags[n]);
    for (size_t i = 0; i < n; i++) argv[at++] = flags[i];
    argv[at++] = c;
    argv[at++] = "-o";
    argv[at++] = so;
    assert_int_equal(base_spawn(argv, NULL, &code, NULL), RP_OK);
    assert_int_equal(code, 0);
    void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(lib);
    int (*isa_of)(void);
    float (*f)(float, float, float);
    *(void **)&isa_of = dlsym(lib, "isa");
    *(void **)&f = dlsym(lib, "f");
    if (isa_of) got = isa_of();
    /* Rounded twice, 1 + 2^-11 + 2^-24 loses its last bit: a contraction would keep it. */
    float x = 1.0f + 0x1p-12f;
    assert_true(f && f(x, x, -(1.0f + 0x1p-11f)) == 0.0f);
    dlclose(lib);
    (void)unlink(c);
    (void)unlink(so);
    return got;
}

static void options_compile_and_do_not_contract(void **state) {
    static const char *const compilers[] = {"gcc", "clang"};
    int tried = 0;
    (void)state;
    for (int c = 0; c < 2; c++) {
        char *path = base_find_program(compilers[c]);
        for (unsigned i = 0; path && i < GEN_ISA_COUNT_; i++) {
            if (!(gen_isa_granted() & GEN_ISA_BIT(i)) || !gen_isa_has_templates((gen_isa)i))
                continue;
            assert_int_equal(run_with(compilers[c], c ? GEN_CC_CLANG : GEN_CC_GCC, (gen_isa)i), i);
            tried++;
        }
        base_free(path);
    }
    if (!tried) SKIP_TEST("neither gcc nor clang in PATH");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_words),
        cmocka_unit_test(names_round_trip),
        cmocka_unit_test(what_is_granted_agrees_with_the_kernel),
        cmocka_unit_test(options_compile_and_do_not_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
