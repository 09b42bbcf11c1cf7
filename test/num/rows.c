/* Rows that half a warp or a block has in registers, on the emulated GPU: the bits of the cpu and of every op by itself, whatever a row is longer
 * than, and of an odd number of rows. */
#include "support/both_gpu.h"

#include <math.h>

#include "target/target.h"

/* Kernels of the GPU's form of g whose rows are in registers: of half a warp, or of a block. */
typedef struct counts {
    uint32_t halves, blocks;
} counts;

static bool names(const lower_piece *p, uint32_t kernel, const char *what) {
    const char *at = strstr(p->source + p->kernels[kernel].begin, what);
    return at && at < p->source + p->kernels[kernel].end;
}

static counts rows_in(const ir_graph *g) {
    const lower_options o = {.target = GEN_CUDA};
    counts n = {0};
    lower_piece p = {0};
    rp_error err = {0};
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_kernels; i++) {
        n.halves += names(&p, i, "rk_half_rank() < items");
        n.blocks += names(&p, i, "rk_held<");
    }
    lower_done(&p);
    return n;
}

/* want: kernels without passes. */
static void equals_the_cpu(const char *text, uint64_t seed, both_value_fn value, counts want) {
    rp_error err = {0};
    both b = both_of(text, seed);
    both_fill(&b, value, seed);
    const counts are = rows_in(b.g);
    if (are.halves != want.halves || are.blocks != want.blocks)
        fail_msg("%s: %u and %u", text, are.halves, are.blocks);
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s: %s", text, b.at, err.text);
    const char *d = value ? NULL : both_off(&b, 1e-3);
    if (d) fail_msg("%s: compiled: %s", text, d);
    d = both_differ(&b);
    if (d) fail_msg("%s: compiled and eager differ: %s", text, d);
    for (int passes = 0; passes < 2; passes++) {
        const plan_run_options o = both_on_gpu(passes > 0, true);
        plan_run more = {0};
        if (plan_run_graph(b.g, &b.l, &o, &more, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
        d = plan_run_differs(b.g, &more, &b.code);
        if (d) fail_msg("%s: passes %d: %s", text, passes, d);
        plan_run_done(&more);
    }
    both_done(&b);
}

static uint32_t mixed(int64_t i, uint64_t seed) {
    return (uint32_t)((uint64_t)i * 2654435761u + seed * 40503u) >> 7;
}

/* Large and small in turn, so that what a sum of another order rounds is most of the result. */
static double cancels(int64_t i, uint64_t seed) {
    const double v = (double)(mixed(i, seed) % 65536) / 65536 - 0.4;
    return mixed(i, seed) % 3 ? v : ldexp(v, 30);
}

static double special(int64_t i, uint64_t seed) {
    static const double of[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-40, -1e-42, 3e38};
    const uint32_t r = mixed(i, seed);
    return r % 61 == 1 ? of[r / 61 % (1 + seed % 8)] : (double)(r % 7) - 3;
}

static double zeros(int64_t i, uint64_t seed) {
    return mixed(i, seed) % 2 ? -0.0 : 0.0;
}

static double never(int64_t i, uint64_t seed) {
    (void)i, (void)seed;
    return -INFINITY;
}

/* Of few rows half a warp takes those of up to 128 elements. */
enum { N_LENGTHS = 8 };
static const int short_lengths[N_LENGTHS] = {1, 2, 15, 16, 17, 33, 100, 128};
static const int long_lengths[N_LENGTHS] = {129, 511, 513, 1000, 1024, 4095, 4097, 8192};

/* Reductions of rows of a length each, which share their kernel. */
static void all_kinds(const char *type, int rows, both_value_fn value, uint64_t seed,
                      const int lengths[N_LENGTHS]) {
    base_buf b, ret;
    base_buf_init(&b, 0);
    base_buf_init(&ret, 0);
    base_buf_puts(&b, "graph @g(");
    for (int i = 0; i < N_LENGTHS; i++)
        base_buf_printf(&b, "%s%%x%d: %s[%d,%d]", i ? ", " : "", i, type, rows, lengths[i]);
    base_buf_puts(&b, ") {\n");
    for (int i = 0, r = 0; i < N_LENGTHS; i++, r += 5) {
        base_buf_printf(&b,
                        "  %%%d = sum %%x%d {axis=1}\n  %%%d = amax %%x%d {axis=1, keep=true}\n"
                        "  %%%d = amin %%x%d {axis=1}\n  %%%d = argmax %%x%d {axis=1}\n"
                        "  %%%d = sub %%x%d, %%%d\n",
                        r, i, r + 1, i, r + 2, i, r + 3, i, r + 4, i, r + 1);
        for (int k = 0; k < 5; k++) base_buf_printf(&ret, "%s%%%d", r + k ? ", " : "", r + k);
    }
    base_buf_printf(&b, "  ret %s\n}\n", ret.data);
    const bool halves = lengths == short_lengths;
    /* 8192 doubles are more than a block exchanges. */
    const uint32_t blocks = N_LENGTHS - (strcmp(type, "f64") == 0);
    equals_the_cpu(b.data, seed, value, (counts){halves ? N_LENGTHS : 0, halves ? 0 : blocks});
    base_buf_done(&b);
    base_buf_done(&ret);
}

static void every_length_and_type(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16", "f64", "i32", "i64", "i8"};
    (void)state;
    NEEDS_GPU();
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        all_kinds(types[t], 3, NULL, t, short_lengths);
        all_kinds(types[t], 3, NULL, t, long_lengths);
    }
    all_kinds("f32", 1, cancels, 1, short_lengths);
    all_kinds("f32", 1, cancels, 1, long_lengths);
    all_kinds("bf16", 17, cancels, 2, short_lengths);
    all_kinds("f64", 5, cancels, 2, short_lengths);
    all_kinds("f64", 2, cancels, 2, long_lengths);
}

static void special_values(void **state) {
    (void)state;
    NEEDS_GPU();
    for (uint64_t seed = 0; seed < 8; seed++)
        all_kinds(seed % 2 ? "f32" : "f16", 3, special, seed,
                  seed % 4 < 2 ? short_lengths : long_lengths);
    for (int i = 0; i < 2; i++) {
        all_kinds("f32", 2, zeros, 1, i ? short_lengths : long_lengths);
        all_kinds("f32", 2, never, 1, i ? short_lengths : long_lengths);
    }
}

/* Softmax and a norm, whose rows stay in registers between reductions; of a row that is too long they do not. */
static void what_a_row_keeps(void **state) {
    static const struct {
        int n, rows;
        counts want;
    } cases[] = {{1, 9, {1, 0}},      {17, 9, {1, 0}},      {48, 1000, {1, 0}},
                 {512, 1000, {1, 0}}, {520, 1000, {0, 1}},  {1000, 9, {0, 1}},
                 {1023, 9, {0, 1}},   {5000, 1000, {0, 1}}, {8193, 9, {0, 0}}};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(
            &b,
            "graph @g(%%x: f32[R,%d], %%w: bf16[%d]) where R in [1,%d] {\n"
            "  %%0 = amax %%x {axis=1, keep=true}\n  %%1 = sub %%x, %%0\n  %%2 = exp %%1\n"
            "  %%3 = sum %%2 {axis=1, keep=true}\n  %%4 = div %%2, %%3\n"
            "  %%5 = argmax %%4 {axis=1}\n"
            "  %%6 = mul %%x, %%x\n  %%7 = sum %%6 {axis=1, keep=true}\n  %%8 = rsqrt %%7\n"
            "  %%9 = mul %%x, %%8\n  %%w1 = cast %%w {dtype=f32}\n  %%10 = mul %%9, %%w1\n"
            "  %%11 = cast %%10 {dtype=f16}\n"
            "  ret %%4, %%5, %%11\n}\n",
            cases[i].n, cases[i].n, cases[i].rows);
        equals_the_cpu(b.data, 5 + i, NULL, cases[i].want);
        base_buf_done(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_and_type),
        cmocka_unit_test(special_values),
        cmocka_unit_test(what_a_row_keeps),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
