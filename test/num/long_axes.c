/* Reductions of every type along axes of a lane more or less than lanes, runs and chunks have, along rows and along columns: compiled
 * and op by op the bits of each other, and those of the interpreter. */
#include "support/both.h"

static void reductions_agree(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16", "f64", "i32", "i64"};
    static const int lengths[] = {1, 15, 16, 17, 255, 257, 1025, 4095, 4096, 4097, 8193};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            const int n = lengths[i];
            base_buf b;
            base_buf_init(&b, 0);
            base_buf_printf(&b,
                            "graph @g(%%x: %s[3,%d], %%y: %s[2,%d,3]) {\n"
                            "  %%0 = sum %%x {axis=1}\n  %%1 = amax %%x {axis=1}\n"
                            "  %%2 = amin %%x {axis=1}\n  %%3 = argmax %%x {axis=1}\n"
                            "  %%4 = sum %%y {axis=1}\n  %%5 = amax %%y {axis=1}\n"
                            "  %%6 = amin %%y {axis=1}\n  %%7 = argmax %%y {axis=1}\n"
                            "  %%8 = prod %%x {axis=1}\n  %%9 = prod %%y {axis=1, keep=true}\n"
                            "  ret %%0, %%1, %%2, %%3, %%4, %%5, %%6, %%7, %%8, %%9\n}\n",
                            types[t], n, types[t], n);
            both x = both_of(b.data, 7 + i);
            both_agree(&x, b.data, 2e-5);
            both_done(&x);
            base_buf_done(&b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reductions_agree)};
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
