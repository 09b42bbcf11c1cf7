/* Kernels whose threads read and write what lies side by side, on an emulated GPU: vectors of neighbours, sums of columns, transposed values. The bits are
 * those of the cpu, wherever the memory begins. */
#include "support/both_gpu.h"

static void equals_the_cpu(const char *text) {
    rp_error err = {0};
    both b = both_of(text, 3);
    both_agree(&b, text, 1e-3);
    plan_run_options o = both_on_gpu(true, true);
    plan_run more = {0};
    if (plan_run_graph(b.g, &b.l, &o, &more, &err) != RP_OK) fail_msg("%s: %s", text, err.text);
    const char *d = plan_run_differs(b.g, &more, &b.code);
    if (d) fail_msg("%s: %s", text, d);
    plan_run_done(&more);
    both_done(&b);
}

static void vectors_equal_the_cpu(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: f32[T,256], %b: f32[256]) where T in [1,9] {\n  %y = add %x, %b\n"
        "  %c = cast %y {dtype=bf16}\n  %z = mul %y, %y\n  ret %c, %z\n}\n",
        "graph @g(%x: f16[3,1024], %m: bool[3,1024]) {\n  %f = cast %x {dtype=f32}\n"
        "  %n = neg %f\n  %y = where %m, %f, %n\n  %p = const 0\n  %l = lt %y, %p\n  ret %y, %l\n"
        "}\n",
        /* memory that is read and written, rows that begin where no vector may, a gathered row */
        "graph @g(%x: f64[2,128], %s: f32[300], %i: i32[7], %t: f32[70,64]) {\n"
        "  %m = state @m : f32[300]\n  %y = add %x, %x\n  %d = sub %m, %s\n  %u = update %m, %d\n"
        "  %v = slice %s {axis=0, start=3, stop=259}\n  %w = mul %v, %v\n  %g = gather %t, %i\n"
        "  %h = neg %g\n  ret %y, %u, %w, %h\n}\n"};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) equals_the_cpu(texts[i]);
}

/* Lengths below, at and above a chunk, widths that warps share and others. */
static void columns_equal_the_cpu(void **state) {
    static const char *const shapes[] = {"37,64",   "T,96",    "4096,32",
                                         "4100,32", "9000,40", "50,1000"};
    char text[512];
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        (void)snprintf(text, sizeof text,
                       "graph @g(%%x: f32[%s])%s {\n  %%s = sum %%x {axis=0, keep=true}\n"
                       "  %%m = amax %%x {axis=0, keep=true}\n  %%d = sub %%x, %%m\n"
                       "  %%q = mul %%d, %%d\n  %%v = sum %%q {axis=0}\n  ret %%s, %%m, %%v\n}\n",
                       shapes[i], shapes[i][0] == 'T' ? " where T in [1,70]" : "");
        equals_the_cpu(text);
    }
}

/* One and two of them at once, of other types, rows that make no whole number of staged ones, and memory that is written. */
static void transposes_equal_the_cpu(void **state) {
    static const char *const texts[] = {
        "graph @g(%x: f32[128,64], %y: f32[64,128]) {\n  %p = permute %x {axes=[1,0]}\n"
        "  %z = add %p, %y\n  ret %z\n}\n",
        "graph @g(%x: bf16[96,160], %y: f64[96,160], %b: f32[96]) {\n"
        "  %p = permute %x {axes=[1,0]}\n  %q = permute %y {axes=[1,0]}\n"
        "  %f = cast %p {dtype=f32}\n  %e = cast %q {dtype=f32}\n  %m = mul %f, %e\n"
        "  %n = add %m, %b\n  %l = lt %e, %f\n  ret %n, %l\n}\n",
        "graph @g(%x: i64[3,64,40], %y: i32[64,64]) {\n  %m = state @m : i32[64,64]\n"
        "  %p = permute %x {axes=[0,2,1]}\n  %n = neg %p\n  %q = permute %m {axes=[1,0]}\n"
        "  %a = add %q, %y\n  %u = update %m, %a\n  ret %n, %u\n}\n"};
    (void)state;
    NEEDS_GPU();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) equals_the_cpu(texts[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_equal_the_cpu),
        cmocka_unit_test(columns_equal_the_cpu),
        cmocka_unit_test(transposes_equal_the_cpu),
    };
    return cmocka_run_group_tests(tests, both_gpu_set_up, both_gpu_tear_down);
}
