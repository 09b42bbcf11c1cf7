/* Which launches of a plan have a barrier behind them, and what plan_verify says of what they do with memory. */
#include "support/check.h"

#include "base/alloc.h"
#include "base/str.h"
#include "plan/layout.h"
#include "support/plan_run.h"
#include "support/plans.h"

static plan *plan_of_text(const char *text) {
    rp_error err = {0};
    ir_graph *g = NULL;
    CHECK_OK(ir_parse(text, strlen(text), &g, &err), &err);
    plan *p = plan_of(g);
    ir_graph_free(g);
    return p;
}

/* '|' for a barrier behind launch i, '.' for none. */
static void assert_barriers(const plan *p, const char *want) {
    char got[64] = "";
    assert_true(p->n_launches < sizeof got);
    for (uint32_t i = 0; i < p->n_launches; i++) got[i] = p->launches[i].no_barrier ? '.' : '|';
    assert_string_equal(got, want);
}

static void check(const char *text, const char *want) {
    plan *p = plan_of_text(text), *again = NULL;
    rp_error err = {0};
    char *bytes = NULL;
    size_t n;
    assert_barriers(p, want);
    CHECK_OK(plan_save(p, &bytes, &n, &err), &err);
    CHECK_OK(plan_load(bytes, n, &again, &err), &err);
    assert_barriers(again, want);
    base_free(bytes);
    plan_free(again);
    plan_free(p);
}

/* --- what waits ------------------------------------------------------------------------ */

static void what_shares_no_memory_does_not_wait(void **state) {
    (void)state;
    check("graph @g(%x: f32[4,8], %y: f32[4,8], %z: f32[4,8]) {\n"
          "  %a = cumsum %x {axis=0}\n  %b = cumsum %y {axis=0}\n  %c = cumsum %z {axis=0}\n"
          "  ret %a, %b, %c\n}\n",
          "..|");
}

/* The third reads what the first wrote: a barrier behind the second, though these two share nothing. */
static void what_is_read_is_written_before(void **state) {
    (void)state;
    check("graph @g(%x: f32[4,8], %y: f32[4,8]) {\n"
          "  %a = cumsum %x {axis=0}\n  %b = cumsum %y {axis=0}\n  %c = cumsum %a {axis=0}\n"
          "  ret %b, %c\n}\n",
          ".||");
}

/* The third's result lies where the first's was, which the second reads. */
static void memory_that_is_used_again_is_read_before(void **state) {
    (void)state;
    const char *text = "graph @g(%x: f32[4,8], %y: f32[4,8]) {\n"
                       "  %a = cumsum %x {axis=0}\n  %b = cumsum %a {axis=0}\n"
                       "  %c = cumsum %y {axis=0}\n  %d = cumsum %c {axis=0}\n  ret %b, %d\n}\n";
    plan *p = plan_of_text(text);
    assert_int_equal(p->n_values, 2);
    assert_int_equal(p->values[0].offset, p->values[1].offset);
    plan_free(p);
    check(text, "||||");
}

static void a_state_is_read_before_it_is_written(void **state) {
    (void)state;
    check("graph @g(%x: f32[4,8]) {\n  %m = state @m : f32[4,8]\n"
          "  %a = cumsum %m {axis=0}\n  %u = update %m, %x\n  ret %a, %u\n}\n",
          "|||");
}

/* What runs a plan of its own is alone, whatever lies beside it. */
static void a_loop_runs_alone(void **state) {
    (void)state;
    check("graph @g(%x: f32[4,8], %h: f32[8], %y: f32[4,8], %z: f32[4,8]) {\n"
          "  %a = cumsum %x {axis=0}\n"
          "  %b = scan %h, %y {carried=1, sliced=1, body=graph @f(%h: f32[8], %y: f32[8]) {\n"
          "    %0 = add %h, %y\n    ret %0, %0 }}\n"
          "  %c = cumsum %z {axis=0}\n  %d = cumsum %z {axis=1}\n  ret %a, %b, %c, %d\n}\n",
          "||.|");
}

