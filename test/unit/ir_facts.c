/* Facts of the op table that no other program holds against what the ops do: which give random bits, and of which the host sees something. */
#include "support/check.h"

#include "ir/eval.h"
#include "ir/graph.h"

/* How often each bit of 64 is set in what op gives of 0, 1, 2, .. and `key`. */
static void count_bits(ir_op op, int64_t key, uint32_t n, uint32_t set[64]) {
    memset(set, 0, 64 * sizeof *set);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t x[3] = {i, key, i};
        const uint64_t y = (uint64_t)ir_apply_i64(op, x);
        for (int b = 0; b < 64; b++) set[b] += y >> b & 1;
    }
}

/* Each bit is set half of the time, give or take eight deviations. */
static bool looks_random(ir_op op, int64_t key) {
    enum { N = 4096, AWAY = 256 };
    uint32_t set[64], b = 0;
    count_bits(op, key, N, set);
    while (b < 64 && set[b] > N / 2 - AWAY && set[b] < N / 2 + AWAY) b++;
    return b == 64;
}

static void random_ops_give_random_bits(void **state) {
    uint32_t n = 0;
    (void)state;
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        const bool is = ir_op_is_random((ir_op)op);
        const bool looks = ir_op_on_integers((ir_op)op) && looks_random((ir_op)op, 3);
        if (is != looks)
            fail_msg("%s %s random bits", ir_op_table((ir_op)op)->name, is ? "gives no" : "gives");
        n += is;
    }
    assert_true(n > 0);
}

/* Who asks twice is given the same, so that equal nodes are one. */
static void random_ops_are_pure(void **state) {
    (void)state;
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        ir_ref c, first, again;
        rp_error err = {0};
        if (!ir_op_is_random((ir_op)op)) continue;
        ir_graph *g = ir_graph_new("twice");
        CHECK_OK(ir_add_const(g, RP_DTYPE_I64, 3, &c, &err), &err);
        CHECK_OK(ir_add2(g, (ir_op)op, c, c, &first, &err), &err);
        CHECK_OK(ir_add2(g, (ir_op)op, c, c, &again, &err), &err);
        assert_int_equal(first, again);
        ir_graph_free(g);
    }
}

/* A graph that there is one of two of, or that says whether there is more to do, is one that somebody chooses. */
static void the_host_reads_what_decides(void **state) {
    const uint32_t chosen = 1u << IR_ATTR_THEN | 1u << IR_ATTR_ELSE | 1u << IR_ATTR_COND;
    (void)state;
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        const ir_op_info *info = ir_op_table((ir_op)op);
        if (ir_op_read_by_host((ir_op)op) != ((info->attr_mask & chosen) != 0))
            fail_msg("%s is%s", info->name, ir_op_read_by_host((ir_op)op) ? "" : " not");
        if (ir_op_read_by_host((ir_op)op)) assert_true(ir_op_has_graphs((ir_op)op));
    }
    assert_true(ir_op_read_by_host(IR_cond) && ir_op_read_by_host(IR_while));
}

/* What a name outside of the table stands for. */
static void the_host_runs_functions_of_the_user(void **state) {
    (void)state;
    for (int op = 0; op < IR_OP_COUNT_; op++) {
        const ir_op_info *info = ir_op_table((ir_op)op);
        const bool named = info->attr_mask >> IR_ATTR_NAME & 1;
        if (ir_op_run_by_host((ir_op)op) != named)
            fail_msg("%s is%s", info->name, named ? " not" : "");
    }
    assert_true(ir_op_run_by_host(IR_custom));
}

static void ops_with_graphs_have_an_attribute_for_them(void **state) {
    static const ir_op with[] = {IR_call, IR_cond, IR_while, IR_scan};
    uint32_t n = 0;
    (void)state;
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        assert_true(ir_op_has_graphs(with[i]));
        assert_string_not_equal(ir_graph_role(with[i], 0), "");
    }
    for (int op = 0; op < IR_OP_COUNT_; op++) n += ir_op_has_graphs((ir_op)op);
    assert_int_equal(n, sizeof with / sizeof *with);
}

static void no_op_has_no_facts(void **state) {
    (void)state;
    assert_false(ir_op_is_random(IR_OP_COUNT_));
    assert_false(ir_op_run_by_host(IR_OP_COUNT_));
    assert_false(ir_op_read_by_host(IR_OP_COUNT_));
    assert_false(ir_op_has_graphs(IR_OP_COUNT_));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ops_give_random_bits),
        cmocka_unit_test(random_ops_are_pure),
        cmocka_unit_test(the_host_reads_what_decides),
        cmocka_unit_test(the_host_runs_functions_of_the_user),
        cmocka_unit_test(ops_with_graphs_have_an_attribute_for_them),
        cmocka_unit_test(no_op_has_no_facts),
    };
    return cmocka_run_group_tests_name("ir_facts", tests, NULL, NULL);
}
