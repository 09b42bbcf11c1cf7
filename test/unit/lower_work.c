/* The operations of lowered kernels beside those of the same nodes one by one: fusing never computes much more. Counted
 * from the kernel IR, so the same on every machine. */
#include "support/check.h"

#include "ir/graph.h"
#include "target/target.h"
#include "pass/fuse.h"

static double elements(const ir_graph *g, const ir_shape *s) {
    double n = 1;
    for (uint32_t i = 0; i < s->rank; i++) {
        int64_t v = 0;
        assert_true(ir_dim_is_const(ir_graph_dims(g), s->dim[i], &v));
        n *= (double)v;
    }
    return n;
}

/* A load for each operand, the op, a store; a reduction's for each element that it joins. */
static double node_work(const ir_graph *g, ir_ref r) {
    const ir_node *n = ir_node_at(g, r);
    int64_t joined = 1;
    if (pass_is_transparent(n)) return 0;
    const ir_shape *x = &ir_node_at(g, n->in[0])->shape;
    bool reduces = ir_op_table(n->op)->kind == IR_KIND_REDUCE;
    uint32_t axis = reduces ? (uint32_t)ir_attr_int(n, IR_ATTR_AXIS, 0) : x->rank - 1;
    if (reduces || n->op == IR_matmul)
        (void)ir_dim_is_const(ir_graph_dims(g), x->dim[axis], &joined);
    return elements(g, &n->shape) * ((double)joined * (n->n_in + 2.0) + 1.0);
}

static double fused_work(const ir_graph *g) {
    lower_options o = {.isa = GEN_ISA_PORTABLE};
    rp_error err = {0};
    lower_piece p;
    double sum = 0;
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    for (uint32_t i = 0; i < p.n_launches; i++) {
        const lower_launch *l = &p.launches[i];
        for (uint32_t k = 0; k < p.n_kernels; k++)
            if (strcmp(p.kernels[k].name, l->alts[0].symbol) == 0)
                sum += p.kernels[k].work * (double)ir_dim_eval(p.dims, l->items, NULL);
    }
    lower_done(&p);
    return sum;
}

static void check(const char *name, const char *text) {
    rp_error err = {0};
    ir_graph *g = NULL, *h = NULL;
    double each = 0;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(pass_run_all(g, NULL, &h, &err), &err);
    for (ir_ref r = 0; r < ir_graph_count(h); r++) each += node_work(h, r);
    double fused = fused_work(h);
    print_message("%s: %.3g operations, node by node %.3g\n", name, fused, each);
    assert_true(fused <= 2 * each);
    ir_graph_free(h);
    ir_graph_free(g);
}

static void products_in_a_chain(void **state) {
    (void)state;
    check("chain", "graph @chain(%x: f32[48,48], %w: f32[48,48]) -> f32[48,48] {\n"
                   "  %0 = matmul %x, %w\n  %1 = matmul %0, %w\n  %2 = matmul %1, %w\n"
                   "  %3 = matmul %2, %w\n  ret %3\n}\n");
    check("chain by rows", "graph @rows(%x: f32[48,48], %w: f32[48,48]) -> f32[48,48] {\n"
                           "  %0 = matmul %x, %w {trans_b=true}\n"
                           "  %1 = matmul %0, %w {trans_b=true}\n"
                           "  %2 = matmul %1, %w {trans_b=true}\n"
                           "  %3 = matmul %2, %w {trans_b=true}\n  ret %3\n}\n");
    check("activations", "graph @mlp(%x: f32[48,48], %w: f32[48,48]) -> f32[48,48] {\n"
                         "  %0 = matmul %x, %w {trans_b=true}\n  %1 = tanh %0\n"
                         "  %2 = matmul %1, %w {trans_b=true}\n"
                         "  %3 = add %2, %x\n  %4 = matmul %3, %w {trans_b=true}\n  ret %4\n}\n");
}

static void attention_of_two_dimensions(void **state) {
    (void)state;
    check("softmax(q k) v",
          "graph @attention(%q: f32[8,64], %k: f32[512,64], %v: f32[512,64]) -> f32[8,64] {\n"
          "  %0 = matmul %q, %k {trans_b=true}\n  %1 = amax %0 {axis=1, keep=true}\n"
          "  %2 = sub %0, %1\n  %3 = exp %2\n  %4 = sum %3 {axis=1, keep=true}\n"
          "  %5 = div %3, %4\n  %6 = matmul %5, %v\n  ret %6\n}\n");
}

