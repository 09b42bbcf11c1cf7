/* No compiler option changes a value: generated code compiled without each option that only makes it faster gives the bits
 * of the code compiled with all of them, and with each of the compilers that are here.
 *
 * A script in a compiler's place drops one option (or says -O0) and hands on to the compiler. */
#include "support/both.h"

#include <float.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* Conversions there and back, roundings and choices: what options about exceptions, signs and errors of floats are about.
 * Every pair of special values meets in x and y. */
static const char conversions[] =
    "graph @g(%x: f32[17,32], %y: f32[17,32]) {\n"
    "  %i = cast %x {dtype=i32}\n  %h = cast %i {dtype=f16}\n  %f = cast %i {dtype=f32}\n"
    "  %b = cast %x {dtype=i8}\n  %c = cast %b {dtype=f32}\n  %u = cast %x {dtype=u8}\n"
    "  %v = cast %u {dtype=bf16}\n  %m = cast %y {dtype=i32}\n  %n = max %i, %m\n"
    "  %o = cast %n {dtype=f32}\n  %lt = lt %x, %y\n  %w = where %lt, %i, %m\n"
    "  %p = cast %w {dtype=f32}\n  %q = floor %x\n  %r = ceil %x\n  %s = round %x\n"
    "  %t = sqrt %x\n  %aa = max %x, %y\n  %ab = min %x, %y\n  %ac = div %x, %y\n"
    "  %ad = fma %x, %y, %x\n  %ae = mul %x, %y\n  %af = add %ae, %x\n  %ag = rsqrt %x\n"
    "  ret %h, %f, %c, %v, %o, %p, %q, %r, %s, %t, %aa, %ab, %ac, %ad, %af, %ag\n}\n";
static const char functions[] =
    "graph @g(%x: f32[17,32], %y: f32[17,32]) {\n"
    "  %a = exp %x\n  %b = log %x\n  %c = tanh %x\n  %d = erf %x\n  %e = sigmoid %x\n"
    "  %f = pow %x, %y\n  %g = sin %x\n  %h = cos %x\n"
    "  %i = sum %y {axis=1}\n  %j = amax %x {axis=1}\n  %k = amin %y {axis=0}\n"
    "  %l = prod %y {axis=1}\n  %m = argmax %x {axis=1}\n"
    "  ret %a, %b, %c, %d, %e, %f, %g, %h, %i, %j, %k, %l, %m\n}\n";

/* The same over one axis: kernels without an inner loop are compiled otherwise. */
static const char *in_one_axis(const char *text) {
    static char out[4096];
    char *to = out;
    for (const char *p = text; *p;) {
        bool shape = strncmp(p, "[17,32]", 7) == 0;
        to += snprintf(to, 8, "%.*s", shape ? 5 : 1, shape ? "[544]" : p);
        p += shape ? 7 : 1;
    }
    return out;
}

static void fill(const ir_graph *g, random_leaves *l) {
    static const double v[] = {0.0,     -0.0,  0.5,  -0.5,  0.75,     -0.25, 1.0,   -1.0,
                               1.5,     -1.5,  2.5,  -2.5,  INFINITY, NAN,   1e-42, -1e-42,
                               FLT_MAX, 3e9,   -3e9, 127.5, -128.5,   255.5, 1e5,   -1e5,
                               FLT_MIN, 65504, 1e-7, 88.5,  -103.5,   0.1,   -0.9,  -INFINITY};
    (void)g;
    for (uint32_t i = 0; i < 2; i++) {
        ir_value *x = &l->leaf[IR_LEAF_INPUT][i];
        for (int64_t k = 0; k < x->n; k++) x->data[k] = (double)(float)v[(i ? k + k / 32 : k) % 32];
    }
}

/* A compiler that drops `option`; "-O1" and "-O2" are replaced by "-O0". */
static void write_script(const char *path, const char *compiler, const char *option) {
    rp_error err = {0};
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b,
                    "#!/bin/sh\nn=$#\nwhile [ $n -gt 0 ]; do\n  a=$1; shift; n=$((n - 1))\n"
                    "  [ \"$a\" = '%s' ] && { case $a in -O[12]) a=-O0 ;; *) continue ;; esac; }\n"
                    "  set -- \"$@\" \"$a\"\ndone\nexec %s \"$@\"\n",
                    option, compiler);
    CHECK_OK(base_file_write_atomic(path, b.data, b.len, &err), &err);
    assert_int_equal(chmod(path, 0700), 0);
    base_buf_done(&b);
}

