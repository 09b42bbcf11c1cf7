/* Products of float operands in every form that a graph has for them: ranks, broadcast batches, transposed and sliced operands,
 * parameters in both layouts, types, odd and symbolic sizes, empty ones, epilogues. Compiled for every instruction set and with
 * several thread counts, with kernels of the library and without, eager and interpreted: the bits of a sum depend on k alone. */
#include "support/both.h"

typedef struct form {
    const char *what, *text;
} form;

static const form forms[] = {
    {"ranks",
     "graph @g(%m: f32[37,70], %n: f32[70,45], %b: f32[3,37,70], %c: f32[3,70,45], %d: "
     "f32[2,1,5,9], %e: f32[3,9,33], %f: f32[2,3,1,2,7,9], %h: f32[1,4,2,9,3], "
     "%i: f32[2,1,3,5,9], %j: f32[2,1,3,9,7]) {\n"
     "  %0 = matmul %m, %n\n  %1 = matmul %b, %n\n  %2 = matmul %m, %c\n  %3 = matmul %b, %c\n"
     "  %4 = matmul %d, %e\n  %5 = matmul %f, %h\n  %6 = matmul %i, %j\n"
     "  ret %0, %1, %2, %3, %4, %5, %6 }\n"},
    {"views",
     "graph @g(%a: f32[31,20], %b: f32[9,31,20], %q: f32[T,4,16], %k: f32[S,4,16], %v: "
     "f32[S,4,24]) where T in [1,40], S in [1,300] {\n"
     "  %at = permute %a {axes=[1,0]}\n  %0 = matmul %at, %a\n  %1 = matmul %a, %at\n"
     "  %bt = permute %b {axes=[2,0,1]}\n  %2 = matmul %bt, %a\n"
     "  %s = slice %a {axis=1, start=3, stop=19}\n  %r = slice %a {axis=0, start=2, stop=18}\n"
     "  %3 = matmul %s, %r\n  %w = reshape %b {shape=[31,180]}\n  %4 = matmul %at, %w\n"
     "  %u = reshape %bt {shape=[45,124]}\n  %5 = matmul %u, %u {trans_b=true}\n"
     "  %qh = permute %q {axes=[1,0,2]}\n  %kh = permute %k {axes=[1,2,0]}\n"
     "  %vh = permute %v {axes=[1,0,2]}\n  %6 = matmul %qh, %kh\n  %7 = matmul %6, %vh\n"
     "  %8 = permute %7 {axes=[1,0,2]}\n"
     "  ret %0, %1, %2, %3, %4, %5, %6, %8 }\n"},
    {"parameters",
     "graph @g(%x: f32[T,60], %y: f32[2,T,60], %z: f32[60]) where T in [1,90] {\n"
     "  %w = param @w : f32[60,33]\n  %v = param @v : f32[33,60]\n  %u = param @u : f32[60,33]\n"
     "  %h = param @h : f16[60,40]\n  %j = param @j : bf16[40,60]\n  %b = param @b : f32[33]\n"
     "  %0 = matmul %x, %w\n  %1 = matmul %x, %v {trans_b=true}\n  %2 = matmul %x, %h\n"
     "  %3 = matmul %x, %j {trans_b=true}\n  %vt = permute %v {axes=[1,0]}\n"
     "  %4 = matmul %y, %vt\n  %5 = add %4, %b\n  %ut = permute %u {axes=[1,0]}\n"
     "  %6 = matmul %y, %ut {trans_b=true}\n  %s = sigmoid %6\n  %7 = mul %s, %5\n"
     "  %8 = matmul %y, %w\n  %9 = mul %8, %7\n  %t = tanh %0\n  %10 = add %t, %1\n"
     "  %r = reshape %z {shape=[1,60]}\n  %11 = matmul %r, %w\n"
     "  ret %0, %10, %2, %3, %5, %7, %9, %11 }\n"},
    {"types",
     "graph @g(%a: f16[T,33], %b: bf16[33,50], %c: f32[50,33], %d: f16[2,50,33]) where T in "
     "[1,30] {\n"
     "  %q = param @q : q4_1[64,32]\n  %p = param @p : q8_0[32,96]\n  %dq = dequant %q\n"
     "  %dp = dequant %p\n  %0 = matmul %a, %b\n  %1 = matmul %a, %c {trans_b=true}\n"
     "  %2 = matmul %a, %d {trans_b=true}\n  %3 = matmul %dq, %dp\n  %e = cast %0 {dtype=f16}\n"
     "  %f = slice %d {axis=2, start=1, stop=33}\n  %4 = matmul %f, %dq {trans_b=true}\n"
     "  %5 = matmul %f, %dp\n  ret %e, %0, %1, %2, %3, %4, %5 }\n"},
    {"chunks of k",
     "graph @g(%a: f32[14,255], %b: f32[255,35], %c: f32[14,256], %d: f32[35,256], %e: "
     "f32[14,257], %f: f32[257,35], %i: f32[14,1200], %j: f32[1200,35]) {\n"
     "  %w = param @w : f32[1200,35]\n  %v = param @v : f16[35,1200]\n"
     "  %0 = matmul %a, %b\n  %1 = matmul %c, %d {trans_b=true}\n  %2 = matmul %e, %f\n"
     "  %3 = matmul %i, %j\n  %4 = matmul %i, %w\n  %5 = matmul %i, %v {trans_b=true}\n"
     "  %6 = slice %i {axis=0, start=3, stop=4}\n  %7 = matmul %6, %v {trans_b=true}\n"
     "  %8 = matmul %6, %j\n  ret %0, %1, %2, %3, %4, %5, %7, %8 }\n"},
    {"many rows",
     "graph @g(%a: f32[T,700], %b: f32[700,70]) where T in [330,500] {\n"
     "  %w = param @w : f32[70,700]\n  %0 = matmul %a, %b\n  %1 = matmul %a, %w {trans_b=true}\n"
     "  %at = permute %a {axes=[1,0]}\n  %2 = matmul %at, %a\n  ret %0, %1, %2 }\n"},
    {"one row, one column",
     "graph @g(%x: f32[1,300], %w: f32[300,77], %v: f32[77,300], %c: f32[300,1], %y: f32[6,1,300]) "
     "{\n  %0 = matmul %x, %w\n  %1 = matmul %x, %v {trans_b=true}\n  %2 = matmul %v, %c\n"
     "  %3 = matmul %x, %c\n  %4 = matmul %y, %w\n  %5 = matmul %c, %x\n"
     "  ret %0, %1, %2, %3, %4, %5 }\n"},
    {"one row of each batch, wherever it lies",
     "graph @g(%a: f32[1,7,60], %b: f32[7,5,60], %c: f32[T,9,60], %d: f32[4,T,3,60]) where T in "
     "[1,9] {\n  %w = param @w : f32[60,33]\n  %k = const 0.5\n  %v = mul %w, %k\n"
     "  %at = permute %a {axes=[1,0,2]}\n  %0 = matmul %at, %v\n"
     "  %bs = slice %b {axis=1, start=2, stop=3}\n  %1 = matmul %bs, %v\n"
     "  %cs = slice %c {axis=1, start=8, stop=9}\n  %2 = matmul %cs, %w\n"
     "  %ds = slice %d {axis=2, start=1, stop=2}\n  %3 = matmul %ds, %v\n"
     "  %dp = permute %d {axes=[1,2,0,3]}\n  %dq = slice %dp {axis=2, start=3, stop=4}\n"
     "  %4 = matmul %dq, %v\n  ret %0, %1, %2, %3, %4 }\n"},
    {"nothing",
     "graph @g(%a: f32[0,5], %b: f32[5,3], %c: f32[4,0], %d: f32[0,3], %e: f32[2,0,4,5]) {\n"
     "  %w = param @w : f32[0,3]\n  %0 = matmul %a, %b\n  %1 = matmul %c, %d\n"
     "  %2 = matmul %c, %w\n  %3 = matmul %e, %b\n  %one = const 1.0\n  %4 = add %1, %one\n"
     "  ret %0, %1, %2, %3, %4 }\n"},
    {"one parameter, both ways",
     "graph @g(%x: f32[T,48], %y: f32[T,48]) where T in [1,40] {\n  %a = param @a : f32[48,48]\n"
     "  %at = permute %a {axes=[1,0]}\n  %0 = matmul %x, %a\n  %1 = matmul %x, %a {trans_b=true}\n"
     "  %2 = matmul %y, %at\n  %3 = sub %0, %1\n  %4 = matmul %3, %at {trans_b=true}\n"
     "  ret %0, %1, %2, %4 }\n"},
    {"chained, and read twice",
     "graph @g(%x: f32[48,48]) {\n  %a = param @a : f32[48,48]\n  %k = const 0.125\n"
     "  %u = matmul %x, %a\n  %0 = mul %u, %k\n  %v = matmul %0, %a\n  %1 = mul %v, %k\n"
     "  %w = matmul %1, %0\n  %2 = mul %w, %k\n  %y = matmul %2, %1 {trans_b=true}\n"
     "  %3 = mul %y, %k\n  %m = amax %3 {axis=1, keep=true}\n  %d = sub %3, %m\n  %e = exp %d\n"
     "  %s = sum %e {axis=1, keep=true}\n  %p = div %e, %s\n  %4 = matmul %p, %0\n"
     "  ret %3, %4 }\n"},
    {"what i32 ends have in common",
     "graph @g(%x: i8[T,32], %y: i8[50,32]) where T in [1,30] {\n  %a = cast %x {dtype=f32}\n"
     "  %b = cast %y {dtype=f32}\n  %m = matmul %a, %b {trans_b=true}\n  %k = const 3 : i32[]\n"
     "  %v0 = cast %m {dtype=i32}\n"
     "  %v1 = add %v0, %v0\n  %v2 = mul %v1, %k\n  %v3 = add %v2, %k\n  %v4 = mul %v3, %v3\n"
     "  %v5 = add %v4, %k\n  %v6 = mul %v5, %k\n  %v7 = add %v6, %v6\n  %v8 = mul %v7, %k\n"
     "  %v9 = add %v8, %k\n  %v10 = mul %v9, %v9\n  %v11 = add %v10, %k\n  %v12 = mul %v11, %k\n"
     "  %c = neg %v12\n  %d = add %v12, %k\n  ret %c, %d }\n"},
    {"what i64 ends have in common",
     "graph @g(%x: i8[T,32], %y: i8[50,32]) where T in [1,30] {\n  %a = cast %x {dtype=f32}\n"
     "  %b = cast %y {dtype=f32}\n  %m = matmul %a, %b {trans_b=true}\n  %k = const 3 : i64[]\n"
     "  %v0 = cast %m {dtype=i64}\n"
     "  %v1 = add %v0, %v0\n  %v2 = mul %v1, %k\n  %v3 = add %v2, %k\n  %v4 = mul %v3, %v3\n"
     "  %v5 = add %v4, %k\n  %v6 = mul %v5, %k\n  %v7 = add %v6, %v6\n  %v8 = mul %v7, %k\n"
     "  %v9 = add %v8, %k\n  %v10 = mul %v9, %v9\n  %v11 = add %v10, %k\n  %v12 = mul %v11, %k\n"
     "  %c = neg %v12\n  %d = add %v12, %k\n  ret %c, %d }\n"},
    {"what f64 ends have in common",
     "graph @g(%x: i8[T,32], %y: i8[50,32]) where T in [1,30] {\n  %a = cast %x {dtype=f32}\n"
     "  %b = cast %y {dtype=f32}\n  %m = matmul %a, %b {trans_b=true}\n  %k = const 3 : f64[]\n"
     "  %v0 = cast %m {dtype=f64}\n"
     "  %v1 = add %v0, %v0\n  %v2 = mul %v1, %k\n  %v3 = add %v2, %k\n  %v4 = mul %v3, %v3\n"
     "  %v5 = add %v4, %k\n  %v6 = mul %v5, %k\n  %v7 = add %v6, %v6\n  %v8 = mul %v7, %k\n"
     "  %v9 = add %v8, %k\n  %v10 = mul %v9, %v9\n  %v11 = add %v10, %k\n  %v12 = mul %v11, %k\n"
     "  %c = neg %v12\n  %d = add %v12, %k\n  ret %c, %d }\n"},
};

