/* Rows stored in caches of every type, compiled, eager and interpreted: each slot, the first and the last too; rows with a
 * negative slot go nowhere, and what nobody wrote stays. */
#include "support/both.h"

enum { ROWS = 16, BLOCKS = 3, SIZE = 4, SLOTS = BLOCKS * SIZE };

static void check(const char *type, const int32_t *slots) {
    char text[600];
    rp_error err = {0};
    both b = {0};
    (void)snprintf(
        text, sizeof text,
        "graph @g(%%x: f32[%d,16], %%s: i32[%d]) {\n"
        "  %%k = state @k : %s[%d,2,%d,8]\n  %%v = state @v : %s[%d,1,%d,16]\n"
        "  %%h = mul %%x, %%x\n  %%a = kv_store %%k, %%h, %%s\n"
        "  %%b = kv_store %%v, %%x, %%s\n  %%c = cast %%a {dtype=f32}\n  ret %%h, %%c\n}\n",
        ROWS, ROWS, type, BLOCKS, SIZE, type, BLOCKS, SIZE);
    if (ir_parse(text, strlen(text), &b.g, &err) != RP_OK) fail_msg("%s\n%s", err.text, text);
    CHECK_OK(both_leaves(&b, 5, &err), &err);
    for (int i = 0; i < ROWS; i++) b.l.leaf[IR_LEAF_INPUT][1].data[i] = slots[i];
    if (both_run(&b, gen_isa_best(), &err) != RP_OK) fail_msg("%s: %s", b.at, err.text);
    const char *d = both_off(&b, 1e-6);
    if (!d) d = both_differ(&b);
    if (d) fail_msg("%s: %s", type, d);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_slot_is_stored)};
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
