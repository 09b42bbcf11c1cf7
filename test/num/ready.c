/* Kernels that the library has compiled ahead (gen/ready.h): their texts are what the generators write for these functions, and
 * their bits those of what is generated. BLESS=1 rewrites src/gen/embed/ready_*.c.inc, which the next build compiles. */
#include "support/both.h"

#include <math.h>

#include "gen/ready.h"
#include "pass/pipeline.h"
#include "reprise/reprise.h"
#include "target/target.h"
#include "trace/trace.h"

/* Where they are kept. */
enum { ELEMENTS, PRODUCTS, ROWS, N_FILES };
static const char *const paths[N_FILES] = {"src/gen/embed/ready_elements.c.inc",
                                           "src/gen/embed/ready_products.c.inc",
                                           "src/gen/embed/ready_rows.c.inc"};

/* --- functions ------------------------------------------------------------------------- */

typedef rp_tensor function(rp_graph *g, int64_t m, int64_t n);

static rp_tensor matrix(rp_graph *g, const char *name, int64_t m, int64_t n) {
    return rp_input(g, name, RP_DTYPE_F32, RP_SHAPE(m, n));
}
static rp_tensor vector(rp_graph *g, const char *name, int64_t n) {
    return rp_input(g, name, RP_DTYPE_F32, RP_SHAPE(n));
}

static rp_tensor softmax(rp_graph *g, int64_t m, int64_t n) {
    return rp_softmax(matrix(g, "x", m, n), -1);
}
static rp_tensor rms_norm(rp_graph *g, int64_t m, int64_t n) {
    return rp_rms_norm(matrix(g, "x", m, n), vector(g, "w", n), 1e-6);
}
static rp_tensor layer_norm(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", m, n), w = vector(g, "w", n);
    return rp_layer_norm(x, w, vector(g, "b", n), 1e-5);
}
static rp_tensor mean(rp_graph *g, int64_t m, int64_t n) {
    (void)m;
    return rp_mean(vector(g, "x", n), 0, false);
}
static rp_tensor row_mean(rp_graph *g, int64_t m, int64_t n) {
    return rp_mean(matrix(g, "x", m, n), -1, true);
}
static rp_tensor column_sum(rp_graph *g, int64_t m, int64_t n) {
    return rp_sum(matrix(g, "x", m, n), 0, false);
}
static rp_tensor cross_entropy(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", m, n);
    return rp_mean(rp_cross_entropy(x, rp_input(g, "t", RP_DTYPE_I32, RP_SHAPE(m))), 0, false);
}
static rp_tensor silu_mul(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor gate = matrix(g, "gate", m, n);
    return rp_mul(rp_silu(gate), matrix(g, "up", m, n));
}
static rp_tensor gelu(rp_graph *g, int64_t m, int64_t n) {
    return rp_gelu_erf(matrix(g, "x", m, n));
}
static rp_tensor gelu_bias(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", m, n);
    return rp_gelu_erf(rp_add(x, vector(g, "b", n)));
}
static rp_tensor gelu_tanh(rp_graph *g, int64_t m, int64_t n) {
    return rp_gelu_tanh(matrix(g, "x", m, n));
}
static rp_tensor add(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", m, n);
    return rp_add(x, matrix(g, "y", m, n));
}

static rp_tensor weight(rp_graph *g, const char *name, int64_t n) {
    return rp_param(g, name, RP_DTYPE_F32, RP_SHAPE(n, 64));
}
/* of m rows of 64 */
static rp_tensor linear_bias(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor y = rp_linear(matrix(g, "x", m, 64), weight(g, "w", n));
    return rp_add(y, rp_param(g, "b", RP_DTYPE_F32, RP_SHAPE(n)));
}
static rp_tensor linear_bias_gelu(rp_graph *g, int64_t m, int64_t n) {
    return rp_gelu_erf(linear_bias(g, m, n));
}
static rp_tensor linear_add(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", m, 64);
    return rp_add(matrix(g, "r", m, n), rp_linear(x, weight(g, "w", n)));
}
static rp_tensor linear_silu_mul(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", m, 64);
    rp_tensor gate = rp_linear(x, weight(g, "gate", n));
    return rp_mul(rp_silu(gate), rp_linear(x, weight(g, "up", n)));
}

/* The same, the other product first. */
static rp_tensor linear_mul_silu(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", m, 64);
    rp_tensor up = rp_linear(x, weight(g, "up", n));
    return rp_mul(rp_silu(rp_linear(x, weight(g, "gate", n))), up);
}

