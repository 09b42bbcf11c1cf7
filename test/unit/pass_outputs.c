/* Outputs that get memory of their own, and what a pass may not leave out. */
#include "support/check.h"

#include "base/str.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "pass/inplace.h"
#include "pass/passes.h"
#include "pass/pipeline.h"
#include "reprise/op.h"

static ir_graph *parsed(const char *text) {
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    return g;
}

/* Of the outputs of text, those that are copies when each has memory of its own: 'c', else '-'; all are different values. */
static void separates(const char *text, const char *want) {
    rp_error err = {0};
    char is[16] = "";
    ir_graph *g = parsed(text), *made = NULL;
    CHECK_OK(pass_separate_outputs(g, &made, &err), &err);
    const ir_graph *now = made ? made : g;
    const uint32_t n = ir_output_count(now);
    for (uint32_t i = 0; i < n; i++) {
        const ir_ref o = ir_output_at(now, i);
        is[i] = ir_node_at(now, o)->op == IR_copy ? 'c' : '-';
        for (uint32_t k = 0; k < i && made; k++) assert_int_not_equal(o, ir_output_at(now, k));
    }
    if (strcmp(is, want) != 0) fail_msg("%s: %s, not %s", text, is, want);
    ir_graph_free(made);
    ir_graph_free(g);
}

static void outputs_have_memory_of_their_own(void **state) {
    (void)state;
    separates("graph @f(%x: f32[4]) -> f32[4] {\n  %a = neg %x\n  ret %a\n}\n", "-");
    separates("graph @f(%x: f32[4]) -> f32[4] {\n  ret %x\n}\n", "c");
    separates("graph @f(%x: f32[4]) -> (f32[4], f32[4]) {\n  %w = param @w : f32[4]\n"
              "  %a = add %x, %w\n  ret %w, %a\n}\n",
              "c-");
    separates("graph @f(%x: f32[4]) -> (f32[4], f32[4]) {\n  %s = state @s : f32[4]\n"
              "  %t = update %s, %x {offsets=[0]}\n  ret %t, %x\n}\n",
              "cc");
    separates("graph @f(%x: f32[4]) -> q8_0[2,32] {\n  %w = param @w : q8_0[2,32]\n  ret %w\n}\n",
              "-");
}

static void one_value_given_three_times_is_three(void **state) {
    (void)state;
    separates("graph @f(%x: f32[4]) -> (f32[4], f32[4], f32[4]) {\n  %a = neg %x\n"
              "  ret %a, %a, %a\n}\n",
              "-cc");
    separates("graph @f(%x: f32[4]) -> (f32[4], f32[4]) {\n  ret %x, %x\n}\n", "cc");
}

/* The memory at the end, and the output, of one state [2,3] and an input [10,20]. */
static void evaluated(const ir_graph *g, double state[2], double out[2]) {
    double x[2] = {10, 20};
    ir_value in = {.rank = 1, .dim = {2}, .n = 2, .data = x}, y = {0};
    ir_value s = {.rank = 1, .dim = {2}, .n = 2, .data = state};
    rp_error err = {0};
    state[0] = 2, state[1] = 3;
    CHECK_OK(ir_eval(g, &in, NULL, &s, NULL, &y, &err), &err);
    memcpy(out, y.data, 2 * sizeof *out);
    ir_value_done(&y);
}

