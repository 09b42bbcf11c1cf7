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
#include "support/kir_cases.h"
#include "support/render.h"
#include "support/thorough.h"
#include "support/trees.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    return tree_make(folder, sizeof folder);
}

static int remove_folder(void **state) {
    (void)state;
    return base_path_remove(folder, NULL) == RP_OK ? 0 : -1;
}

/* Compiles text; NULL (after printing what the compiler said) when it does not compile. */
static void *compile(const char *cc, const char *text, size_t len, gen_isa isa, const char *name) {
    const char *argv[40] = {cc, "-shared", "-fPIC", "-w", "-Werror=implicit-function-declaration"};
    const char *const *flags;
    char c[128], so[128];
    base_buf out;
    size_t n = 5, n_flags;
    int code = -1;
    void *lib = NULL;

    flags = gen_isa_flags(isa, strcmp(cc, "clang") ? GEN_CC_GCC : GEN_CC_CLANG, &n_flags);
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

/* Schedules that no rule makes: single vectors with a rest that is found at run time, and no vectors. */
static void one_vector_at_a_time(sched_step *step) {
    step->unroll = 0;
    step->whole = true;
    step->tail = -1;
}

static void no_vectors(sched_step *step) {
    *step = (sched_step){.end = step->end, .chunks = step->chunks};
}

typedef void (*edit_fn)(sched_step *vector);

static void render_cases(base_buf *text, int64_t *scratch, gen_isa isa, edit_fn edit) {
    base_buf_init(text, 0);
    gen_c_prelude(isa, text);
    for (uint32_t i = 0; i < kir_n_cases; i++) {
        kir_func *f = kir_cases[i].make(kir_cases[i].name);
        rp_error err = {0};
        sched *s = NULL;
        rp_status st = sched_make(&sched_cpu, f, &s, &err);
        for (kir_ref at = 0; edit && st == RP_OK && at < s->f->n_insts; at++)
            if (s->steps[at].kind == SCHED_VECTOR) edit(&s->steps[at]);
        if (st == RP_OK) st = sched_verify(s, &err);
        if (st == RP_OK) st = gen_c_func(s, text, &err);
        if (st != RP_OK) fprintf(stderr, "%s\n", err.text);
        assert_int_equal(st, RP_OK);
        if (s->launch.scratch > *scratch) *scratch = s->launch.scratch;
        sched_free(s);
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

static void generated_code_equals_interpreter(const char *cc, gen_isa isa, edit_fn edit) {
    base_buf text;
    int64_t scratch_size = 64;
    void *lib, *scratch;
    int bad = 0;

    if (!(gen_isa_granted() & GEN_ISA_BIT(isa))) {
        print_message("skip: this machine does not grant %s\n", gen_isa_name(isa));
        skip();
    }
    render_cases(&text, &scratch_size, isa, edit);
    lib = compile(cc, text.data, text.len, isa, "cases");
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
    generated_code_equals_interpreter("gcc", GEN_ISA_PORTABLE, NULL);
}

static void other_schedules_equal_interpreter(void **state) {
    (void)state;
    generated_code_equals_interpreter("gcc", gen_isa_best(), one_vector_at_a_time);
    generated_code_equals_interpreter("gcc", gen_isa_best(), no_vectors);
}

static void avx2_equals_interpreter(void **state) {
    (void)state;
    generated_code_equals_interpreter("gcc", GEN_ISA_AVX2, NULL);
}

static void avx512_equals_interpreter(void **state) {
    (void)state;
    generated_code_equals_interpreter("gcc", GEN_ISA_AVX512, NULL);
}

static void clang_equals_interpreter(void **state) {
    char *clang = base_find_program("clang");
    bool found = clang != NULL;

    (void)state;
    base_free(clang);
    if (!found) {
        print_message("skip: no clang on this machine\n");
        skip();
    }
    bool wide = gen_isa_granted() & GEN_ISA_BIT(GEN_ISA_AVX2);
    if (wide) generated_code_equals_interpreter("clang", GEN_ISA_AVX2, NULL);
    if (!wide || THOROUGH()) generated_code_equals_interpreter("clang", GEN_ISA_PORTABLE, NULL);
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
    assert_int_equal(render_c(f, &text, NULL, NULL), RP_OK);
    base_buf_puts(&text, caller);
    lib = compile("gcc", text.data, text.len, GEN_ISA_PORTABLE, "fragment");
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

/* Out of memory at each allocation: a clean error, nothing left behind. */
static void rendering_survives_lost_allocations(void **state) {
    kir_func *f = kir_cases[6].make("f");
    size_t live = base_live();

    (void)state;
    for (int cuda = 0; cuda < 2; cuda++) {
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            base_buf out;
            rp_error err = {0};
            rp_status st;
            base_buf_init(&out, 0);
            base_alloc_fail_nth(n);
            st = cuda ? render_cuda(f, &out, &err) : render_c(f, &out, NULL, &err);
            fired = base_alloc_fail_nth(0);
            assert_int_equal(st, fired ? RP_NOMEM : RP_OK);
            base_buf_done(&out);
            assert_int_equal(base_live(), live);
        }
    }
    kir_free(f);
}

static void check_name(gen_kernel_kind kind, const char *const *ops, uint32_t n, const char *want) {
    base_buf out;
    base_buf_init(&out, 0);
    assert_int_equal(gen_kernel_name(kind, ops, n, 3, &out, NULL), RP_OK);
    assert_string_equal(out.data, want);
    base_buf_done(&out);
}

static void kernels_are_named_by_their_ops(void **state) {
    static const char *const norm[] = {"rsqrt", "mul", "mean", "mul"};
    static const char *const odd[] = {"aiter::rms norm"};
    const char *many[40];

    (void)state;
    check_name(GEN_KERNEL_REDUCTION, norm, 4, "red_fused_mean_mul_rsqrt_3");
    check_name(GEN_KERNEL_POINTWISE, NULL, 0, "poi_fused_3");
    check_name(GEN_KERNEL_MATMUL, odd, 1, "mm_fused_aiter__rms_norm_3");
    for (int i = 0; i < 40; i++) many[i] = i % 2 ? "sigmoid" : norm[i % 4];
    check_name(GEN_KERNEL_PERSISTENT, many, 40, "per_fused_mean_rsqrt_sigmoid_3");
}

/* More scratch than a block has: refused, not truncated. */
static void cuda_refuses_too_much_scratch(void **state) {
    kir_func *f = kir_new("f", KIR_KERNEL, NULL);
    rp_error err = {0};
    base_buf out;

    (void)state;
    (void)kir_add_buf(f, "big", KIR_SCRATCH, RP_DTYPE_F32, 0, 0, 100000);
    (void)kir_begin(f, KIR_PAR, kir_const_i(f, 4));
    kir_end(f);
    base_buf_init(&out, 0);
    assert_int_equal(render_cuda(f, &out, &err), RP_UNSUPPORTED);
    assert_non_null(strstr(err.text, "400000 bytes of scratch"));
    assert_int_equal(render_c(f, &out, NULL, NULL), RP_OK);
    base_buf_done(&out);
    kir_free(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portable_equals_interpreter),
        cmocka_unit_test(other_schedules_equal_interpreter),
        cmocka_unit_test(avx2_equals_interpreter),
        cmocka_unit_test(avx512_equals_interpreter),
        cmocka_unit_test(clang_equals_interpreter),
        cmocka_unit_test(fragment_is_called_with_scratch),
        cmocka_unit_test(rendering_survives_lost_allocations),
        cmocka_unit_test(kernels_are_named_by_their_ops),
        cmocka_unit_test(cuda_refuses_too_much_scratch),
    };
    return cmocka_run_group_tests_name("gen_c", tests, make_folder, remove_folder);
}