static void is_equal_everywhere(both *b, const char *what) {
    rp_error err = {0};
    for (unsigned isa = 0; isa < GEN_ISA_COUNT_; isa++)
        for (uint32_t threads = 1; threads <= 3; threads++) {
            plan_run_options o = both_compiled((gen_isa)isa);
            plan_run r = {0};
            if (!gen_isa_has_templates((gen_isa)isa) ||
                !(gen_isa_granted() & GEN_ISA_BIT((gen_isa)isa)))
                continue;
            o.threads = threads;
            o.built_in = threads != 2; /* both_agree has run those by two threads */
            CHECK_OK(plan_run_graph(b->g, &b->l, &o, &r, &err), &err);
            const char *d = plan_run_differs(b->g, &b->code, &r);
            if (d) fail_msg("%s: %s, %u threads: %s", what, gen_isa_name((gen_isa)isa), threads, d);
            plan_run_done(&r);
        }
}

static void products_agree(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        both b = both_of(forms[i].text, 5 + i);
        both_agree(&b, forms[i].what, 2e-5);
        is_equal_everywhere(&b, forms[i].what);
        both_done(&b);
    }
}

/* Products, and how many kernels are generated for them. */
static const struct stored {
    const char *what, *text;
    uint32_t n_kernels;
} stored[] = {
    {"two computed operands, then batches",
     "graph @g(%a: f32[37,70], %b: f32[70,45], %c: f32[3,2,5,9], %d: f32[2,9,33]) {\n"
     "  %0 = matmul %a, %b\n  %1 = matmul %c, %d\n  ret %0, %1 }\n",
     0},
    {"a parameter each way",
     "graph @g(%x: f32[50,60]) {\n  %w = param @w : f32[60,33]\n  %v = param @v : f32[45,60]\n"
     "  %0 = matmul %x, %w\n  %1 = matmul %x, %v {trans_b=true}\n  ret %0, %1 }\n",
     0},
    {"parameters of each type",
     "graph @g(%x: f32[5,64]) {\n  %h = param @h : f16[64,40]\n  %j = param @j : bf16[40,64]\n"
     "  %q = param @q : q4_0[64,64]\n  %r = param @r : q4_1[32,64]\n  %s = param @s : q8_0[96,64]\n"
     "  %dq = dequant %q\n  %dr = dequant %r\n  %ds = dequant %s\n"
     "  %0 = matmul %x, %h\n  %1 = matmul %x, %j {trans_b=true}\n"
     "  %2 = matmul %x, %dq {trans_b=true}\n  %3 = matmul %x, %dr {trans_b=true}\n"
     "  %4 = matmul %x, %ds {trans_b=true}\n  ret %0, %1, %2, %3, %4 }\n",
     0},
    {"views of one operand",
     "graph @g(%a: f32[31,20]) {\n  %t = permute %a {axes=[1,0]}\n"
     "  %s = slice %a {axis=1, start=3, stop=19}\n  %r = slice %a {axis=0, start=2, stop=18}\n"
     "  %0 = matmul %t, %a\n  %1 = matmul %s, %r\n  ret %0, %1 }\n",
     0},
    {"one row of a large parameter, which is read where it lies",
     "graph @g(%x: f32[1,2048]) {\n  %w = param @w : f32[4111,2048]\n"
     "  %0 = matmul %x, %w {trans_b=true}\n  ret %0 }\n",
     0},
    {"more than a launch has room for",
     "graph @g(%x: f32[7,64]) {\n  %a = param @a : f32[40,64]\n  %b = param @b : f32[31,64]\n"
     "  %c = param @c : f32[64,64]\n  %d = param @d : f32[1,64]\n  %e = param @e : f32[33,64]\n"
     "  %0 = matmul %x, %a {trans_b=true}\n  %1 = matmul %x, %b {trans_b=true}\n"
     "  %2 = matmul %x, %c {trans_b=true}\n  %3 = matmul %x, %d {trans_b=true}\n"
     "  %4 = matmul %x, %e {trans_b=true}\n  ret %0, %1, %2, %3, %4 }\n",
     1},
    {"a symbol",
     "graph @g(%a: f32[T,70], %b: f32[70,45]) where T in [1,40] {\n"
     "  %0 = matmul %a, %b\n  ret %0 }\n",
     1},
    {"a result that is rounded",
     "graph @g(%a: bf16[9,70], %b: bf16[70,45]) {\n  %0 = matmul %a, %b\n  %1 = cast %0 "
     "{dtype=bf16}\n  ret %1 }\n",
     1},
    {"an epilogue",
     "graph @g(%a: f32[9,70], %b: f32[70,45]) {\n  %0 = matmul %a, %b\n  %1 = tanh %0\n"
     "  ret %1 }\n",
     1},
    {"a product that its epilogue reads, too",
     "graph @g(%a: f32[9,70], %b: f32[70,45]) {\n  %0 = matmul %a, %b\n  %1 = tanh %0\n"
     "  ret %0, %1 }\n",
     1},
};

/* What is stored as it is comes from kernels of the library: the bits are those of generated ones. */
static void what_is_only_stored_is_not_compiled(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) {
        rp_error err = {0};
        both b = both_of(stored[i].text, 31 + i);
        plan_run_options o = both_compiled(gen_isa_best());
        plan_run r = {0};
        both_agree(&b, stored[i].what, 2e-5);
        if (b.code.n_kernels != stored[i].n_kernels)
            fail_msg("%s: %u kernels", stored[i].what, b.code.n_kernels);
        o.built_in = false;
        CHECK_OK(plan_run_graph(b.g, &b.l, &o, &r, &err), &err);
        assert_true(r.n_kernels > 0);
        const char *d = plan_run_differs(b.g, &b.code, &r);
        if (d) fail_msg("%s: generated: %s", stored[i].what, d);
        plan_run_done(&r);
        both_done(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree),
        cmocka_unit_test(what_is_only_stored_is_not_compiled),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
