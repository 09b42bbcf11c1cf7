/* Reductions in runs (pass/runs.h), on the emulated GPU: the bits of the cpu, whose reductions are whole, and of every op by itself. */
#include "support/both_gpu.h"

#include <math.h>

#include "support/random_effects.h"
#include "support/random_ranks.h"
#include "support/thorough.h"
#include "target/target.h"

/* Kernels of runs that the GPU's form of g has. */
static uint32_t runs_in(const ir_graph *g) {
    const lower_options o = {.target = GEN_CUDA};
    uint32_t n = 0;
    lower_piece p = {0};
    rp_error err = {0};
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_kernels; i++) n += strncmp(p.kernels[i].name, "runs_", 5) == 0;
    lower_done(&p);
    return n;
}

/* n_runs: kernels of runs without passes. */
static void equals_the_cpu(const char *text, uint64_t seed, both_value_fn value, uint32_t n_runs) {
    rp_error err = {0};
    both b = both_of(text, seed);
    both_fill(&b, value, seed);
    assert_int_equal(runs_in(b.g), n_runs);
    /* What may be an infinity or cancels out is near nothing. */
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s: %s", text, b.at, err.text);
    const char *d = value ? NULL : both_off(&b, 1e-3);
    if (d) fail_msg("%s: compiled: %s", text, d);
    d = both_differ(&b);
    if (d) fail_msg("%s: compiled and eager differ: %s", text, d);
    for (int how = 0; how < 2; how++) {
        const plan_run_options o = both_on_gpu(how > 0, true);
        plan_run more = {0};
        if (plan_run_graph(b.g, &b.l, &o, &more, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
        d = plan_run_differs(b.g, &more, &b.code);
        if (d) fail_msg("%s: passes %d: %s", text, how, d);
        plan_run_done(&more);
    }
    both_done(&b);
}

static uint32_t mixed(int64_t i, uint64_t seed) {
    return (uint32_t)((uint64_t)i * 2654435761u + seed * 40503u) >> 7;
}

/* Chunks of `width` results side by side: large ones, small ones, the large ones again with another sign. Sums of large and small ones
 * are rounded, and what that left is most of the result, so that their order counts. */
static double cancels(int64_t i, uint64_t seed, int64_t width) {
    const int64_t chunk = i / (4096 * width), of = chunk % 2 ? i : i % (4096 * width);
    const double v = (double)(mixed(of, seed) % 65536) / 65536 - 0.4;
    return chunk % 2 ? v : ldexp(v, 40) * (chunk % 4 ? -1 : 1);
}

static double row_cancels(int64_t i, uint64_t seed) {
    return cancels(i, seed, 1);
}

static double columns_cancel(int64_t i, uint64_t seed) {
    return cancels(i, seed, 64);
}

static double special(int64_t i, uint64_t seed) {
    static const double of[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-40, -1e-42, 3e38};
    const uint32_t r = mixed(i, seed);
    return r % 9973 == 1 ? of[r / 9973 % (1 + seed % 8)] : (double)(r % 7) - 3;
}

static double negative_zero(int64_t i, uint64_t seed) {
    (void)i, (void)seed;
    return -0.0;
}

static double never(int64_t i, uint64_t seed) {
    (void)i, (void)seed;
    return -INFINITY;
}

/* Rows, columns beside each other and columns alone, of one length. */
static void all_kinds(const char *type, int n, both_value_fn value) {
    const bool ints = type[0] == 'i' || type[0] == 'u', split = n >= 32768;
    base_buf b;
    base_buf_init(&b, 0);
    base_buf_printf(&b,
                    "graph @g(%%x: %s[3,%d], %%y: %s[2,%d,32]) {\n"
                    "  %%0 = sum %%x {axis=1}\n  %%1 = amax %%x {axis=1, keep=true}\n"
                    "  %%2 = amin %%x {axis=1}\n  %%3 = argmax %%x {axis=1}\n"
                    "  %%4 = slice %%y {axis=2, start=3, stop=5}\n"
                    "  %%5 = sum %%4 {axis=1}\n  %%6 = amax %%4 {axis=1}\n"
                    "  %%7 = argmax %%4 {axis=1, keep=true}\n"
                    "  %%8 = sum %%y {axis=1, keep=true}\n  %%9 = amin %%y {axis=1}\n"
                    "  %%10 = prod %%x {axis=1}\n"
                    "  ret %%0, %%1, %%2, %%3, %%5, %%6, %%7, %%8, %%9%s\n}\n",
                    type, n, type, n, ints ? ", %10" : "");
    both x = both_of(b.data, 1);
    const uint32_t runs = runs_in(x.g);
    both_done(&x);
    if ((runs > 0) != split) fail_msg("%s: %u kernels of runs", b.data, runs);
    equals_the_cpu(b.data, 7 + (uint64_t)n, value, runs);
    base_buf_done(&b);
}

static void every_kind_and_type(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16", "f64", "i32",
                                        "i64", "i8",  "u8",   "i16"};
    static const int lengths[] = {32768, 32769, 36863, 40961, 45057, 36865, 32769, 36864, 40959};
    (void)state;
    NEEDS_GPU();
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) all_kinds(types[t], lengths[t], NULL);
    all_kinds("f32", 32767, NULL);
    all_kinds("f32", 36864, row_cancels);
    all_kinds("f32", 32771, negative_zero);
    all_kinds("f32", 32771, never);
}

