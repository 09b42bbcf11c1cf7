/* Random kernels as C against the interpreter of kernel IR, bit for bit: half of them as portable
 * code, half with the best instruction set, with THOROUGH all as both. */
#include "support/check.h"

#include <dlfcn.h>
#include <math.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/spawn.h"
#include "kir/inst.h"
#include "support/random_kir.h"
#include "support/render.h"
#include "support/thorough.h"
#include "support/trees.h"

enum { PROGRAMS = 24, VALUES = RANDOM_KIR_POINTS * RANDOM_KIR_MOST };

static int64_t data[RANDOM_KIR_TYPES][RANDOM_KIR_POINTS];

typedef struct result {
    double real[VALUES];
    int64_t whole[VALUES];
} result;
static result want, got;

static random_kir program(int i) {
    return (random_kir){.seed = (uint64_t)i * 104729 + 5};
}

static void *compile(const base_buf *text, gen_isa isa) {
    char c[300], so[300];
    const char *argv[40] = {"gcc", "-shared", "-fPIC", "-w"};
    size_t n = 4, n_flags;
    const char *const *flags = gen_isa_flags(isa, GEN_CC_GCC, &n_flags);
    const char *dir = tree_new(gen_isa_name(isa));
    rp_error err = {0};
    base_buf out;
    int code = -1;
    for (size_t i = 0; i < n_flags; i++) argv[n++] = flags[i];
    (void)snprintf(c, sizeof c, "%s/random.c", dir);
    (void)snprintf(so, sizeof so, "%s/random.so", dir);
    argv[n++] = c;
    argv[n++] = "-o";
    argv[n++] = so;
    base_buf_init(&out, 1 << 20);
    CHECK_OK(base_file_write_atomic(c, text->data, text->len, &err), &err);
    CHECK_OK(base_spawn(argv, &out, &code, &err), &err);
    if (code) fail_msg("gcc ended with %d: %s", code, out.data ? out.data : "");
    base_buf_done(&out);
    return dlopen(so, RTLD_NOW | RTLD_LOCAL);
}

/* Stored values of value k at every point. */
static void compare(const random_kir *p, int i, gen_isa isa) {
    for (int k = 0; k < VALUES; k++) {
        const kir_inst *in = &p->f->insts[p->value[k % RANDOM_KIR_MOST]];
        if (kir_is_float(in->cls) ? memcmp(&want.real[k], &got.real[k], 8) == 0 ||
                                        (isnan(want.real[k]) && isnan(got.real[k]))
                                  : want.whole[k] == got.whole[k])
            continue;
        fail_msg("%s, program %d: %%%u (%s %s) at point %d is %a = %lld, want %a = %lld",
                 gen_isa_name(isa), i, p->value[k % RANDOM_KIR_MOST], kir_class_name(in->cls),
                 in->op == KIR_ALU ? ir_op_table(in->u.alu)->name : kir_op_table(in->op)->text,
                 k / RANDOM_KIR_MOST, got.real[k], (long long)got.whole[k], want.real[k],
                 (long long)want.whole[k]);
    }
}

/* Programs from first on, below end. */
static void check(gen_isa isa, int first, int end) {
    base_buf text;
    char name[16];
    int64_t most = 64, scratch = 0;
    base_buf_init(&text, 0);
    gen_c_prelude(isa, &text);
    for (int i = first; i < end; i++) {
        random_kir p = program(i);
        rp_error err = {0};
        (void)snprintf(name, sizeof name, "f%d", i);
        kir_func *f = random_kir_new(&p, name);
        CHECK_OK(kir_status(f, &err), &err);
        CHECK_OK(render_c(f, &text, &scratch, &err), &err);
        if (scratch > most) most = scratch;
        kir_free(f);
    }
    void *lib = compile(&text, isa), *room = base_alloc_aligned((size_t)most, 64);
    assert_non_null(lib);
    for (int i = first; i < end; i++) {
        random_kir p = program(i);
        rp_error err = {0};
        void *arg[RANDOM_KIR_TYPES + 2];
        gen_host_fn fn = NULL;
        (void)snprintf(name, sizeof name, "f%d", i);
        kir_func *f = random_kir_new(&p, name);
        *(void **)&fn = dlsym(lib, name);
        assert_non_null(fn);
        for (uint32_t t = 0; t < RANDOM_KIR_TYPES; t++)
            random_kir_fill(&p, random_kir_types[t], arg[t] = data[t]);
        arg[RANDOM_KIR_TYPES] = want.real;
        arg[RANDOM_KIR_TYPES + 1] = want.whole;
        CHECK_OK(kir_run(f, arg, NULL, NULL, 0, RANDOM_KIR_ITEMS, &err), &err);
        arg[RANDOM_KIR_TYPES] = got.real;
        arg[RANDOM_KIR_TYPES + 1] = got.whole;
        fn(arg, NULL, 0, RANDOM_KIR_ITEMS, room);
        compare(&p, i, isa);
        kir_free(f);
    }
    base_free(room);
    base_buf_done(&text);
    assert_int_equal(dlclose(lib), 0);
}

static void code_is_the_interpreter(void **state) {
    char *gcc = base_find_program("gcc");
    (void)state;
    base_free(gcc);
    if (!gcc) SKIP_TEST("no gcc on this machine");
    check(GEN_ISA_PORTABLE, 0, THOROUGH() ? PROGRAMS : PROGRAMS / 2);
    check(gen_isa_best(), THOROUGH() ? 0 : PROGRAMS / 2, PROGRAMS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(code_is_the_interpreter)};
    return cmocka_run_group_tests_name("unit/gen_random", tests, NULL, NULL);
}