/* q [H,T,D], k and v [KV,1,T,D] */
static rp_tensor causal(rp_graph *g, rp_tensor q, rp_tensor k, rp_tensor v, int64_t t) {
    rp_tensor scores = rp_mul_scalar(rp_matmul(q, k, true), 0.125);
    rp_tensor row = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(t, t), 0);
    rp_tensor col = rp_iota(g, RP_DTYPE_I32, RP_SHAPE(t, t), 1);
    rp_tensor masked = rp_where(rp_le(col, row), scores, rp_const(g, RP_DTYPE_F32, -HUGE_VAL));
    return rp_matmul(rp_softmax(masked, -1), v, false);
}

/* m heads, n positions */
static rp_tensor attention(rp_graph *g, int64_t m, int64_t n) {
    const rp_shape s = RP_SHAPE(2, m, n, 64);
    rp_tensor q = rp_input(g, "q", RP_DTYPE_F32, s), k = rp_input(g, "k", RP_DTYPE_F32, s);
    return causal(g, q, k, rp_input(g, "v", RP_DTYPE_F32, s), n);
}

/* What a layer of a transformer does between its products: m groups of 8 heads of 64, n positions. */
static rp_tensor grouped(rp_graph *g, int64_t m, int64_t n) {
    rp_tensor x = matrix(g, "x", n, 96), c = matrix(g, "cos", n, 32), s = matrix(g, "sin", n, 32);
    rp_tensor q = rp_linear(x, matrix(g, "wq", m * 512, 96));
    rp_tensor k = rp_linear(x, matrix(g, "wk", m * 64, 96));
    rp_tensor v = rp_linear(x, matrix(g, "wv", m * 64, 96));
    const rp_shape shared = RP_SHAPE(m, 1, n, 64);
    q = rp_rope(rp_reshape(q, RP_SHAPE(n, m * 8, 64)), c, s);
    k = rp_rope(rp_reshape(k, RP_SHAPE(n, m, 64)), c, s);
    q = rp_reshape(rp_permute(q, (int[]){1, 0, 2}, 3), RP_SHAPE(m, 8, n, 64));
    k = rp_reshape(rp_permute(k, (int[]){1, 0, 2}, 3), shared);
    v = rp_reshape(v, RP_SHAPE(n, m, 64));
    v = rp_reshape(rp_permute(v, (int[]){1, 0, 2}, 3), shared);
    rp_tensor y = rp_reshape(causal(g, q, k, v, n), RP_SHAPE(m * 8, n, 64));
    y = rp_reshape(rp_permute(y, (int[]){1, 0, 2}, 3), RP_SHAPE(n, m * 512));
    return rp_linear(y, matrix(g, "wo", 96, m * 512));
}

/* --- their texts ------------------------------------------------------------------------- */

/* Of which function each is, and how the name of the kernel begins. */
static const struct made {
    int file;
    const char *name, *kernel;
    function *of;
    int64_t m, n;
} made[] = {
    {ROWS, "softmax", "red_", softmax, 64, 80},
    {ROWS, "softmax_by64", "red_", softmax, 64, 128},
    {ROWS, "softmax_long", "red_", softmax, 64, 5120},
    {ROWS, "rms_norm", "red_", rms_norm, 64, 2048},
    {ROWS, "rms_norm_long", "red_", rms_norm, 64, 5120},
    {ROWS, "layer_norm", "red_", layer_norm, 64, 768},
    {ROWS, "layer_norm_long", "red_", layer_norm, 64, 8192},
    {ROWS, "mean_var", "red_", row_mean, 64, 1024},
    {ELEMENTS, "column_sum", "red_", column_sum, 2048, 1024},
    {ELEMENTS, "column_sum_by128", "red_", column_sum, 1024, 1024}, /* no multiple of 2048 */
    {ELEMENTS, "mean", "red_", mean, 1, 512},
    {ELEMENTS, "cross_entropy_rows", "red_fused_min_max", cross_entropy, 512, 32000},
    {ELEMENTS, "silu_mul", "poi_", silu_mul, 64, 4096},
    {ELEMENTS, "gelu", "poi_", gelu, 64, 4096},
    {ELEMENTS, "gelu_bias", "poi_", gelu_bias, 64, 4096},
    {ELEMENTS, "gelu_tanh", "poi_", gelu_tanh, 64, 4096},
    {ELEMENTS, "add", "poi_", add, 64, 4096},
    {PRODUCTS, "linear_bias", "mm_", linear_bias, 64, 128},
    {PRODUCTS, "linear_bias_gelu", "mm_", linear_bias_gelu, 64, 128},
    {PRODUCTS, "linear_add", "mm_", linear_add, 64, 128},
    {PRODUCTS, "linear_silu_mul", "mm_", linear_silu_mul, 64, 128},
    {PRODUCTS, "linear_mul_silu", "mm_", linear_mul_silu, 64, 128},
    {ELEMENTS, "causal_mask", "poi_fused_le", grouped, 3, 64},
    {ELEMENTS, "causal_masks", "poi_fused_le", attention, 48, 128},
    {ELEMENTS, "heads_to_rows", "poi_copy", grouped, 3, 64},
    {ELEMENTS, "heads_to_rows_by16", "poi_copy", grouped, 4, 64},
    {ELEMENTS, "rows_joined", "poi_fused_concat", attention, 48, 128},
};
enum { N_MADE = sizeof made / sizeof *made };