/* The number of rows is one: all of it is a single item, whose values have no room in scratch. */
static void attention_of_heads_in_a_batch_of_one(void **state) {
    (void)state;
    check("attention of 4 heads",
          "graph @heads(%x: f32[1,128,256], %wq: f32[256,256], %wk: f32[256,256], "
          "%wv: f32[256,256], %wo: f32[256,256]) -> f32[1,128,256] {\n"
          "  %0 = matmul %x, %wq\n  %1 = matmul %x, %wk\n  %2 = matmul %x, %wv\n"
          "  %3 = reshape %0 {shape=[1,128,4,64]}\n  %4 = permute %3 {axes=[0,2,1,3]}\n"
          "  %5 = reshape %1 {shape=[1,128,4,64]}\n  %6 = permute %5 {axes=[0,2,3,1]}\n"
          "  %7 = reshape %2 {shape=[1,128,4,64]}\n  %8 = permute %7 {axes=[0,2,1,3]}\n"
          "  %9 = matmul %4, %6\n  %10 = const 0.125\n  %11 = mul %9, %10\n"
          "  %12 = amax %11 {axis=3, keep=true}\n  %13 = sub %11, %12\n  %14 = exp %13\n"
          "  %15 = sum %14 {axis=3, keep=true}\n  %16 = div %14, %15\n"
          "  %17 = matmul %16, %8\n  %18 = permute %17 {axes=[0,2,1,3]}\n"
          "  %19 = reshape %18 {shape=[1,128,256]}\n  %20 = matmul %19, %wo\n  ret %20\n}\n");
}

/* The maximum and the sum of each of 16 softmaxes in a row are asked for 64 times. */
static void softmax_inside_of_a_row(void **state) {
    (void)state;
    check("pooled softmax", "graph @pooled(%x: f32[32,16,64]) -> f32[32,64] {\n"
                            "  %0 = amax %x {axis=2, keep=true}\n  %1 = sub %x, %0\n  %2 = exp %1\n"
                            "  %3 = sum %2 {axis=2, keep=true}\n  %4 = div %2, %3\n"
                            "  %5 = sum %4 {axis=1}\n  ret %5\n}\n");
}

static void convolution_by_columns(void **state) {
    (void)state;
    check("convolution",
          "graph @conv(%x: f32[1,18,18,8], %w: f32[72,16]) -> f32[1,256,16] {\n"
          "  %a = slice %x {axis=1, start=0, stop=16}\n  %b = slice %x {axis=1, start=1, stop=17}\n"
          "  %c = slice %x {axis=1, start=2, stop=18}\n  %r = concat %a, %b, %c {axis=3}\n"
          "  %d = slice %r {axis=2, start=0, stop=16}\n  %e = slice %r {axis=2, start=1, stop=17}\n"
          "  %f = slice %r {axis=2, start=2, stop=18}\n  %s = concat %d, %e, %f {axis=3}\n"
          "  %m = reshape %s {shape=[1,256,72]}\n  %y = matmul %m, %w\n  ret %y\n}\n");
}

/* Shares that threads could take of the only launch. */
static int64_t shares(const char *text) {
    lower_options o = {.isa = GEN_ISA_PORTABLE};
    rp_error err = {0};
    ir_graph *g = NULL;
    lower_piece p;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    CHECK_OK(target_lower(g, &o, &p, &err), &err);
    assert_int_equal(p.n_launches, 1);
    int64_t items = ir_dim_eval(p.dims, p.launches[0].items, NULL), grain = p.launches[0].grain;
    lower_done(&p);
    ir_graph_free(g);
    return (items + grain - 1) / grain;
}

static void one_row_is_the_work_of_many(void **state) {
    (void)state;
    assert_true(shares("graph @g(%x: f32[1,1048576]) -> f32[1,1048576] {\n"
                       "  %0 = exp %x\n  ret %0\n}\n") >= 64);
    assert_true(shares("graph @g(%x: f32[1,64,128]) -> f32[1,64,128] {\n"
                       "  %0 = amax %x {axis=2, keep=true}\n  %1 = sub %x, %0\n  %2 = exp %1\n"
                       "  %3 = sum %2 {axis=2, keep=true}\n  %4 = div %2, %3\n  ret %4\n}\n") >= 4);
    assert_true(shares("graph @g(%x: f32[2048,4096]) -> f32[4096] {\n"
                       "  %0 = sum %x {axis=0}\n  ret %0\n}\n") >= 16);
    /* Little is left to one. */
    assert_int_equal(shares("graph @g(%x: f32[16,64]) -> f32[16,64] {\n"
                            "  %0 = neg %x\n  ret %0\n}\n"),
                     1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_in_a_chain),
        cmocka_unit_test(attention_of_two_dimensions),
        cmocka_unit_test(attention_of_heads_in_a_batch_of_one),
        cmocka_unit_test(softmax_inside_of_a_row),
        cmocka_unit_test(convolution_by_columns),
        cmocka_unit_test(one_row_is_the_work_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
