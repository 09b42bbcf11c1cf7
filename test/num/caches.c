/* Rows stored in caches of every type, compiled, eager and interpreted: each slot, the first and the last too; rows with a
 * negative slot go nowhere, and what nobody wrote stays. Attention reads the version that it names. */
#include "support/both.h"

enum { ROWS = 16, BLOCKS = 3, SIZE = 4, SLOTS = BLOCKS * SIZE };

static void check(const char *type, const int32_t *slots) {
    char text[600];
    (void)snprintf(
        text, sizeof text,
        "graph @g(%%x: f32[%d,16], %%s: i32[%d]) {\n"
        "  %%k = state @k : %s[%d,2,%d,8]\n  %%v = state @v : %s[%d,1,%d,16]\n"
        "  %%h = mul %%x, %%x\n  %%a = kv_store %%k, %%h, %%s\n"
        "  %%b = kv_store %%v, %%x, %%s\n  %%c = cast %%a {dtype=f32}\n  ret %%h, %%c\n}\n",
        ROWS, ROWS, type, BLOCKS, SIZE, type, BLOCKS, SIZE);
    both b = both_of(text, 5);
    for (int i = 0; i < ROWS; i++) b.l.leaf[IR_LEAF_INPUT][1].data[i] = slots[i];
    both_agree(&b, type, 1e-6);
    both_done(&b);
}

static void every_slot_is_stored(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16"};
    static const int32_t most[ROWS] = {5, -1, 0, 11, 3, 7, -1, 1, 2, 4, 6, 8, 9, 10, -1, -1},
                         none[ROWS] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                       -1, -1, -1, -1, -1, -1, -1, -1},
                         first[ROWS] = {0,  -1, -1, -1, -1, -1, -1, -1,
                                        -1, -1, -1, -1, -1, -1, -1, SLOTS - 1};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        check(types[i], most);
        check(types[i], none);
        check(types[i], first);
    }
}

/* Queries that are made of the new version attend to the old one, which is copied before it is overwritten. */
static void attention_reads_what_was_there(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16"};
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[900];
        (void)snprintf(
            text, sizeof text,
            "graph @g(%%x: f32[3,8], %%n: i32[3], %%t: i32[1,2]) {\n"
            "  %%k = state @k : %s[4,2,4,4]\n  %%v = state @v : %s[4,2,4,4]\n"
            "  %%i = iota {axis=0, dtype=i32, shape=[3]}\n  %%new = kv_store %%k, %%x, %%i\n"
            "  %%c = cast %%new {dtype=f32}\n  %%s = sum %%c {axis=3}\n"
            "  %%r = reshape %%s {shape=[4,8]}\n  %%q = slice %%r {axis=0, start=0, stop=3}\n"
            "  %%z = sub %%i, %%i\n  %%four = const 4 : i32[]\n  %%m = remainder %%n, %%four\n"
            "  %%bt = remainder %%t, %%four\n  %%o = empty {dtype=f32, shape=[3,8]}\n"
            "  %%a = attention %%q, %%k, %%v, %%z, %%m, %%bt, %%o {heads=2, head_dim=4, "
            "kv_heads=2}\n  ret %%a\n}\n",
            types[i], types[i]);
        both b = both_of(text, 7);
        both_agree(&b, types[i], 1e-5);
        both_done(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_slot_is_stored),
                                       cmocka_unit_test(attention_reads_what_was_there)};
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