static char *text_of(function *of, int64_t m, int64_t n) {
    rp_error err = {0};
    base_buf text;
    rp_graph *g = rp_graph_new("g");
    rp_tensor out[2] = {of(g, m, n)};
    const bool two = of == row_mean; /* and the variance */
    if (two) {
        rp_tensor x = {g, 0, out[0].id}, d = rp_sub(x, out[0]);
        out[0] = rp_mean(x, -1, false);
        out[1] = rp_mean(rp_mul(d, d), -1, false);
    }
    CHECK_OK(rp_graph_finish(g, out, two ? 2 : 1, &err), &err);
    base_buf_init(&text, 0);
    ir_print(trace_graph_ir(g), &text);
    rp_graph_free(g);
    return base_buf_take(&text);
}

/* The general form of the kernel that is generated. */
static void put_form(const struct made *f, gen_isa isa, base_buf *out) {
    const lower_options o = {.isa = isa};
    rp_error err = {0};
    ir_graph *g, *opt;
    lower_piece p;
    gen_ready r;
    char *text = text_of(f->of, f->m, f->n), as[64];
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(pass_run_all(g, NULL, &opt, &err), &err);
    CHECK_OK(target_lower(opt, &o, &p, &err), &err);
    (void)snprintf(as, sizeof as, "ready_%s", f->name);
    uint32_t i = 0;
    while (i < p.n_kernels && strncmp(p.kernels[i].name, f->kernel, strlen(f->kernel)) != 0) i++;
    if (i == p.n_kernels) fail_msg("%s: no kernel %s in\n%s", f->name, f->kernel, p.source);
    const base_str own = {p.source + p.kernels[i].begin, p.kernels[i].end - p.kernels[i].begin};
    if (!gen_ready_form(own, p.kernels[i].name, as, &r, out))
        fail_msg("%s: more than %d words", f->name, GEN_READY_WORDS);
    lower_done(&p);
    ir_graph_free(opt);
    ir_graph_free(g);
    base_free(text);
}

static void rewrite(int file) {
    base_buf all;
    rp_error err = {0};
    base_buf_init(&all, 0);
    base_buf_puts(
        &all,
        "/* Generated text of common functions (gen/ready.h); written by test/num/ready.c. */\n"
        "/* NOLINTBEGIN */\n");
    for (uint32_t i = 0; i < N_MADE; i++) {
        if (made[i].file != file) continue;
        base_buf_printf(&all, "/* %s */\n", made[i].name);
        put_form(&made[i], GEN_ISA_PORTABLE, &all);
    }
    base_buf_puts(&all, "/* NOLINTEND */\n");
    CHECK_OK(base_buf_status(&all, &err), &err);
    FILE *f = fopen(paths[file], "we");
    assert_non_null(f);
    assert_int_equal(fwrite(all.data, 1, all.len, f), all.len);
    assert_int_equal(fclose(f), 0);
    base_buf_done(&all);
}

static void texts_are_those_of_the_generators(void **state) {
    (void)state;
    for (int file = 0; BLESSING() && file < N_FILES; file++) rewrite(file);
    if (BLESSING()) return;
    for (uint32_t i = 0; i < N_MADE; i++)
        for (gen_isa isa = 0; isa <= GEN_ISA_AVX512; isa++) {
            const char *name = "";
            base_buf want;
            base_str have = {0};
            for (uint32_t j = 0; j < gen_ready_count() && strcmp(name, made[i].name) != 0; j++)
                have = gen_ready_text(j, &name);
            base_buf_init(&want, 0);
            put_form(&made[i], isa, &want);
            if (have.len != want.len || memcmp(have.ptr, want.data, want.len) != 0)
                fail_msg("%s by %s is not current; BLESS=1 rewrites %s\n%s", made[i].name,
                         gen_isa_name(isa), paths[made[i].file], want.data);
            base_buf_done(&want);
        }
    assert_int_equal(gen_ready_count(), N_MADE);
}

