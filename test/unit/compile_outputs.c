/* What a graph returns is written, whatever the passes made of it. */
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
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_output_is_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
