/* Generated C against the interpreter: every case, every instruction set granted here, bit for bit;
 * whole ranges and split ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "gen/gen.h"
#include "support/kir_cases.h"

static char folder[] = "/tmp/reprise-gen-c-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    return base_path_remove(folder, NULL) == RP_OK ? 0 : -1;
}

/* Compiles text; NULL (after printing what the compiler said) when it does not compile. */
static void *compile(const char *text, size_t len, gen_isa isa, const char *name) {
    const char *argv[40] = {"cc", "-shared", "-fPIC", "-w",
                            "-Werror=implicit-function-declaration"};
    const char *const *flags;
    char c[128], so[128];
    base_buf out;
    size_t n = 5, n_flags;
    int code = -1;
    void *lib = NULL;

    flags = gen_isa_flags(isa, GEN_CC_GCC, &n_flags);
    for (size_t i = 0; i < n_flags; i++) argv[n++] = flags[i];
    snprintf(c, sizeof c, "%s/%s_%d.c", folder, name, (int)isa);
    snprintf(so, sizeof so, "%s/%s_%d.so", folder, name, (int)isa);
    argv[n++] = c;
    argv[n++] = "-o";
    argv[n++] = so;
    base_buf_init(&out, 1 << 20);
    assert_int_equal(base_file_write_atomic(c, text, len, NULL), RP_OK);
    if (base_spawn(argv, &out, &code, NULL) == RP_OK && code == 0)
        lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fprintf(stderr, "%s: exit %d: %s %s\n", c, code, out.data ? out.data : "",
                code ? "" : dlerror());
    base_buf_done(&out);
    return lib;
}

static void render_cases(base_buf *text, int64_t *scratch, gen_isa isa) {
    base_buf_init(text, 0);
    gen_c_prelude(isa, text);
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        kir_func *f = kir_cases[i].make(kir_cases[i].name);
        rp_error err = {0};
        int64_t size = 0;
        rp_status st = gen_c_func(f, text, &size, &err);
        if (st != RP_OK) fprintf(stderr, "%s\n", err.text);
        assert_int_equal(st, RP_OK);
        if (size > *scratch) *scratch = size;
        kir_free(f);
    }
}

static int run_case(const kir_case *c, gen_host_fn fn, void *scratch, const char *isa) {
    kir_func *f = c->make(c->name);
    kir_case_data want, whole, split;
    long long dim[1] = {KIR_CASE_T};
    int64_t symbols[1] = {KIR_CASE_T};
    rp_error err = {0};
    int bad;

    assert_true(kir_case_data_init(&want, c) && kir_case_data_init(&whole, c) &&
                kir_case_data_init(&split, c));
    if (kir_run(f, want.arg, symbols, NULL, 0, c->items, &err) != RP_OK)
        fprintf(stderr, "%s\n", err.text);
    assert_int_equal(err.code, RP_OK);
    fn(whole.arg, dim, 0, c->items, scratch);
    fn(split.arg, dim, c->items / 3, c->items, scratch);
    fn(split.arg, dim, 0, c->items / 3, scratch);
    bad = kir_case_compare(c, &want, &whole, isa) + kir_case_compare(c, &want, &split, isa);
    kir_case_data_done(&want);
    kir_case_data_done(&whole);
    kir_case_data_done(&split);
    kir_free(f);
    return bad;
}

static void generated_code_equals_interpreter(gen_isa isa) {
    base_buf text;
    int64_t scratch_size = 64;
    void *lib, *scratch;
    int bad = 0;

    if (!(gen_isa_granted() & GEN_ISA_BIT(isa))) {
        print_message("skip: this machine does not grant %s\n", gen_isa_name(isa));
        skip();
    }
    render_cases(&text, &scratch_size, isa);
    lib = compile(text.data, text.len, isa, "cases");
    base_buf_done(&text);
    assert_non_null(lib);
    scratch = base_alloc_aligned((size_t)scratch_size, 64);
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        gen_host_fn fn = NULL;
        *(void **)&fn = dlsym(lib, kir_cases[i].name);
        assert_non_null(fn);
        bad += run_case(&kir_cases[i], fn, scratch, gen_isa_name(isa));
    }
    base_free(scratch);
    dlclose(lib);
    assert_int_equal(bad, 0);
}

static void portable_equals_interpreter(void **state) {
    (void)state;
    generated_code_equals_interpreter(GEN_ISA_PORTABLE);
}

static void avx2_equals_interpreter(void **state) {
    (void)state;
    generated_code_equals_interpreter(GEN_ISA_AVX2);
}

static void avx512_equals_interpreter(void **state) {
    (void)state;
    generated_code_equals_interpreter(GEN_ISA_AVX512);
}

/* A fragment inside of a caller, as a template does it. */
static void fragment_is_called_with_scratch(void **state) {
    static const char caller[] = "__attribute__((visibility(\"default\"))) void call(void *const "
                                 "*arg, long long row, float *acc) {\n"
                                 "    epilogue(arg, 0, row, acc);\n}\n";
    float bias[24], want[72], got[72], acc[24];
    void *arg[3] = {bias, want, acc}, *lib;
    void (*call)(void *const *arg, long long row, float *acc) = NULL;
    kir_func *f = kir_case_fragment();
    int64_t row = 2;
    base_buf text;

    (void)state;
    for (int i = 0; i < 72; i++) want[i] = got[i] = -9.0f;
    for (int i = 0; i < 24; i++) {
        bias[i] = (float)i * 0.3f - 2.0f;
        acc[i] = (float)((i * 7) % 5) - 2.0f;
    }
    base_buf_init(&text, 0);
    gen_c_prelude(GEN_ISA_PORTABLE, &text);
    assert_int_equal(gen_c_func(f, &text, NULL, NULL), RP_OK);
    base_buf_puts(&text, caller);
    lib = compile(text.data, text.len, GEN_ISA_PORTABLE, "fragment");
    base_buf_done(&text);
    assert_non_null(lib);
    *(void **)&call = dlsym(lib, "call");
    assert_non_null(call);
    assert_int_equal(kir_run(f, arg, NULL, &row, 0, 0, NULL), RP_OK);
    arg[1] = got;
    call(arg, row, acc);
    assert_memory_equal(want, got, sizeof want);
    assert_true(want[47] == -9.0f && want[71] >= 0.0f);
    dlclose(lib);
    kir_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portable_equals_interpreter),
        cmocka_unit_test(avx2_equals_interpreter),
        cmocka_unit_test(avx512_equals_interpreter),
        cmocka_unit_test(fragment_is_called_with_scratch),
    };
    return cmocka_run_group_tests_name("gen_c", tests, make_folder, remove_folder);
}
