/* What a graph returns is written, whatever the passes made of it. */
#include "pass/inplace.h"
#include "support/plans.h"

static plan *plan_of_text(const char *body, const char *type) {
    base_buf b;
    rp_error err = {0};
    ir_graph *g = NULL;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "graph @g(%%x: f32[T,8]) -> %s where T in [1,64] {\n%s\n}\n", type, body);
    CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
    base_buf_done(&b);
    plan *p = plan_of(g);
    ir_graph_free(g);
    return p;
}

static void check_written(const char *body, const char *type) {
    plan *p = plan_of_text(body, type);
    for (uint32_t o = 0; o < p->n_outputs; o++) {
        bool written = false;
        for (uint32_t i = 0; i < p->n_launches; i++)
            for (uint32_t k = 0; k < p->launches[i].n_args; k++)
                written = written || (p->launches[i].args[k].seg == PLAN_OUTPUT &&
                                      p->launches[i].args[k].idx == o);
        if (!written) fail_msg("output %u is never written in\n%s", o, body);
    }
    plan_free(p);
}

static void every_output_is_written(void **state) {
    (void)state;
    check_written("  %0 = exp %x\n  ret %x, %0", "(f32[T,8], f32[T,8])");
    check_written("  %0 = exp %x\n  ret %0, %0", "(f32[T,8], f32[T,8])");
    check_written("  %0 = param @w : f32[8]\n  %1 = exp %x\n  ret %0, %1", "(f32[8], f32[T,8])");
    /* Not leaves, but the passes know better. */
    check_written("  %0 = neg %x\n  %1 = neg %0\n  ret %1", "f32[T,8]");
    check_written(
        "  %0 = param @w : f32[8]\n  %1 = neg %0\n  %2 = neg %1\n  %3 = exp %x\n  ret %3, %2",
        "(f32[T,8], f32[8])");
    check_written("  %0 = abs %x\n  %1 = abs %0\n  ret %0, %1", "(f32[T,8], f32[T,8])");
    check_written(
        "  %0 = const 1 : f32[]\n  %1 = broadcast %0 {shape=[T,8]}\n  %2 = neg %1\n  ret %2",
        "f32[T,8]");
    check_written("  %0 = reshape %x {shape=[T,2,4]}\n  %1 = exp %x\n  ret %0, %1",
                  "(f32[T,2,4], f32[T,8])");
    /* One version of memory that is made here, which two outputs come to be. */
    check_written("  %0 = exp %x\n  %1 = empty {dtype=f32, shape=[T,8]}\n  %2 = update %1, %0\n"
                  "  %3 = slice %2 {axis=1, start=0, stop=8}\n  ret %3, %2",
                  "(f32[T,8], f32[T,8])");
}

/* Whether some output of such a graph is copied for code that has no memory but its own. */
static bool is_copied(const char *body, const char *type) {
    base_buf b;
    rp_error err = {0};
    ir_graph *g = NULL, *made = NULL;
    base_buf_init(&b, 0);
    base_buf_printf(&b, "graph @g(%%x: f32[T,8]) -> %s where T in [1,64] {\n%s\n}\n", type, body);
    CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
    base_buf_done(&b);
    CHECK_OK(pass_separate_outputs(g, &made, &err), &err);
    const bool copied = made != NULL;
    ir_graph_free(made);
    ir_graph_free(g);
    return copied;
}

static void memory_of_its_own_is_the_outputs(void **state) {
    (void)state;
#define MADE "  %0 = exp %x\n  %1 = empty {dtype=f32, shape=[T,8]}\n  %2 = update %1, %0\n"
#define KEPT "  %s = state @s : f32[T,8]\n  %0 = exp %x\n  %2 = update %s, %0\n"
    assert_false(is_copied(MADE "  ret %2", "f32[T,8]"));
    assert_false(is_copied(MADE "  ret %0, %2", "(f32[T,8], f32[T,8])"));
    assert_true(is_copied(MADE "  ret %2, %2", "(f32[T,8], f32[T,8])"));
    assert_true(is_copied(KEPT "  ret %2", "f32[T,8]"));
    assert_true(is_copied("  %0 = exp %x\n  ret %x, %0", "(f32[T,8], f32[T,8])"));
}

/* Also where reads were moved before a write, in a graph that then has its symbols in the order of its leaves. */
static void symbols_keep_their_order(void **state) {
    static const char text[] =
        "graph @g(%x: f32[T,4]) where T in [1,8], B in [1,3], N in [1,5] {\n"
        "  %s = state @s : f32[B,4]\n  %w = param @w : f32[N,4]\n  %e = exp %s\n"
        "  %a = update %s, %e\n  %old = neg %s\n  %y = abs %w\n  ret %a, %old, %y, %x\n}\n";
    static const char *const names[] = {"T", "B", "N"};
    rp_error err = {0};
    ir_graph *g = NULL;
    (void)state;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    plan *p = plan_of(g);
    assert_int_equal(p->n_symbols, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(ir_dims_symbol(ir_graph_dims(g), i)->name, names[i]);
        assert_string_equal(p->symbols[i].name, names[i]);
    }
    plan_free(p);
    ir_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_output_is_written),
                                       cmocka_unit_test(memory_of_its_own_is_the_outputs),
                                       cmocka_unit_test(symbols_keep_their_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