static void special_values(void **state) {
    (void)state;
    NEEDS_GPU();
    for (uint64_t seed = 0; seed < 4; seed++)
        equals_the_cpu(
            "graph @g(%x: f32[5,33001], %y: f64[33001,2]) {\n"
            "  %0 = sum %x {axis=1}\n  %1 = amax %x {axis=1}\n  %2 = amin %x {axis=1}\n"
            "  %3 = argmax %x {axis=1}\n  %4 = sum %y {axis=0}\n  %5 = amin %y {axis=0}\n"
            "  %6 = argmax %y {axis=0}\n  ret %0, %1, %2, %3, %4, %5, %6\n}\n",
            seed, special, 2);
}

/* What chunks come to is added in order, which counts where they are far apart. */
static void sums_of_one_row(void **state) {
    (void)state;
    NEEDS_GPU();
    for (uint64_t seed = 1; seed < 3; seed++) {
        equals_the_cpu("graph @g(%x: f32[1048575]) {\n  %0 = sum %x {axis=0}\n  ret %0\n}\n", seed,
                       seed == 1 ? NULL : row_cancels, 1);
        equals_the_cpu("graph @g(%x: f32[65537,64]) {\n  %0 = sum %x {axis=0}\n  ret %0\n}\n", seed,
                       seed == 1 ? NULL : columns_cancel, 1);
    }
}

