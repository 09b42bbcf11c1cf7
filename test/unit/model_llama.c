/* The Llama graph: which ops it has is known without tracing it. */
#include "support/check.h"

#include "model/llama.h"
#include "trace/trace.h"

static void mark_ops(const char *spec, rp_numerics numerics, bool *seen) {
    rp_error err = {0};
    model_source *source = NULL;
    rp_graph *g = NULL;
    const model_graph_options o = {numerics, 8, 8};
    CHECK_OK(model_source_open_synthetic(spec, &source, &err), &err);
    CHECK_OK(model_llama_graph(source, &o, &g, &err), &err);
    const ir_graph *ir = trace_graph_ir(g);
    for (uint32_t i = 0; i < ir_graph_count(ir); i++) seen[ir_node_at(ir, i)->op] = true;
    rp_graph_free(g);
    model_source_free(source);
}

static void ops_are_those_of_the_graphs(void **state) {
    (void)state;
    static const char *const specs[] = {"synthetic:tiny", "synthetic:tiny,dtype=f32",
                                        "synthetic:tiny,dtype=bf16"};
    bool seen[IR_OP_COUNT_] = {0};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        mark_ops(specs[i], RP_NUMERICS_DEFAULT, seen);
        mark_ops(specs[i], RP_NUMERICS_EXACT, seen);
    }
    for (unsigned op = 0; op < IR_OP_COUNT_; op++)
        if (seen[op] != model_llama_has_op((ir_op)op))
            fail_msg("%s: the graphs %s it", ir_op_table((ir_op)op)->name,
                     seen[op] ? "have" : "do not have");
    assert_false(model_llama_has_op(IR_OP_COUNT_));
}

static bool head_reads(const char *spec, const char *param) {
    rp_error err = {0};
    model_source *source = NULL;
    rp_graph *g = NULL;
    const model_graph_options o = {RP_NUMERICS_DEFAULT, 8, 8};
    bool found = false;
    CHECK_OK(model_source_open_synthetic(spec, &source, &err), &err);
    CHECK_OK(model_llama_head(source, &o, &g, &err), &err);
    const ir_graph *ir = trace_graph_ir(g);
    for (uint32_t i = 0; i < ir_graph_count(ir); i++) {
        const ir_node *n = ir_node_at(ir, i);
        found |= n->op == IR_param && strcmp(n->name, param) == 0;
    }
    rp_graph_free(g);
    model_source_free(source);
    return found;
}

static void the_head_is_the_embedding_only_when_tied(void **state) {
    (void)state;
    assert_true(head_reads("synthetic:smollm2-135m", "token_embd.weight"));
    assert_false(head_reads("synthetic:smollm2-135m", "output.weight"));
    assert_true(head_reads("synthetic:llama-8b,layers=1", "output.weight"));
    assert_false(head_reads("synthetic:llama-8b,layers=1", "token_embd.weight"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_are_those_of_the_graphs),
        cmocka_unit_test(the_head_is_the_embedding_only_when_tied),
    };
    return cmocka_run_group_tests_name("model_llama", tests, NULL, NULL);
}
