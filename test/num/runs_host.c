/* Reductions in runs (pass/runs.h) on the host, where there are fewer results than threads: the bits of every op by itself, for any
 * number of threads, and of whole reductions. */
#include "support/both.h"

#include <math.h>

#include "reprise/reprise.h"
#include "target/target.h"

/* Kernels of runs that g has for so many threads. */
static uint32_t runs_in(const ir_graph *g, uint32_t threads) {
    const lower_options o = {.isa = gen_isa_best(), .target = GEN_HOST, .threads = threads};
    uint32_t n = 0;
    lower_piece p = {0};
    rp_error err = {0};
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_kernels; i++) n += strncmp(p.kernels[i].name, "runs_", 5) == 0;
    lower_done(&p);
    return n;
}

/* Kernels of g for two threads whose names hold that. */
static uint32_t kernels_of(const char *text, const char *name) {
    const lower_options o = {.isa = gen_isa_best(), .target = GEN_HOST, .threads = 2};
    uint32_t n = 0;
    lower_piece p = {0};
    rp_error err = {0};
    both b = both_of(text, 5);
    CHECK_OK(target_lower(b.g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_kernels; i++) n += strstr(p.kernels[i].name, name) != NULL;
    lower_done(&p);
    both_done(&b);
    return n;
}

/* Chunks of large values, of small ones, and of the large ones again with another sign: what rounding leaves of the small ones is most
 * of the sum, so that the order of chunks counts. Here and there what is no number. */
static double value_at(int64_t i, bool special) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-40, 3e38};
    const int64_t chunk = i / 4096;
    const uint32_t r = (uint32_t)((uint64_t)(chunk % 2 ? i : i % 4096) * 2654435761u) >> 7;
    const double v = (double)(r % 65536) / 65536 - 0.4;
    if (special && i % 30011 == 7) return odd[r % 6];
    return chunk % 2 ? v : ldexp(v, 40) * (chunk % 4 ? -1 : 1);
}

static void fill(both *b, bool special) {
    for (uint32_t k = 0; k < b->l.n[IR_LEAF_INPUT]; k++) {
        ir_value *v = &b->l.leaf[IR_LEAF_INPUT][k];
        const rp_dtype t = ir_node_at(b->g, ir_leaf_at(b->g, IR_LEAF_INPUT, k))->dtype;
        for (int64_t i = 0; ir_dtype_is_real(t) && i < v->n; i++)
            v->data[i] = ir_round(t, value_at(i, special));
    }
}

/* n_runs: kernels of runs without passes for 2, 3 and 5 threads; one thread and nobody has none. */
static void equals_the_ops(const char *text, bool special, const uint32_t n_runs[3]) {
    static const uint32_t threads[] = {1, 2, 3, 5};
    static const compile_toolchain none;
    const plan_run_options e = {
        .backend = &compile_eager, .isa = gen_isa_best(), .toolchain = &none, .threads = 1};
    rp_error err = {0};
    both b = both_of(text, 5);
    fill(&b, special);
    assert_int_equal(runs_in(b.g, 0) + runs_in(b.g, 1), 0);
    CHECK_OK(plan_run_graph(b.g, &b.l, &e, &b.eager, &err), &err);
    for (int i = 0; i < 4; i++) {
        plan_run_options o = both_compiled(gen_isa_best());
        plan_run r = {0};
        if (i) assert_int_equal(runs_in(b.g, threads[i]), n_runs[i - 1]);
        o.threads = threads[i];
        o.watch = i == 2;
        if (plan_run_graph(b.g, &b.l, &o, &r, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
        const char *d = plan_run_differs(b.g, &r, &b.eager);
        if (d) fail_msg("%s: %u threads: %s", text, threads[i], d);
        plan_run_done(&r);
    }
    both_done(&b);
}

static void every_kind_and_type(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16", "f64", "i32",
                                        "i64", "i8",  "u8",   "i16"};
    static const int lengths[] = {131072, 131073, 135167, 139265, 143361,
                                  135169, 131073, 135168, 139263};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int special = 0; special < 2; special++) {
            const char *type = types[t];
            const bool ints = type[0] == 'i' || type[0] == 'u';
            base_buf b;
            if (special && ints) continue;
            base_buf_init(&b, 0);
            base_buf_printf(&b,
                            "graph @g(%%x: %s[2,%d], %%y: %s[%d,9]) {\n"
                            "  %%0 = sum %%x {axis=1}\n  %%1 = amax %%x {axis=1, keep=true}\n"
                            "  %%2 = amin %%x {axis=1}\n  %%3 = argmax %%x {axis=1}\n"
                            "  %%4 = sum %%y {axis=0}\n  %%5 = amax %%y {axis=0, keep=true}\n"
                            "  %%6 = argmax %%y {axis=0}\n  %%7 = prod %%x {axis=1}\n"
                            "  ret %%0, %%1, %%2, %%3, %%4, %%5, %%6%s\n}\n",
                            type, lengths[t], type, lengths[t], ints ? ", %7" : "");
            /* Of y alone where the rows of x are as many as threads: nine neighbours are one item. */
            equals_the_ops(b.data, special, (const uint32_t[]){1, 2, 2});
            base_buf_done(&b);
        }
}

