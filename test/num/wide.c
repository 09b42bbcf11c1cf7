/* Graphs that are wide: kernels of many buffers, results that many others share, an op of one's own with as many operands as
 * there may be, each of which must be copied first. Compiled, eager and interpreted. */
#include "support/both.h"

#define WIDE 90
#define MOST_OPERANDS 64 /* of a custom op */

static void check(base_buf *text, double bound) {
    both b = both_of(text->data, 3);
    both_agree(&b, "wide", bound);
    both_done(&b);
    base_buf_done(text);
}

static void begin(base_buf *b) {
    base_buf_init(b, 0);
    base_buf_puts(b, "graph @g(%x: f32[T,8]) where T in [1,9] {\n");
}

static void list(base_buf *b, const char *prefix, int n) {
    for (int i = 0; i < n; i++) base_buf_printf(b, "%s%%%s%d", i ? ", " : "", prefix, i);
}

static void every_partial_sum_is_returned(void **state) {
    base_buf b;
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    begin(&b);
    for (int i = 0; i < WIDE; i++) {
        base_buf_printf(&b, "  %%w%d = param @w%d : f32[8]\n", i, i);
        if (i == 0)
            base_buf_puts(&b, "  %a0 = add %x, %w0\n");
        else
            base_buf_printf(&b, "  %%a%d = add %%a%d, %%w%d\n", i, i - 1, i);
    }
    base_buf_puts(&b, "  ret ");
    list(&b, "a", WIDE);
    base_buf_puts(&b, "\n}\n");
    check(&b, 1e-5);
}

static void many_parts_are_joined(void **state) {
    base_buf b;
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    begin(&b);
    for (int i = 0; i < WIDE; i++)
        base_buf_printf(
            &b,
            "  %%w%d = param @w%d : f32[9,8]\n  %%s%d = slice %%w%d {axis=0, start=%d, stop=%d}\n",
            i, i, i, i, i % 9, i % 9 + 1);
    base_buf_puts(&b, "  %c = concat ");
    list(&b, "s", WIDE);
    base_buf_puts(&b, " {axis=1}\n  %k = add %c, %c\n  ret %k\n}\n");
    check(&b, 0);
}

/* Element by element, weighted by the operand's number. */
static rp_status weigh(const rp_op_call *call, rp_buffer *args, uint32_t n_args, rp_error *err) {
    float *y = args[n_args - 1].data;
    int64_t n = args[0].dim[0] * args[0].dim[1];
    (void)call;
    if (n_args != MOST_OPERANDS + 1) return rp_fail(err, RP_INVALID, "%u arguments", n_args);
    for (int64_t k = 0; k < n; k++) {
        y[k] = 0;
        for (uint32_t i = 0; i + 1 < n_args; i++)
            y[k] += (float)i * ((const float *)args[i].data)[k];
    }
    return RP_OK;
}

/* The same part again and again, which the graph returns too: every copy has a name and memory of its own. */
static void operands_are_copied(void **state) {
    rp_op_desc d = {.size = sizeof d, .name = "test::weigh", .result_like = 0, .cpu = weigh};
    rp_error err = {0};
    base_buf b;
    (void)state;
    if (!host.toolchain.path) SKIP_TEST("no C compiler");
    CHECK_OK(rp_op_register(&d, &err), &err);
    begin(&b);
    base_buf_puts(&b, "  %s = slice %x {axis=1, start=2, stop=7}\n  %p = slice %x {axis=1, "
                      "start=3}\n  %y = custom ");
    for (int i = 0; i < MOST_OPERANDS; i++)
        base_buf_printf(&b, "%s%%%s", i ? ", " : "", i % 5 ? "s" : "p");
    base_buf_puts(&b, " {name=\"test::weigh\"}\n  ret %s, %p, %y\n}\n");
    check(&b, 1e-3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_partial_sum_is_returned),
        cmocka_unit_test(many_parts_are_joined),
        cmocka_unit_test(operands_are_copied),
    };
    return cmocka_run_group_tests(tests, both_set_up, both_tear_down);
}