/* In front of the runs, behind them, and beside: what is read in runs is computed there, and again where others read it. */
static void what_is_around(void **state) {
    (void)state;
    NEEDS_GPU();
    equals_the_cpu("graph @softmax(%x: f32[4,40000]) {\n"
                   "  %0 = amax %x {axis=1, keep=true}\n  %1 = sub %x, %0\n  %2 = exp %1\n"
                   "  %3 = sum %2 {axis=1, keep=true}\n  %4 = div %2, %3\n  ret %4\n}\n",
                   1, NULL, 2);
    equals_the_cpu("graph @norm(%x: f16[17,33000], %g: f32[33000]) {\n"
                   "  %n = const 0x1p-15 : f32[]\n  %c = cast %x {dtype=f32}\n"
                   "  %0 = sum %c {axis=1, keep=true}\n  %1 = mul %0, %n\n  %2 = sub %c, %1\n"
                   "  %3 = mul %2, %2\n  %4 = sum %3 {axis=1, keep=true}\n  %5 = mul %4, %n\n"
                   "  %6 = add %5, %n\n  %7 = rsqrt %6\n  %8 = mul %2, %7\n  %9 = mul %8, %g\n"
                   "  %10 = cast %9 {dtype=f16}\n  ret %10\n}\n",
                   2, NULL, 2);
    /* in one kernel of runs; behind them, beside others' rows */
    equals_the_cpu("graph @moments(%x: f32[3,50000], %y: f32[3]) {\n"
                   "  %0 = sum %x {axis=1}\n  %1 = mul %x, %x\n  %2 = sum %1 {axis=1}\n"
                   "  %3 = div %2, %0\n  %4 = add %3, %y\n  ret %1, %4, %0\n}\n",
                   3, NULL, 1);
    /* through views, from short values, and twice */
    equals_the_cpu("graph @views(%x: f32[2,3,40000], %y: f32[40000]) {\n"
                   "  %0 = neg %y\n  %1 = add %x, %0\n  %2 = reshape %1 {shape=[6,40000]}\n"
                   "  %3 = permute %2 {axes=[1,0]}\n  %4 = abs %3\n  %5 = sum %4 {axis=0}\n"
                   "  %6 = amax %3 {axis=0}\n  %7 = add %5, %6\n  ret %7, %0\n}\n",
                   4, NULL, 1);
    /* many ways to one value: it is computed once */
    equals_the_cpu("graph @ways(%x: f32[2,32800]) {\n  %0 = add %x, %x\n  %1 = add %0, %0\n"
                   "  %2 = add %1, %1\n  %3 = add %2, %2\n  %4 = add %3, %3\n  %5 = add %4, %4\n"
                   "  %6 = add %5, %5\n  %7 = add %6, %6\n  %8 = sub %7, %0\n"
                   "  %9 = sum %8 {axis=1}\n  ret %9\n}\n",
                   5, NULL, 1);
    /* one behind the other */
    equals_the_cpu("graph @all(%x: f32[40000,3], %y: i32[40000]) {\n"
                   "  %b = lt %x, %x\n  %c = cast %b {dtype=i32}\n"
                   "  %0 = amax %c {axis=0}\n  %1 = amin %c {axis=0}\n  %2 = amax %y {axis=0}\n"
                   "  %3 = prod %y {axis=0}\n  %4 = add %2, %3\n  %5 = sub %y, %4\n"
                   "  %6 = sum %5 {axis=0}\n  ret %0, %1, %6\n}\n",
                   6, NULL, 3);
}

/* Memory that is read in runs, and overwritten later. */
static void memory_that_changes(void **state) {
    (void)state;
    NEEDS_GPU();
    equals_the_cpu("graph @steps(%x: f32[40000]) {\n  %s = state @s : f32[40000]\n"
                   "  %0 = mul %s, %x\n  %1 = sum %0 {axis=0}\n  %2 = add %s, %1\n"
                   "  %3 = update %s, %2\n  %4 = abs %3\n  %5 = amax %4 {axis=0}\n"
                   "  %6 = div %x, %5\n  %7 = update %3, %6\n  ret %1, %5\n}\n",
                   1, NULL, 2);
}

/* Sizes that are symbols: decided by the most that they may be. */
static void sizes_of_calls(void **state) {
    (void)state;
    NEEDS_GPU();
    for (uint64_t seed = 1; seed < 5; seed++) {
        equals_the_cpu("graph @g(%x: f32[2,K]) where K in [4090,33000] {\n  %0 = mul %x, %x\n"
                       "  %1 = sum %0 {axis=1}\n  %2 = argmax %0 {axis=1}\n  ret %1, %2\n}\n",
                       seed, NULL, 1);
        equals_the_cpu("graph @g(%x: f32[R,4097*K,8]) where R in [1,4], K in [0,10] {\n"
                       "  %0 = sum %x {axis=1}\n  %1 = exp %0\n  ret %0, %1\n}\n",
                       seed, NULL, 1);
    }
    equals_the_cpu("graph @g(%x: f32[R,60000]) where R in [1,300] {\n  %0 = sum %x {axis=1}\n"
                   "  ret %0\n}\n",
                   1, NULL, 0);
}

/* Rows enough for a GPU, or too short. */
static void others_stay_whole(void **state) {
    (void)state;
    NEEDS_GPU();
    equals_the_cpu("graph @g(%x: f32[65,32768], %y: f32[2,32767]) {\n  %0 = sum %x {axis=1}\n"
                   "  %1 = amax %y {axis=1}\n  ret %0, %1\n}\n",
                   1, NULL, 0);
    equals_the_cpu("graph @p(%x: f32[2,32768]) {\n  %0 = prod %x {axis=1}\n  ret %0\n}\n", 1, NULL,
                   0);
}

