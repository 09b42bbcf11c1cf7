/* Block formats that are moved as they are: gathered, cut and joined rows, stored for a later reader or returned. And scores
 * [T,T], whose both axes are one symbol. What one level takes all take, with the same bits. */
#include "support/both.h"

static void check(const char *text, double bound) {
    for (uint64_t seed = 1; seed < 4; seed++) {
        both b = both_of(text, seed);
        both_agree(&b, text, bound);
        both_done(&b);
    }
}

static void blocks_are_moved_as_they_are(void **state) {
    static const char *const formats[] = {"q4_0", "q4_1", "q8_0"};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < 3; i++) {
        const char *t = formats[i];
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(&b,
                        "graph @g(%%i: i32[3], %%s: i32[], %%n: i32[N]) where N in [0,4] {\n"
                        "  %%w = param @w : %s[8,64]\n  %%v = param @v : %s[2,64]\n"
                        "  %%z = param @z : %s[4,6,32]\n",
                        t, t, t);
        base_buf_puts(
            &b, "  %rows = gather %w, %i\n  %one = gather %w, %s\n"
                "  %half = slice %w {axis=1, start=32}\n  %last = slice %w {axis=0, start=5}\n"
                "  %below = concat %w, %v {axis=0}\n  %beside = concat %w, %half {axis=1}\n"
                "  %planes = gather %z, %n\n  %again = gather %rows, %i\n"
                "  %d = dequant %rows\n  %e = dequant %one\n  %f = dequant %beside\n"
                "  %h = dequant %planes\n  %k = dequant %v\n"
                "  %y = matmul %d, %k {trans_b=true}\n"
                "  ret %rows, %one, %half, %last, %below, %beside, %again, %d, %e, %f, %h, "
                "%planes, %y\n}\n");
        check(b.data, 1e-5);
        base_buf_done(&b);
    }
}

/* A row of one block, and a kernel that stores it and reads what it stored: its bytes have two names there. */
static void stored_rows_are_read_where_they_were_stored(void **state) {
    static const char *const formats[] = {"q4_0", "q4_1", "q8_0"};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < 3; i++) {
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_printf(&b,
                        "graph @g(%%i: i32[1]) {\n  %%w = param @w : %s[1,32]\n"
                        "  %%r = gather %%w, %%i\n  %%d = dequant %%r\n"
                        "  %%m = empty {dtype=f32, shape=[1,32]}\n  %%u = update %%m, %%d\n"
                        "  %%s = slice %%u {axis=1, start=16}\n  %%n = neg %%s\n"
                        "  ret %%d, %%n\n}\n",
                        formats[i]);
        check(b.data, 1e-5);
        base_buf_done(&b);
    }
}

/* A packed row has no place to be cut: whole rows move. */
static void packed_rows_are_moved_whole(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    check("graph @g(%x: f32[T,64], %i: i32[5]) where T in [1,9] {\n"
          "  %p = quantize %x {dtype=i16b32}\n  %g = gather %p, %i\n"
          "  %c = concat %g, %p {axis=0}\n  %d = dequant %c\n  %e = dequant %g\n"
          "  ret %d, %e\n}\n",
          1e-5);
}

/* Blocks of rows in any number of axes: each row is where its axes say. */
static void rows_of_all_axes_are_quantised(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    check("graph @g(%x: f32[T,3,64], %y: f32[2,3,T,32], %z: f32[96]) where T in [1,9] {\n"
          "  %a = quantize %x {dtype=i16b32}\n  %b = dequant %a\n  %n = neg %y\n"
          "  %c = quantize %n {dtype=i16b32}\n  %d = dequant %c\n"
          "  %e = quantize %z {dtype=i16b32}\n  %f = dequant %e\n"
          "  %l = amax %x {axis=2, keep=true}\n  %m = amax %l {axis=1, keep=true}\n"
          "  %s = sub %x, %m\n  %p = quantize %s {dtype=i16b32}\n  %q = dequant %p\n"
          "  ret %b, %d, %f, %a, %c, %e, %q\n}\n",
          1e-5);
}

static void scores_have_one_symbol_twice(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    check("graph @g(%q: f32[T,16], %k: f32[T,16], %v: f32[T,8]) where T in [1,40] {\n"
          "  %s = matmul %q, %k {trans_b=true}\n  %m = amax %s {axis=-1, keep=true}\n"
          "  %d = sub %s, %m\n  %e = exp %d\n  %t = sum %e {axis=1, keep=true}\n"
          "  %p = div %e, %t\n  %y = matmul %p, %v\n  ret %p, %y\n}\n",
          1e-5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_moved_as_they_are),
        cmocka_unit_test(stored_rows_are_read_where_they_were_stored),
        cmocka_unit_test(packed_rows_are_moved_whole),
        cmocka_unit_test(rows_of_all_axes_are_quantised),
        cmocka_unit_test(scores_have_one_symbol_twice),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
