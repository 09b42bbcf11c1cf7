/* Compiling without memory: whichever allocation fails, there is an error and nothing is left, of plans that run plans, too. */
#include "support/plans.h"
#include "support/thorough.h"

#include "base/alloc.h"
#include "compile/benchmark.h"
#include "target/target.h"

/* A chain of so many branches. */
static ir_graph *branches(int n) {
    char text[8192];
    ir_graph *g = NULL;
    rp_error err = {0};
    size_t at = (size_t)snprintf(text, sizeof text, "graph @g(%%x: f32[4], %%c: bool[]) {\n");
    for (int i = 0; i < n; i++) {
        char of[16] = "x";
        if (i) (void)snprintf(of, sizeof of, "v%d", i - 1);
        at +=
            (size_t)snprintf(text + at, sizeof text - at,
                             "  %%v%d = cond %%c, %%%s {else=graph @else(%%in0: f32[4]) -> f32[4] "
                             "{\n    %%0 = neg %%in0 : f32[4]\n    ret %%0\n  }, then=graph "
                             "@then(%%in0: f32[4]) -> f32[4] {\n    %%0 = exp %%in0 : f32[4]\n    "
                             "ret %%0\n  }} : f32[4]\n",
                             i, of);
    }
    (void)snprintf(text + at, sizeof text - at, "  ret %%v%d }\n", n - 1);
    if (ir_parse(text, strlen(text), &g, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    return g;
}

enum { MOST = 3 };

/* How many allocations there are. */
static uint64_t fail_each(int n_branches) {
    const rp_compiler lowering = lowers_only();
    const compile_toolchain none = {0};
    const compile_options opt = {.backend = &lowering,
                                 .isa = GEN_ISA_PORTABLE,
                                 .toolchain = &none,
                                 .threads = 1,
                                 .passes = true};
    ir_graph *g = branches(n_branches);
    uint64_t failures = 0;
    const size_t live = base_live();
    for (bool failed = true; failed; failures += failed) {
        plan *p = NULL;
        rp_error err = {0};
        (void)base_alloc_fail_nth(failures + 1);
        const rp_status st = compile_graph(g, &opt, &p, NULL, &err);
        failed = base_alloc_fail_nth(0);
        if (!failed) CHECK_OK(st, &err);
        if (st != RP_OK) assert_int_equal(st, RP_NOMEM);
        assert_int_equal(p != NULL, st == RP_OK);
        plan_free(p);
        assert_int_equal(base_live(), live);
    }
    ir_graph_free(g);
    return failures;
}

static void branches_without_memory(void **state) {
    (void)state;
    for (int n = 1; n <= (THOROUGH() ? MOST : 2); n++) assert_true(fail_each(n) > 400);
}

/* Outputs that are views, sums, products, rows that are picked and rows that are put. */
static ir_graph *all_kinds(int n) {
    static const char *const kinds[] = {"permute %%x {axes=[1,0]}",
                                        "sum %%x {axis=1, keep=true}",
                                        "matmul %%x, %%x {trans_b=true}",
                                        "gather %%x, %%i",
                                        "exp %%x",
                                        "cumsum %%x {axis=1}"};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    char text[8192];
    ir_graph *g = NULL;
    rp_error err = {0};
    size_t at = (size_t)snprintf(text, sizeof text, "graph @g(%%x: f32[4,4], %%i: i32[3]) {\n");
    for (int i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "  %%k%d = const %d\n  %%v%d = ", i, i,
                               i);
        at += (size_t)snprintf(text + at, sizeof text - at, kinds[i % KINDS], 0);
        at += (size_t)snprintf(text + at, sizeof text - at, "\n  %%o%d = add %%v%d, %%k%d\n", i, i,
                               i);
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "  %%p%d = slice %%o%d {axis=0, start=1, stop=2}\n", i, i);
    }
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%%p%d", i ? ", " : "  ret ", i);
    (void)snprintf(text + at, sizeof text - at, " }\n");
    if (ir_parse(text, strlen(text), &g, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    return g;
}

/* What every compiler makes of a graph is whole, or an error. */
static void lowering_without_memory(void **state) {
    static const struct {
        const rp_compiler *compiler;
        gen_target target;
    } all[] = {
        {&compile_eager, GEN_HOST}, {&compile_inductor, GEN_HOST}, {&compile_cuda, GEN_CUDA}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int n = 1; n <= 12; n += THOROUGH() ? 2 : 5) {
            ir_graph *g = all_kinds(n);
            const lower_options o = {.isa = GEN_ISA_PORTABLE, .target = all[i].target};
            const size_t live = base_live();
            uint64_t failures = 0;
            for (bool failed = true; failed; failures += failed) {
                rp_error err = {0};
                lower_piece low = {0};
                (void)base_alloc_fail_nth(failures + 1);
                const rp_status st = all[i].compiler->lower(g, &o, &low, &err);
                failed = base_alloc_fail_nth(0);
                if (st != (failed ? RP_NOMEM : RP_OK))
                    fail_msg("compiler %zu, %d outputs, allocation %llu: %s", i, n,
                             (unsigned long long)failures, err.text);
                if (st == RP_OK) {
                    assert_int_equal(low.n_outputs, n);
                    lower_done(&low);
                }
                assert_int_equal(base_live(), live);
            }
            assert_true(failures > 2);
            ir_graph_free(g);
        }
}

/* A program that times kernels is whole, or an error: what finds no memory is not left out. */
static void benchmarks_without_memory(void **state) {
    static const char text[] = "graph @g(%x: f32[4,64], %y: f32[4,64]) {\n  %0 = mul %x, %y\n"
                               "  %1 = sum %0 {axis=1, keep=true}\n  %2 = exp %1\n  ret %0, %2 }";
    const lower_options o = {.isa = GEN_ISA_PORTABLE};
    lower_piece low;
    rp_error err = {0};
    ir_graph *g = NULL;
    base_buf want, got;
    uint64_t n = 0;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(target_lower(g, &o, &low, &err), &err);
    base_buf_init(&want, 0);
    CHECK_OK(compile_benchmark_print(g, &low, GEN_ISA_PORTABLE, GEN_CC_GCC, "k.c", &want, &err),
             &err);
    assert_non_null(strstr(want.data, "args_0[] = {"));
    for (bool failed = true; failed;) {
        base_buf_init(&got, 0);
        (void)base_alloc_fail_nth(++n);
        const rp_status st =
            compile_benchmark_print(g, &low, GEN_ISA_PORTABLE, GEN_CC_GCC, "k.c", &got, &err);
        failed = base_alloc_fail_nth(0);
        assert_int_equal(st, failed ? RP_NOMEM : RP_OK);
        if (!failed) assert_string_equal(got.data, want.data);
        base_buf_done(&got);
    }
    assert_true(n > 4);
    base_buf_done(&want);
    lower_done(&low);
    ir_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(branches_without_memory),
                                       cmocka_unit_test(lowering_without_memory),
                                       cmocka_unit_test(benchmarks_without_memory)};
    return cmocka_run_group_tests_name("unit/compile_memory", tests, NULL, NULL);
}
