/* The unit of TPL_FILE, which is test/unit/gen_templates.inc or gen_prelude.inc, once from the test program's own compiler
 * (portable) and once per compiler and instruction set at run time. */
#ifndef SUPPORT_TEMPLATES_H
#define SUPPORT_TEMPLATES_H

#include <dlfcn.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "gen/isa.h"
#include "support/check.h"
#include TPL_FILE

#define MAX_UNITS 7

typedef struct loaded_unit {
    const tpl_unit *t;
    char name[32];
} loaded_unit;

static loaded_unit units[MAX_UNITS];
static int n_units;

static const tpl_unit *compile_unit(const char *cc, gen_cc_family family, gen_isa isa) {
    char so[64];
    size_t n = 0, at = 1;
    int code = -1;
    const char *argv[48] = {cc};
    const char *const *flags = gen_isa_flags(isa, family, &n);
    base_buf out;
    void *lib = NULL;

    snprintf(so, sizeof so, "/tmp/reprise-templates-%d-%s-%d.so", (int)getpid(), cc, (int)isa);
    for (size_t i = 0; i < n; i++) argv[at++] = flags[i];
    const char *rest[] = {"-Isrc", "-shared", "-fPIC",          "-Wall", "-Werror",
                          "-x",    "c",       "test/" TPL_FILE, "-o",    so};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) argv[at++] = rest[i];
    base_buf_init(&out, 1 << 20);
    if (base_spawn(argv, &out, &code, NULL) == RP_OK && code == 0)
        lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fprintf(stderr, "%s for %s: exit %d\n%s\n", cc, gen_isa_name(isa), code,
                out.data ? out.data : "");
    base_buf_done(&out);
    (void)unlink(so);
    return lib ? (const tpl_unit *)dlsym(lib, "tpl_table") : NULL;
}

static int load_units(void **state) {
    static const char *const compilers[] = {"gcc", "clang"};
    (void)state;
    snprintf(units[0].name, sizeof units[0].name, "built in");
    units[n_units++].t = &tpl_table;
    for (int c = 0; c < 2; c++) {
        char *path = base_find_program(compilers[c]);
        for (unsigned i = 0; path && i < GEN_ISA_COUNT_; i++) {
            loaded_unit *u = &units[n_units];
            if (!(gen_isa_granted() & GEN_ISA_BIT(i)) || !gen_isa_has_templates((gen_isa)i))
                continue;
            snprintf(u->name, sizeof u->name, "%s %s", compilers[c], gen_isa_name((gen_isa)i));
            u->t = compile_unit(compilers[c], c ? GEN_CC_CLANG : GEN_CC_GCC, (gen_isa)i);
            if (!u->t) return -1;
            n_units++;
        }
        base_free(path);
    }
    return 0;
}

/* Names what this machine cannot compare, as a skip with its reason. */
static void every_isa_was_loaded(void **state) {
    (void)state;
    for (unsigned i = 0; i < GEN_ISA_COUNT_; i++)
        if (gen_isa_has_templates((gen_isa)i) && !(gen_isa_granted() & GEN_ISA_BIT(i)))
            SKIP_TEST("%s is not granted on this machine", gen_isa_name((gen_isa)i));
    if (n_units < 1 + 3)
        SKIP_TEST("no gcc and no clang in PATH: only the built-in unit was tested");
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static float random_unit(void) {
    return (float)(random_bits() >> 40) * 0x1p-23f - 1.0f;
}

/* Sum of about three uniforms, now and then a large one: like activations. */
static float random_normal(void) {
    float x = random_unit() + random_unit() + random_unit();
    return random_bits() % 64 == 0 ? x * 20.0f : x;
}

static void assert_same_bits(const void *a, const void *b, size_t n, const char *what,
                             const char *unit) {
    const uint32_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            fail_msg("%s: %s differs at %zu: %08x, not %08x", what, unit, i, y[i], x[i]);
}

#endif