/* --- their bits ------------------------------------------------------------------------------ */

/* Sizes, and how many kernels are compiled for them. */
static const struct run {
    const char *what;
    function *of;
    int64_t m, n;
    uint32_t n_kernels;
} runs[] = {
    {"softmax", softmax, 5, 64, 0},
    {"softmax", softmax, 3, 4096, 0},
    {"softmax", softmax, 64, 144, 0},
    {"softmax", softmax, 64, 4160, 0},
    {"softmax", softmax, 7, 63, 1},
    {"softmax", softmax, 2, 5000, 1},
    {"softmax", softmax, 2, 32000, 4},
    {"rms_norm", rms_norm, 64, 16, 0},
    {"rms_norm", rms_norm, 64, 3072, 0},
    {"rms_norm", rms_norm, 64, 8208, 0},
    {"rms_norm", rms_norm, 3, 100, 1},
    {"layer_norm", layer_norm, 5, 768, 0},
    {"layer_norm", layer_norm, 64, 4096, 0},
    {"layer_norm", layer_norm, 64, 12288, 0},
    {"layer_norm", layer_norm, 3, 33, 1},
    {"mean_var", row_mean, 3, 4096, 0},
    {"mean_var", row_mean, 3, 30, 1},
    {"column_sum", column_sum, 2048, 4096, 0},
    {"column_sum", column_sum, 1024, 512, 0},
    {"mean", mean, 1, 1024, 0},
    {"mean", mean, 1, 31, 1},
    {"cross_entropy", cross_entropy, 512, 8320, 0},
    {"silu_mul", silu_mul, 32, 5632, 0},
    {"silu_mul", silu_mul, 5, 7, 1},
    {"gelu", gelu, 32, 4096, 0},
    {"gelu_bias", gelu_bias, 32, 4096, 0},
    {"gelu_tanh", gelu_tanh, 32, 4096, 0},
    {"add", add, 32, 4096, 0},
    {"linear_bias", linear_bias, 70, 96, 0},
    {"linear_bias", linear_bias, 400, 640, 0},
    {"linear_bias", linear_bias, 9, 77, 1},
    {"linear_bias_gelu", linear_bias_gelu, 25, 160, 0},
    {"linear_add", linear_add, 33, 224, 0},
    {"linear_add", linear_add, 2, 64, 0},
    {"linear_silu_mul", linear_silu_mul, 50, 352, 0},
    {"linear_mul_silu", linear_mul_silu, 200, 64, 0},
    {"attention", attention, 48, 128, 2},
    {"grouped", grouped, 4, 64, 2},
    {"grouped", grouped, 2, 64, 2},
    {"grouped", grouped, 3, 80, 3},
};

static void is_equal(const both *b, const struct run *r, gen_isa isa, uint32_t threads) {
    rp_error err = {0};
    for (int built_in = 0; built_in < 2; built_in++) {
        plan_run_options o = both_compiled(isa);
        plan_run p = {0};
        o.threads = threads;
        o.built_in = built_in;
        CHECK_OK(plan_run_graph(b->g, &b->l, &o, &p, &err), &err);
        const char *d = plan_run_differs(b->g, &b->code, &p);
        if (d) fail_msg("%s %dx%d, %s: %s", r->what, (int)r->m, (int)r->n, gen_isa_name(isa), d);
        if (!built_in) assert_true(p.n_kernels > 0);
        plan_run_done(&p);
    }
}

static void bits_are_those_of_generated_code(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const struct run *r = &runs[i];
        char *text = text_of(r->of, r->m, r->n);
        both b = both_of(text, 71 + i);
        both_agree(&b, r->what, 1e-3);
        if (b.code.n_kernels != r->n_kernels)
            fail_msg("%s %dx%d: %u kernels", r->what, (int)r->m, (int)r->n, b.code.n_kernels);
        for (gen_isa isa = 0; isa <= GEN_ISA_AVX512; isa++)
            if (gen_isa_granted() & GEN_ISA_BIT(isa)) is_equal(&b, r, isa, 1 + (uint32_t)isa);
        both_done(&b);
        base_free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_the_generators),
        cmocka_unit_test(bits_are_those_of_generated_code),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