static void run_with(const char *compiler, const char *option, const ir_graph *g,
                     const random_leaves *l, plan_run *out) {
    static int runs;
    char path[160], cache[160];
    rp_error err = {0};
    cache_store *store =
        NULL; /* one of its own: code is found by its text and the name of the compiler */
    compile_toolchain t = {0};
    (void)snprintf(path, sizeof path, "%s/cc", host.folder);
    (void)snprintf(cache, sizeof cache, "%s/cache%d", host.folder, runs++);
    CHECK_OK(cache_store_open(cache, &store, &err), &err);
    write_script(path, compiler, option);
    assert_int_equal(setenv("REPRISE_CC", path, 1), 0);
    CHECK_OK(compile_toolchain_find(NULL, &t, &err), &err);
    assert_non_null(t.path);
    plan_run_options o = both_compiled(gen_isa_best());
    o.toolchain = &t;
    o.store = store;
    if (plan_run_graph(g, l, &o, out, &err) != RP_OK)
        fail_msg("%s without %s: %s", compiler, option, err.text);
    compile_toolchain_done(&t);
    cache_store_close(store);
    assert_int_equal(unsetenv("REPRISE_CC"), 0);
}

/* Options that make code faster: all but those that name a language or instructions, and the one that forbids fusing, whose
 * purpose it is to change values. */
static bool is_about_speed(const char *option) {
    return strncmp(option, "-D", 2) != 0 && strncmp(option, "-std", 4) != 0 &&
           strcmp(option, "-ffp-contract=off") != 0 &&
           (strncmp(option, "-m", 2) != 0 || strncmp(option, "-mprefer", 8) == 0);
}

static void check_compiler(const char *compiler, gen_cc_family family, const char *text) {
    both b = both_of(text, 1);
    plan_run all = {0};
    size_t n = 0, dropped = 0;
    const char *const *flags = gen_isa_flags(gen_isa_best(), family, &n);
    fill(b.g, &b.l);
    run_with(compiler, "none", b.g, &b.l, &all);
    for (size_t i = 0; i < n; i++) {
        plan_run without = {0};
        if (!is_about_speed(flags[i])) continue;
        dropped++;
        run_with(compiler, flags[i], b.g, &b.l, &without);
        const char *d = plan_run_differs(b.g, &all, &without);
        if (d) fail_msg("%s without %s: %s", compiler, flags[i], d);
        plan_run_done(&without);
    }
    assert_true(dropped >= 3);
    plan_run_done(&all);
    both_done(&b);
}

static bool has(const char *compiler) {
    char command[64];
    (void)snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", compiler);
    return system(command) == 0; /* NOLINT(cert-env33-c): a constant */
}

static void no_option_of_gcc_changes_a_value(void **state) {
    (void)state;
    if (!has("gcc")) SKIP_TEST("no gcc");
    check_compiler("gcc", GEN_CC_GCC, conversions);
    check_compiler("gcc", GEN_CC_GCC, in_one_axis(conversions));
    check_compiler("gcc", GEN_CC_GCC, functions);
}

static void no_option_of_clang_changes_a_value(void **state) {
    const char *compiler = has("clang") ? "clang" : "clang-14";
    (void)state;
    if (!has(compiler)) SKIP_TEST("no clang");
    check_compiler(compiler, GEN_CC_CLANG, conversions);
    check_compiler(compiler, GEN_CC_CLANG, in_one_axis(conversions));
    check_compiler(compiler, GEN_CC_CLANG, functions);
}

/* gcc 12 made a truncation of a conversion there and back: -0 for -0.5. */
static void a_fraction_below_zero_is_zero(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        both b = both_of(i ? in_one_axis(conversions) : conversions, 1);
        fill(b.g, &b.l);
        CHECK_OK(both_run(&b, gen_isa_best(), &err), &err);
        const char *d = both_differ(&b);
        if (d) fail_msg("compiled and eager differ: %s", d);
        both_done(&b);
    }
}

/* gcc 12 forgot the rounding to f32 between two ops of f64 where it joined two neighbours in a vector (of rows of 2 and 6). */
static void a_rounding_between_doubles_stays(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int size = 1; size <= 9; size++) {
        char text[320];
        rp_error err = {0};
        (void)snprintf(
            text, sizeof text,
            "graph @g(%%x: f32[300,%d], %%y: f32[1]) {\n  %%a = cast %%x {dtype=f64}\n"
            "  %%c = const 0x1.5555555555555p-2 : f64[]\n  %%d = add %%a, %%c\n"
            "  %%e = sqrt %%d\n  %%f = cast %%e {dtype=f32}\n  %%g = cast %%f {dtype=f64}\n"
            "  %%h = mul %%g, %%c\n  %%i = cast %%h {dtype=f32}\n  ret %%i\n}\n",
            size);
        both b = both_of(text, 1);
        CHECK_OK(both_run(&b, gen_isa_best(), &err), &err);
        const char *d = both_differ(&b);
        if (d) fail_msg("rows of %d: compiled and eager differ: %s", size, d);
        both_done(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fraction_below_zero_is_zero),
        cmocka_unit_test(a_rounding_between_doubles_stays),
        cmocka_unit_test(no_option_of_gcc_changes_a_value),
        cmocka_unit_test(no_option_of_clang_changes_a_value),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
