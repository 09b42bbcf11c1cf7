/* Ops that move values, right out of inputs and right into outputs, which lie beside pages without access: every element is what the
 * interpreter has, and nothing else is read or written. */
#include "support/both.h"

/* $ is the type. Each input is read by one op alone, so that no other op's memory is in between. */
static const char *const graphs[] = {
    "graph @in_front(%a: $[3,5], %b: $[1,5], %c: $[T,5]) where T in [1,9] {\n"
    "  %x = concat %a, %b, %c {axis=0}\n  ret %x\n}\n",
    "graph @behind(%a: $[T,3], %b: $[T,1], %c: $[T,70]) where T in [1,9] {\n"
    "  %x = concat %a, %b, %c {axis=1}\n  ret %x\n}\n",
    "graph @parts(%a: $[T,9], %b: $[7,T]) where T in [1,9] {\n"
    "  %p = slice %a {axis=1, start=2, stop=5}\n  %q = permute %b {axes=[1,0]}\n"
    "  %r = slice %q {axis=1, start=6}\n  %x = concat %r, %p, %r {axis=1}\n  ret %x\n}\n",
    "graph @rows(%a: $[5,6], %i: i32[T], %b: $[1,3], %j: i32[4]) where T in [1,9] {\n"
    "  %big = const 40 : i32[]\n  %k = sub %i, %big\n  %x = gather %a, %k\n"
    "  %y = gather %b, %j\n  %l = mul %j, %big\n  %z = gather %a, %l\n  ret %x, %y, %z\n}\n",
    "graph @edges(%a: $[T,6,2], %b: $[3,1,5]) where T in [1,9] {\n"
    "  %x = slice %a {axis=0, start=0, stop=1}\n  %f = reshape %a {shape=[12*T]}\n"
    "  %y = slice %f {axis=0, start=12*T-5}\n  %z = broadcast %b {shape=[3,4,5]}\n"
    "  %w = permute %b {axes=[2,0,1]}\n  ret %x, %y, %z, %w\n}\n",
    "graph @computed(%a: $[7,T], %b: $[T,9], %c: $[4,1,T]) where T in [1,9] {\n"
    "  %p = permute %a {axes=[1,0]}\n  %x = cast %p {dtype=f32}\n"
    "  %q = slice %b {axis=1, start=2, stop=8}\n  %y = cast %q {dtype=f32}\n"
    "  %r = broadcast %c {shape=[4,3,T]}\n  %z = cast %r {dtype=f32}\n"
    "  %s = slice %q {axis=1, start=1}\n  %t = permute %s {axes=[1,0]}\n"
    "  %w = cast %t {dtype=f32}\n  ret %x, %y, %z, %w\n}\n",
    /* Parts that may be empty, read under a mask that a compiler knows: no lane beside it is read. */
    "graph @masked(%a: $[N,3], %b: $[N,4]) where N in [0,7] {\n"
    "  %x = concat %b, %a, %b {axis=1}\n  %y = cast %x {dtype=f32}\n  ret %y\n}\n"};

static void moves_touch_nothing_else(void **state) {
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++)
        for (int t = 0; t < RP_DTYPE_COUNT_; t++) {
            if (rp_dtype_is_quant((rp_dtype)t)) continue;
            base_buf text;
            base_buf_init(&text, 0);
            for (const char *z = graphs[g]; *z; z++)
                if (*z == '$')
                    base_buf_puts(&text, rp_dtype_name((rp_dtype)t));
                else
                    base_buf_putc(&text, *z);
            for (uint64_t seed = 5; seed < 8; seed++) { /* of sizes, too */
                both b = both_of(text.data, seed * 7 + g);
                both_agree(&b, text.data, 0);
                both_done(&b);
            }
            base_buf_done(&text);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(moves_touch_nothing_else)};
    return cmocka_run_group_tests_name("num/moves", tests, both_set_up, both_tear_down);
}
