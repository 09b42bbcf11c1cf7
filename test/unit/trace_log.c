/* What a trace says on its channels, finished or refused, and that refusals are counted. */
#include "support/heard.h"

#include "reprise/tensor.h"
#include "trace/trace.h"

static void a_finished_trace_shows_itself(void **state) {
    rp_error err = {0};
    base_buf heard;
    (void)state;
    uint64_t traces = trace_count(), breaks = trace_breaks();
    heard_start(&heard, "dynamo,graph,guards,dynamic,graph_breaks");
    rp_graph *g = rp_graph_new("mine");
    rp_dim T = rp_symbol(g, "T", 2, 9);
    (void)rp_symbol(g, "T", 2, 9); /* no second symbol */
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(T, 8)), y = rp_exp(x);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_HEARD(&heard, "[dynamo] Step 1: start tracing mine\n"
                        "[dynamic] create_symbol T in [2, 9] for mine\n"
                        "[dynamo] Step 1: done tracing mine (2 nodes, 1 outputs, 1 symbols, ");
    CHECK_HEARD(&heard, "[graph] TRACED GRAPH\n[graph] ===== mine =====\n[graph] graph @mine(");
    CHECK_HEARD(&heard, "[guards] GUARDS of mine:\n[guards] - 2 <= T <= 9\n"
                        "[guards] - tensor 'x' (input): f32[T,8]\n");
    assert_int_equal(trace_count(), traces + 1);
    assert_int_equal(trace_breaks(), breaks);
    rp_graph_free(g);
    heard_done(&heard);
}

/* Sizes of a function that compiles itself may be multiples. */
static void what_divides_a_symbol_is_a_guard(void **state) {
    rp_error err = {0};
    base_buf heard;
    (void)state;
    heard_start(&heard, "guards");
    rp_graph *g = rp_graph_new("rows");
    (void)ir_dim_symbol(ir_graph_dims(trace_graph_ir(g)), "K", 4, 64, 4);
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 2, 9))), y = rp_exp(x);
    CHECK_OK(rp_graph_finish(g, &y, 1, &err), &err);
    CHECK_HEARD(&heard, "[guards] GUARDS of rows:\n[guards] - 4 <= K <= 64\n"
                        "[guards] - K % 4 == 0\n[guards] - 2 <= T <= 9\n"
                        "[guards] - tensor 'x' (input): f32[T]\n");
    rp_graph_free(g);
    heard_done(&heard);
}

static void a_refused_trace_is_a_break(void **state) {
    rp_error err = {0};
    base_buf heard;
    char want[320];
    (void)state;
    uint64_t traces = trace_count(), breaks = trace_breaks();
    heard_start(&heard, "graph_breaks,dynamo");
    rp_graph *g = rp_graph_new("half");
    rp_tensor x = rp_input(g, "x", RP_DTYPE_F32, RP_SHAPE(rp_symbol(g, "T", 1, 9), 8));
    /* Whether there are rows 3 to 8 depends on T's value. */
    rp_tensor y = rp_slice(rp_exp(x), 0, 3, 9);
    int line = __LINE__ - 1;
    assert_int_equal(rp_graph_finish(g, &y, 1, &err), RP_INVALID);
    (void)snprintf(want, sizeof want,
                   "[graph_breaks] Graph break in user code at op 2 of half\n"
                   "[graph_breaks] Reason: %s:%d: slice: [3, 9) is not known to lie within axis 0 "
                   "of f32[T,8]\n[dynamo] Step 1: tracing half was refused\n",
                   __FILE__, line);
    CHECK_HEARD(&heard, want);
    assert_int_equal(trace_count(), traces);
    assert_int_equal(trace_breaks(), breaks + 1);
    rp_graph_free(g);
    heard_done(&heard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_trace_shows_itself),
        cmocka_unit_test(what_divides_a_symbol_is_a_guard),
        cmocka_unit_test(a_refused_trace_is_a_break),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