static void what_is_around(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    equals_the_ops("graph @sum(%x: f32[1048575]) {\n  %0 = sum %x {axis=0}\n  ret %0\n}\n", false,
                   (const uint32_t[]){1, 1, 1});
    equals_the_ops("graph @softmax(%x: f32[4,135000]) {\n"
                   "  %0 = amax %x {axis=1, keep=true}\n  %1 = sub %x, %0\n  %2 = exp %1\n"
                   "  %3 = sum %2 {axis=1, keep=true}\n  %4 = div %2, %3\n  ret %4\n}\n",
                   false, (const uint32_t[]){0, 0, 2});
    equals_the_ops("graph @norm(%x: f16[1,132000], %g: f32[132000]) {\n"
                   "  %n = const 0x1p-17 : f32[]\n  %c = cast %x {dtype=f32}\n"
                   "  %0 = sum %c {axis=1, keep=true}\n  %1 = mul %0, %n\n  %2 = sub %c, %1\n"
                   "  %3 = mul %2, %2\n  %4 = sum %3 {axis=1, keep=true}\n  %5 = mul %4, %n\n"
                   "  %6 = add %5, %n\n  %7 = rsqrt %6\n  %8 = mul %2, %7\n  %9 = mul %8, %g\n"
                   "  %10 = cast %9 {dtype=f16}\n  ret %10\n}\n",
                   false, (const uint32_t[]){2, 2, 2});
    equals_the_ops("graph @columns(%x: f32[135001,64], %y: f32[64]) {\n  %a = abs %x\n"
                   "  %0 = sum %a {axis=0}\n  %1 = add %0, %y\n  ret %1, %a\n}\n",
                   false, (const uint32_t[]){1, 1, 1});
    equals_the_ops("graph @steps(%x: f32[135000]) {\n  %s = state @s : f32[135000]\n"
                   "  %0 = mul %s, %x\n  %1 = sum %0 {axis=0}\n  %2 = add %s, %1\n"
                   "  %3 = update %s, %2\n  %4 = abs %3\n  %5 = amax %4 {axis=0}\n"
                   "  %6 = div %x, %5\n  %7 = update %3, %6\n  ret %1, %5\n}\n",
                   false, (const uint32_t[]){2, 2, 2});
}

/* Rows enough, short ones, products of floats, and axes of any length, which are mostly short. */
static void others_stay_whole(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    equals_the_ops("graph @g(%x: f32[5,131072], %y: f32[1,131071], %z: f32[131072]) {\n"
                   "  %0 = sum %x {axis=1}\n  %1 = amax %y {axis=1}\n  %2 = prod %z {axis=0}\n"
                   "  ret %0, %1, %2\n}\n",
                   false, (const uint32_t[]){0, 0, 0});
    equals_the_ops("graph @g(%x: f32[1,K]) where K in [1,200000] {\n  %0 = sum %x {axis=1}\n"
                   "  ret %0\n}\n",
                   false, (const uint32_t[]){0, 0, 0});
    equals_the_ops("graph @g(%x: f32[1,K]) where K in [131072,135000] {\n  %0 = sum %x {axis=1}\n"
                   "  ret %0\n}\n",
                   false, (const uint32_t[]){1, 1, 1});
}

/* Of a softmax exp is computed once, and stored; where the sum alone reads it, it is computed for that. */
static void what_takes_long_is_computed_once(void **state) {
    (void)state;
    assert_int_equal(kernels_of("graph @softmax(%x: f32[1,140000]) {\n"
                                "  %0 = amax %x {axis=1, keep=true}\n  %1 = sub %x, %0\n"
                                "  %2 = exp %1\n  %3 = sum %2 {axis=1, keep=true}\n"
                                "  %4 = div %2, %3\n  ret %4\n}\n",
                                "poi_fused_sub_exp"),
                     1);
    assert_int_equal(kernels_of("graph @lse(%x: f32[1,140000]) {\n"
                                "  %0 = amax %x {axis=1, keep=true}\n  %1 = sub %x, %0\n"
                                "  %2 = exp %1\n  %3 = sum %2 {axis=1, keep=true}\n"
                                "  %4 = log %3\n  %5 = add %4, %0\n  ret %5\n}\n",
                                "poi_"),
                     0);
}

/* As users have it: what the setting says. */
static void threads_of_the_setting(void **state) {
    enum { N = 200000 };
    static const char *const threads[] = {"threads=1", "threads=2"};
    static const char text[] =
        "graph @g(%x: f32[1,200000]) {\n  %0 = sum %x {axis=1}\n  ret %0\n}\n";
    float *x = base_alloc_array(N, sizeof *x), y[2] = {0, 1};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (int i = 0; i < N; i++) x[i] = (float)value_at(i, false);
    for (int i = 0; i < 2; i++) {
        rp_error err = {0};
        rp_graph *g = NULL;
        rp_compiled *c = NULL;
        rp_compiled_info info = {.size = sizeof info};
        rp_compilation_config *cfg = rp_config_new();
        rp_buffer in = {RP_DTYPE_F32, 2, {1, N}, x}, out = {RP_DTYPE_F32, 1, {1}, &y[i]};
        CHECK_OK(rp_config_set(cfg, threads[i], &err), &err);
        CHECK_OK(rp_config_set(cfg, "level=2", &err), &err);
        CHECK_OK(rp_graph_parse(text, strlen(text), &g, &err), &err);
        CHECK_OK(rp_compile(g, cfg, &c, &err), &err);
        CHECK_OK(rp_compiled_run(c, &in, 1, &out, 1, &err), &err);
        CHECK_OK(rp_compiled_get_info(c, &info, &err), &err);
        assert_int_equal(info.kernels, i + 1);
        rp_compiled_free(c);
        rp_graph_free(g);
        rp_config_free(cfg);
    }
    assert_memory_equal(&y[0], &y[1], sizeof *y);
    base_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_type),
        cmocka_unit_test(what_is_around),
        cmocka_unit_test(others_stay_whole),
        cmocka_unit_test(what_takes_long_is_computed_once),
        cmocka_unit_test(threads_of_the_setting),
    };
    return cmocka_run_group_tests_name("num/runs_host", tests, both_set_up, both_tear_down);
}