/* Either branch of the two may be the one that needs more. */
static void memory_of_a_branch_is_that_of_the_larger(void **state) {
    static const char small[] = "graph @s(%x: f32[4,8]) {\n    %0 = neg %x\n    ret %0 }",
                      large[] = "graph @l(%x: f32[4,8]) {\n    %0 = cumsum %x {axis=0}\n"
                                "    %1 = cumsum %0 {axis=1}\n    %2 = cumsum %1 {axis=0}\n"
                                "    ret %2 }";
    (void)state;
    for (int k = 0; k < 2; k++) {
        char text[800];
        uint32_t found = 0;
        (void)snprintf(text, sizeof text,
                       "graph @g(%%p: bool[], %%x: f32[4,8]) {\n"
                       "  %%0 = cond %%p, %%x {then=%s, else=%s}\n  ret %%0\n}\n",
                       k ? small : large, k ? large : small);
        plan *p = plan_of_text(text);
        for (uint32_t i = 0; i < p->n_launches; i++) {
            const plan_launch *l = &p->launches[i];
            int64_t bytes = 0, most = 0;
            if (!l->control) continue;
            for (int g = 0; g < 2; g++)
                if (p->inner[l->control->inner[g]]->arena_size > most)
                    most = p->inner[l->control->inner[g]]->arena_size;
            assert_true(plan_value_bytes(p, &p->values[l->args[l->n_args - 1].idx], &bytes));
            assert_true(most > 0 && bytes >= most);
            found++;
        }
        assert_int_equal(found, 1);
        plan_free(p);
    }
}

static void only_so_many_run_together(void **state) {
    (void)state;
    base_buf b;
    base_buf_init(&b, 0);
    for (int i = 0; i < 20; i++)
        base_buf_printf(&b, "%s%%x%d: f32[4,8]", i ? ", " : "graph @g(", i);
    base_buf_puts(&b, ") {\n");
    for (int i = 0; i < 20; i++) base_buf_printf(&b, "  %%a%d = cumsum %%x%d {axis=0}\n", i, i);
    for (int i = 0; i < 20; i++) base_buf_printf(&b, "%s%%a%d", i ? ", " : "  ret ", i);
    base_buf_puts(&b, "\n}\n");
    check(b.data, "................|..|");
    base_buf_done(&b);
}

/* --- together ----------------------------------------------------------------------------- */

/* Sums that share nothing, side by side, and what reads all of them: the same bits as on one thread. */
static void threads_go_on_to_the_next(void **state) {
    static const compile_toolchain none;
    rp_error err = {0};
    base_buf b;
    ir_graph *g = NULL;
    plan_run one = {0}, more = {0};
    random_leaves l;
    (void)state;
    base_buf_init(&b, 0);
    for (int i = 0; i < 9; i++)
        base_buf_printf(&b, "%s%%x%d: f32[%d,33]", i ? ", " : "graph @g(", i, 40 + i % 2);
    base_buf_puts(&b, ") {\n");
    for (int i = 0; i < 9; i++) base_buf_printf(&b, "  %%a%d = cumsum %%x%d {axis=0}\n", i, i);
    base_buf_puts(&b, "  %s = add %a0, %a2\n  %t = add %s, %a4\n  %u = cumsum %t {axis=1}\n");
    for (int i = 0; i < 9; i++) base_buf_printf(&b, "%s%%a%d", i ? ", " : "  ret %u, ", i);
    base_buf_puts(&b, "\n}\n");
    CHECK_OK(ir_parse(b.data, b.len, &g, &err), &err);
    CHECK_OK(random_leaves_new(g, 5, &l, &err), &err);
    plan_run_options o = {
        .backend = &compile_eager, .isa = gen_isa_best(), .toolchain = &none, .threads = 1};
    CHECK_OK(plan_run_graph(g, &l, &o, &one, &err), &err);
    o.threads = 3;
    for (int round = 0; round < 40; round++) {
        CHECK_OK(plan_run_graph(g, &l, &o, &more, &err), &err);
        const char *d = plan_run_differs(g, &one, &more);
        if (d) fail_msg("round %d: %s", round, d);
        plan_run_done(&more);
    }
    plan_run_done(&one);
    random_leaves_done(&l);
    ir_graph_free(g);
    base_buf_done(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_shares_no_memory_does_not_wait),
        cmocka_unit_test(what_is_read_is_written_before),
        cmocka_unit_test(memory_that_is_used_again_is_read_before),
        cmocka_unit_test(a_state_is_read_before_it_is_written),
        cmocka_unit_test(a_loop_runs_alone),
        cmocka_unit_test(memory_of_a_branch_is_that_of_the_larger),
        cmocka_unit_test(only_so_many_run_together),
        cmocka_unit_test(threads_go_on_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