/* Reads of what is overwritten in front of them: all of them come before it, however many there are. */
static void all_reads_come_before_the_write(void **state) {
    (void)state;
    for (int n = 1; n < 300; n += n < 60 || n > 68 ? 29 : 1) {
        double before[2][2], after[2][2];
        rp_error err = {0};
        ir_graph *g, *made = NULL;
        const ir_graph *now = NULL;
        bool ok = true;
        base_buf b;
        base_buf_init(&b, 0);
        base_buf_puts(&b, "graph @f(%x: f32[2]) -> f32[2] {\n  %s = state @s : f32[2]\n"
                          "  %u = update %s, %x {offsets=[0]}\n  %y0 = neg %x\n");
        for (int i = 1; i <= n; i++)
            base_buf_printf(&b,
                            "  %%c%d = const %d : f32[]\n  %%r%d = mul %%s, %%c%d\n"
                            "  %%y%d = add %%y%d, %%r%d\n",
                            i, i, i, i, i, i - 1, i);
        base_buf_printf(&b, "  ret %%y%d\n}\n", n);
        g = parsed(b.data);
        base_buf_done(&b);
        CHECK_OK(pass_check_inplace(g, &ok, &err), &err);
        assert_false(ok);
        CHECK_OK(pass_make_inplace(g, &now, &made, &err), &err);
        CHECK_OK(pass_check_inplace(now, &ok, &err), &err);
        assert_true(ok);
        evaluated(g, before[0], before[1]);
        evaluated(now, after[0], after[1]);
        assert_memory_equal(before, after, sizeof before);
        assert_true(after[0][0] == 10 && after[1][0] == -10 + 2 * (n * (n + 1) / 2));
        ir_graph_free(made);
        ir_graph_free(g);
    }
}

/* Whether output i of what all passes make of text is a copy. */
static bool is_copied(const char *text, bool piece, uint32_t i) {
    const pass_options opt = {.piece = piece};
    rp_error err = {0};
    ir_graph *g = parsed(text), *made = NULL;
    CHECK_OK(pass_run_all(g, &opt, &made, &err), &err);
    const bool copied = ir_node_at(made, ir_output_at(made, i))->op == IR_copy;
    ir_graph_free(made);
    ir_graph_free(g);
    return copied;
}

/* What a piece computes is its own, even where nothing is left to compute: another piece may overwrite what it was computed of. */
static void what_a_piece_computes_is_its_own(void **state) {
    static const char text[] = "graph @p(%x: f32[4]) -> (f32[4], f32[4], f32[2,2]) {\n"
                               "  %s = state @s : f32[4]\n  %a = neg %x\n  %b = neg %a\n"
                               "  %t = neg %s\n  %u = neg %t\n  %v = reshape %u {shape=[2,2]}\n"
                               "  ret %b, %x, %v\n}\n";
    static const bool copied[] = {true, false, true};
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(is_copied(text, true, i), copied[i]);
        assert_false(is_copied(text, false, i));
    }
    /* Memory is also what a body has written. */
    static const char written[] =
        "graph @p(%x: f32[2]) -> f32[4] {\n  %s = state @s : f32[4]\n"
        "  %r = call %x, %s {body=graph @b(%x: f32[2], %s: f32[4] mutates) {\n"
        "    %u = update %s, %x {offsets=[1]}\n    %n = neg %x\n    ret %n }}\n"
        "  %t = written %s, %r\n  %a = neg %t\n  %b = neg %a\n  ret %b\n}\n";
    assert_true(is_copied(written, true, 0));
    assert_false(is_copied(written, false, 0));
}

/* It may do what nobody sees. */
static void a_custom_op_stays(void **state) {
    static const char text[] = "graph @f(%x: f32[4]) -> f32[4] {\n"
                               "  %u = custom %x {name=\"outputs::seen\"}\n  %d = exp %x\n"
                               "  %a = neg %x\n  ret %a\n}\n";
    const rp_op_desc d = {.size = sizeof d, .name = "outputs::seen"};
    rp_error err = {0};
    ir_graph *made = NULL;
    uint32_t n_custom = 0, n_exp = 0;
    (void)state;
    CHECK_OK(rp_op_register(&d, &err), &err);
    ir_graph *g = parsed(text);
    CHECK_OK(pass_dce(g, &made, &err), &err);
    for (ir_ref r = 0; r < ir_graph_count(made); r++) {
        n_custom += ir_node_at(made, r)->op == IR_custom;
        n_exp += ir_node_at(made, r)->op == IR_exp;
    }
    assert_int_equal(n_custom, 1);
    assert_int_equal(n_exp, 0);
    ir_graph_free(made);
    ir_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_reads_come_before_the_write),
        cmocka_unit_test(outputs_have_memory_of_their_own),
        cmocka_unit_test(one_value_given_three_times_is_three),
        cmocka_unit_test(what_a_piece_computes_is_its_own),
        cmocka_unit_test(a_custom_op_stays),
    };
    return cmocka_run_group_tests_name("pass_outputs", tests, NULL, NULL);
}