/* --- everything in runs, whatever its size --------------------------------- */

static uint32_t made_in_runs;

static rp_status lower_in_runs(const rp_compiler *by, const ir_graph *g, const lower_options *opt,
                               lower_piece *out, rp_error *err) {
    static const pass_splits all = {2, INT64_MAX, 32, 32, false, false};
    pass_options passes = opt->passes ? *opt->passes : (pass_options){0};
    lower_options o = *opt;
    passes.splits = &all;
    o.passes = &passes;
    RP_TRY(by->lower(g, &o, out, err));
    for (uint32_t i = 0; i < out->n_kernels; i++)
        made_in_runs += strncmp(out->kernels[i].name, "runs_", 5) == 0;
    return RP_OK;
}

static rp_status on_host(const ir_graph *g, const lower_options *opt, lower_piece *out,
                         rp_error *err) {
    return lower_in_runs(&compile_inductor, g, opt, out, err);
}

static rp_status on_gpu(const ir_graph *g, const lower_options *opt, lower_piece *out,
                        rp_error *err) {
    return lower_in_runs(&compile_cuda, g, opt, out, err);
}

/* As random_graphs.c has them, with ways through memory for every third, which the host alone has. */
static ir_graph *random_one(uint64_t seed) {
    rp_error err = {0};
    ir_graph *g = NULL, *more = NULL;
    random_graph_options opt = RANDOM_GRAPH_ALL;
    opt.symbolic = seed % 4 != 0;
    opt.composites = true;
    opt.n_steps = 6 + (uint32_t)(seed % 9);
    CHECK_OK(seed % 2 ? random_graph_new(seed, &opt, &g, &err)
                      : random_ranks_new(seed, 4 + (uint32_t)(seed % 11), true, &g, &err),
             &err);
    if (seed % 3) return g;
    CHECK_OK(random_effects_new(g, seed, false, &more, &err), &err);
    ir_graph_free(g);
    return more;
}

static void random_graphs_equal_the_ops(void **state) {
    rp_compiler backends[2] = {compile_inductor, compile_cuda};
    (void)state;
    NEEDS_GPU();
    backends[0].lower = on_host;
    backends[1].lower = on_gpu;
    for (uint64_t seed = 501; seed < (THOROUGH() ? 537u : 513u); seed++) {
        static const compile_toolchain none;
        const plan_run_options e = {
            .backend = &compile_eager, .isa = gen_isa_best(), .toolchain = &none, .threads = 1};
        rp_error err = {0};
        both b = {.g = random_one(seed)};
        CHECK_OK(both_leaves(&b, seed * 31 + 7, &err), &err);
        CHECK_OK(plan_run_graph(b.g, &b.l, &e, &b.eager, &err), &err);
        for (int k = 0; k < (seed % 3 ? 2 : 1); k++) {
            plan_run_options o = k ? both_on_gpu(true, true) : both_compiled(gen_isa_best());
            plan_run more = {0};
            o.backend = &backends[k];
            o.built_in = false;
            if (plan_run_graph(b.g, &b.l, &o, &more, &err) != RP_OK)
                fail_msg("seed %d: %s", (int)seed, err.text);
            const char *d = plan_run_differs(b.g, &more, &b.eager);
            if (d) fail_msg("seed %d, %s: %s", (int)seed, backends[k].name, d);
            plan_run_done(&more);
        }
        both_done(&b);
    }
    if (made_in_runs < 10) fail_msg("%u kernels of runs", made_in_runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_type), cmocka_unit_test(special_values),
        cmocka_unit_test(sums_of_one_row),     cmocka_unit_test(what_is_around),
        cmocka_unit_test(memory_that_changes), cmocka_unit_test(sizes_of_calls),
        cmocka_unit_test(others_stay_whole),   cmocka_unit_test(random_graphs_equal_the_ops),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
